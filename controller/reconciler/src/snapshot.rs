//! Snapshot of the reconciler's state after a pass, for all readers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use argus_core::action::{ActionFailure, Subject};
use argus_core::connectivity::CheckResults;
use argus_core::desired::Criticality;
use argus_core::ident::EnvName;
use argus_core::mode::{Mode, ModeInputs};
use argus_core::observed::Store;
use argus_core::outcome::ActionError;
use argus_core::plan::ControllerIdentity;
use argus_core::plan::Plan;
use argus_core::preflight::PreflightSnapshot;
use argus_core::probe::HealthStates;
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;
use argus_core::wait::{Wait, WaitReason};

use crate::executor::ProgressMap;
use crate::overrides::{DesiredState, Overrides};
use crate::specs::SpecRegistry;

/// Consistent view of the controller; cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Time of the snapshot.
    pub as_of: Timestamp,
    /// Permitted actions of the controller.
    pub mode: Mode,
    /// Problems of the controller itself.
    pub problems: ControllerProblems,
    /// Identity of the controller.
    pub identity: Arc<ControllerIdentity>,
    /// Spec registry.
    pub specs: Arc<SpecRegistry>,
    /// Desired state: the specs with all overrides.
    pub desired: Arc<DesiredState>,
    /// Observed objects of the engine.
    pub store: Arc<Store>,
    /// Health of the probed containers.
    pub health: Arc<HealthStates>,
    /// Result of the last preflight check.
    pub preflight: Arc<PreflightSnapshot>,
    /// Results of the connectivity checks.
    pub links: Arc<CheckResults>,
    /// Plans by environment; empty before the first pass.
    pub plans: Arc<BTreeMap<EnvName, Arc<Plan>>>,
    /// State of the planner.
    pub state: Arc<PlannerState>,
    /// Progress of pulls and builds.
    pub progress: Arc<ProgressMap>,
    /// Requests of people and agents.
    pub overrides: Arc<Overrides>,
    /// Number of accepted commands that are in effect.
    pub accepted_commands: u64,
}

/// Problems that restrict the mode of the controller, each as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControllerProblems {
    /// Reason why the journal cannot be written now.
    pub unwritable: Option<String>,
    /// Corrupt state that could not be quarantined.
    pub corrupt: Option<String>,
    /// Reason for mode `Safe`; it stays until a person resumes the controller.
    pub safe: Option<String>,
    /// Reason why the recovery of the last run is pending.
    pub recovering: Option<String>,
}

