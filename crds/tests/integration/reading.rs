//! YAML reader: bounds, spelling and locations.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::time::{Duration, Instant};

use argus_crds::{Command, Diagnostic, Location, ParsedSpec, read};
use proptest::prelude::*;

const WHOLE: &str = include_str!("../corpus/good/whole-format.yaml");
const ADDITIONS: &str = include_str!("../corpus/good/additions.yaml");

#[allow(clippy::disallowed_methods, reason = "a bound on real time is what is tested")]
/// Reads bytes that must be rejected quickly, and returns their only diagnostic.
fn read_rejected(bytes: &[u8]) -> Diagnostic {
    let start = Instant::now();
    let ParsedSpec {
        spec,
        mut diagnostics,
        ..
    } = read("e2e.yaml", bytes);
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "took {:?}",
        start.elapsed()
    );
    assert!(spec.is_none());
    assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");
    diagnostics.remove(0)
}

#[test]
fn file_of_ten_mebibytes_is_rejected_before_parsing() {
    let diagnostic = read_rejected(&vec![b'['; 10 << 20]);
    assert_eq!(
        diagnostic.message,
        "the file has 10485760 bytes, more than the limit of 1048576"
    );
    assert_eq!(diagnostic.location, None);
}

#[test]
fn every_line_end_of_yaml_counts() {
    for end in ["\n", "\r\n", "\r"] {
        let text = ["project:", "  name: a", "services: x: y", ""].join(end);
        let location = read_rejected(text.as_bytes()).location.unwrap();
        assert_eq!((location.line, location.column), (3, 12), "{end:?}");
        let shown = argus_crds::render("e2e.yaml", &text, &[read_rejected(text.as_bytes())]);
        assert!(shown.contains("3 | services: x: y\n"), "{end:?}: {shown}");
        let mut bytes = text.into_bytes();
        bytes.push(0xff);
        let location = read_rejected(&bytes).location.unwrap();
        assert_eq!((location.line, location.column), (4, 1), "{end:?}");
    }
}

#[test]
fn unclosed_brackets_are_rejected_quickly() {
    let bombs = [
        "[".repeat(200_000),
        "{a: ".repeat(100_000),
        "- ".repeat(200_000),
        "? ".repeat(200_000),
        "a:\n ".repeat(200_000),
    ];
    for bomb in bombs {
        let diagnostic = read_rejected(bomb.as_bytes());
        assert!(diagnostic.location.is_some(), "{diagnostic:?}");
    }
    assert_eq!(
        read_rejected("[".repeat(200_000).as_bytes()).message,
        "the file nests deeper than 32 levels"
    );
}

#[test]
fn billion_laughs_are_rejected_quickly() {
    let laugh = |level: usize| match level {
        0 => "a0: &a0 [x, x, x, x, x, x, x, x, x]".to_owned(),
        level => {
            let aliases = vec![format!("*a{}", level - 1); 8].join(", ");
            format!("a{level}: &a{level} [{aliases}]")
        }
    };
    let bomb = (0..30).map(laugh).collect::<Vec<_>>().join("\n");
    assert!(
        read_rejected(bomb.as_bytes())
            .message
            .starts_with("the file has more than 50000 values")
    );
    let deep: Vec<String> = (1..60)
        .map(|level| format!("a{level}: &a{level} [*a{}]", level - 1))
        .collect();
    let deep = deep.join("\n");
    assert!(
        read_rejected(format!("a0: &a0 x\n{deep}").as_bytes())
            .message
            .starts_with("the file nests deeper")
    );
}

#[test]
fn invalid_utf8_is_reported_with_its_location() {
    let diagnostic = read_rejected(b"project:\n  name: \xc3\xa9\xff\n");
    assert_eq!(diagnostic.message, "the file is not valid UTF-8");
    assert_eq!(
        diagnostic.location,
        Some(Location {
            line: 2,
            column: 10,
            length: 1
        })
    );
    assert_eq!(
        read_rejected(b"\xff\xfep\0r\0").location,
        Some(Location {
            line: 1,
            column: 1,
            length: 1
        })
    );
}

