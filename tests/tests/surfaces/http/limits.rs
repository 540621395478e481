//! Limits on clients without the token: they cannot use up the capacity for health checks and for others.

use argus_tests::fixture::LIMIT;
use argus_tests::http::{self, Events};
use argus_tests::wait;

use super::HttpFixture;

/// Streams of one client without the token, more than the limit.
const MANY: usize = 660;
/// Connections of one client, more than the server keeps for anything but health checks.
const IDLE: usize = 970;

#[test]
fn public_streams_leave_capacity_for_others() {
    let fixture = HttpFixture::open();
    let host = fixture.at.to_string();
    let (mut open, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..MANY {
        let mut stream = fixture.connect();
        let head = format!("GET /events HTTP/1.1\r\nHost: {host}\r\n\r\n");
        std::io::Write::write_all(&mut stream, head.as_bytes()).expect("the server reads");
        let mut first = [0; 12];
        std::io::Read::read_exact(&mut stream, &mut first).expect("a response");
        if first.ends_with(b"200") {
            open.push(stream);
        } else {
            assert_eq!(&first, b"HTTP/1.1 503");
            refused.push(stream);
        }
    }
    assert!(
        open.len() == 640 && refused.len() == 20,
        "{} {}",
        open.len(),
        refused.len()
    );
    let answer = fixture.request("GET", "/api/v1/environments", "", "");
    assert_eq!(answer.status, 503, "{answer:?}");
    let error = answer.json();
    assert_eq!(
        (&error["retryable"], &error["retryAfter"]),
        (&true.into(), &5.into()),
        "{error:#}"
    );
    for path in ["/healthz", "/readyz", "/metrics"] {
        let answer = fixture.request("GET", path, "", "");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    let bearer = fixture.bearer();
    let answer = fixture.request("GET", "/api/v1/environments", &bearer, "");
    assert_eq!(answer.status, 200, "{answer:?}");
    let metrics = fixture.request("GET", "/metrics", "", "");
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    let count = format!(
        "argus_http_refused_requests_total{{reason=\"public\"}} {}",
        refused.len() + 1
    );
    assert!(metrics.contains(&count), "{metrics}");
    let report = fixture.argus.cli(&["doctor"]);
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(
        report.contains(&format!("{} HTTP requests refused", refused.len() + 1)),
        "{report}"
    );
    // Closed streams make place.
    drop((open, refused));
    let served = wait::poll(LIMIT, || {
        let answer = fixture.request("GET", "/api/v1/environments", "", "");
        (answer.status == 200).then_some(())
    });
    assert!(served.is_some());
}

#[test]
fn idle_connections_leave_capacity_for_health_checks() {
    let fixture = HttpFixture::open();
    let host = fixture.at.to_string();
    // An open stream keeps its place; the others have only connected and lose it after 15 s.
    let stream = Events::open(fixture.connect(), &host, "", None).expect("a stream");
    let idle: Vec<_> = (0..IDLE).map(|_| fixture.connect()).collect();
    let refused = wait::poll(LIMIT, || {
        let answer = fixture.request("GET", "/api/v1/environments", "", "");
        (answer.status == 503).then_some(answer)
    });
    let refused = refused.expect("the common connections are in use");
    assert!(
        refused.json()["message"].to_string().contains("health checks"),
        "{refused:?}"
    );
    for path in ["/healthz", "/readyz", "/metrics"] {
        let answer = fixture.request("GET", path, "", "");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    let answer = http::request(&fixture.socket, "GET", "/api/v1/environments", "", b"", LIMIT);
    assert_eq!(
        answer.expect("a response").status,
        200,
        "the socket has its own capacity"
    );
    drop((stream, idle));
}