impl Snapshot {
    /// Snapshot before the first pass.
    pub fn blank(identity: ControllerIdentity, state: PlannerState, as_of: Timestamp) -> Self {
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
            state: Arc::new(state),
            progress: Arc::default(),
            overrides: Arc::default(),
            accepted_commands: 0,
        }
    }

    /// Reports whether the first list and the first scan are complete, so that missing objects do not exist.
    pub fn is_complete(&self) -> bool {
        self.specs.scanned && self.store.last_complete() > 0
    }

    /// All environments that are desired, planned, or observed with labels of Argus.
    pub fn environments(&self) -> BTreeSet<EnvName> {
        let seen = self.store.environments().iter();
        let seen = seen.filter(|(_, observed)| !observed.containers.is_empty());
        let desired = self.specs.environments.keys().chain(self.desired.keys());
        let known = desired.chain(self.plans.keys());
        known.chain(seen.map(|(env, _)| env)).cloned().collect()
    }

    /// Compares everything except the time.
    pub(crate) fn eq_ignoring_time(&self, other: &Self) -> bool {
        // Unchanged parts are shared with the last snapshot, so a pointer comparison is mostly enough.
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
            && self.accepted_commands == other.accepted_commands
    }

    /// Compares everything that the status of an environment shows, except the time. Returns false for a status that depends on the time.
    pub(crate) fn is_same_for(&self, env: &EnvName, other: &Self) -> bool {
        let Self {
            as_of: _,
            accepted_commands: _,
            mode,
            problems,
            identity,
            specs,
            desired,
            store,
            health,
            preflight,
            links,
            plans,
            state,
            progress,
            overrides,
        } = self;
        let is_same_health = || {
            let containers = store.of(env).into_iter().flat_map(|of| of.containers.keys());
            containers
                .into_iter()
                .all(|id| health.get(id) == other.health.get(id))
        };
        let is_same_progress = || {
            let mut services = desired
                .get(env)
                .into_iter()
                .flat_map(|of| of.desired.services.values());
            services.all(|service| {
                let image = Subject::of_image(&service.image);
                progress.get(&image) == other.progress.get(&image)
            })
        };
        let history = state.environments.get(env);
        let depends_on_time = overrides
            .requests
            .test_leases
            .iter()
            .any(|lease| lease.environment == *env)
            || history.is_some_and(|history| {
                let mut services = history.services.values();
                services.any(|service| !service.health_transitions.is_empty())
            });
        !depends_on_time
            && *mode == other.mode
            && *problems == other.problems
            && same(identity, &other.identity)
            && same(preflight, &other.preflight)
            && (Arc::ptr_eq(overrides, &other.overrides) || overrides.is_same_for(env, &other.overrides))
            && same_entry(desired.get(env), other.desired.get(env))
            && (Arc::ptr_eq(progress, &other.progress) || is_same_progress())
            && same_entry(plans.get(env), other.plans.get(env))
            && same_entry(store.of(env), other.store.of(env))
            && store.is_same_engine(&other.store)
            && (Arc::ptr_eq(specs, &other.specs) || specs.is_same_for(env, &other.specs))
            && links.helpers_allowed == other.links.helpers_allowed
            && links.checks.get(env) == other.links.checks.get(env)
            && history == other.state.environments.get(env)
            && state.breakers.is_same_for(env, &other.state.breakers)
            && state.refused == other.state.refused
            && state.disk_full == other.state.disk_full
            && is_same_health()
    }

    /// Reports whether a client waits for the status files of this snapshot, after those of `shown`: a command or a new spec file takes
    /// effect, a preflight check ends, or an environment is settled.
    pub(crate) fn is_awaited_after(&self, shown: &Self) -> bool {
        let settled = |snapshot: &Self| snapshot.plans.values().filter(|plan| plan.is_settled()).count();
        self.accepted_commands != shown.accepted_commands
            || self.preflight.at != shown.preflight.at
            || !Arc::ptr_eq(&self.specs, &shown.specs)
            || settled(self) != settled(shown)
    }

    /// Inputs that determine the mode.
    pub fn mode_inputs(&self) -> ModeInputs {
        let failures = &self.state.action_failures;
        let is_registry_failure = |failure: &ActionFailure| {
            matches!(
                failure.error,
                ActionError::PullFailed(_) | ActionError::RateLimited { .. }
            )
        };
        ModeInputs {
            journal_unwritable: self.problems.unwritable.is_some(),
            state_corrupt: self.problems.corrupt.is_some(),
            needs_resume: self.problems.safe.is_some(),
            recovering: self.problems.recovering.is_some(),
            engine_unreachable: !self.store.is_reachable(),
            breaker_open: !self.state.breakers.engine().is_closed(),
            specs_unavailable: self.specs.unavailable.is_some(),
            image_registry_unreachable: failures.values().any(is_registry_failure),
            given_up: self.given_up(),
        }
    }

    /// Reason why the mode is not `Full`, for people.
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
                .or_else(|| Some("an image registry is unreachable".to_owned())),
            Mode::Minimal if self.store.is_reachable() => Some(self.breaker_problem()),
            Mode::Minimal => Some(self.engine_problem()),
            Mode::Recovery => recovering.as_ref().map(|why| {
                if self.store.is_synced() {
                    why.clone()
                } else {
                    format!("{why}; {}", self.engine_problem())
                }
            }),
            Mode::Safe => {
                let now = unwritable.as_ref().or(corrupt.as_ref());
                let why = safe.as_ref().or(now)?;
                Some(if now.is_some() {
                    why.clone()
                } else {
                    format!("{why}; resolved now, run `argus resume`")
                })
            }
        }
    }

    /// Describes an engine that does not answer.
    pub fn engine_problem(&self) -> String {
        match self.store.unreachable_reason() {
            "" => "the engine has not answered yet".to_owned(),
            why => format!("the engine does not answer: {why}"),
        }
    }

    /// Describes the open breaker of an engine that answers.
    fn breaker_problem(&self) -> String {
        match self.state.breakers.engine().last_failure() {
            None => "the circuit breaker of the engine is open".to_owned(),
            Some(why) => format!("the circuit breaker of the engine is open, last failure: {why}"),
        }
    }

    /// Highest criticality among the given-up services.
    fn given_up(&self) -> Option<Criticality> {
        let is_given_up = |wait: &&Wait| {
            matches!(
                wait.on,
                WaitReason::GaveUp { .. }
                    | WaitReason::Halted { .. }
                    | WaitReason::NotRunnable { .. }
                    | WaitReason::ProbeNotRunnable
                    | WaitReason::NoHealthcheck
            )
        };
        let criticality = |env: &EnvName, wait: &Wait| {
            let service = wait.subject.service()?;
            Some(self.desired.get(env)?.desired.services.get(service)?.criticality)
        };
        let waits = self.plans.iter().flat_map(|(env, plan)| {
            let is_given_up = plan.waits.iter().filter(is_given_up);
            is_given_up.map(move |wait| criticality(env, wait).unwrap_or(Criticality::Recoverable))
        });
        waits.min()
    }
}

