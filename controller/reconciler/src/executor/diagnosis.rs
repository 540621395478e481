//! Diagnosis of a failed health check: a helper resolves names and opens connections in the network of the container.

use argus_backend::{Backend, PROGRESS_TIMEOUT};
use argus_core::connectivity::{LinkSource, Target, describe_results};
use argus_core::failed_run::FailedRun;
use argus_core::outcome::{ActionError, Diagnosis};

/// Checks the targets from the network of a failed run. Without results, the diagnosis contains the reason.
pub(super) async fn run<B: Backend>(backend: &B, failed_run: &FailedRun, targets: &[Target]) -> Diagnosis {
    let id = &failed_run.container;
    let source = LinkSource::Container(id.clone());
    // The first check on an engine builds the helper image.
    let checked = tokio::time::timeout(PROGRESS_TIMEOUT, backend.check_links(&source, targets)).await;
    let late = || ActionError::TimedOut(format!("no answer within {} s", PROGRESS_TIMEOUT.as_secs()));
    let checked = checked.unwrap_or_else(|_| Err(late()));
    // The network of a container is gone with its run, and the results then say nothing about it.
    if let Ok(false) = backend.is_run_intact(id, failed_run.started_at).await {
        return missing("the run ended, or its network changed, before they were complete");
    }
    match checked {
        Ok(results) => Diagnosis {
            results: describe_results(targets, &results),
            missing: None,
        },
        Err(error) => missing(&error.to_string()),
    }
}

/// Diagnosis without results.
pub(super) fn missing(why: &str) -> Diagnosis {
    Diagnosis {
        missing: Some(format!("network checks by a helper: {why}")),
        ..Diagnosis::default()
    }
}
