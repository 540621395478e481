//! A process that holds a port inside an engine's network namespace.

use std::process::{Child, Stdio};

use crate::fixture::LIMIT;
use crate::{PrivateEngine, wait};

/// A process that holds a TCP port until it is dropped.
#[derive(Debug)]
pub struct PortHolder(Child);

impl PortHolder {
    /// Starts a program that has nothing to do with the engine.
    #[must_use]
    pub fn new(engine: &PrivateEngine, port: u16) -> Self {
        let script = format!("exec busybox nc -ll -p {port} -e /bin/true");
        Self::run(engine, port, &script)
    }

    /// Starts such a program on `::1` only. It can start later, because the port can be held on another address before.
    #[must_use]
    pub fn on_ipv6_loopback(engine: &PrivateEngine, port: u16) -> Self {
        let script = format!("exec busybox httpd -f -p '[::1]:{port}' -h /");
        Self::run(engine, port, &script)
    }

    /// Starts a program that accepts connections and never answers.
    #[must_use]
    pub fn silent(engine: &PrivateEngine, port: u16) -> Self {
        let script = format!("exec busybox nc -ll -p {port} -e sleep 600");
        Self::run(engine, port, &script)
    }

    /// Starts the engine's own proxy, as it remains after a container that was removed without it.
    #[must_use]
    pub fn leaked_proxy(engine: &PrivateEngine, port: u16) -> Self {
        // The proxy reports to its daemon on descriptor 3.
        let script = format!(
            "exec docker-proxy -proto tcp -host-ip 127.0.0.1 -host-port {port} -container-ip 127.0.0.1 -container-port 9 3>/dev/null"
        );
        Self::run(engine, port, &script)
    }

    fn run(engine: &PrivateEngine, port: u16, script: &str) -> Self {
        let mut command = engine.command_in_netns("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell starts");
        wait::until(LIMIT, "the port is held", || {
            let mut check = engine.command_in_netns("cat");
            let table = check
                .args(["/proc/net/tcp", "/proc/net/tcp6"])
                .output()
                .expect("cat runs")
                .stdout;
            String::from_utf8_lossy(&table)
                .lines()
                .any(|line| line.contains(&format!(":{port:04X} ")) && line.contains(":0000 0A "))
                .then_some(())
        });
        Self(child)
    }
}

impl Drop for PortHolder {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
