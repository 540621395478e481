//! A controller that stops responds to every waiting client.

use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpStream;

use argus_tests::fixture::{LIMIT, shop};
use argus_tests::http;
use argus_tests::wait;

use super::HttpFixture;

/// Maximum number of waiting clients.
const MAY_WAIT: usize = 64;
/// Number of further clients.
const TOO_MANY: usize = 3;

#[test]
fn waiting_clients_are_answered_at_shutdown() {
    let fixture = HttpFixture::open();
    fixture
        .argus
        .write_spec("e2e.yaml", &shop("parting", 18760, "one"));
    fixture.argus.wait_ready("parting", LIMIT);
    let path = "/api/v1/environments/parting/wait?for=gone&timeoutSeconds=3600";
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", fixture.at);
    let asking: Vec<_> = (0..MAY_WAIT + TOO_MANY)
        .map(|_| {
            let mut stream = fixture.connect();
            stream
                .write_all(request.as_bytes())
                .expect("the server accepts a request");
            stream
        })
        .collect();
    // No waiting client frees its slot: after these refusals, all others wait.
    let is_answered = |stream: &&TcpStream| {
        stream.set_nonblocking(true).expect("a socket");
        let there = stream.peek(&mut [0]).is_ok();
        stream.set_nonblocking(false).expect("a socket");
        there
    };
    wait::until(LIMIT, "all of them wait", || {
        (asking.iter().filter(is_answered).count() == TOO_MANY).then_some(())
    });
    let (turned_away, waiting): (Vec<_>, Vec<_>) =
        asking.into_iter().partition(|stream| is_answered(&stream));
    for stream in turned_away {
        let answer = http::next(&mut BufReader::new(stream)).expect("a response");
        let output = answer.json();
        assert_eq!(answer.status, 503, "{output:#}");
        assert!(
            output["message"]
                .as_str()
                .is_some_and(|why| why.contains("too many")),
            "{output:#}"
        );
    }
    let ended = fixture.argus.stop();
    assert!(ended.success(), "{ended:?}");
    assert_eq!(waiting.len(), MAY_WAIT);
    for stream in waiting {
        let mut stream = BufReader::new(stream);
        let answer = http::next(&mut stream).expect("a response");
        assert_eq!(answer.status, 503, "{answer:?}");
        let output = answer.json();
        assert_eq!(output["message"], "the controller is stopping", "{output:#}");
        let mut rest = Vec::new();
        assert_eq!(stream.read_to_end(&mut rest).expect("the end"), 0, "{rest:?}");
    }
}
