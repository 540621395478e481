//! Panics in the logs of failed services, as evidence of failed cases.

use argus_core::state::CaseAttribution;

use super::report::FailedCase;
use crate::api::evidence_store;
use crate::client::ControllerClient;

/// Beginnings of the messages of Rust, Go and `PostgreSQL`, in lower case.
const MESSAGES: [&str; 3] = ["panicked at", "panic:", "panic serving"];
/// Maximum length of a line in a report, in characters.
const MAX_LINE: usize = 300;

/// Adds to each failed case the panic of a service that failed during it. Without stored evidence, there is none.
pub(super) async fn add_panics(
    client: &ControllerClient,
    env: &str,
    failed: Vec<FailedCase>,
) -> Vec<FailedCase> {
    if failed.is_empty() {
        return failed;
    }
    let (known, env) = (failed.clone(), env.to_owned());
    let added = client.run_blocking(move |client| {
        let add = |case: FailedCase| FailedCase {
            panic: find_panic(client, &env, &case.attribution),
            ..case
        };
        Ok(known.into_iter().map(add).collect())
    });
    added.await.unwrap_or(failed)
}

fn find_panic(client: &ControllerClient, env: &str, attribution: &CaseAttribution) -> Option<String> {
    attribution.evidence.iter().find_map(|found| {
        let (service, number) = (&found.disruption.service, found.disruption.number?);
        let run = evidence_store::find_run(client.state(), env, service.as_str(), number).ok()??;
        let lines = run.read_stream(true).ok()?;
        let line = lines.iter().rfind(|line| is_panic(&line.text))?;
        Some(line.text.chars().take(MAX_LINE).collect())
    })
}

fn is_panic(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    MESSAGES.iter().any(|message| line.contains(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_of_common_languages_are_found() {
        for (line, expected) in [
            ("thread 'main' panicked at src/main.rs:7:5:", true),
            ("panic: runtime error: index out of range", true),
            ("http: panic serving 10.0.0.1:4711: nil map", true),
            ("PANIC:  could not write to file", true),
            ("do not panic", false),
            ("error: no order", false),
        ] {
            assert_eq!(is_panic(line), expected, "{line}");
        }
    }
}