#[test]
fn scalars_keep_their_spelling() {
    let spec = read("e2e.yaml", WHOLE.as_bytes()).spec.unwrap();
    assert_eq!(spec.project.version.as_deref(), Some("1.10"));
    let container = spec.services[0].container.as_ref().unwrap();
    let expected = [
        ("DEBUG", "true"),
        ("FLAG", "no"),
        ("LATE", "{{env.LATE}}"),
        ("PORT", "3000"),
        ("VERSION", "1.10"),
    ];
    let got: Vec<_> = container
        .environment
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(got, expected);
    assert_eq!(spec.services[0].vars["TRIES"], "3");
    assert_eq!(container.ports[1].as_str(), "9229");
    let body = spec.mocks["pay"].routes[0].response.body.as_ref().unwrap();
    assert_eq!(body["list"], serde_json::json!([1, 2.5, null, true]));
    let spec = read("e2e.yaml", ADDITIONS.as_bytes()).spec.unwrap();
    let argument = |text: &str| text.to_owned();
    let command = Command::List(vec![argument("./migrate"), argument("--to"), argument("12")]);
    assert_eq!(spec.services[1].command, Some(command));
    let check = |name: &str| {
        let declared = spec.declared_services();
        let service = declared.iter().find(|declared| declared.name == name);
        let container = service.unwrap().service.container.as_ref().unwrap();
        container.healthcheck.clone().unwrap()
    };
    let (secure, one) = (check("secure"), check("one"));
    assert_eq!(secure.headers["X-Try"], "1.10");
    assert_eq!(secure.status.unwrap().0, ["200-299", "401"]);
    assert_eq!(
        (one.status.unwrap().0, one.scheme),
        (vec!["204".to_owned()], None)
    );
    assert_eq!(check("noisy").pattern.as_deref(), Some("ready \\d"));
    let octal = read("e2e.yaml", b"project: {name: 0777, version: 0x1F}\n")
        .spec
        .unwrap();
    assert_eq!(
        (octal.project.name.as_str(), octal.project.version.as_deref()),
        ("0777", Some("0x1F"))
    );
}

#[test]
fn services_in_a_map_keep_order_and_take_their_keys() {
    let spec = read("e2e.yaml", include_bytes!("../corpus/good/services-map.yaml"))
        .spec
        .unwrap();
    let names: Vec<_> = spec
        .declared_services()
        .into_iter()
        .map(|declared| declared.name.to_owned())
        .collect();
    assert_eq!(names, ["zebra", "apple"]);
    let short = read("e2e.yaml", include_bytes!("../corpus/good/wild.yaml"))
        .spec
        .unwrap();
    assert_eq!(
        (
            short.declared_services()[0].name,
            short.declared_services()[0].path.as_str()
        ),
        ("demo-e2e", "service")
    );
    assert_eq!(
        read("e2e.yaml", WHOLE.as_bytes()).spec.unwrap().ignored_blocks(),
        ["dashboard", "repos", "plugins", "server"]
    );
}

#[test]
fn defaults_match_the_format() {
    let spec = read("e2e.yaml", b"project: {name: a}\n").spec.unwrap();
    assert_eq!(spec.version, "1");
    assert_eq!(
        (spec.isolation.port_range.low, spec.isolation.port_range.high),
        (9000, 9999)
    );
    assert_eq!(spec.resilience.container.max_restarts, 3);
    assert_eq!(
        spec.resilience.container.restart_delay.get(),
        Duration::from_secs(2)
    );
    assert_eq!(
        spec.resilience.preflight.disk_space_threshold.bytes(),
        2_000_000_000
    );
    assert_eq!(
        spec.resilience.circuit_breaker.reset_timeout_ms.get(),
        Duration::from_secs(30)
    );
    assert!(spec.resilience.preflight.clean_orphans && spec.resilience.network.verify_connectivity);
    assert_eq!(spec.argus.restart.window.get(), Duration::from_secs(300));
    assert_eq!(spec.history.retention.max_runs, 1000);
    let text = b"project: {name: a}\nservices: [{name: b, image: b, container: {name: c, healthcheck: {path: /}}}]\n";
    let spec = read("e2e.yaml", text).spec.unwrap();
    let service = spec.declared_services()[0].service.clone();
    let check = service.container.unwrap().healthcheck.unwrap();
    let times = [check.timeout, check.interval, check.start_period].map(|time| time.get().as_secs());
    assert_eq!(
        (times, check.retries, check.success_threshold),
        ([5, 10, 30], 10, 1)
    );
}

