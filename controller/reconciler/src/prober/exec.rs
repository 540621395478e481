//! Exec probe: a command in the container, successful with exit code 0.

use std::time::Duration;

use argus_backend::Backend;
use argus_core::ident::ContainerId;

use super::probe_history::ProbeResult;

/// Runs the command, for this time at most.
pub(super) async fn probe<B: Backend>(
    backend: &B,
    id: &ContainerId,
    command: &[String],
    timeout: Duration,
) -> ProbeResult {
    match backend.exec(id, command, timeout).await {
        Ok(result) => match result.exit_code {
            Some(0) => ProbeResult::success(result.output),
            Some(code) => ProbeResult::failure(format!("exit code {code}: {}", result.output)),
            None => ProbeResult::no_reply(describe_timeout(timeout, &result.output)),
        },
        Err(error) => ProbeResult::unsent(error.to_string()),
    }
}

/// Describes a probe without a result in time, with what it wrote.
pub(super) fn describe_timeout(timeout: Duration, output: &str) -> String {
    let limit = format!("no answer within {} s", timeout.as_secs_f32());
    match output.trim() {
        "" => limit,
        output => format!("{limit}: {output}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_keeps_the_output() {
        let timeout = Duration::from_millis(1_500);
        assert_eq!(describe_timeout(timeout, " \n"), "no answer within 1.5 s");
        assert_eq!(
            describe_timeout(timeout, "waiting for db\n"),
            "no answer within 1.5 s: waiting for db"
        );
    }
}
