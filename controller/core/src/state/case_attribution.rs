//! Origin of a failed test case, from the disruptions of its time.

use std::time::Duration;

use argus_crds::error::Code;
use serde::{Deserialize, Serialize};

use super::{Attribution, Disruption, Interruption, TestRestart};
use crate::time::Timestamp;

/// Time after the start of a new run in which its service may not be ready yet.
const RECOVERY: Duration = Duration::from_secs(5);
/// Maximum delay of the recorded end of a container after the end of its commands and connections.
const RECORD_DELAY: Duration = Duration::from_millis(250);

/// Origin of a failed case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FailureOrigin {
    /// No disruption explains the failure: the test, or the tested code.
    Test,
    /// A service failed.
    Service,
    /// A service reached a limit of memory or disk.
    Resource,
    /// The engine, its host, or an actor outside the test.
    Infrastructure,
}

impl FailureOrigin {
    /// Returns the name of the origin, as in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Service => "service",
            Self::Resource => "resource",
            Self::Infrastructure => "infrastructure",
        }
    }
}

/// Origin of a failed case, with its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseAttribution {
    /// Origin of the failure.
    #[serde(rename = "attribution")]
    pub origin: FailureOrigin,
    /// True if the origin is not proven.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub suspected: bool,
    /// Disruptions during the case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<CaseEvidence>,
}

/// Disruption that explains a failed case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaseEvidence {
    /// Error code of the service. `None` if no error of the service belongs to the disruption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The disruption.
    #[serde(flatten)]
    pub disruption: Disruption,
}

impl CaseAttribution {
    /// Finds the origin of a case that failed between two times. A disruption lasts until its service runs again and had time
    /// to become ready. Of several disruptions, a proven one decides, then the one that is furthest from the tested code.
    pub fn find(
        from: Timestamp,
        until: Timestamp,
        disruptions: &[Disruption],
        restarts: &[TestRestart],
    ) -> Self {
        let last_effect = |found: &Disruption| {
            let mut later = restarts.iter().filter(|restart| restart.at >= found.at);
            let next = later.find(|restart| restart.service == found.service);
            next.map(|restart| restart.at + RECOVERY)
        };
        let is_during = |found: &&Disruption| {
            found.at <= until + RECORD_DELAY && last_effect(found).is_none_or(|ended| ended >= from)
        };
        let during: Vec<_> = disruptions.iter().filter(is_during).collect();
        let origin = |found: &Disruption| match found.attribution {
            Attribution::Service => FailureOrigin::Service,
            Attribution::Resource => FailureOrigin::Resource,
            Attribution::Infrastructure => FailureOrigin::Infrastructure,
        };
        let decisive = during
            .iter()
            .max_by_key(|found| (!found.suspected, origin(found)));
        Self {
            origin: decisive.map_or(FailureOrigin::Test, |found| origin(found)),
            suspected: decisive.is_some_and(|found| found.suspected),
            evidence: during
                .into_iter()
                .map(|found| CaseEvidence {
                    code: found.cause.code(),
                    disruption: found.clone(),
                })
                .collect(),
        }
    }

    /// Returns true if a proven disruption explains the failure, so that only another run can confirm it.
    pub fn needs_confirmation(&self) -> bool {
        self.origin != FailureOrigin::Test && !self.suspected
    }

    /// Returns true if infrastructure prevented a verdict. A suspicion excuses no failure.
    pub fn is_excused(&self) -> bool {
        self.origin == FailureOrigin::Infrastructure && !self.suspected
    }
}

impl Interruption {
    /// Returns the code of the error that the status of the service contains. `None` without an error.
    pub fn code(self) -> Option<Code> {
        match self {
            Self::Exit => Some(Code::ContainerCrash),
            Self::OutOfMemory => Some(Code::ContainerOom),
            Self::DiskFull => Some(Code::DiskSpaceLow),
            Self::HealthCheck => Some(Code::HealthCheckTimeout),
            Self::Detachment => Some(Code::NetworkUnreachable),
            Self::EngineOutage => Some(Code::DockerUnavailable),
            Self::Stop | Self::Pause | Self::Removal | Self::RestartRequest | Self::Replacement => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ident::ServiceName;

    const fn at(second: i64) -> Timestamp {
        Timestamp(second * 1000)
    }

    fn disruption(service: &str, second: i64, cause: Interruption) -> Disruption {
        Disruption {
            case: "orders".to_owned(),
            service: ServiceName::new(service).unwrap(),
            number: None,
            at: at(second),
            cause,
            attribution: cause.attribution(),
            suspected: false,
            by: cause.originator(),
        }
    }

    fn restart(service: &str, second: i64) -> TestRestart {
        TestRestart {
            case: "orders".to_owned(),
            service: ServiceName::new(service).unwrap(),
            at: at(second),
            reason: Interruption::Exit,
            number: None,
            by: None,
        }
    }

    /// Origin of a case that failed between the seconds 20 and 30.
    fn origin(disruptions: &[Disruption], restarts: &[TestRestart]) -> FailureOrigin {
        CaseAttribution::find(at(20), at(30), disruptions, restarts).origin
    }

    #[test]
    fn disruption_counts_until_its_service_is_ready() {
        let crash = |second| [disruption("db", second, Interruption::Exit)];
        assert_eq!(origin(&[], &[]), FailureOrigin::Test);
        assert_eq!(origin(&crash(25), &[]), FailureOrigin::Service);
        assert_eq!(origin(&crash(31), &[]), FailureOrigin::Test);
        let mut late = crash(30);
        late[0].at = late[0].at + Duration::from_millis(200);
        assert_eq!(
            origin(&late, &[]),
            FailureOrigin::Service,
            "the engine recorded it late"
        );
        assert_eq!(
            origin(&crash(10), &[]),
            FailureOrigin::Service,
            "it is still down"
        );
        assert_eq!(origin(&crash(10), &[restart("db", 12)]), FailureOrigin::Test);
        assert_eq!(origin(&crash(10), &[restart("db", 18)]), FailureOrigin::Service);
        assert_eq!(origin(&crash(10), &[restart("web", 12)]), FailureOrigin::Service);
        assert_eq!(origin(&crash(10), &[restart("db", 5)]), FailureOrigin::Service);
    }

    #[test]
    fn proven_and_remote_disruption_decides() {
        let crash = disruption("web", 25, Interruption::Exit);
        let memory = disruption("db", 24, Interruption::OutOfMemory);
        let killed = disruption("db", 26, Interruption::Stop);
        let all = [crash.clone(), killed.clone(), memory.clone()];
        let found = CaseAttribution::find(at(20), at(30), &all, &[]);
        assert_eq!(found.origin, FailureOrigin::Infrastructure);
        let codes: Vec<_> = found.evidence.iter().map(|evidence| evidence.code).collect();
        assert_eq!(
            codes,
            [Some(Code::ContainerCrash), None, Some(Code::ContainerOom)]
        );
        assert!(found.is_excused() && found.needs_confirmation());
        assert_eq!(origin(&[crash.clone(), memory], &[]), FailureOrigin::Resource);

        let starved = Disruption {
            attribution: Attribution::Infrastructure,
            suspected: true,
            ..disruption("db", 25, Interruption::HealthCheck)
        };
        let found = CaseAttribution::find(at(20), at(30), std::slice::from_ref(&starved), &[]);
        assert!(found.suspected && !found.is_excused() && !found.needs_confirmation());
        assert_eq!(origin(&[starved, crash], &[]), FailureOrigin::Service);
    }
}
