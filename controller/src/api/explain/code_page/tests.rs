//! Tests that docs/reference/errors.md and `argus explain` match the table of codes.

use std::fmt::Write as _;
use std::path::Path;

use argus_core::journal::Record;
use argus_crds::error::StructuredError;

use super::*;

const BEGIN: &str = "<!-- begin: all codes; `UPDATE=1 cargo test -p argus errors` writes this -->\n";
const END: &str = "<!-- end -->\n";
const TRACES: &str =
    "<!-- begin: traces of all codes; `UPDATE=1 cargo test -p argus errors` writes this -->\n";
const EXAMPLE: &str = "<!-- begin: example -->\n";
const EXAMPLE_END: &str = "<!-- end: example -->\n";

fn word(value: impl Serialize) -> String {
    json!(value).as_str().unwrap().to_owned()
}

fn table() -> String {
    let mut text =
        "\n| code | means | category | severity | class | retryable | exit code |\n|---|---|---|---|---|---|---|\n".to_owned();
    for code in Code::ALL {
        let is = explain_code(*code);
        writeln!(
            text,
            "| [`{code}`](#{}) | {} | {} | {} | {} | {} | {} |",
            code.to_string().to_lowercase(),
            is.summary,
            word(is.category),
            word(is.severity),
            word(is.class),
            if is.class.is_retried() { "yes" } else { "no" },
            is.exit_code
        )
        .unwrap();
    }
    text
}

fn section(code: Code) -> String {
    let is = explain_code(code);
    let mut text = format!("\n## {code}\n\n{}. {}\n", capital(is.summary), is.explanation);
    for (index, todo) in output::format_remedies(&is.remedies).iter().enumerate() {
        let gap = if index == 0 { "\n" } else { "" };
        writeln!(text, "{gap}- {todo}").unwrap();
    }
    text
}

fn capital(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_uppercase() + rest
}

/// A port conflict with another process, as in a status file.
fn example() -> String {
    let owner = json!({ "kind": "process", "pid": 4242, "command": "python3 -m http.server 18080" });
    let error = StructuredError::new(
        Code::PortConflict,
        "host port 18080/tcp is held by process 4242 (`python3 -m http.server 18080`)",
    )
    .environment("shop")
    .service("web")
    .details(json!({ "port": 18080, "protocol": "tcp", "owner": owner }))
    .error_id("01KAJ1C2YV5Z7E4M0T9QW3RXGH")
    .timestamp("2026-01-01T00:00:00.000Z");
    let text = serde_json::to_string_pretty(&error).unwrap();
    format!("```json\n{text}\n```\n")
}

/// Replaces the text between two markers of a page.
fn between(page: &str, begin: &str, end: &str, wanted: &str) -> String {
    let (head, rest) = page.split_once(begin).unwrap();
    let (_, tail) = rest.split_once(end).unwrap();
    format!("{head}{begin}{wanted}{end}{tail}")
}

#[test]
fn errors_page_lists_every_code() {
    let sections: String = Code::ALL.iter().map(|code| section(*code)).collect();
    let codes = format!("{}{sections}\n", table());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/errors.md");
    let found = std::fs::read_to_string(&path).unwrap();
    let wanted = between(&found, EXAMPLE, EXAMPLE_END, &example());
    let wanted = between(&wanted, BEGIN, END, &codes);
    if found == wanted {
        return;
    }
    assert!(
        std::env::var_os("UPDATE").is_some(),
        "docs/reference/errors.md is out of date; hint: UPDATE=1 cargo test -p argus errors"
    );
    std::fs::write(path, wanted).unwrap();
}

#[test]
fn failures_page_lists_the_traces_of_all_errors() {
    let mut wanted = "\n| code | events | leaves |\n|---|---|---|\n".to_owned();
    for code in Code::ALL {
        let is = explain_code(*code);
        let unknown: Vec<_> = is
            .events
            .iter()
            .filter(|name| !Record::NAMES.contains(name))
            .collect();
        assert!(unknown.is_empty(), "{code}: {unknown:?}");
        let events: Vec<_> = is.events.iter().map(|name| format!("`{name}`")).collect();
        let (events, artifacts) = (events.join(", "), is.artifacts.join(", "));
        let link = code.to_string().to_lowercase();
        writeln!(
            wanted,
            "| [`{code}`](reference/errors.md#{link}) | {events} | {artifacts} |"
        )
        .unwrap();
    }
    wanted.push('\n');
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/failures.md");
    let found = std::fs::read_to_string(&path).unwrap();
    let wanted = between(&found, TRACES, END, &wanted);
    if found == wanted {
        return;
    }
    assert!(
        std::env::var_os("UPDATE").is_some(),
        "docs/failures.md is out of date; hint: UPDATE=1 cargo test -p argus errors"
    );
    std::fs::write(path, wanted).unwrap();
}

/// Normalizes white space.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn explain_prints_the_text_of_the_errors_page() {
    for code in Code::ALL {
        let (is, printed) = (explain_code(*code), words(&format_page(&explain_code(*code))));
        let section = section(*code);
        let actions = section.lines().filter_map(|line| line.strip_prefix("- "));
        let facts = [
            format!("category: {}", word(is.category)),
            format!("severity: {}", word(is.severity)),
            format!("class: {}", word(is.class)),
            format!("retryable: {}", if is.class.is_retried() { "yes" } else { "no" }),
            format!("exit code: {}", is.exit_code),
            is.summary.to_owned(),
            is.explanation.to_owned(),
        ];
        for expected in actions.map(str::to_owned).chain(facts) {
            assert!(
                printed.contains(&words(&expected)),
                "{code}: no `{expected}` in {printed}"
            );
        }
    }
}

#[test]
fn suggested_actions_have_a_command_and_an_mcp_call() {
    for code in Code::ALL {
        let meaning = json!(explain_code(*code));
        let actions = meaning["suggestedActions"].as_array().unwrap();
        let remedies = meaning["remedies"].as_array().unwrap();
        assert!(!actions.is_empty(), "{code}");
        let of: Vec<_> = remedies.iter().map(|remedy| &remedy["action"]).collect();
        assert_eq!(of, actions.iter().collect::<Vec<_>>(), "{code}");
        for remedy in remedies {
            let whole = remedy["command"].is_string() && remedy["mcp"]["tool"].is_string();
            assert!(whole, "{code}: {remedy:#}");
        }
    }
}
