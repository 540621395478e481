//! One reconcile pass, in named phases.

use std::sync::Arc;

use argus_backend::Backend;
use argus_core::action::Subject;
use argus_core::connectivity::CheckResults;
use argus_core::lease::ControllerLeases;
use argus_core::observed::Store;
use argus_core::preflight::PreflightSnapshot;
use argus_core::probe::HealthStates;
use argus_core::reconcile::{Inputs, ReconcileResult};
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;
use argus_core::user_requests::UserRequests;

use super::Reconciler;
use super::recovery::RecoveryInputs;
use crate::breaker_guard::BreakerOpenings;
use crate::overrides::{DesiredState, OverrideInputs};
use crate::snapshot::Snapshot;
use crate::specs::SpecRegistry;

/// Values of the input channels in one pass.
#[derive(Default)]
pub(super) struct PassInputs {
    specs: Arc<SpecRegistry>,
    store: Arc<Store>,
    health: Arc<HealthStates>,
    leases: ControllerLeases,
    preflight: Arc<PreflightSnapshot>,
    links: Arc<CheckResults>,
    now: Timestamp,
}

impl PassInputs {
    fn for_overrides<'a>(&'a self, state: &'a PlannerState) -> OverrideInputs<'a> {
        OverrideInputs {
            specs: &self.specs,
            store: &self.store,
            state,
            now: self.now,
        }
    }
}

impl<B: Backend> Reconciler<B> {
    /// Runs one pass. Its phases, in this order:
    ///
    /// 1. **Read** the newest value of each input.
    /// 2. **Override**: drop ended overrides, roll back late revisions, and expire environments.
    /// 3. **Merge** the specs with the overrides, and publish the desired state with its secrets. No later phase
    ///    may log a secret.
    /// 4. **Recover** the last run, once specs and engine are known. Until then its restrictions apply.
    /// 5. **Plan**: the pure pass of the planner.
    /// 6. **Record** the revisions that became known good, and the edits that ended failures.
    /// 7. **Dispatch**: publish the breakers first, so that each action is checked against the state it was planned under.
    /// 8. **Publish** the snapshot, which the writers of the status files and of the persisted state read.
    ///
    /// Returns the time of the next pass without an event.
    pub(super) fn reconcile_once(&mut self, why: &'static str) -> Option<Timestamp> {
        let inputs = &mut self.inputs;
        let inputs = PassInputs {
            specs: inputs.specs.borrow_and_update().clone(),
            store: inputs.stores.borrow_and_update().clone(),
            health: inputs.healths.borrow_and_update().clone(),
            leases: inputs.leases.borrow_and_update().clone(),
            preflight: inputs.preflights.borrow_and_update().clone(),
            links: inputs.links.borrow_and_update().clone(),
            now: self.clock.now(),
        };
        let due = self.update_overrides(&inputs);
        let desired = self.publish_desired(&inputs);
        let requests = self.requests_with_restrictions(&inputs, &desired);
        let mut result = self.plan(why, &inputs, &desired, &requests);
        let next_good_checks = {
            let inputs = inputs.for_overrides(self.planner.state());
            [
                self.overrides.record_repairs(&mut self.failing, &desired, inputs),
                self.overrides.record_known_good(&desired, inputs),
            ]
        };
        let ended = self
            .overrides
            .end_lost_leases(&desired, &result.plans, inputs.now);
        self.recorder.record_events(ended);
        self.dispatch(&mut result);
        // Equal plans keep their map, so that readers detect them by their pointer.
        if !Arc::ptr_eq(&self.plans, &result.plans) && self.plans != result.plans {
            self.plans = result.plans;
        }
        let wakes = [result.wake_at, self.overrides.requests.next_end(inputs.now)];
        self.planned_inputs = inputs;
        self.publish();
        wakes
            .into_iter()
            .chain(next_good_checks)
            .chain(due)
            .flatten()
            .min()
    }

    /// Updates the overrides. Returns the times at which they change without an event.
    fn update_overrides(&mut self, inputs: &PassInputs) -> [Option<Timestamp>; 2] {
        self.overrides.drop_ended(&inputs.specs, inputs.now);
        let inputs = inputs.for_overrides(self.planner.state());
        [
            self.overrides.roll_back_automatically(inputs),
            self.overrides.expire_ttls(inputs),
        ]
    }

