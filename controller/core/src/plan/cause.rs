//! Why an act is right.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ident::HostPort;

/// Why an act is right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "camelCase")]
pub enum Cause {
    /// The spec wants it and it is not there.
    Missing,
    /// The spec changed since it was made.
    SpecChanged,
    /// It was changed behind our back: what differs.
    Drift {
        /// What differs.
        what: String,
    },
    /// A replacement is ready to take its place.
    Replaced,
    /// It is made, and everything it depends on is there.
    Ready,
    /// It ended, and its delay is over.
    Restart {
        /// Which try this is, from 1.
        attempt: u32,
    },
    /// It failed, and what it left is taken before anything is done to it.
    Failed,
    /// It was given up, and the name of its image stands for another image by now.
    ImageChanged,
    /// Its probe failed past its retries.
    Unhealthy {
        /// Which restart this is, from 1.
        attempt: u32,
    },
    /// Somebody stopped or paused it by hand.
    StoppedExternally,
    /// The engine lost it in a restart of its own.
    EngineRestart,
    /// Its host port was refused and another was assigned.
    PortMoved {
        /// The refused port.
        from: HostPort,
    },
    /// Its host port is free again.
    PortFree,
    /// Its service is no longer in the spec.
    ServiceRemoved,
    /// Its environment is no longer desired.
    EnvironmentRemoved,
    /// Its environment has lived for as long as its file says.
    Expired,
    /// Its controller is dead, and nobody else desires it.
    Orphan {
        /// The controller; empty for the Node tool.
        controller: String,
    },
    /// More than one container stands for one service.
    Duplicate,
    /// It was seen not to reach others, or not to be reached, though all is as it shall be.
    Unreachable,
    /// The earlier try failed, and its delay is over.
    Retry {
        /// Which try this is, from 2.
        attempt: u32,
    },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("missing"),
            Self::SpecChanged => f.write_str("spec changed"),
            Self::Drift { what } => write!(f, "drift: {what}"),
            Self::Replaced => f.write_str("replaced"),
            Self::Ready => f.write_str("ready to start"),
            Self::Restart { attempt } => write!(f, "restart {attempt}"),
            Self::Failed => f.write_str("evidence first"),
            Self::ImageChanged => f.write_str("its image is another by now"),
            Self::Unhealthy { attempt } => write!(f, "unhealthy, restart {attempt}"),
            Self::StoppedExternally => f.write_str("stopped by hand"),
            Self::EngineRestart => f.write_str("engine restarted"),
            Self::PortMoved { from } => write!(f, "port {from} was refused"),
            Self::PortFree => f.write_str("port is free again"),
            Self::ServiceRemoved => f.write_str("service removed from spec"),
            Self::EnvironmentRemoved => f.write_str("environment removed"),
            Self::Expired => f.write_str("its `argus.ttl` is over"),
            Self::Orphan { controller } if controller.is_empty() => {
                f.write_str("orphan of a tool that is gone")
            }
            Self::Orphan { controller } => write!(f, "orphan of controller {controller}"),
            Self::Duplicate => f.write_str("duplicate"),
            Self::Unreachable => f.write_str("out of reach, attached anew"),
            Self::Retry { attempt } => write!(f, "try {attempt}"),
        }
    }
}
