//! Numbers that a double cannot hold, and bodies that are texts: verdicts, saved values and sent bodies.

use std::time::Duration;

use argus_core::time::Timestamp;

use crate::{Action, Moment, Request, Response, Scope, parse};

fn request(step: &str, scope: &Scope) -> Request {
    let text = format!("name: numbers\ncases:\n  - {}\n", step.replace('\n', "\n    "));
    let parsed = parse("numbers.yaml", text.as_bytes());
    let suite = parsed
        .suite
        .unwrap_or_else(|| panic!("{text}: {:#?}", parsed.diagnostics));
    let mut moment = Moment {
        now: Timestamp(0),
        random: &mut || 0,
    };
    match suite.cases[0].resolve(scope, &mut moment, "http://localhost") {
        Ok(Action::Request(request)) => *request,
        other => panic!("{text}: {other:?}"),
    }
}

fn response(kind: &str, body: &str) -> Response {
    Response {
        status: 200,
        headers: vec![("content-type".to_owned(), kind.to_owned())],
        body: body.as_bytes().to_vec(),
        elapsed: Duration::ZERO,
    }
}

/// Returns the messages of the failures of an expectation.
fn failures(expect: &str, kind: &str, body: &str) -> Vec<String> {
    let step = format!("request: {{ method: GET, path: / }}\nexpect: {expect}");
    let assessment = request(&step, &Scope::default()).assess(&response(kind, body));
    assessment
        .failures
        .into_iter()
        .map(|failure| failure.message)
        .collect()
}

#[test]
fn numbers_compare_with_all_digits() {
    let body = r#"{"id":738421905561190401,"wide":123456789012345678901234567890,"price":12345678901234567.89,"rate":0.10000000000000001,"list":[9007199254740993]}"#;
    for (expect, passes) in [
        ("{ body: { id: 738421905561190401 } }", true),
        ("{ body: { id: 738421905561190402 } }", false),
        ("{ body: { id: 738421905561190401.0 } }", true),
        ("{ body: { id: { gt: 738421905561190400 } } }", true),
        ("{ body: { id: { gt: '738421905561190400' } } }", true),
        ("{ body: { id: { gte: 738421905561190402 } } }", false),
        ("{ body: { id: { lt: 738421905561190401 } } }", false),
        ("{ body: { id: { lte: 738421905561190401 } } }", true),
        (
            "{ body: { id: { in: [738421905561190400, 738421905561190402] } } }",
            false,
        ),
        (
            "{ body: { id: { type: number, not: 738421905561190400 } } }",
            true,
        ),
        ("{ body: { wide: 123456789012345678901234567890 } }", true),
        ("{ body: { wide: 123456789012345678901234567891 } }", false),
        (
            "{ body: { wide: { type: number, gt: 123456789012345678901234567889 } } }",
            true,
        ),
        ("{ body: { wide: { type: string } } }", false),
        ("{ body: { wide: { contains: '123' } } }", false),
        ("{ body: { wide: { length: 30 } } }", false),
        ("{ body: { price: 12345678901234567.89 } }", true),
        ("{ body: { price: 12345678901234567.88 } }", false),
        ("{ body: { rate: 0.1 } }", true),
        ("{ body: { list: { contains: 9007199254740992 } } }", false),
        ("{ body: { list: { some: 9007199254740993 } } }", true),
        ("{ body: { list: [9007199254740992] } }", false),
        ("{ expr: 'id == 738421905561190401' }", true),
        ("{ expr: 'id == 738421905561190402' }", false),
        (
            "{ expr: 'body.id > 738421905561190400 && wide < 123456789012345678901234567891' }",
            true,
        ),
        ("{ expr: 'wide >= 123456789012345678901234567891' }", false),
    ] {
        let found = failures(expect, "application/json", body);
        assert_eq!(found.is_empty(), passes, "{expect}: {found:?}");
    }
}

#[test]
fn message_contains_all_digits() {
    let found = failures(
        "{ body: { id: 123456789012345678901234567891 } }",
        "application/json",
        r#"{"id":123456789012345678901234567890}"#,
    );
    let [message] = found.as_slice() else {
        panic!("{found:?}")
    };
    for number in [
        "`123456789012345678901234567891`",
        "`123456789012345678901234567890`",
    ] {
        assert!(message.contains(number), "{message}");
    }
}

#[test]
fn saved_value_and_sent_body_have_all_digits() {
    let step = "request: { method: GET, path: / }\nsave: { id: id, wide: rows.0.wide, price: price }";
    let body = r#"{"id":738421905561190401,"rows":[{"wide":123456789012345678901234567890}],"price":2.50}"#;
    let saved = request(step, &Scope::default())
        .assess(&response("application/json", body))
        .saved;
    let saved: Vec<(&str, &str)> = saved
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        saved,
        [
            ("id", "738421905561190401"),
            ("wide", "123456789012345678901234567890"),
            ("price", "2.5")
        ]
    );
    let step = "request: { method: POST, path: '/{{wide}}', body: { a: 123456789012345678901234567890, b: 3.0, c: 2.50, d: +5 } }";
    let mut scope = Scope::default();
    scope.save([("wide".to_owned(), "123456789012345678901234567890".to_owned())]);
    let sent = request(step, &scope);
    assert_eq!(sent.url.path(), "/123456789012345678901234567890");
    assert_eq!(
        String::from_utf8(sent.body.unwrap()).unwrap(),
        r#"{"a":123456789012345678901234567890,"b":3,"c":2.5,"d":5}"#
    );
}

#[test]
fn body_that_is_a_text_is_checked_as_a_whole() {
    for (expect, passes) in [
        ("{ body: pong }", true),
        ("{ body: pon }", false),
        ("{ body: { contains: on } }", true),
        ("{ body: { contains: ping } }", false),
        ("{ body: { notContains: error } }", true),
        (
            "{ body: { matches: '^p.ng$', startsWith: po, endsWith: g, length: 4 } }",
            true,
        ),
        ("{ body: { type: string } }", true),
        ("{ body: { not: ping, in: [pong, ping] } }", true),
        ("{ body: { status: { exists: false } } }", true),
        ("{ all: [{ contains: po }, { contains: ng }] }", true),
        ("{ any: [{ contains: x }, { contains: p }] }", true),
        ("{ any: [{ contains: x }] }", false),
    ] {
        for (kind, body) in [
            ("text/plain", "pong"),
            ("", "pong"),
            ("application/json", "\"pong\""),
        ] {
            let found = failures(expect, kind, body);
            assert_eq!(found.is_empty(), passes, "{expect} on {kind}: {found:?}");
        }
    }
    // At the first level of a map, such keys are names of fields.
    assert_eq!(
        failures(
            "{ body: { contains: x } }",
            "application/json",
            r#"{"contains":"x"}"#
        ),
        [""; 0]
    );
    assert!(!failures("{ body: pong }", "application/json", r#"{"a":"pong"}"#).is_empty());
}
