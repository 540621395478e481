//! What the reconciler knows after a turn, for everybody who reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use argus_core::brain::Site;
use argus_core::ident::EnvName;
use argus_core::memory::Memory;
use argus_core::observed::World;
use argus_core::plan::{Plan, WaitingOn};
use argus_core::preflight::Survey;
use argus_core::probe::HealthBook;
use argus_core::time::Timestamp;
use serde::{Deserialize, Serialize};

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
    /// What is done and waited for, by environment; empty before the first turn.
    pub plans: Arc<BTreeMap<EnvName, Arc<Plan>>>,
    /// What is remembered.
    pub memory: Arc<Memory>,
    /// What pulls and builds say.
    pub progress: Arc<Board>,
    /// What people and agents asked for.
    pub wishes: Arc<Wishes>,
}

/// How much of its work the controller can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// All of it.
    Full,
    /// The spec folder is out of reach: nothing is taken down for want of a file.
    Limited,
    /// Some service was given up.
    Reduced,
    /// The engine is out of reach.
    Minimal,
}

impl Outlook {
    /// Nothing is known yet.
    pub fn blank(site: Site, memory: Memory, as_of: Timestamp) -> Self {
        Self {
            as_of,
            mode: Mode::Minimal,
            site: Arc::new(site),
            specs: Arc::default(),
            desired: Arc::default(),
            world: Arc::default(),
            health: Arc::default(),
            survey: Arc::default(),
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
            && same(&self.specs, &other.specs)
            && same(&self.world, &other.world)
            && same(&self.health, &other.health)
            && same(&self.survey, &other.survey)
            && same(&self.plans, &other.plans)
            && same(&self.memory, &other.memory)
            && same(&self.progress, &other.progress)
            && same(&self.desired, &other.desired)
            && same(&self.wishes, &other.wishes)
    }

    /// The mode that follows from the parts.
    pub(crate) fn mode_of(specs: &SpecBook, world: &World, plans: &BTreeMap<EnvName, Arc<Plan>>) -> Mode {
        let gave_up = |plan: &Arc<Plan>| {
            plan.waits.iter().any(|wait| {
                matches!(
                    wait.on,
                    WaitingOn::GaveUp { .. } | WaitingOn::Halted { .. } | WaitingOn::NotRunnable { .. }
                )
            })
        };
        if !world.reachable() {
            Mode::Minimal
        } else if specs.unavailable.is_some() {
            Mode::Limited
        } else if plans.values().any(gave_up) {
            Mode::Reduced
        } else {
            Mode::Full
        }
    }
}

fn same<T: PartialEq>(one: &Arc<T>, other: &Arc<T>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}
