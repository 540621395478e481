//! The records of the journal: what is to be done, what came of it, and what else happened.

use argus_crds::error::Code;
use argus_crds::status::{BreakerState, CheckName, CheckResult, PreflightOverall};
use serde::{Deserialize, Serialize};

use crate::ident::EnvName;
use crate::outcome::{ActionError, Done};
use crate::plan::{Action, Step, Subject};
use crate::status::code_of;

mod event_filter;
mod name;
mod recovery;
mod status_diff;

pub use event_filter::EventFilter;
pub use name::environment;
pub use recovery::{IntentResolution, resolve_intent};
pub use status_diff::{controller_events, events_between, looked};

/// The version of the journal's format.
pub const JOURNAL_VERSION: u32 = 1;

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Version of the format.
    pub v: u32,
    /// Its number; grows by one a record, over runs.
    pub seq: u64,
    /// When it was made (RFC 3339).
    pub at: String,
    /// The run of the controller that made it.
    pub run: String,
    /// What it says.
    #[serde(flatten)]
    pub entry: Entry,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Entry {
    /// An act is about to be done; on disk before it is.
    Intent(Intent),
    /// An act came back.
    Result {
        /// Number of its intent.
        of: u64,
        /// Its environment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<EnvName>,
        /// Its verb.
        verb: String,
        /// How it ended.
        outcome: Outcome,
        /// The code of its error; the words are in the log, for they may hold what is nobody's business.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<Code>,
        /// How long it took, in milliseconds.
        ms: u64,
    },
    /// Something else that is worth knowing.
    Event(Event),
}

/// An act that is about to be done, with all that is needed to find out later whether it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// Its environment, where the subject tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvName>,
    /// What it is about.
    pub subject: Subject,
    /// What is done.
    pub action: ActionRecord,
    /// Why.
    pub cause: String,
}

/// How an act ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was not done.
    Failed,
    /// Nobody knows; a full list decides.
    Unknown,
}

/// Something that is worth knowing beside acts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// A controller starts.
    Start {
        /// Its version.
        version: String,
        /// Its identity.
        controller: String,
        /// The run before ended with a clean stop.
        clean: bool,
    },
    /// A controller stops cleanly.
    Stop,
    /// The mode changed.
    Mode {
        /// From.
        from: String,
        /// To.
        to: String,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The phase of an environment changed.
    Phase {
        /// Environment.
        environment: EnvName,
        /// From.
        from: String,
        /// To.
        to: String,
        /// The revision that it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<String>,
        /// Of `Ready`: how long after that revision was accepted, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_ms: Option<u64>,
    },
    /// Something went wrong; the words are in the status.
    Error {
        /// Environment; none: it is the controller's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<EnvName>,
        /// Service.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        service: Option<String>,
        /// Its code.
        code: Code,
        /// Its id, as in the status.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_id: Option<String>,
        /// Of a run that failed: how long after its end, or its first failed probe, it was told, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_ms: Option<u64>,
    },
    /// A service was started again after it failed.
    Restart {
        /// Environment.
        environment: EnvName,
        /// Service.
        service: String,
        /// How often it was, in all.
        restarts: u32,
        /// How many of those are new.
        times: u32,
        /// What had gone wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<Code>,
    },
    /// A service that had failed is well again.
    Recovered {
        /// Environment.
        environment: EnvName,
        /// Service.
        service: String,
    },
    /// A service is not tried any more.
    RestartsExhausted {
        /// Environment.
        environment: EnvName,
        /// Service.
        service: String,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<Code>,
    },
    /// A port got another place on the host.
    PortMoved {
        /// Environment.
        environment: EnvName,
        /// Service.
        service: String,
        /// In the container.
        container_port: u16,
        /// Where it was, or was wanted.
        from: u16,
        /// Where it is.
        to: u16,
    },
    /// A circuit breaker changed its state.
    Circuit {
        /// Environment; none: it is the engine's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<EnvName>,
        /// `closed`, `open` or `halfOpen`.
        to: BreakerState,
        /// How often it opened.
        times_opened: u64,
    },
    /// What a dead controller left was found.
    OrphanFound {
        /// `container`, `network` or `volume`.
        what: String,
        /// The engine's id.
        id: String,
        /// Its name.
        name: String,
        /// The project on its label.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project: Option<String>,
    },
    /// What was found is gone.
    OrphanRemoved {
        /// `container`, `network` or `volume`.
        what: String,
        /// The engine's id.
        id: String,
    },
    /// Some of what was found is to be removed now, or all of that is done.
    Cleanup {
        /// It begins.
        begins: bool,
        /// How many.
        orphans: u64,
    },
    /// It is looked whether engine, disk and the rest are fit.
    PreflightStart {
        /// Somebody asked for it; else it came to something else than the look before.
        asked: bool,
        /// Checks that are not made.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        skip: Vec<CheckName>,
    },
    /// A check of the preflight came to this, or, where nobody asked, to something else than before.
    PreflightCheck {
        /// Which.
        check: CheckName,
        /// What it came to.
        result: CheckResult,
    },
    /// The look is over: what all checks together came to.
    PreflightEnd {
        /// What.
        overall: PreflightOverall,
    },
    /// It was looked at who reaches whom.
    Connectivity {
        /// Environment.
        environment: EnvName,
        /// Everybody reaches everybody.
        verified: bool,
        /// How many links were looked at.
        links: u64,
        /// How many of them do not work.
        broken: u64,
    },
    /// A person or an agent commanded something.
    Command {
        /// Environment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<EnvName>,
        /// The command.
        verb: String,
        /// It was taken in.
        accepted: bool,
    },
    /// An intent that a dead run left was looked up.
    IntentResolved {
        /// Number of the intent.
        of: u64,
        /// What was found.
        resolution: IntentResolution,
        /// By what it was found.
        how: String,
    },
    /// The journal could not be written for a while, and now can be.
    Writable,
    /// A person ended mode `Safe`.
    Resumed,
}

