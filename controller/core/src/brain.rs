//! One turn of the loop as a function of what is wanted, what is seen and what is remembered.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::desired::Accepted;
use crate::ident::EnvName;
use crate::memory::Memory;
use crate::observed::World;
use crate::outcome::{ActError, Done};
use crate::plan::{Plan, Step, Subject};
use crate::probe::HealthBook;
use crate::time::Timestamp;

/// Who this controller is and how it publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Identity from the state directory; goes into `argusai.controller`.
    pub controller: String,
    /// This run; goes into `argusai.run-id`.
    pub run: String,
    /// Where ports are published when the file names no address.
    pub publish_address: IpAddr,
}

/// Everything a turn looks at.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// Accepted environments; rejected edits are not in here, their last good revision is.
    pub specs: &'a BTreeMap<EnvName, Arc<Accepted>>,
    /// The first scan of the spec folder is complete.
    pub scanned: bool,
    /// The engine as last seen.
    pub world: &'a World,
    /// Verdicts of the probes.
    pub health: &'a HealthBook,
    /// The time.
    pub now: Timestamp,
}

/// What a turn decided.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn {
    /// Acts to hand out now; they count as in flight from here on.
    pub begin: Vec<Step>,
    /// The plan of every environment that is desired or seen, as of its last change.
    pub plans: BTreeMap<EnvName, Arc<Plan>>,
    /// When to turn again even if nothing happens.
    pub wake_at: Option<Timestamp>,
    /// The outcome of some act is unknown: ask the eyes for a full list.
    pub look_again: bool,
}

/// The brain with its memory.
#[derive(Debug, Clone)]
pub struct Brain {
    site: Site,
    memory: Memory,
}
