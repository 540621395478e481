//! Socket of a controller that wrote the status files of a test and accepts every command. The tests that use it are about the files.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use argus_crds::status::ControllerStatus;
use argus_reconciler::state_dir::StateDir;

const ACCEPTED: &str = r#"{"verb":"sync","kind":"done"}"#;

/// Makes the status files in `state` those of a running controller.
pub(crate) fn answer_commands(state: &Path) {
    let state = StateDir::at(state);
    std::fs::create_dir_all(state.private()).unwrap();
    let status = ControllerStatus {
        started_at: "2026-01-01T00:00:00.000Z".to_owned(),
        as_of: "2026-01-01T00:00:00.000Z".to_owned(),
        ..ControllerStatus::default()
    };
    std::fs::write(state.controller_json(), serde_json::to_vec(&status).unwrap()).unwrap();
    let listener = UnixListener::bind(state.socket()).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that only looks for the controller sends nothing.
            let _closed = answer(stream);
        }
    });
}

fn answer(mut stream: UnixStream) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !is_complete(&request) {
        let mut part = [0; 4_096];
        let count = stream.read(&mut part)?;
        if count == 0 {
            return Ok(());
        }
        request.extend_from_slice(&part[..count]);
    }
    let length = ACCEPTED.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{ACCEPTED}"
    )
}

fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let lengths = head.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    body.len() >= lengths.max().unwrap_or(0)
}
