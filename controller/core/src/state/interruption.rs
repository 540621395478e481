//! Events that end or interrupt runs of services, with their attribution and originator.

use serde::{Deserialize, Serialize};

use super::restart;
use crate::failed_run::{self, FailedRun, FailureCause, FailureKind};
use crate::observed::Outage;

/// Event that ended or interrupted a run of a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Interruption {
    /// The main process ended.
    #[default]
    Exit,
    /// The container ran out of memory.
    OutOfMemory,
    /// The process found no space on its disk.
    DiskFull,
    /// The health check failed.
    HealthCheck,
    /// Another client stopped or killed the container.
    Stop,
    /// Another client paused the container.
    Pause,
    /// Another client removed the container.
    Removal,
    /// Another client detached the container from its network.
    Detachment,
    /// The engine was restarted or unreachable.
    EngineOutage,
    /// A person or an agent requested a restart from Argus.
    RestartRequest,
    /// Argus replaced the container.
    Replacement,
}

/// Origin of a disruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Attribution {
    /// The engine, its host, or an actor outside the test.
    Infrastructure,
    /// A limit of memory or disk.
    Resource,
    /// The tested service.
    #[serde(alias = "test")]
    Service,
}

/// Originator of an interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Originator {
    /// Another client of the engine, such as `docker`.
    OtherClient,
    /// The engine.
    Engine,
    /// A client of Argus.
    User,
    /// This controller.
    Argus,
}

impl Interruption {
    /// Returns the event that made a run count as failed.
    pub(super) fn of(failed_run: &FailedRun, outages: &[Outage]) -> Self {
        if restart::is_caused_by_engine(failed_run, outages) {
            return Self::EngineOutage;
        }
        if failed_run.cause == FailureCause::Exited && has_full_disk(failed_run) {
            return Self::DiskFull;
        }
        match failed_run::kind(failed_run) {
            FailureKind::OutOfMemory => Self::OutOfMemory,
            FailureKind::Unhealthy => Self::HealthCheck,
            FailureKind::Exit | FailureKind::Signal | FailureKind::NotRunnable => Self::Exit,
        }
    }

    pub(super) fn attribution(self) -> Attribution {
        match self {
            Self::Exit | Self::HealthCheck => Attribution::Service,
            Self::OutOfMemory | Self::DiskFull => Attribution::Resource,
            Self::Stop
            | Self::Pause
            | Self::Removal
            | Self::Detachment
            | Self::EngineOutage
            | Self::RestartRequest
            | Self::Replacement => Attribution::Infrastructure,
        }
    }

    pub(super) fn originator(self) -> Option<Originator> {
        match self {
            Self::Exit | Self::OutOfMemory | Self::DiskFull | Self::HealthCheck => None,
            Self::Stop | Self::Pause | Self::Removal | Self::Detachment => Some(Originator::OtherClient),
            Self::EngineOutage => Some(Originator::Engine),
            Self::RestartRequest => Some(Originator::User),
            Self::Replacement => Some(Originator::Argus),
        }
    }

    /// Returns the event as a clause.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Exit => "its process ended",
            Self::OutOfMemory => "it ran out of memory",
            Self::DiskFull => "its disk was full",
            Self::HealthCheck => "its health check failed",
            Self::Stop => "another client of the engine stopped or killed it",
            Self::Pause => "another client of the engine paused it",
            Self::Removal => "another client of the engine removed it",
            Self::Detachment => "another client of the engine detached it from its network",
            Self::EngineOutage => "the engine was restarted or unreachable",
            Self::RestartRequest => "a restart was requested",
            Self::Replacement => "Argus replaced its container",
        }
    }
}

fn has_full_disk(failed_run: &FailedRun) -> bool {
    let is_about_it = |line: &String| line.to_ascii_lowercase().contains("no space left on device");
    let evidence = failed_run.evidence.as_ref();
    is_about_it(&failed_run.error) || evidence.is_some_and(|evidence| evidence.stderr.iter().any(is_about_it))
}
