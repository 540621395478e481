//! Records of the journal: intents, results and events.
//!
//! Argus writes an [`Intent`] to disk before it performs an action, and the result after it. After a crash
//! [`resolve_intent`] finds out from the engine's state if an intent without a result took effect.

use argus_crds::error::Code;
use argus_crds::status::{BreakerState, CheckName, CheckResult, PreflightOverall};
use serde::{Deserialize, Serialize};

use crate::action::{ActionKind, Step, Subject};
use crate::ident::EnvName;
use crate::observed::Unreadable;
use crate::outcome::{ActionError, Done};
use crate::status::code_of;

mod action_record;
mod engine_change;
mod event_filter;
mod name;
mod recovery;
mod status_diff;
mod step_result;

pub use action_record::ActionRecord;
pub use engine_change::{ChangedObject, EngineChange};
pub use event_filter::EventFilter;

pub use recovery::{IntentResolution, resolve_intent};
pub use status_diff::{controller_events, events_between, orphan_events, preflight_check_events};
pub use step_result::{OrphanRemoval, RestartAttempt, step_event};

/// Version of the journal's format.
pub const JOURNAL_VERSION: u32 = 1;

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Version of the format.
    pub v: u32,
    /// Number of the record; increases by one per record, over all runs.
    pub seq: u64,
    /// Time of the record (RFC 3339).
    pub at: String,
    /// Run of the controller that wrote the record.
    pub run: String,
    /// Content of the record.
    #[serde(flatten)]
    pub entry: Entry,
}

/// Content of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Entry {
    /// An action is about to run; on disk before it does.
    Intent(Intent),
    /// An action finished.
    Result {
        /// Number of its intent.
        of: u64,
        /// Environment of the action.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<EnvName>,
        /// Kind of the action.
        verb: ActionKind,
        /// Outcome of the action.
        outcome: Outcome,
        /// Error code. The error text is only in the log, because it may contain secrets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<Code>,
        /// Duration in milliseconds.
        ms: u64,
    },
    /// Another event.
    Event(Event),
}

/// An action that is about to run, with all facts that are needed to check its effect later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// Environment of the subject, if it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvName>,
    /// Object of the action.
    pub subject: Subject,
    /// Action.
    pub action: ActionRecord,
    /// Reason of the action.
    pub cause: String,
    /// Identifier of the action, as in the errors that it causes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}

/// Outcome of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// The action succeeded.
    Done,
    /// The action failed.
    Failed,
    /// The outcome is unknown until the next full list.
    Unknown,
    /// Argus ended the action early.
    Cancelled,
}