fn same_entry<T: PartialEq>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => same(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn same<T: PartialEq>(one: &Arc<T>, other: &Arc<T>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use argus_core::action::ActionKind;
    use argus_core::observed::WatchEvent;

    use super::*;

    fn blank() -> Snapshot {
        let identity = ControllerIdentity {
            controller: "C".into(),
            run: "R".into(),
            publish_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        Snapshot::blank(identity, PlannerState::default(), Timestamp(0))
    }

    #[test]
    fn unreadable_specs_and_a_lost_journal_have_a_mode_and_a_reason() {
        let mut snapshot = blank();
        let mut store = Store::default();
        store.apply(WatchEvent::Connected(Timestamp(1)));
        snapshot.store = Arc::new(store);
        let check = |snapshot: &mut Snapshot, mode, reason: Option<&str>| {
            snapshot.mode = snapshot.mode_inputs().mode();
            assert_eq!(snapshot.mode, mode);
            assert_eq!(snapshot.mode_reason().as_deref(), reason);
        };
        check(&mut snapshot, Mode::Full, None);
        let specs = Arc::make_mut(&mut snapshot.specs);
        specs.unavailable = Some("`specs` is gone".to_owned());
        check(&mut snapshot, Mode::Limited, Some("`specs` is gone"));
        snapshot.problems.safe = Some("the disk was full".to_owned());
        let resolved = "the disk was full; resolved now, run `argus resume`";
        check(&mut snapshot, Mode::Safe, Some(resolved));
        snapshot.problems.unwritable = Some("the disk is full".to_owned());
        check(&mut snapshot, Mode::Safe, Some("the disk was full"));
    }

    #[test]
    fn open_breaker_of_an_answering_engine_is_the_reason() {
        let mut snapshot = blank();
        snapshot.mode = Mode::Minimal;
        assert_eq!(snapshot.mode_reason().unwrap(), "the engine has not answered yet");
        let mut store = Store::default();
        store.apply(WatchEvent::Connected(Timestamp(1)));
        snapshot.store = Arc::new(store);
        let env = EnvName::new("shop").unwrap();
        let subject = Subject::Network {
            environment: env.clone(),
            name: None,
        };
        let failure = Err(ActionError::Engine("dial containerd.sock".to_owned()));
        let state = Arc::make_mut(&mut snapshot.state);
        for now in 0..5 {
            state.breakers.on_result(
                &env,
                &subject,
                ActionKind::StartContainer,
                &failure,
                Timestamp(now),
            );
        }
        assert_eq!(
            snapshot.mode_reason().unwrap(),
            "the circuit breaker of the engine is open, last failure: dial containerd.sock"
        );
    }
}
