//! What the reconciler knows after a turn, for everybody who reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use argus_core::connectivity::CheckResults;
use argus_core::desired::Criticality;
use argus_core::ident::EnvName;
use argus_core::mode::{Mode, ModeInputs};
use argus_core::observed::Store;
use argus_core::outcome::ActionError;
use argus_core::plan::{ActionFailure, Plan, Subject, Wait, WaitingOn};
use argus_core::preflight::PreflightSnapshot;
use argus_core::probe::HealthStates;
use argus_core::reconcile::ControllerIdentity;
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;

use crate::executor::ProgressMap;
use crate::overrides::{DesiredState, Overrides};
use crate::specs::SpecRegistry;

/// A consistent view of everything; cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// When it was taken.
    pub as_of: Timestamp,
    /// How much of its work the controller can do.
    pub mode: Mode,
    /// What keeps the controller itself from its work.
    pub problems: ControllerProblems,
    /// Who the controller is.
    pub identity: Arc<ControllerIdentity>,
    /// The spec folder.
    pub specs: Arc<SpecRegistry>,
    /// What every environment shall be: the specs with what people asked for.
    pub desired: Arc<DesiredState>,
    /// The engine.
    pub store: Arc<Store>,
    /// Verdicts of the probes.
    pub health: Arc<HealthStates>,
    /// The last look at engine and disk.
    pub preflight: Arc<PreflightSnapshot>,
    /// Who was seen to reach whom.
    pub links: Arc<CheckResults>,
    /// What is done and waited for, by environment; empty before the first turn.
    pub plans: Arc<BTreeMap<EnvName, Arc<Plan>>>,
    /// What is remembered.
    pub state: Arc<PlannerState>,
    /// What pulls and builds say.
    pub progress: Arc<ProgressMap>,
    /// What people and agents asked for.
    pub overrides: Arc<Overrides>,
}

/// What keeps the controller itself from its work, each in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControllerProblems {
    /// The journal cannot be written at present.
    pub unwritable: Option<String>,
    /// What was kept is corrupt and in the way.
    pub corrupt: Option<String>,
    /// One of these was so, and nobody has resumed the controller since.
    pub safe: Option<String>,
    /// What the last run left is not looked through yet.
    pub recovering: Option<String>,
}

impl Snapshot {
    /// Nothing is known yet.
    pub fn blank(identity: ControllerIdentity, memory: PlannerState, as_of: Timestamp) -> Self {
        Self {
            as_of,
            mode: Mode::Minimal,
            problems: ControllerProblems::default(),
            identity: Arc::new(identity),
            specs: Arc::default(),
            desired: Arc::default(),
            store: Arc::default(),
            health: Arc::default(),
            preflight: Arc::default(),
            links: Arc::default(),
            plans: Arc::default(),
            state: Arc::new(memory),
            progress: Arc::default(),
            overrides: Arc::default(),
        }
    }

    /// The first list and the first scan are complete: what is not in here is not there.
    pub fn is_complete(&self) -> bool {
        self.specs.scanned && self.store.last_complete() > 0
    }

    /// Everything that is desired, planned for, or seen with our labels.
    pub fn environments(&self) -> BTreeSet<EnvName> {
        let seen = self
            .store
            .containers()
            .filter_map(|container| Some(container.owner()?.environment));
        let desired = self.specs.environments.keys().chain(self.desired.keys());
        desired.chain(self.plans.keys()).cloned().chain(seen).collect()
    }

    /// The same but for the time.
    pub(crate) fn eq_ignoring_time(&self, other: &Self) -> bool {
        // Most parts are shared with the last one, and a shared part is equal without a look into it.
        self.mode == other.mode
            && self.problems == other.problems
            && same(&self.specs, &other.specs)
            && same(&self.store, &other.store)
            && same(&self.health, &other.health)
            && same(&self.preflight, &other.preflight)
            && same(&self.links, &other.links)
            && same(&self.plans, &other.plans)
            && same(&self.state, &other.state)
            && same(&self.progress, &other.progress)
            && same(&self.desired, &other.desired)
            && same(&self.overrides, &other.overrides)
    }

    /// Everything that decides about the mode.
    pub fn facts(&self) -> ModeInputs {
        let failures = &self.state.action_failures;
        let registry = |failure: &ActionFailure| {
            matches!(
                failure.error,
                ActionError::PullFailed(_) | ActionError::RateLimited { .. }
            )
        };
        ModeInputs {
            journal_unwritable: self.problems.unwritable.is_some(),
            state_corrupt: self.problems.corrupt.is_some(),
            until_resumed: self.problems.safe.is_some(),
            recovering: self.problems.recovering.is_some(),
            engine_unreachable: !self.store.reachable(),
            breaker_open: !self.state.breakers.engine().is_closed(),
            specs_unavailable: self.specs.unavailable.is_some(),
            registry_unreachable: failures.values().any(registry),
            given_up: self.given_up(),
        }
    }

    /// Why the mode is not `Full`, for people.
    pub fn mode_reason(&self) -> Option<String> {
        let ControllerProblems {
            unwritable,
            corrupt,
            safe,
            recovering,
        } = &self.problems;
        match self.mode {
            Mode::Full => None,
            Mode::Reduced => Some("some service was given up".to_owned()),
            Mode::Limited => self
                .specs
                .unavailable
                .clone()
                .or_else(|| Some("a registry is out of reach".to_owned())),
            Mode::Minimal => Some(self.engine_words()),
            Mode::Recovery => recovering.as_ref().map(|why| {
                if self.store.synced() {
                    why.clone()
                } else {
                    format!("{why}; {}", self.engine_words())
                }
            }),
            Mode::Safe => {
                let now = unwritable.as_ref().or(corrupt.as_ref());
                let why = safe.as_ref().or(now)?;
                Some(if now.is_some() {
                    why.clone()
                } else {
                    format!("{why}; that is over, `argus resume` goes on")
                })
            }
        }
    }

    /// How the engine is, in words.
    pub fn engine_words(&self) -> String {
        match self.store.unreachable_reason() {
            "" => "the engine has not answered yet".to_owned(),
            why => format!("the engine does not answer: {why}"),
        }
    }

    /// The most critical of the services that were given up.
    fn given_up(&self) -> Option<Criticality> {
        let lost = |wait: &&Wait| {
            matches!(
                wait.on,
                WaitingOn::GaveUp { .. }
                    | WaitingOn::Halted { .. }
                    | WaitingOn::NotRunnable { .. }
                    | WaitingOn::NoHealthcheck
            )
        };
        let criticality = |env: &EnvName, wait: &Wait| match &wait.subject {
            Subject::Service { service, .. } => {
                let accepted = self.desired.get(env)?;
                Some(accepted.desired.services.get(service)?.criticality)
            }
            Subject::Network { .. }
            | Subject::Volume { .. }
            | Subject::Image { .. }
            | Subject::ExtraContainer { .. }
            | Subject::ExtraNetwork { .. } => None,
        };
        let waits = self.plans.iter().flat_map(|(env, plan)| {
            let lost = plan.waits.iter().filter(lost);
            lost.map(move |wait| criticality(env, wait).unwrap_or(Criticality::Recoverable))
        });
        waits.min()
    }
}

fn same<T: PartialEq>(one: &Arc<T>, other: &Arc<T>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}
