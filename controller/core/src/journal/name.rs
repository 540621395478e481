//! Event names of journal records; equal to those of the Node tool where it has one.

use argus_crds::error::Code;
use argus_crds::status::BreakerState;

use super::{Entry, Event, OrphanRemoval, Outcome, Record, RestartAttempt};
use crate::ident::EnvName;

impl Record {
    /// All names of records.
    pub const NAMES: &'static [&'static str] = &[
        "intent",
        "result",
        "cancelled",
        "start",
        "stop",
        "task_end",
        "mode",
        "phase",
        "error",
        "restart_attempt",
        "restarted",
        "restart_success",
        "restart_exhausted",
        "port_conflict",
        "port_reassigned",
        "memory_high",
        "circuit_open",
        "circuit_half_open",
        "circuit_closed",
        "orphan_found",
        "cleanup_start",
        "cleanup_resource",
        "cleanup_end",
        "preflight_start",
        "preflight_check",
        "preflight_end",
        "network_check",
        "network_verified",
        "command",
        "intent_resolved",
        "lease_ended",
        "watch_degraded",
        "engine_change",
        "writable",
        "resumed",
    ];

    /// Event name of the record.
    pub fn name(&self) -> &'static str {
        match &self.entry {
            Entry::Intent(_) => "intent",
            Entry::Result {
                outcome: Outcome::Cancelled,
                ..
            } => "cancelled",
            Entry::Result { .. } => "result",
            Entry::Event(event) => event.name(),
        }
    }

    /// Environment of the record; `None` for a record of the controller.
    pub fn environment(&self) -> Option<&EnvName> {
        match &self.entry {
            Entry::Intent(intent) => intent.environment.as_ref(),
            Entry::Result { environment, .. } => environment.as_ref(),
            Entry::Event(event) => event.environment(),
        }
    }
}

impl Event {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Start { .. } => "start",
            Self::Stop => "stop",
            Self::TaskEnded { .. } => "task_end",
            Self::Mode { .. } => "mode",
            Self::Phase { .. } => "phase",
            Self::PortConflict { .. }
            | Self::Error {
                code: Code::PortConflict,
                ..
            } => "port_conflict",
            Self::Error { .. } => "error",
            Self::RestartAttempt(_) => "restart_attempt",
            Self::Restart { .. } => "restarted",
            Self::Recovered { .. } => "restart_success",
            Self::RestartsExhausted { .. } => "restart_exhausted",
            Self::PortMoved { .. } => "port_reassigned",
            Self::MemoryHigh { .. } => "memory_high",
            Self::Circuit { to, .. } => match to {
                BreakerState::Closed => "circuit_closed",
                BreakerState::Open => "circuit_open",
                BreakerState::HalfOpen => "circuit_half_open",
            },
            Self::OrphanFound { .. } => "orphan_found",
            Self::OrphanRemoved(_) => "cleanup_resource",
            Self::Cleanup { begins: true, .. } => "cleanup_start",
            Self::Cleanup { begins: false, .. } => "cleanup_end",
            Self::PreflightStart { .. } => "preflight_start",
            Self::PreflightCheck { .. } => "preflight_check",
            Self::PreflightEnd { .. } => "preflight_end",
            Self::Connectivity { verified: true, .. } => "network_verified",
            Self::Connectivity { verified: false, .. } => "network_check",
            Self::Command { .. } => "command",
            Self::IntentResolved { .. } => "intent_resolved",
            Self::LeaseEnded { .. } => "lease_ended",
            Self::WatchDegraded(_) => "watch_degraded",
            Self::EngineChange(_) => "engine_change",
            Self::Writable => "writable",
            Self::Resumed => "resumed",
        }
    }

    pub(super) fn environment(&self) -> Option<&EnvName> {
        match self {
            Self::Phase { environment, .. }
            | Self::RestartAttempt(RestartAttempt { environment, .. })
            | Self::Restart { environment, .. }
            | Self::Recovered { environment, .. }
            | Self::RestartsExhausted { environment, .. }
            | Self::PortConflict { environment, .. }
            | Self::PortMoved { environment, .. }
            | Self::MemoryHigh { environment, .. }
            | Self::LeaseEnded { environment, .. }
            | Self::Connectivity { environment, .. } => Some(environment),
            Self::Error { environment, .. }
            | Self::Circuit { environment, .. }
            | Self::Command { environment, .. }
            | Self::OrphanFound { environment, .. }
            | Self::OrphanRemoved(OrphanRemoval { environment, .. })
            | Self::PreflightStart { environment, .. }
            | Self::PreflightCheck { environment, .. }
            | Self::PreflightEnd { environment, .. } => environment.as_ref(),
            Self::Start { .. }
            | Self::Stop
            | Self::TaskEnded { .. }
            | Self::Mode { .. }
            | Self::Cleanup { .. }
            | Self::WatchDegraded(_)
            | Self::IntentResolved { .. }
            | Self::EngineChange(_)
            | Self::Writable
            | Self::Resumed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_event_name_is_listed() {
        let source = include_str!("name.rs");
        let code = source.split("#[cfg(test)]").next().unwrap();
        let code = code.split_once("];").unwrap().1;
        let given: BTreeSet<&str> = code.split('"').skip(1).step_by(2).collect();
        let all: BTreeSet<&str> = Record::NAMES.iter().copied().collect();
        assert_eq!(given, all);
        assert_eq!(all.len(), Record::NAMES.len());
    }
}