    fn publish_desired(&mut self, inputs: &PassInputs) -> Arc<DesiredState> {
        let effective = self.overrides.effective(&inputs.specs);
        let desired = effective.as_ref().unwrap_or(&inputs.specs.environments);
        let moved = self.planner.move_networks(desired, &inputs.store);
        let desired = moved.as_ref().unwrap_or(desired);
        self.outputs.desired.send_if_modified(|published| {
            let differs = **published != *desired;
            if differs {
                self.executor.update_secrets(desired);
                *published = Arc::new(desired.clone());
            }
            differs
        });
        self.outputs.desired.borrow().clone()
    }

    /// Recovers the last run if it is time. Returns the requests of people with the restrictions in effect.
    fn requests_with_restrictions(&mut self, inputs: &PassInputs, desired: &DesiredState) -> UserRequests {
        let recovery_inputs = RecoveryInputs {
            specs: &inputs.specs,
            store: &inputs.store,
            desired,
            state: self.planner.state(),
            identity: self.planner.identity(),
            now: inputs.now,
        };
        self.recorder.recover(&recovery_inputs);
        UserRequests {
            restrictions: self.recorder.restrictions(&recovery_inputs),
            expired: self.overrides.ttl_expired.clone(),
            ..self.overrides.requests.clone()
        }
    }

    fn plan(
        &mut self,
        why: &'static str,
        inputs: &PassInputs,
        desired: &DesiredState,
        requests: &UserRequests,
    ) -> ReconcileResult {
        self.planner.on_connectivity_changed(&inputs.links);
        let span = tracing::debug_span!("reconcile", why, now = inputs.now.0);
        span.in_scope(|| {
            self.planner.reconcile(&Inputs {
                specs: desired,
                scanned: inputs.specs.scanned,
                store: &inputs.store,
                health: &inputs.health,
                leases: &inputs.leases,
                requests,
                preflight: Some(&inputs.preflight),
                now: inputs.now,
            })
        })
    }

    /// Submits the planned actions, and requests the list and the preflight check that the plan needs.
    fn dispatch(&mut self, result: &mut ReconcileResult) {
        self.publish_breakers();
        // A build removes older ones at its end, so the list must be complete until then.
        let mut subjects = self.planner.state().in_flight.keys();
        if subjects.any(|subject| matches!(subject, Subject::Image { .. })) {
            let used = self.overrides.used_images(&self.outputs.desired.borrow());
            self.backend.keep_images(used);
        }
        for step in std::mem::take(&mut result.steps) {
            let planned_for = self.planner.state().in_flight.get(&step.subject);
            if let Some(in_flight) = planned_for {
                self.executor
                    .submit(&in_flight.environment, in_flight.id.clone(), step);
            }
        }
        if result.relist {
            self.backend.request_relist();
        }
        if result.needs_preflight {
            // The permit stays until the preflight task takes it. A second notification adds no permit.
            self.outputs.needs_preflight.notify_one();
        }
    }

    /// Publishes the state of the breakers before the next action is submitted or a read is allowed.
    pub(super) fn publish_breakers(&mut self) {
        let state = self.planner.state();
        if std::mem::replace(&mut self.breakers_version, state.breakers.version()) != state.breakers.version()
        {
            let openings = BreakerOpenings::of(&state.breakers, state.environments.keys());
            self.outputs.openings.send_replace(openings);
        }
    }

    /// Publishes the plans with the inputs that they were made from. A newer input follows with the next pass.
    pub(super) fn publish(&mut self) {
        let last = self.outputs.snapshots.borrow().clone();
        let progress = self.progress.read();
        let planned = &self.planned_inputs;
        let mut snapshot = Snapshot {
            as_of: self.clock.now(),
            mode: last.mode,
            problems: self.recorder.problems(),
            identity: last.identity.clone(),
            specs: planned.specs.clone(),
            store: planned.store.clone(),
            health: planned.health.clone(),
            preflight: planned.preflight.clone(),
            links: planned.links.clone(),
            plans: self.plans.clone(),
            state: shared(&last.state, self.planner.state()),
            progress: shared(&last.progress, &progress),
            desired: self.outputs.desired.borrow().clone(),
            overrides: shared(&last.overrides, &self.overrides),
            accepted_commands: self.accepted_commands,
        };
        snapshot.mode = snapshot.mode_inputs().mode();
        self.recorder.record_mode(&snapshot);
        self.recorder.record_orphans(&snapshot);
        if !snapshot.eq_ignoring_time(&last) {
            self.outputs.snapshots.send_replace(Arc::new(snapshot));
        }
    }
}

/// Returns the last value if it is equal, so that readers detect unchanged parts by their pointer.
fn shared<T: Clone + PartialEq>(last: &Arc<T>, now: &T) -> Arc<T> {
    if **last == *now {
        last.clone()
    } else {
        Arc::new(now.clone())
    }
}
