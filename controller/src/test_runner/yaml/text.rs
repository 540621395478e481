//! Results of cases for people.

use std::fmt::Write as _;

use argus_core::quoting::escape_line;
use argus_suite::{CaseResult, Exchange, Failure, Note, RunReport, Verdict};
use serde_json::Value;

use crate::render::output;

/// Maximum length of a response in the text, in characters.
const MAX_BODY: usize = 200;

/// Result of a case: one line, and the failures of a failed case.
pub(super) fn format_case(case: &CaseResult, file: &str) -> String {
    let (name, took) = (plain(&case.name), case.duration.as_millis());
    let reason = plain(case.reason.as_deref().unwrap_or_default());
    match case.result {
        Verdict::Passed => format!("  {} {name} in {took} ms\n", output::green("passed")),
        Verdict::Failed => format_failed(case, file, &output::red("failed")),
        Verdict::Skipped | Verdict::Unsupported => {
            format!("  {} {name}: {reason}\n", output::yellow("skipped"))
        }
    }
}

/// Failed cases of a suite, without colour.
pub(super) fn format_failures(report: &RunReport, file: &str) -> String {
    let failed = report.cases.iter().filter(|case| case.result == Verdict::Failed);
    failed.map(|case| format_failed(case, file, "failed")).collect()
}

/// Failures of a step of setup or teardown.
pub(super) fn format_note(note: &Note) -> String {
    let mut text = format!(
        "  note: `{}` failed, which has no effect on the result\n",
        plain(&note.step)
    );
    push_failures(&mut text, &note.failures);
    text
}

/// Failed case with its failures and its last exchange.
pub(in crate::test_runner) fn format_failed(case: &CaseResult, file: &str, word: &str) -> String {
    let (name, line) = (plain(&case.name), case.line);
    let attempts = match case.attempts {
        0 | 1 => String::new(),
        attempts => format!(", {attempts} attempts"),
    };
    let mut text = format!("  {word} {name} ({file}:{line}{attempts})\n");
    push_failures(&mut text, &case.failures);
    if let Some(exchange) = &case.exchange {
        push_exchange(&mut text, exchange);
    }
    text
}

fn push_failures(text: &mut String, failures: &[Failure]) {
    for failure in failures {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "    {}", plain(&failure.message));
    }
}

fn push_exchange(text: &mut String, exchange: &Exchange) {
    let of = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let Exchange { sent, received } = exchange;
    if sent["url"].is_null() {
        return;
    }
    let request = format!("{} {}", of(sent, "method"), of(sent, "url"));
    let response = match received {
        None => "no response".to_owned(),
        Some(received) => {
            let body = of(received, "body");
            let mut short: String = body.chars().take(MAX_BODY).collect();
            if body.chars().nth(MAX_BODY).is_some() {
                short.push('…');
            }
            format!("{} {short}", received["status"])
        }
    };
    let _ = writeln!(text, "    {}", plain(&format!("{request}: {response}")));
}

/// Replaces control characters, which a terminal would obey.
fn plain(text: &str) -> String {
    escape_line(&text.replace(char::is_control, " ")).into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use argus_core::time::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn failed_case_shows_place_conditions_and_response() {
        let case = CaseResult {
            name: "list\u{7}".to_owned(),
            line: 7,
            result: Verdict::Failed,
            reason: None,
            attempts: 2,
            started: Timestamp(0),
            duration: Duration::from_millis(12),
            failures: vec![Failure::new("status", "expected `status` to be `200`, got `500`")],
            exchange: Some(Exchange {
                sent: json!({ "method": "GET", "url": "http://localhost:8080/" }),
                received: Some(json!({ "status": 500, "body": "out of\norders\u{1b}[2J" })),
            }),
        };
        let report = RunReport {
            cases: vec![case],
            notes: Vec::new(),
        };
        assert_eq!(
            format_failures(&report, "tests/orders.yaml"),
            "  failed list  (tests/orders.yaml:7, 2 attempts)
    expected `status` to be `200`, got `500`
    GET http://localhost:8080/: 500 out of orders [2J
"
        );
    }
}
