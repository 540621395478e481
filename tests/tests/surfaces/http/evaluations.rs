//! Evaluations of untrusted files: a short document that describes a huge one, and validations over HTTP.

use std::fmt::Write as _;

use argus_tests::fixture::{LIMIT, shop};
use serde_json::Value;

use super::HttpFixture;

/// Document of 2 KB whose validation visits a million schemas.
fn document() -> String {
    let mut text = "openapi: 3.1.0\ninfo: { title: t, version: '1' }\npaths:\n  /a:\n    get:\n      responses:\n        '200':\n          \
                    description: d\n          content: { application/json: { schema: { $ref: '#/components/schemas/S0' }, example: 1 } }\n\
                    components:\n  schemas:\n"
        .to_owned();
    for level in 1..=20 {
        let next = format!("{{ $ref: '#/components/schemas/S{level}' }}");
        writeln!(text, "    S{}: {{ anyOf: [{next}, {next}] }}", level - 1).expect("a text");
    }
    text + "    S20: { type: string }\n"
}

#[test]
fn huge_document_is_refused_and_others_become_ready() {
    let fixture = HttpFixture::open();
    let argus = &fixture.argus;
    std::fs::write(argus.specs.join("api.yaml"), document()).expect("a document");
    argus.write_spec(
        "attack.e2e.yaml",
        "project: { name: attack }\nmocks: { api: { port: 18797, openapi: ./api.yaml } }\n",
    );
    argus.write_spec("e2e.yaml", &shop("neighbour", 18798, "one"));
    argus.wait_ready("neighbour", LIMIT);
    let report = fixture.send("GET", "/api/v1/validate", "").json();
    let files = report["files"].as_array().expect("files");
    let refused: Vec<&Value> = files.iter().filter(|file| file["accepted"] == false).collect();
    assert_eq!(refused.len(), 1, "{report:#}");
    let diagnostic = &refused[0]["diagnostics"][0];
    let message = diagnostic["message"].as_str().unwrap_or_default();
    assert!(message.contains("api.yaml:9:"), "{diagnostic:#}");
    assert!(
        message.contains("the evaluation of this schema needs more than 1000000 steps"),
        "{diagnostic:#}"
    );
}

// `abandoned_validation_ends_and_the_next_one_runs` shows the end of its work when the client leaves.
#[test]
fn validation_needs_the_token() {
    let fixture = HttpFixture::open();
    fixture
        .argus
        .write_spec("e2e.yaml", &shop("tokens", 18799, "one"));
    for (method, body) in [("GET", ""), ("POST", r#"{"content":"services: ["}"#)] {
        let open = fixture.request(method, "/api/v1/validate", "", body);
        assert_eq!(open.status, 401, "{method}: {open:?}");
    }
    let answer = fixture.request("GET", "/api/v1/validate", &fixture.bearer(), "");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["accepted"], true, "{answer:?}");
}
