//! A process that holds the HTTP address while the controller does not: it gets the old token of clients, which then opens nothing.

use argus_tests::fixture::{LIMIT, engine};
use argus_tests::{Controller, PortHolder, RunOptions};
use serde_json::Value;

use super::HttpFixture;

const PORT: u16 = 18796;

#[test]
fn taken_address_is_reported_and_ends_the_token() {
    let at = format!("127.0.0.1:{PORT}");
    let options = RunOptions {
        args: vec!["--listen".to_owned(), at.clone()],
        ..RunOptions::default()
    };
    let fixture = HttpFixture::of(Controller::start(engine(), options));
    let argus = &fixture.argus;
    let old = fixture.bearer();
    assert_eq!(fixture.request("GET", "/api/v1/doctor", &old, "").status, 200);
    assert!(argus.stop().success());

    let holder = PortHolder::new(engine(), PORT);
    argus.start_again();
    let find = |all: &Value, key: &str| {
        let found = all.as_array()?.iter().find(|one| one["code"] == "PORT_CONFLICT");
        found.map(|found| found[key].clone())
    };
    let message = argus.wait_until(LIMIT, "the status names the holder", || {
        find(&argus.controller_status()["errors"], "message")
    });
    let message = message.as_str().unwrap_or_default();
    assert!(
        message.contains(&format!("the HTTP address {at} is held by process ")),
        "{message}"
    );
    assert!(argus.controller_status()["http"].is_null());
    let token = argus.state.join("private/token");
    assert!(!token.exists(), "a client would send it to the holder");
    let report = argus.cli(&["doctor", "-o", "json"]);
    let report: Value = serde_json::from_slice(&report.stdout).expect("a report");
    assert_eq!(
        find(&report["findings"], "severity"),
        Some("warn".into()),
        "{report:#}"
    );
    // Commands use the socket.
    assert_eq!(fixture.send("GET", "/api/v1/environments", "").status, 200);

    drop(holder);
    argus.wait_until(LIMIT, "the address is served again", || {
        argus.controller_status()["http"].is_string().then_some(())
    });
    assert_eq!(find(&argus.controller_status()["errors"], "message"), None);
    let new = fixture.bearer();
    assert_ne!(new, old);
    assert_eq!(fixture.request("GET", "/api/v1/doctor", &old, "").status, 401);
    assert_eq!(fixture.request("GET", "/api/v1/doctor", &new, "").status, 200);
}
