//! Reports of the engine during a wait.

use argus_crds::error::Code;

use super::goal::find_engine_error;
use super::target_status::TargetStatus;

/// Last reported error of the engine during a wait.
#[derive(Default)]
pub(crate) struct EngineReports(Option<Code>);

impl EngineReports {
    /// Returns the error of the engine as text if it changed since the last call.
    pub(crate) fn find_change(&mut self, seen: &[TargetStatus]) -> Option<String> {
        let mut statuses = seen.iter().filter_map(|seen| seen.status.as_ref());
        let found = statuses.find_map(find_engine_error);
        let before = std::mem::replace(&mut self.0, found.map(|error| error.code));
        let error = found.filter(|error| before != Some(error.code))?;
        Some(format!("{}: {}", error.code, error.message))
    }
}

#[cfg(test)]
mod tests {
    use argus_crds::error::StructuredError;
    use argus_crds::status::EnvironmentStatus;

    use super::*;
    use crate::api::target::Target;

    #[test]
    fn engine_is_reported_once_per_change() {
        let seen = |code| {
            let status = EnvironmentStatus {
                errors: vec![StructuredError::new(code, "why")],
                ..EnvironmentStatus::default()
            };
            [TargetStatus {
                target: Target::environment("shop"),
                status: Some(status),
            }]
        };
        let mut reports = EngineReports::default();
        let mut find = |code| reports.find_change(&seen(code));
        let away = Some("DOCKER_UNAVAILABLE: why".to_owned());
        assert_eq!(find(Code::DockerUnavailable), away);
        assert_eq!(find(Code::DockerUnavailable), None);
        assert_eq!(find(Code::CircuitOpen), Some("CIRCUIT_OPEN: why".to_owned()));
        assert_eq!(find(Code::ContainerCrash), None);
        assert_eq!(find(Code::DockerUnavailable), away, "the next outage");
    }
}
