//! Wait reasons: why a subject cannot proceed, and until when.
//! Invariant 9: an environment that is not Ready has one.

use argus_crds::SpecEdit;
use argus_crds::error::Code;
use argus_crds::status::CheckName;
use serde::{Deserialize, Serialize};

use crate::action::{ActionFailure, ActionKind, FailedAttempt, Subject};
use crate::desired::Condition;
use crate::ident::{ContainerId, EnvName, ProtocolPort, ResourceName, ServiceName};
use crate::lease::LeaseHolder;
use crate::outcome::PortOwner;
use crate::time::Timestamp;

/// Reason why a subject cannot proceed, with its end if known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// Object that waits.
    pub subject: Subject,
    /// Reason of the wait.
    pub on: WaitReason,
}

/// Reason of a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "camelCase")]
pub enum WaitReason {
    /// The engine is unreachable, or its first list is not complete.
    Engine {
        /// Last connection error; empty before the first list.
        why: String,
    },
    /// A circuit breaker is open, or half-open with another test call.
    Breaker {
        /// True for the engine's breaker, false for the environment's breaker.
        engine: bool,
        /// End of the cooldown; `None` in the half-open state.
        until: Option<Timestamp>,
        /// Reason of the last counted failure.
        why: String,
    },
    /// The engine recovered, and another environment runs first.
    RampUp {
        /// Environment that runs first.
        environment: EnvName,
        /// Latest end of the ramp-up.
        until: Timestamp,
    },
    /// The first scan of the specs folder is not complete.
    Specs,
    /// The controller is in mode `Safe`: it does nothing until a person resumes it.
    Safe {
        /// Reason of the mode.
        why: String,
    },
    /// The own controller lease does not claim the environment yet, or has expired.
    ControllerLease,
    /// Another live controller owns the environment or the object.
    #[serde(rename = "leased")]
    LeaseHeldByOther {
        /// Owning controller.
        #[serde(rename = "holder")]
        controller: Box<LeaseHolder>,
        /// Time of the next check; `None` until the lease of that controller ends.
        until: Option<Timestamp>,
    },
    /// An action on the subject is in flight.
    InFlight {
        /// Kind of the action.
        verb: ActionKind,
    },
    /// The watch inspects the container of the subject.
    Inspection,
    /// An action finished and its effect is not observed yet.
    EffectPending {
        /// Kind of the action.
        verb: ActionKind,
        /// Deadline of the expectation.
        until: Timestamp,
    },
    /// The outcome of a call is unknown until the next full list.
    RelistPending {
        /// Deadline of the list.
        until: Timestamp,
    },
    /// A dependency does not meet its condition yet.
    Dependency {
        /// Dependency.
        service: ServiceName,
        /// Required condition.
        condition: Condition,
        /// True if it meets the condition, but its last health check failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failing: bool,
    },
    /// The image is being pulled or built, or its pull or build failed.
    Image {
        /// Image reference.
        reference: String,
    },
    /// The network does not exist yet.
    Network,
    /// A volume does not exist yet.
    Volume {
        /// Name of the volume.
        name: ResourceName,
    },
    /// The container runs, and its probe has not succeeded yet.
    Probe,
    /// The container has no health check, and must run for the minimum time before it is ready.
    MinimumRunTime {
        /// End of the minimum run time.
        until: Timestamp,
    },
    /// The container runs, and its probe fails.
    Unhealthy {
        /// Time of the restart; `None` without a restart.
        until: Option<Timestamp>,
    },
    /// A one-shot runs.
    Completion,
    /// The service failed and restarts after a delay.
    #[serde(rename = "backoff")]
    RestartDelay {
        /// Time of the restart.
        until: Timestamp,
        /// Number of the next restart, from 1.
        attempt: u32,
    },
    /// A call failed and is retried after a delay.
    Retry {
        /// Time of the retry.
        until: Timestamp,
        /// Failed call.
        failure: ActionFailure,
    },
    /// A call failed, and a retry cannot succeed.
    Failed {
        /// Failed call.
        failure: ActionFailure,
    },
    /// The restart budget is spent.
    GaveUp {
        /// Number of restarts.
        restarts: u32,
    },
    /// The service failed in the same way in several restart budgets, so another restart is useless.
    Halted {
        /// Number of these budgets in a row.
        budgets: u32,
    },
    /// The entry point or its command cannot run; a restart does not help.
    NotRunnable {
        /// Exit code: 126, 127, or that of a program of a wrong format.
        exit_code: i64,
    },
    /// The image does not have the program of the health check; a restart does not help.
    ProbeNotRunnable,
    /// The spec relies on the image's health check, and the image has none.
    NoHealthcheck,
    /// The restart rate limit over all environments is exhausted.
    #[serde(rename = "rateLimited")]
    RestartRateLimited {
        /// Time at which a restart is possible again.
        until: Timestamp,
        /// Maximum number of restarts after repeated failures within one minute.
        #[serde(default)]
        limit: u32,
    },
    /// A test is running and uses the service.
    TestLease {
        /// Test case.
        case: String,
        /// End of the test lease.
        until: Timestamp,
    },
    /// A hold keeps the service or environment unchanged.
    Held {
        /// End of the hold; `None` without one.
        until: Option<Timestamp>,
        /// Reason given with the hold.
        why: String,
    },
    /// The service is optional, and the host is short of memory or disk space.
    Shed {
        /// Scarce resource.
        why: String,
    },
    /// The restart policy disables restarts.
    #[serde(rename = "notRestarted")]
    RestartsDisabled,
    /// Strategy `fail`: the host port is taken.
    #[serde(rename = "port")]
    PortTaken {
        /// Taken port.
        port: ProtocolPort,
        /// Owner of the port.
        owner: PortOwner,
        /// Time of the retry.
        until: Timestamp,
    },
    /// No port of the range is free.
    #[serde(rename = "ports")]
    PortsExhausted {
        /// Number of ports in the range.
        tried: u32,
        /// Owners of the first 20 ports of the range.
        holders: Vec<(ProtocolPort, PortOwner)>,
        /// Time of the retry.
        until: Timestamp,
    },
    /// A container or network of another owner has the name.
    #[serde(rename = "name")]
    NameTaken {
        /// Taken name.
        name: String,
        /// Object that has the name.
        #[serde(rename = "holder")]
        conflicting_object: String,
        /// Time of the retry.
        until: Timestamp,
        /// Failed attempts in a row, oldest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attempts: Vec<FailedAttempt>,
        /// Compose project whose volume has the name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        compose_project: Option<String>,
    },
    /// The service was stopped or paused externally; Argus repairs it after a grace period.
    StoppedExternally {
        /// End of the grace period.
        until: Timestamp,
    },
    /// A new revision removes the object once the revision is stable.
    StabilityWindow {
        /// End of the stability window.
        until: Timestamp,
    },
    /// The object is no longer declared, but the current content of the file is not accepted.
    SpecPending,
    /// A preflight check blocks new objects on the engine.
    Preflight {
        /// Blocking check.
        check: CheckName,
        /// Error code of the check; `None` if the check has not run yet.
        code: Option<Code>,
        /// Result of the check.
        why: String,
        /// Time of the next check; `None` if it is due now.
        until: Option<Timestamp>,
    },
    /// An object that no environment needs is in the way, and is removed first.
    Obstacle {
        /// Kind and name of the object.
        object: String,
        /// Retry that runs at its time even if the object is still there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry: Option<Box<WaitReason>>,
    },
    /// A container can write a directory above a bind source, and so replace the source.
    WritableSource(Box<WritableSource>),
    /// The containers on it must be removed first.
    Containers,
    /// Containers use the object, and Argus does not remove them: it must not, or it failed to.
    InUse {
        /// Kind and name of the object.
        object: String,
        /// Names of the containers, in backticks.
        containers: String,
    },
    /// A container that depends on it must stop first.
    Dependent {
        /// Service of that container.
        service: ServiceName,
    },
    /// The engine is already removing the object.
    Removal,
}

