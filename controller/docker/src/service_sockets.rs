//! Sockets of a running container: the TCP addresses on which its processes listen, and the HTTP paths that succeed.

use std::net::SocketAddr;
use std::time::Duration;

use argus_backend::http1::exchange;
use argus_core::ident::ContainerId;
use futures::{FutureExt as _, StreamExt as _, stream};
use http_body_util::Full;
use hyper::Request;
use hyper::header::{HOST, USER_AGENT};
use procfs::net::{TcpNetEntry, TcpState};
use procfs::process::Process;
use tokio::net::TcpStream;

use crate::Shared;
use crate::call;
use crate::error::Op;
use crate::helper::{self, HelperNetwork};

/// Maximum time for a helper to read the sockets. The rest of the evidence does not wait longer.
const HELPER_TIMEOUT: Duration = Duration::from_millis(2_500);
/// Maximum time for the response to one HTTP request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time for all HTTP requests.
const REQUESTS_TIMEOUT: Duration = Duration::from_millis(2_500);
/// Maximum number of HTTP requests at the same time. A small server has a short queue of connections; the kernel drops a
/// connection beyond it and repeats it only after one second.
const PARALLEL_REQUESTS: usize = 4;
/// Common paths of health checks, best first.
const HEALTH_PATHS: [&str; 12] = [
    "/healthz",
    "/health",
    "/readyz",
    "/ready",
    "/livez",
    "/api/health",
    "/api/v1/health",
    "/actuator/health",
    "/status",
    "/ping",
    "/up",
    "/",
];

/// Returns the TCP addresses on which this process' network namespace listens.
pub fn listening_addresses() -> Vec<SocketAddr> {
    let tcp = procfs::net::tcp().unwrap_or_default();
    listening(tcp.into_iter().chain(procfs::net::tcp6().unwrap_or_default()))
}

/// Returns the TCP addresses on which a running container listens. `None` if they are not visible.
pub(crate) async fn find(shared: &Shared, id: &ContainerId) -> Option<Vec<SocketAddr>> {
    let client = shared.connection.client().ok()?;
    let call = client.inspect_container(id.as_str(), None);
    let inspected = call::run_raw(Op::Inspect, shared.times.read, call).await;
    let pid = inspected.ok()?.state?.pid.filter(|pid| *pid > 0)?;
    let container = id.clone();
    // The list of sockets can be long.
    let read = tokio::task::spawn_blocking(move || read_of_process(pid, &container));
    if let Ok(Some(found)) = read.await {
        return Some(found);
    }
    let command = ["probe", "listeners"].map(str::to_owned).to_vec();
    let output = helper::run(shared, HelperNetwork::Container(id), command);
    let output = tokio::time::timeout(HELPER_TIMEOUT, output).await.ok()?.ok()?;
    serde_json::from_str(&output).ok()
}

/// Reads the sockets through the main process, if the engine runs on this host.
fn read_of_process(pid: i64, id: &ContainerId) -> Option<Vec<SocketAddr>> {
    // A pid of another host or pid namespace belongs to another process here.
    let cgroup = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    if !cgroup.contains(id.as_str()) {
        return None;
    }
    let process = Process::new(i32::try_from(pid).ok()?).ok()?;
    let tcp = process.tcp().ok()?;
    Some(listening(
        tcp.into_iter().chain(process.tcp6().unwrap_or_default()),
    ))
}

/// Returns the listening addresses in order, without the engine's resolver.
fn listening(entries: impl Iterator<Item = TcpNetEntry>) -> Vec<SocketAddr> {
    // The resolver of the engine listens in every container.
    let is_resolver = |address: &SocketAddr| address.ip().to_string() == "127.0.0.11";
    let listening = entries.filter(|entry| entry.state == TcpState::Listen);
    let mut found: Vec<SocketAddr> = listening
        .map(|entry| entry.local_address)
        .filter(|address| !is_resolver(address))
        .collect();
    found.sort_unstable_by_key(|address| (address.ip().is_loopback(), address.port(), address.ip()));
    found.dedup();
    found
}

/// Returns the common paths of health checks to which the address answers with 2xx or 3xx, best first.
pub(crate) async fn find_healthy_paths(address: SocketAddr) -> Vec<String> {
    let check = |path: &'static str| {
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, is_success(address, path));
        answer
            .map(|answer| answer.unwrap_or(false).then(|| path.to_owned()))
            .boxed()
    };
    stream::iter(HEALTH_PATHS.map(check))
        .buffered(PARALLEL_REQUESTS)
        .take_until(tokio::time::sleep(REQUESTS_TIMEOUT))
        .filter_map(std::future::ready)
        .collect()
        .await
}

async fn is_success(address: SocketAddr, path: &str) -> bool {
    let Ok(stream) = TcpStream::connect(address).await else {
        return false;
    };
    // Many servers refuse unknown hosts; all accept this one.
    let request = Request::get(path)
        .header(HOST, format!("localhost:{}", address.port()))
        .header(USER_AGENT, "argus-probe")
        .body(Full::default());
    let Ok(request) = request else {
        return false;
    };
    let response = exchange(stream, request, None).await;
    response.is_ok_and(|response| response.status().is_success() || response.status().is_redirection())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpSocket;

    use super::*;

    /// Answers one request at a time, and keeps at most five connections in its queue.
    async fn serve_only_the_root(socket: tokio::net::TcpListener) {
        while let Ok((mut stream, _)) = socket.accept().await {
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap_or(0);
            let status = if request[..read].starts_with(b"GET / ") {
                "200 OK"
            } else {
                "404 Not Found"
            };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            tokio::time::sleep(Duration::from_millis(20)).await;
            let _ = stream.write_all(head.as_bytes()).await;
        }
    }

    #[tokio::test]
    async fn server_with_a_short_queue_is_searched_completely() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((std::net::Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let socket = socket.listen(4).unwrap();
        let address = socket.local_addr().unwrap();
        tokio::select! {
            found = find_healthy_paths(address) => assert_eq!(found, ["/"]),
            () = serve_only_the_root(socket) => panic!("the server ended"),
        }
    }
}
