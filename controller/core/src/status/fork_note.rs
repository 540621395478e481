//! Notes of a fork about the failures of its original, so that its user knows the reason for the fork.

use std::sync::Arc;

use super::error::describe_failed_run;
use crate::ident::{EnvName, ServiceName};
use crate::state::{EnvHistory, ServiceHistory};

/// Maximum number of notes.
const MAX_NOTES: usize = 20;

/// Returns one note per failed service of the original.
pub fn fork_notes(original: &EnvName, history: &EnvHistory) -> Vec<String> {
    let note = |(service, history): (&ServiceName, &Arc<ServiceHistory>)| {
        let last = history.failures.last()?;
        let times = match history.failures.len() {
            1 => "once".to_owned(),
            count => format!("{count} times"),
        };
        Some(format!(
            "`{service}` of `{original}` failed {times}, the last time at {}: {}; see `argus evidence {original}/{service}`",
            last.at,
            describe_failed_run(last)
        ))
    };
    history.services.iter().filter_map(note).take(MAX_NOTES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failed_run::FailedRun;
    use crate::ident::ContainerId;
    use crate::time::Timestamp;

    #[test]
    fn fork_names_each_failed_service_of_its_original() {
        let mut history = EnvHistory::default();
        let at = Timestamp::parse("2026-11-21T10:00:29.000Z").unwrap();
        let failed_run = FailedRun {
            exit_code: 3,
            ..FailedRun::new(ContainerId::new("c").unwrap(), at)
        };
        let service = |name: &str| ServiceName::new(name).unwrap();
        history.service_mut(&service("api")).failures = vec![failed_run.clone(), failed_run];
        history.service_mut(&service("web")).failures = Vec::new();
        let expected = "`api` of `shop` failed 2 times, the last time at 2026-11-21T10:00:29.000Z: process ended with exit code 3; \
see `argus evidence shop/api`";
        assert_eq!(fork_notes(&EnvName::new("shop").unwrap(), &history), [expected]);
    }
}