/// What is done, without what only the engine needs: no variables, no contents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ActionRecord {
    /// Verb.
    pub verb: String,
    /// Id of what it is done to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Name of what it is done to, or shall have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Name or id of the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
}

impl ActionRecord {
    /// What an act does.
    pub fn of(act: &Action) -> Self {
        let bare = Self {
            verb: act.verb().to_owned(),
            ..Self::default()
        };
        let id = |id: &dyn ToString| Some(id.to_string());
        match act {
            Action::CreateNetwork { name, .. }
            | Action::CreateVolume { name, .. }
            | Action::RemoveVolume { name } => Self {
                name: id(name),
                ..bare
            },
            Action::RemoveNetwork { id: net, name } => Self {
                id: id(net),
                name: Some(name.clone()),
                ..bare
            },
            Action::PullImage { reference } => Self {
                image: Some(reference.clone()),
                ..bare
            },
            Action::BuildImage(build) => Self {
                image: Some(build.tag.clone()),
                ..bare
            },
            Action::CreateContainer { name, spec } => Self {
                name: id(name),
                image: Some(spec.image.clone()),
                network: id(&spec.network),
                ..bare
            },
            Action::StartContainer { id: it }
            | Action::StopContainer { id: it, .. }
            | Action::UnpauseContainer { id: it }
            | Action::CollectEvidence { id: it, .. }
            | Action::CopyFile { id: it, .. } => Self { id: id(it), ..bare },
            Action::RenameContainer { id: it, to } => Self {
                id: id(it),
                name: id(to),
                ..bare
            },
            Action::RemoveContainer { id: it, name } => Self {
                id: id(it),
                name: Some(name.clone()),
                ..bare
            },
            Action::ConnectNetwork {
                network, container, ..
            } => Self {
                id: id(container),
                network: id(network),
                ..bare
            },
            Action::DisconnectNetwork { network, container } => Self {
                id: Some(container.clone()),
                network: Some(network.clone()),
                ..bare
            },
        }
    }
}

impl Intent {
    /// The intent to carry out a step.
    pub fn of(step: &Step) -> Self {
        Self {
            environment: environment(&step.subject).cloned(),
            subject: step.subject.clone(),
            action: ActionRecord::of(&step.action),
            cause: step.cause.to_string(),
        }
    }
}

/// How an act ended, in one word, with the code of its error.
pub fn end(outcome: &Result<Done, ActionError>) -> (Outcome, Option<Code>) {
    match outcome {
        Ok(_) => (Outcome::Done, None),
        Err(error) if error.is_outcome_unknown() => (Outcome::Unknown, Some(code_of(error))),
        Err(error) => (Outcome::Failed, Some(code_of(error))),
    }
}
