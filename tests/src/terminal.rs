//! A terminal of a fixed size for one program: a real pty, and everything that was written to it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::wait;

/// A program whose stdin, stdout and stderr are a terminal.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keys: File,
    written: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Starts `command` on a terminal of this size.
    #[must_use]
    pub fn start(mut command: Command, columns: u16, rows: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a pty");
        grantpt(&master).expect("a pty is ours");
        unlockpt(&master).expect("a pty can be opened");
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).expect("a pty has a size");
        let name = ptsname(&master, Vec::new()).expect("a pty has a name");
        let slave = File::options()
            .read(true)
            .write(true)
            .open(OsStr::from_bytes(name.as_bytes()))
            .expect("the other end of a pty");
        let slave = OwnedFd::from(slave);
        let other = || slave.try_clone().expect("a second handle");
        if !command.get_envs().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm-256color");
        }
        command.stdin(other()).stdout(other()).stderr(other());
        let child = command.spawn().expect("a program starts on a terminal");
        // Only the program holds the other end from here on, so the read ends when the program ends.
        drop((command, slave));
        let keys = File::from(master);
        let written = Arc::new(Mutex::new(Vec::new()));
        let (mut screen, into) = (keys.try_clone().expect("a second handle"), Arc::clone(&written));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end of a pty is an error.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                lock(&into).extend_from_slice(&bytes[..count]);
            }
        });
        Self {
            child,
            keys,
            written,
            reader: Some(reader),
        }
    }

    /// Everything written so far, with colours and cursor moves.
    #[must_use]
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&lock(&self.written)).replace("\r\n", "\n")
    }

    /// Waits until the output satisfies `holds`.
    pub fn wait_until(&self, limit: Duration, what: &str, holds: impl Fn(&str) -> bool) {
        let received = wait::poll(limit, || holds(&self.written()).then_some(()));
        assert!(
            received.is_some(),
            "timed out after {limit:?}: {what}\n{}",
            self.written()
        );
    }

    /// Types `text`.
    pub fn keys(&mut self, text: &str) {
        self.keys
            .write_all(text.as_bytes())
            .expect("a terminal takes keys");
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("our own child takes a signal");
    }

    /// Waits until the program exits. Returns the output and the exit status.
    #[must_use]
    pub fn end(mut self, limit: Duration) -> (String, ExitStatus) {
        let ended = wait::poll(limit, || self.child.try_wait().expect("our own child"));
        let ended = ended.unwrap_or_else(|| {
            panic!(
                "timed out after {limit:?}: the program has not ended\n{}",
                self.written()
            )
        });
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader ends with the program");
        }
        (self.written(), ended)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Removes the colours.
#[must_use]
pub fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    plain
}

fn lock(written: &Mutex<Vec<u8>>) -> std::sync::MutexGuard<'_, Vec<u8>> {
    written.lock().unwrap_or_else(PoisonError::into_inner)
}
