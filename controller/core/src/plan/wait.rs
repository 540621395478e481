//! Why nothing is done about a subject, and until when.

use std::time::Duration;

use argus_crds::error::Code;
use argus_crds::status::CheckName;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::desired::Condition;
use crate::ident::{EnvName, HostPort, ResourceName, ServiceName};
use crate::lease::{ControllerLease, Leases};
use crate::outcome::PortOwner;
use crate::time::Timestamp;

/// What a subject waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "camelCase")]
pub enum WaitingOn {
    /// The engine has not been listed completely yet, or does not answer.
    Engine {
        /// Why.
        why: String,
    },
    /// A breaker is not closed: the engine is left alone, or tried with one other call.
    Breaker {
        /// It is the engine's own, not that of the environment.
        engine: bool,
        /// When it is tried again; `None` while it is tried.
        until: Option<Timestamp>,
        /// What was counted last.
        why: String,
    },
    /// The engine came back, and another environment goes first.
    RampUp {
        /// Which.
        environment: EnvName,
        /// It goes alone until then at most.
        until: Timestamp,
    },
    /// The spec folder has not been scanned completely yet.
    Specs,
    /// The controller is in mode `Safe`: it does nothing before a person resumes it.
    Safe {
        /// Why.
        why: String,
    },
    /// This controller's lease does not say yet that it is at work here, or has run out.
    ControllerLease,
    /// Another living controller is at work on it.
    Leased {
        /// Who.
        holder: LeaseHolder,
        /// When it is tried again; `None`: when that one has gone.
        until: Option<Timestamp>,
    },
    /// An act on it is in flight.
    InFlight {
        /// Its verb.
        verb: String,
    },
    /// An act was done and its effect is not seen yet.
    EffectPending {
        /// Its verb.
        verb: String,
        /// After this the expectation is dropped.
        until: Timestamp,
    },
    /// The outcome of a call is unknown; a full list will tell.
    RelistPending {
        /// After this the wait ends even without a list.
        until: Timestamp,
    },
    /// A dependency has not come far enough.
    Dependency {
        /// Which.
        service: ServiceName,
        /// How far it must come.
        condition: Condition,
    },
    /// Its image is being pulled or built, or that failed.
    Image {
        /// Reference.
        reference: String,
    },
    /// The network is not there yet.
    Network,
    /// A volume is not there yet.
    Volume {
        /// Which.
        name: ResourceName,
    },
    /// Its process runs, its probe has not said healthy yet.
    Probe,
    /// Its process runs, its probe says unhealthy.
    Unhealthy {
        /// When it is restarted, if it is.
        until: Option<Timestamp>,
    },
    /// A one-shot is running.
    Completion,
    /// It failed and is started again after a delay.
    Backoff {
        /// When.
        until: Timestamp,
        /// Which try comes next, from 1.
        attempt: u32,
    },
    /// A call failed and is tried again after a delay.
    Retry {
        /// When.
        until: Timestamp,
        /// What failed.
        failure: ActionFailure,
    },
    /// A call failed in a way that repeating does not mend.
    Failed {
        /// What failed.
        failure: ActionFailure,
    },
    /// Its restart budget is spent.
    GaveUp {
        /// How many restarts were made.
        restarts: u32,
    },
    /// It failed in the same way so often in a row that another try brings nothing.
    Halted {
        /// How often.
        repetitions: u32,
    },
    /// Its entry point or a command in it cannot be run, which no restart mends.
    NotRunnable {
        /// 126 or 127.
        exit_code: i64,
    },
    /// Its file leaves its health to a check of its image, which has none.
    NoHealthcheck,
    /// Too many services were restarted lately, over all environments.
    RateLimited {
        /// When there is room again.
        until: Timestamp,
    },
    /// A test runs, and what it uses is left running.
    TestLease {
        /// The test case.
        case: String,
        /// When its lease ends by itself.
        until: Timestamp,
    },
    /// Somebody holds it as it is.
    Held {
        /// When the hold ends by itself.
        until: Option<Timestamp>,
        /// Why, in their words.
        why: String,
    },
    /// Its restart policy says that it stays down.
    NotRestarted,
    /// Strategy `fail`: the host port is taken.
    Port {
        /// Which.
        port: HostPort,
        /// By whom.
        owner: PortOwner,
        /// When it is tried again.
        until: Timestamp,
    },
    /// No port of the range is free.
    Ports {
        /// How many were looked at.
        tried: u32,
        /// When it is tried again.
        until: Timestamp,
    },
    /// Its name belongs to a container or network that is not ours.
    Name {
        /// The name.
        name: String,
        /// Who holds it.
        holder: String,
        /// When it is tried again.
        until: Timestamp,
    },
    /// Somebody stopped or paused it by hand; it is repaired after a grace.
    StoppedExternally {
        /// When.
        until: Timestamp,
    },
    /// A new revision removes it; that waits until the revision has been stable for a while.
    StabilityWindow {
        /// When.
        until: Timestamp,
    },
    /// A new revision removes it, but its file has changed since and does not count as it stands.
    SpecPending,
    /// Nothing new is made while the engine or its disk are not fit for it.
    Preflight {
        /// The check that stands in the way.
        check: CheckName,
        /// The error that it raises; `None`: it was not looked at yet.
        code: Option<Code>,
        /// What was found.
        why: String,
        /// When it is looked at again; `None`: now.
        until: Option<Timestamp>,
    },
    /// Its containers must go first.
    Containers,
    /// The engine is removing it already.
    Removal,
}

