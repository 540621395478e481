//! A proxy that passes a fixed number of bytes and holds back the rest, so that a test can inspect a transfer in
//! progress.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use crate::PrivateEngine;

/// Proxy in front of a server inside an engine's network namespace. It serves until the test process ends.
#[derive(Debug, Clone, Default)]
pub struct PausablePipe(Arc<(Mutex<Level>, Condvar)>);

#[derive(Debug, Default)]
struct Level {
    /// Bytes received from the server.
    passed: usize,
    /// Number of bytes to pass before the proxy holds back the rest.
    holds: usize,
    open: bool,
    /// True if a client closed its connection before the end of a response.
    is_abandoned: bool,
}

impl PausablePipe {
    /// Listens at `at` for the server at `server`, and passes the first `holds` bytes of all its responses.
    #[must_use]
    pub fn build(engine: &'static PrivateEngine, at: SocketAddr, server: SocketAddr, holds: usize) -> Self {
        let pipe = Self::default();
        pipe.level(|level| level.holds = holds);
        let listener = engine.listen(at);
        let behind = pipe.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (behind, server) = (behind.clone(), engine.connect(server));
                // If the server is gone, the client sees its connection close.
                thread::spawn(move || server.and_then(|server| behind.join(&client, &server)));
            }
        });
        pipe
    }

    /// Passes everything from now on.
    pub fn open(&self) {
        self.level(|level| level.open = true);
        self.0.1.notify_all();
    }

    /// Passes this number of further bytes. Returns whether a client closed its connection before the end of a response.
    pub fn is_abandoned_after(&self, bytes: usize) -> bool {
        self.level(|level| level.holds += bytes);
        self.0.1.notify_all();
        self.level(|level| level.is_abandoned)
    }

    fn level<T>(&self, change: impl FnOnce(&mut Level) -> T) -> T {
        change(&mut self.0.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Copies both directions until both are closed.
    fn join(&self, client: &TcpStream, server: &TcpStream) -> io::Result<()> {
        let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
        let request = thread::spawn(move || {
            let copied = io::copy(&mut from, &mut to);
            to.shutdown(Shutdown::Write).and(copied)
        });
        let answered = self.answers(server, client);
        client.shutdown(Shutdown::Write)?;
        drop(request.join());
        answered
    }

    fn answers(&self, mut server: &TcpStream, mut client: &TcpStream) -> io::Result<()> {
        let mut part = vec![0; 64 * 1024];
        loop {
            let many = server.read(&mut part)?;
            if many == 0 {
                return Ok(());
            }
            self.level(|level| level.passed += many);
            let level = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
            let must_wait = |level: &mut Level| !level.open && level.passed > level.holds;
            drop(self.0.1.wait_while(level, must_wait));
            if let Err(error) = client.write_all(&part[..many]) {
                self.level(|level| level.is_abandoned = true);
                return Err(error);
            }
        }
    }
}