#[test]
fn paths_resolve_to_their_locations() {
    let source = read("e2e.yaml", WHOLE.as_bytes()).source;
    let at = |path: &str| source.locate(path).map(|place| (place.line, place.column));
    let text = |path: &str| {
        let place = source.locate(path).unwrap();
        WHOLE
            .lines()
            .nth(place.line - 1)
            .unwrap()
            .chars()
            .skip(place.column - 1)
            .take(place.length)
            .collect::<String>()
    };
    assert_eq!(text("project.name"), "shop");
    assert_eq!(text("services[0].container.ports[1]"), "\"9229\"");
    assert_eq!(text("services.api.container.ports[1]"), "\"9229\"");
    assert_eq!(text("services[1].container"), "container");
    assert_eq!(text("mocks.pay.routes[0].response.status"), "201");
    assert_eq!(text("services[0].container.nowhere.at.all"), "container");
    assert_eq!(text("services[9].container"), "services");
    assert_eq!(at("nowhere"), Some((1, 1)));
    assert_eq!(at(""), Some((1, 1)));
    let map = read("e2e.yaml", include_bytes!("../corpus/good/services-map.yaml")).source;
    assert_eq!(
        map.locate("services[1].image"),
        map.locate("services.apple.image")
    );
    assert_eq!(map.locate("services.zebra.dependsOn[0]").unwrap().line, 6);
    let dotted = read(
        "e2e.yaml",
        b"project: {name: a}\nmocks:\n  a.b:\n    port: 9\n  a:\n    port: 8\n",
    )
    .source;
    assert_eq!(
        (
            dotted.locate("mocks.a.b.port").unwrap().line,
            dotted.locate("mocks.a.port").unwrap().line
        ),
        (4, 6)
    );
    assert_eq!(read("e2e.yaml", b"[").source.locate("project"), None);
}

#[test]
fn unknown_key_is_a_warning_and_the_file_is_accepted() {
    let parsed = read("e2e.yaml", b"project: {name: a}\nservcies: []\n");
    assert!(parsed.spec.is_some());
    let expected = Diagnostic::warning("servcies", "`servcies` is not a known key and is ignored")
        .hint("did you mean `services`?")
        .replace("servcies", "services")
        .at(Location {
            line: 2,
            column: 1,
            length: 8,
        });
    assert_eq!(parsed.diagnostics, [expected]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let parsed = read("e2e.yaml", &bytes);
        prop_assert_eq!(parsed.spec.is_none(), parsed.diagnostics.iter().any(Diagnostic::is_error));
    }

    #[test]
    fn arbitrary_punctuation_never_panics(text in "[-\\[\\]{}:,&*!|>'\"%@#?a \t\n<~]{0,120}") {
        let parsed = read("e2e.yaml", text.as_bytes());
        prop_assert_eq!(parsed.spec.is_none(), parsed.diagnostics.iter().any(Diagnostic::is_error));
        argus_crds::render("e2e.yaml", &text, &parsed.diagnostics);
    }

    #[test]
    fn mutations_of_a_valid_file_never_panic(
        whole in any::<bool>(), at in any::<prop::sample::Index>(), cut in 0usize..20,
        with in "[-\\[\\]{}:,&*!|>'\"%@#?a1 \t\n<~]{0,4}",
    ) {
        let mut text = if whole { WHOLE } else { ADDITIONS }.to_owned();
        let start = at.index(text.len());
        let end = (start + cut).min(text.len());
        text.replace_range(start..end, &with);
        let parsed = read("e2e.yaml", text.as_bytes());
        prop_assert_eq!(parsed.spec.is_none(), parsed.diagnostics.iter().any(Diagnostic::is_error));
        let unlocated = parsed.diagnostics.iter().find(|diagnostic| diagnostic.message.contains("cannot read the file"));
        prop_assert!(unlocated.is_none(), "the check missed an error of the types: {:?}\n{}", unlocated, text);
        argus_crds::render("e2e.yaml", &text, &parsed.diagnostics);
    }

    #[test]
    fn numbers_keep_their_spelling(number in "-?[0-9]{1,30}(\\.[0-9]{1,20})?(e[0-9]{1,3})?") {
        let text = format!("project: {{name: a}}\nservice:\n  vars:\n    A: {number}\n");
        let spec = read("e2e.yaml", text.as_bytes()).spec.unwrap();
        prop_assert_eq!(&spec.service.unwrap().vars["A"], &number);
    }

    #[test]
    fn unknown_keys_are_warnings(key in "zz[a-z]{1,12}") {
        let parsed = read("e2e.yaml", format!("project:\n  name: a\n  {key}: 1\n").as_bytes());
        prop_assert!(parsed.spec.is_some());
        prop_assert_eq!(parsed.diagnostics.len(), 1);
        prop_assert!(!parsed.diagnostics[0].is_error());
        prop_assert_eq!(parsed.diagnostics[0].location.map(|place| (place.line, place.column)), Some((3, 3)));
    }
}
