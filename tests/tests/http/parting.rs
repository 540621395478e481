//! A controller that stops leaves nobody waiting for an answer.

use std::io::{BufReader, Read as _, Write as _};

use argus_tests::http;
use argus_tests::stage::{LIMIT, shop};
use argus_tests::wait;

use super::House;

#[test]
fn who_waits_is_answered_when_the_controller_stops() {
    let house = House::open();
    house.argus.write_spec("e2e.yaml", &shop("parting", 18760, "one"));
    house.argus.wait_ready("parting", LIMIT);
    // As many as may, so that one more being turned away tells that they all wait.
    let path = "/api/v1/environments/parting/wait?for=gone&timeoutSeconds=3600";
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", house.at);
    let waiting: Vec<_> = (0..64)
        .map(|_| {
            let mut stream = house.connect();
            stream.write_all(request.as_bytes()).expect("it takes a request");
            BufReader::new(stream)
        })
        .collect();
    wait::until(LIMIT, "all of them wait", || {
        let short = path.replace("3600", "0");
        let more = house.ask("GET", &short, "", "");
        assert_eq!(more.status, 503, "{more:?}");
        more.json()["message"]
            .as_str()?
            .contains("too many")
            .then_some(())
    });
    let ended = house.argus.stop();
    assert!(ended.success(), "{ended:?}");
    for mut stream in waiting {
        let answer = http::next(&mut stream).expect("an answer");
        assert_eq!(answer.status, 503, "{answer:?}");
        let told = answer.json();
        assert_eq!(told["message"], "the controller is stopping", "{told:#}");
        let mut rest = Vec::new();
        assert_eq!(stream.read_to_end(&mut rest).expect("the end"), 0, "{rest:?}");
    }
}
