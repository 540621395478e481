//! A proxy that passes a fixed number of bytes and holds back the rest, so that a test can inspect a transfer in
//! progress.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// Connections that their clients closed while the response was held back.
    abandoned: usize,
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

    /// Returns whether a client closed a connection whose response is held back.
    pub fn is_abandoned(&self) -> bool {
        self.level(|level| level.abandoned > 0)
    }

    fn level<T>(&self, change: impl FnOnce(&mut Level) -> T) -> T {
        change(&mut self.0.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Copies both directions until both are closed.
    fn join(&self, client: &TcpStream, server: &TcpStream) -> io::Result<()> {
        let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
        let is_held = Arc::new(AtomicBool::new(false));
        let (pipe, held) = (self.clone(), is_held.clone());
        let request = thread::spawn(move || {
            let copied = io::copy(&mut from, &mut to);
            if held.load(Ordering::SeqCst) {
                pipe.level(|level| level.abandoned += 1);
            }
            to.shutdown(Shutdown::Write).and(copied)
        });
        let answered = self.answers(server, client, &is_held);
        client.shutdown(Shutdown::Write)?;
        drop(request.join());
        answered
    }

    /// Passes responses. `held` tells whether one waits.
    fn answers(&self, mut server: &TcpStream, mut client: &TcpStream, held: &AtomicBool) -> io::Result<()> {
        let mut part = vec![0; 64 * 1024];
        loop {
            let many = server.read(&mut part)?;
            if many == 0 {
                return Ok(());
            }
            self.level(|level| level.passed += many);
            let level = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
            let must_wait = |level: &mut Level| {
                let waits = !level.open && level.passed > level.holds;
                held.store(waits, Ordering::SeqCst);
                waits
            };
            drop(self.0.1.wait_while(level, must_wait));
            client.write_all(&part[..many])?;
        }
    }
}