/// A bind source below a directory that a container can write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WritableSource {
    /// Mount that waits.
    pub mount: String,
    /// Container above it.
    pub writer: MountWriter,
}

/// A container that can write a directory above a desired bind source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MountWriter {
    /// Name of the container.
    pub container: String,
    /// Its environment.
    pub environment: EnvName,
    /// Its mount.
    pub mount: String,
    /// Identifier of an observed container; `None` for a desired one, which can start at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ContainerId>,
    /// True if it is about to be removed.
    pub is_going: bool,
    /// True if a person allowed its project.
    pub allowed: bool,
    /// True if another controller has its environment.
    #[serde(default)]
    pub is_of_other: bool,
    /// Change of its file that makes the mount read-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit: Option<SpecEdit>,
}

impl WaitReason {
    /// True if the subject is left alone until something changes.
    pub fn is_given_up(&self) -> bool {
        matches!(
            self,
            Self::Failed { .. }
                | Self::GaveUp { .. }
                | Self::Halted { .. }
                | Self::NotRunnable { .. }
                | Self::ProbeNotRunnable
                | Self::NoHealthcheck
                | Self::RestartsDisabled
        )
    }

    /// True if a preflight check must run to end the wait.
    pub fn needs_preflight(&self) -> bool {
        matches!(self, Self::Preflight { until: None, .. })
    }

    /// Time at which the wait ends without an event.
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::EffectPending { until, .. }
            | Self::RelistPending { until }
            | Self::RestartDelay { until, .. }
            | Self::Retry { until, .. }
            | Self::PortTaken { until, .. }
            | Self::PortsExhausted { until, .. }
            | Self::NameTaken { until, .. }
            | Self::StoppedExternally { until }
            | Self::MinimumRunTime { until }
            | Self::RestartRateLimited { until, .. }
            | Self::RampUp { until, .. }
            | Self::TestLease { until, .. }
            | Self::StabilityWindow { until } => Some(*until),
            Self::Unhealthy { until }
            | Self::Held { until, .. }
            | Self::Breaker { until, .. }
            | Self::Preflight { until, .. }
            | Self::LeaseHeldByOther { until, .. } => *until,
            Self::Obstacle { retry, .. } => retry.as_ref()?.until(),
            Self::Engine { .. }
            | Self::Specs
            | Self::Safe { .. }
            | Self::ControllerLease
            | Self::InFlight { .. }
            | Self::Inspection
            | Self::Dependency { .. }
            | Self::Image { .. }
            | Self::Network
            | Self::Volume { .. }
            | Self::Probe
            | Self::Completion
            | Self::WritableSource(_)
            | Self::Failed { .. }
            | Self::GaveUp { .. }
            | Self::Halted { .. }
            | Self::NotRunnable { .. }
            | Self::ProbeNotRunnable
            | Self::NoHealthcheck
            | Self::RestartsDisabled
            | Self::Shed { .. }
            | Self::SpecPending
            | Self::Containers
            | Self::InUse { .. }
            | Self::Dependent { .. }
            | Self::Removal => None,
        }
    }
}