/// An event besides actions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// The controller started.
    Start {
        /// Version of the controller.
        version: String,
        /// Identity of the controller.
        controller: String,
        /// True if the previous run stopped cleanly.
        clean: bool,
    },
    /// The controller stopped cleanly.
    Stop,
    /// An internal task ended, although the controller continues.
    TaskEnded {
        /// Name of the task.
        task: String,
        /// Reason of the end.
        reason: String,
        /// True if Argus starts the task again.
        restarts: bool,
        /// True if the controller ends with the task.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        critical: bool,
    },
    /// The mode changed.
    Mode {
        /// Mode before the change.
        from: String,
        /// Mode after the change.
        to: String,
        /// Reason of the change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The phase of an environment changed.
    Phase {
        /// Environment.
        environment: EnvName,
        /// Phase before the change.
        from: String,
        /// Phase after the change.
        to: String,
        /// Revision of the phase.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<String>,
        /// Of `Ready`: time since the acceptance of the revision, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_ms: Option<u64>,
    },
    /// An error appeared; its message is in the status.
    Error {
        /// Environment; `None` for an error of the controller.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<EnvName>,
        /// Failed service.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        service: Option<String>,
        /// Error code.
        code: Code,
        /// Error id, as in the status.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_id: Option<String>,
        /// Of a failed run: time from its end, or from its first failed probe, to this report, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_ms: Option<u64>,
    },
    /// Argus started a failed service again, or could not.
    RestartAttempt(RestartAttempt),
    /// A service runs again, after a failure or for another reason.
    Restart {
        /// Environment of the service.
        environment: EnvName,
        /// Restarted service.
        service: String,
        /// Total number of restarts.
        restarts: u32,
        /// Number of new restarts.
        times: u32,
        /// Error code of the failure; `None` without one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<Code>,
    },
    /// A failed service is healthy again.
    Recovered {
        /// Environment of the service.
        environment: EnvName,
        /// Recovered service.
        service: String,
    },
    /// A service is given up.
    RestartsExhausted {
        /// Environment of the service.
        environment: EnvName,
        /// Given-up service.
        service: String,
        /// Error code of the last failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<Code>,
    },
    /// A host port is taken, and another one is assigned.
    PortConflict {
        /// Environment of the service.
        environment: EnvName,
        /// Service that publishes the port.
        service: String,
        /// Taken host port.
        port: u16,
        /// Owner of the port; `None` if it is unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<String>,
    },
    /// A port moved to another host port.
    PortMoved {
        /// Environment of the service.
        environment: EnvName,
        /// Service that publishes the port.
        service: String,
        /// Port in the container.
        container_port: u16,
        /// Previous or requested host port.
        from: u16,
        /// New host port.
        to: u16,
    },
    /// The memory use of a service is above 90 % of its memory limit.
    MemoryHigh {
        /// Environment of the service.
        environment: EnvName,
        /// Service with the memory limit.
        service: String,
        /// Used bytes, without cache that the kernel can free.
        used_bytes: u64,
        /// Memory limit in bytes.
        limit_bytes: u64,
    },
    /// A circuit breaker changed its state.
    Circuit {
        /// Environment; `None` for the engine's breaker.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<EnvName>,
        /// New state: `closed`, `open` or `halfOpen`.
        to: BreakerState,
        /// Number of openings so far.
        times_opened: u64,
    },
    /// An orphan of a dead controller was found.
    OrphanFound {
        /// Environment from its label.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<EnvName>,
        /// `container`, `network` or `volume`.
        what: String,
        /// Id on the engine.
        id: String,
        /// Name on the engine.
        name: String,
        /// Project from its label.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project: Option<String>,
        /// Decision about it, as `result` in the status.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        result: String,
    },
    /// Argus removed an orphan, or could not.
    OrphanRemoved(OrphanRemoval),
    /// A cleanup of orphans began or ended.
    Cleanup {
        /// True at the begin of the cleanup.
        begins: bool,
        /// Number of orphans to remove.
        orphans: u64,
    },
    /// A preflight check run started.
    PreflightStart {
        /// Environment; `None` for the checks of all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<EnvName>,
        /// True for a run on request; false for a periodic run whose result changed.
        requested: bool,
        /// Skipped checks.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        skip: Vec<CheckName>,
    },
    /// Result of one preflight check; of a periodic run only changed results.
    PreflightCheck {
        /// Environment; `None` for the checks of all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<EnvName>,
        /// Check.
        check: CheckName,
        /// Result of the check.
        result: CheckResult,
    },
    /// A preflight check run ended.
    PreflightEnd {
        /// Environment; `None` for the checks of all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<EnvName>,
        /// Overall result.
        overall: PreflightOverall,
    },
    /// A connectivity check ended.
    Connectivity {
        /// Checked environment.
        environment: EnvName,
        /// True if all links work.
        verified: bool,
        /// Number of checked links.
        links: u64,
        /// Number of broken links.
        broken: u64,
    },
    /// A person or an agent sent a command.
    Command {
        /// Environment of the command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<EnvName>,
        /// Name of the command.
        verb: String,
        /// True if the controller accepted the command.
        accepted: bool,
        /// Identifier of the command, as in the errors that it causes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        correlation_id: Option<String>,
    },
    /// The outcome of an open intent of a dead run was found out.
    IntentResolved {
        /// Number of the intent.
        of: u64,
        /// Outcome.
        resolution: IntentResolution,
        /// Observation that shows the outcome.
        how: String,
    },
    /// Argus ended a test lease, because it gave a critical service up.
    LeaseEnded {
        /// Environment of the test.
        environment: EnvName,
        /// Name of the test case.
        case: String,
        /// Runner of the test, as it named itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
        /// Service that Argus gave up.
        service: String,
    },
    /// Argus cannot read an event or a list of the engine. A new list follows.
    WatchDegraded(Unreadable),
    /// The engine changed outside of a plan.
    EngineChange(EngineChange),
    /// The journal is writable again after an error.
    Writable,
    /// A person ended mode `Safe`.
    Resumed,
}

impl Intent {
    /// Creates the intent of a step; `id` identifies the action.
    pub fn of(step: &Step, id: &str) -> Self {
        Self {
            environment: step.subject.environment().cloned(),
            subject: step.subject.clone(),
            action: ActionRecord::of(&step.action),
            cause: step.cause.to_string(),
            correlation_id: Some(id.to_owned()),
        }
    }
}

/// Outcome of an action, with the error code of a failure.
pub fn outcome_of(outcome: &Result<Done, ActionError>) -> (Outcome, Option<Code>) {
    match outcome {
        Ok(_) => (Outcome::Done, None),
        Err(ActionError::Cancelled) => (Outcome::Cancelled, None),
        Err(error) if error.is_outcome_unknown() => (Outcome::Unknown, Some(code_of(error))),
        Err(error) => (Outcome::Failed, Some(code_of(error))),
    }
}
