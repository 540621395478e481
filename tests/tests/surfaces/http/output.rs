//! Output of containers: clients with the token and readers of the status files get it, other local users do not.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use argus_tests::fixture::{LIMIT, text};

use super::HttpFixture;

/// Text that only the container writes: the file contains it in two parts.
const OUTPUT: &str = "wolpertinger";
const SPEC: &str = r#"version: "1"
project: { name: tails }
resilience: { container: { maxRestarts: 1, restartDelay: 100ms } }
services:
  bad:
    image: busybox:local
    command: [sh, -c, "echo wolper''tinger; echo cannot find wolper''tinger >&2; exit 3"]
    container: { name: tails-bad }
"#;

#[test]
fn output_of_a_container_needs_the_token() {
    let fixture = HttpFixture::open();
    let argus = &fixture.argus;
    argus.write_spec("e2e.yaml", SPEC);
    argus.wait_until(LIMIT, "the service is given up", || {
        (argus.status("tails")["phase"] == "Degraded").then_some(())
    });
    let base = "/api/v1/environments";
    for path in [
        format!("{base}/tails"),
        format!("{base}/tails?debug=true"),
        format!("{base}/tails/services/bad"),
        format!("{base}?detail=full"),
        base.to_owned(),
    ] {
        let open = fixture.request("GET", &path, "", "");
        assert_eq!(open.status, 200, "{path}: {open:?}");
        let open = String::from_utf8_lossy(&open.body).into_owned();
        assert!(!open.contains(OUTPUT), "{path}: {open}");
        assert!(open.contains("CONTAINER_"), "the code stays: {path}: {open}");
        let own = fixture.request("GET", &path, &fixture.bearer(), "");
        let own = String::from_utf8_lossy(&own.body).into_owned();
        // The summary has only a message, which need not quote the output.
        assert!(own.contains(OUTPUT) || path == base, "{path}: {own}");
    }
    for path in [
        format!("{base}/tails/wait?timeoutSeconds=30"),
        format!("{base}/tails/services/bad/wait?timeoutSeconds=30"),
        "/api/v1/events?tail=1000".to_owned(),
        "/api/v1/breaker".to_owned(),
        "/api/v1/controller".to_owned(),
        "/metrics".to_owned(),
    ] {
        let open = fixture.request("GET", &path, "", "");
        assert!(open.status != 401 && open.status != 404, "{path}: {open:?}");
        let open = String::from_utf8_lossy(&open.body).into_owned();
        assert!(!open.contains(OUTPUT), "{path}: {open}");
    }
    // A stream begins with all current errors.
    let mut events = fixture.events("?environment=tails", None);
    let mut problems = 0;
    while problems == 0 {
        let event = events.next_event().unwrap().expect("the stream continues");
        assert!(!event.data.contains(OUTPUT), "{event:?}");
        problems += usize::from(event.name == "problem");
    }
    // Agents of the same user read the whole status from the file, which other users cannot open.
    let error = &argus.status("tails")["services"][0]["lastError"];
    assert!(text(&error["stderrTail"]).contains(OUTPUT), "{error:#}");
    for name in [
        "environments/tails.json",
        "environments/tails.env",
        "controller.json",
    ] {
        let mode = fs::metadata(argus.state.join(name))
            .expect(name)
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}
