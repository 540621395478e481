//! What the reconciler knows after a turn, for everybody who reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use argus_core::brain::Site;
use argus_core::connectivity::Book;
use argus_core::desired::Criticality;
use argus_core::ident::EnvName;
use argus_core::memory::Memory;
use argus_core::mode::{Mode, ModeFacts};
use argus_core::observed::World;
use argus_core::outcome::ActError;
use argus_core::plan::{Failure, Plan, Subject, Wait, WaitingOn};
use argus_core::preflight::Survey;
use argus_core::probe::HealthBook;
use argus_core::time::Timestamp;

use crate::hands::Board;
use crate::specs::SpecBook;
use crate::wishes::{Desires, Wishes};

/// A consistent view of everything; cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// When it was taken.
    pub as_of: Timestamp,
    /// How much of its work the controller can do.
    pub mode: Mode,
    /// What keeps the controller itself from its work.
    pub trouble: Trouble,
    /// Who the controller is.
    pub site: Arc<Site>,
    /// The spec folder.
    pub specs: Arc<SpecBook>,
    /// What every environment shall be: the specs with what people asked for.
    pub desired: Arc<Desires>,
    /// The engine.
    pub world: Arc<World>,
    /// Verdicts of the probes.
    pub health: Arc<HealthBook>,
    /// The last look at engine and disk.
    pub survey: Arc<Survey>,
    /// Who was seen to reach whom.
    pub links: Arc<Book>,
    /// What is done and waited for, by environment; empty before the first turn.
    pub plans: Arc<BTreeMap<EnvName, Arc<Plan>>>,
    /// What is remembered.
    pub memory: Arc<Memory>,
    /// What pulls and builds say.
    pub progress: Arc<Board>,
    /// What people and agents asked for.
    pub wishes: Arc<Wishes>,
}

/// What keeps the controller itself from its work, each in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trouble {
    /// The journal cannot be written at present.
    pub unwritable: Option<String>,
    /// What was kept is corrupt and in the way.
    pub corrupt: Option<String>,
    /// One of these was so, and nobody has resumed the controller since.
    pub safe: Option<String>,
    /// What the last run left is not looked through yet.
    pub recovering: Option<String>,
}

impl Outlook {
    /// Nothing is known yet.
    pub fn blank(site: Site, memory: Memory, as_of: Timestamp) -> Self {
        Self {
            as_of,
            mode: Mode::Minimal,
            trouble: Trouble::default(),
            site: Arc::new(site),
            specs: Arc::default(),
            desired: Arc::default(),
            world: Arc::default(),
            health: Arc::default(),
            survey: Arc::default(),
            links: Arc::default(),
            plans: Arc::default(),
            memory: Arc::new(memory),
            progress: Arc::default(),
            wishes: Arc::default(),
        }
    }

    /// The first list and the first scan are complete: what is not in here is not there.
    pub fn is_complete(&self) -> bool {
        self.specs.scanned && self.world.last_complete() > 0
    }

    /// Everything that is desired, planned for, or seen with our labels.
    pub fn environments(&self) -> BTreeSet<EnvName> {
        let seen = self
            .world
            .containers()
            .filter_map(|container| Some(container.owner()?.environment));
        let desired = self.specs.environments.keys().chain(self.desired.keys());
        desired.chain(self.plans.keys()).cloned().chain(seen).collect()
    }

    /// The same but for the time.
    pub(crate) fn says_the_same_as(&self, other: &Self) -> bool {
        // Most parts are shared with the last one, and a shared part is equal without a look into it.
        self.mode == other.mode
            && self.trouble == other.trouble
            && same(&self.specs, &other.specs)
            && same(&self.world, &other.world)
            && same(&self.health, &other.health)
            && same(&self.survey, &other.survey)
            && same(&self.links, &other.links)
            && same(&self.plans, &other.plans)
            && same(&self.memory, &other.memory)
            && same(&self.progress, &other.progress)
            && same(&self.desired, &other.desired)
            && same(&self.wishes, &other.wishes)
    }

    /// Everything that decides about the mode.
    pub fn facts(&self) -> ModeFacts {
        let failures = &self.memory.failures;
        let registry = |failure: &Failure| {
            matches!(
                failure.error,
                ActError::PullFailed(_) | ActError::RateLimited { .. }
            )
        };
        ModeFacts {
            journal_unwritable: self.trouble.unwritable.is_some(),
            state_corrupt: self.trouble.corrupt.is_some(),
            until_resumed: self.trouble.safe.is_some(),
            recovering: self.trouble.recovering.is_some(),
            engine_away: !self.world.reachable(),
            breaker_open: !self.memory.circuits.engine().is_closed(),
            specs_away: self.specs.unavailable.is_some(),
            registry_away: failures.values().any(registry),
            given_up: self.given_up(),
        }
    }

    /// Why the mode is not `Full`, for people.
    pub fn mode_reason(&self) -> Option<String> {
        let Trouble {
            unwritable,
            corrupt,
            safe,
            recovering,
        } = &self.trouble;
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
                if self.world.synced() {
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
        match self.world.unreachable_reason() {
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
            | Subject::StrayContainer { .. }
            | Subject::StrayNetwork { .. } => None,
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
