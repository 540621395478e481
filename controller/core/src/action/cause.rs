//! Causes of actions.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Action, ActionKind, Step};
use crate::ident::{ProtocolPort, ServiceName};

/// Reason of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "camelCase")]
pub enum Cause {
    /// The spec declares the object, and it does not exist.
    Missing,
    /// The spec changed after the creation of the object.
    SpecChanged,
    /// The object was changed externally.
    Drift {
        /// Difference between the object and its spec.
        what: String,
    },
    /// A replacement is ready to take over.
    Replaced,
    /// The container exists, and all its dependencies are ready.
    Ready,
    /// The container ended, and its restart delay is over.
    Restart {
        /// Number of the restart, from 1.
        attempt: u32,
        /// True if the failed run began with a restart, less than a minute before its failure.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeated: bool,
    },
    /// The run failed, and its evidence is collected before anything else.
    Failed,
    /// Argus gave up, and the image name now refers to another image.
    ImageRetagged,
    /// The probe failed more often than its `retries` allow.
    Unhealthy {
        /// Number of the restart, from 1.
        attempt: u32,
    },
    /// The container used more memory than `argus.restart.memoryAbove` allows.
    MemoryHigh {
        /// Number of the restart, from 1.
        attempt: u32,
    },
    /// The container was stopped or paused externally.
    StoppedExternally,
    /// A person or an agent requested a restart.
    RestartRequested,
    /// A person or an agent requested a stop.
    StopRequested,
    /// The engine stopped the container in its own restart.
    EngineRestart,
    /// The service is optional, and the host is short of memory or disk space.
    Shed,
    /// A dependency started again, and the service restarts with it.
    DependencyRestarted {
        /// The dependency.
        service: ServiceName,
    },
    /// The engine refused the host port, and another one was assigned.
    PortMoved {
        /// Refused port.
        from: ProtocolPort,
    },
    /// The host port is free again.
    PortFree,
    /// The service is no longer in the spec.
    ServiceRemoved,
    /// The environment is no longer desired.
    EnvironmentRemoved,
    /// The time to live of the environment is over.
    Expired,
    /// The controller is dead, and no other controller desires the object.
    Orphan {
        /// Identity of the dead controller; empty for the Node tool.
        controller: String,
    },
    /// The service has more than one container.
    Duplicate,
    /// A connectivity check failed although the configuration is correct.
    Unreachable,
    /// The engine refused an action on the container twice in the same way.
    Refused {
        /// Refused action.
        verb: ActionKind,
    },
    /// The last attempt failed, and its delay is over.
    Retry {
        /// Number of the attempt, from 2.
        attempt: u32,
    },
}

impl Step {
    /// True for the start of a run after a repeated failure. Only such starts count for the restart rate limit.
    pub fn is_repeated_restart(&self) -> bool {
        matches!(
            (&self.action, &self.cause),
            (
                Action::StartContainer { .. },
                Cause::Restart { repeated: true, .. }
            )
        )
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("missing"),
            Self::SpecChanged => f.write_str("spec changed"),
            Self::Drift { what } => write!(f, "drift: {what}"),
            Self::Replaced => f.write_str("replaced"),
            Self::Ready => f.write_str("ready to start"),
            Self::Restart { attempt, .. } => write!(f, "restart {attempt}"),
            Self::Failed => f.write_str("collect evidence first"),
            Self::ImageRetagged => f.write_str("image retagged"),
            Self::Unhealthy { attempt } => write!(f, "unhealthy, restart {attempt}"),
            Self::MemoryHigh { attempt } => write!(f, "memory use too high, restart {attempt}"),
            Self::StoppedExternally => f.write_str("stopped externally"),
            Self::RestartRequested => f.write_str("restart requested"),
            Self::StopRequested => f.write_str("stop requested"),
            Self::EngineRestart => f.write_str("engine restarted"),
            Self::Shed => f.write_str("shed, because the host is short of memory or disk space"),
            Self::DependencyRestarted { service } => write!(f, "`{service}` started again"),
            Self::PortMoved { from } => write!(f, "port {from} was refused"),
            Self::PortFree => f.write_str("port may be free again"),
            Self::ServiceRemoved => f.write_str("service removed from spec"),
            Self::EnvironmentRemoved => f.write_str("environment removed"),
            Self::Expired => f.write_str("its `argus.ttl` is over"),
            Self::Orphan { controller } if controller.is_empty() => {
                f.write_str("orphan of a tool that no longer runs")
            }
            Self::Orphan { controller } => write!(f, "orphan of controller {controller}"),
            Self::Duplicate => f.write_str("duplicate"),
            Self::Unreachable => f.write_str("unreachable, reattached"),
            Self::Refused { verb } => write!(f, "engine refused {verb} twice"),
            Self::Retry { attempt } => write!(f, "attempt {attempt}"),
        }
    }
}
