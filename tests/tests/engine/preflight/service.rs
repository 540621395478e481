//! Notifications to the service manager from the real binary.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use argus_tests::fixture::{LIMIT, engine, shop};
use argus_tests::{Controller, RunOptions, wait};

/// Receives notifications, line by line, until one of them is `last`.
fn received(socket: &UnixDatagram, last: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut buffer = [0; 4096];
    let found = wait::poll(LIMIT, || {
        while let Ok(length) = socket.recv(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            lines.extend(text.lines().map(str::to_owned));
        }
        lines.iter().any(|line| line == last).then_some(())
    });
    assert!(found.is_some(), "no notification `{last}`: {lines:#?}");
    lines
}

#[test]
fn service_manager_is_notified_of_ready_alive_and_stop() {
    let engine = engine();
    let path = engine.scratch("notify").join("socket");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket
        .set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a limit");
    let options = RunOptions {
        env: vec![
            ("NOTIFY_SOCKET".into(), path.display().to_string()),
            ("WATCHDOG_USEC".into(), "2000000".into()),
        ],
        ..RunOptions::default()
    };
    let argus = Controller::start(engine, options);
    let lines = received(&socket, "READY=1");
    assert!(lines.iter().any(|line| line.starts_with("STATUS=")), "{lines:#?}");
    received(&socket, "WATCHDOG=1");
    argus.write_spec("e2e.yaml", &shop("notified", 18650, "one"));
    received(&socket, "STATUS=1 of 1 environments are ready");
    received(&socket, "WATCHDOG=1");
    argus.stop();
    let lines = received(&socket, "STOPPING=1");
    assert!(
        !lines.iter().any(|line| line == "READY=1"),
        "one notification: {lines:#?}"
    );
}

#[test]
fn controller_is_not_ready_before_the_first_list() {
    let engine = engine();
    let path = engine.scratch("unready").join("socket");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket
        .set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a limit");
    let options = RunOptions {
        host: Some("unix:///nonexistent/docker.sock".to_owned()),
        env: vec![
            ("NOTIFY_SOCKET".into(), path.display().to_string()),
            ("WATCHDOG_USEC".into(), "2000000".into()),
        ],
        ..RunOptions::default()
    };
    let argus = Controller::start(engine, options);
    let lines = received(&socket, "WATCHDOG=1");
    assert!(
        lines.iter().any(|line| line.starts_with("STATUS=the engine")),
        "{lines:#?}"
    );
    argus.stop();
    let lines = [lines, received(&socket, "STOPPING=1")].concat();
    assert!(!lines.iter().any(|line| line == "READY=1"), "{lines:#?}");
}
