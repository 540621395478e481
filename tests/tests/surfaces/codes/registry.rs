//! Registries that refuse: each repository in its own way, with the texts of real registries.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use argus_tests::PrivateEngine;

/// Name, port and response. A registry that limits the rate delays all its images, so each repository has a registry of
/// its own.
pub(crate) const REFUSALS: &[(&str, u16, &str)] = &[
    (
        "private",
        5096,
        "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"registry\"\r\nContent-Type: application/json\r\n\r\n\
         {\"errors\":[{\"code\":\"UNAUTHORIZED\",\"message\":\"authentication required\"}]}",
    ),
    (
        "busy",
        5097,
        "429 Too Many Requests\r\nRetry-After: 60\r\nContent-Type: application/json\r\n\r\n\
         {\"errors\":[{\"code\":\"TOOMANYREQUESTS\",\"message\":\"pull rate limit, retry after 60s\"}]}",
    ),
    (
        "broken",
        5098,
        "500 Internal Server Error\r\nContent-Type: text/plain\r\n\r\nthe disk of the registry is gone",
    ),
];

/// Serves the registries on the engine's loopback for as long as the test runs.
pub(crate) fn refuse(engine: &PrivateEngine) {
    for (_, port, refusal) in REFUSALS {
        let listener = engine.listen(SocketAddr::from(([127, 0, 0, 1], *port)));
        std::thread::spawn(move || serve(&listener, refusal));
    }
}

fn serve(listener: &TcpListener, refusal: &'static str) {
    for client in listener.incoming().map_while(Result::ok) {
        std::thread::spawn(move || answer(client, refusal));
    }
}

/// Errors are ignored: a client may close early.
fn answer(mut client: TcpStream, refusal: &str) -> Option<()> {
    let mut head = BufReader::new(client.try_clone().ok()?).lines();
    let request = head.next()?.ok()?;
    while !head.next()?.ok()?.is_empty() {}
    // The response to the version check: a registry without login.
    let greeting = "200 OK\r\nContent-Type: application/json\r\n\r\n{}";
    let response = if request.starts_with("GET /v2/ ") {
        greeting
    } else {
        refusal
    };
    let (status, rest) = response.split_once("\r\n")?;
    let text = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nDocker-Distribution-Api-Version: registry/2.0\r\n{rest}"
    );
    client.write_all(text.as_bytes()).ok()
}