/// A living controller, as others know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseHolder {
    /// Its identity.
    pub controller: String,
    /// Its run.
    pub run: String,
    /// Its host.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// It was seen to renew its lease: it surely lives.
    pub renews: bool,
}

impl LeaseHolder {
    /// The holder of a lease.
    pub fn of(lease: &ControllerLease, leases: &Leases) -> Self {
        Self {
            controller: lease.spec.controller.clone(),
            run: lease.spec.run.clone(),
            host: lease.spec.host.clone(),
            pid: lease.spec.pid,
            renews: leases.renews(lease),
        }
    }
}

/// A failure as the memory keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionFailure {
    /// The verb that failed.
    pub verb: String,
    /// How.
    pub error: crate::outcome::ActionError,
    /// When it failed last.
    pub at: Timestamp,
    /// How often in a row.
    pub attempts: u32,
    /// What was called.
    #[serde(default)]
    pub call: Box<CallArgs>,
}

/// A call as it was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CallArgs {
    /// With what, without the values of variables.
    pub arguments: Map<String, Value>,
    /// How long it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
}

impl WaitingOn {
    /// Nothing is done about it any more before something changes.
    pub fn is_given_up(&self) -> bool {
        matches!(
            self,
            Self::Failed { .. }
                | Self::GaveUp { .. }
                | Self::Halted { .. }
                | Self::NotRunnable { .. }
                | Self::NoHealthcheck
                | Self::NotRestarted
        )
    }

    /// A look at engine and disk is what ends it, and none is on its way.
    pub fn needs_preflight(&self) -> bool {
        matches!(self, Self::Preflight { until: None, .. })
    }

    /// When the passing of time alone ends this wait.
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::EffectPending { until, .. }
            | Self::RelistPending { until }
            | Self::Backoff { until, .. }
            | Self::Retry { until, .. }
            | Self::Port { until, .. }
            | Self::Ports { until, .. }
            | Self::Name { until, .. }
            | Self::StoppedExternally { until }
            | Self::RateLimited { until }
            | Self::RampUp { until, .. }
            | Self::TestLease { until, .. }
            | Self::StabilityWindow { until } => Some(*until),
            Self::Unhealthy { until }
            | Self::Held { until, .. }
            | Self::Breaker { until, .. }
            | Self::Preflight { until, .. }
            | Self::Leased { until, .. } => *until,
            Self::Engine { .. }
            | Self::Specs
            | Self::Safe { .. }
            | Self::ControllerLease
            | Self::InFlight { .. }
            | Self::Dependency { .. }
            | Self::Image { .. }
            | Self::Network
            | Self::Volume { .. }
            | Self::Probe
            | Self::Completion
            | Self::Failed { .. }
            | Self::GaveUp { .. }
            | Self::Halted { .. }
            | Self::NotRunnable { .. }
            | Self::NoHealthcheck
            | Self::NotRestarted
            | Self::SpecPending
            | Self::Containers
            | Self::Removal => None,
        }
    }
}
