//! Folds observations into the state: failures, external stops, completed one-shots, and ports from labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::desired::{Accepted, Desired, Service};
use crate::failed_run::{FailedRun, FailureCause};
use crate::ident::{ContainerId, EnvName};
use crate::labels;
use crate::observed::{Container, ContainerState, Observed, Outage};
use crate::probe::{self, HealthStates, ProbeStatus};
use crate::state::{
    EnvHistory, PlannerState, ServiceHistory, dependencies, disruption, failed_dependency, healthy_run,
    memory_use, port_labels, restart, run_count, run_end,
};
use crate::time::Timestamp;
use crate::user_requests::UserRequests;

/// Failures kept per service; the budget never needs more.
const FAILURES_LIMIT: usize = 16;
/// Health transitions kept per service; no rule counts more.
const HEALTH_TRANSITIONS_LIMIT: usize = 16;

/// Inputs of an observation besides the objects of the environment.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Probe results by container.
    pub health: &'a HealthStates,
    /// Recent outages of the engine.
    pub outages: &'a [Outage],
    /// Requests of people and agents.
    pub requests: &'a UserRequests,
    /// Identity of this controller.
    pub controller: &'a str,
    /// Current time.
    pub now: Timestamp,
}

/// Effects of an observation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Observation {
    /// It forgot the state of an image, which other environments may share.
    pub is_image_forgotten: bool,
    /// It changed the history. The next one can then find more, even if nothing else changes.
    pub is_changed: bool,
    /// It restored port assignments.
    pub has_new_ports: bool,
}

/// Adopts containers of other controllers whose services are desired. They are then removed like our own.
fn adopt(history: &mut EnvHistory, accepted: &Accepted, observed: &Observed, controller: &str) {
    history.adopted.retain(|id| observed.containers.contains_key(id));
    for container in observed.containers.values() {
        if accepted.takes_over(&container.labels, controller) && !history.adopted.contains(&container.id) {
            history.adopted.insert(container.id.clone());
        }
    }
}

impl PlannerState {
    /// Folds one observation of an environment into its history.
    pub fn observe(
        &mut self,
        env: &EnvName,
        accepted: Option<&Accepted>,
        observed: &Observed,
        context: &Context<'_>,
    ) -> Observation {
        let Some(accepted) = accepted else {
            return Observation::default();
        };
        let desired = &accepted.desired;
        let before = self.environments.get(env).cloned();
        let known_revision = before.as_ref().and_then(|before| before.revision.as_ref());
        let is_edited = known_revision.is_some_and(|known| *known != desired.revision);
        let is_image_forgotten = self.clear_outdated_failures(env, accepted, is_edited);
        let mut current = self.history(env).cloned().unwrap_or_default();
        let history = &mut current;
        if is_edited {
            for service in history.services.values_mut() {
                let service = Arc::make_mut(service);
                service.restarts = 0;
                service.ended_budgets.clear();
            }
        }
        if known_revision.is_none() {
            history.since = Some(context.now);
        }
        history.revision = Some(desired.revision.clone());
        history.delete_volumes = Some(desired.delete_volumes);
        dependencies::record(history, desired, observed);
        history.external_volumes.clone_from(&desired.external_volumes);
        history.external_networks.clone_from(&desired.external_networks);
        adopt(history, accepted, observed, context.controller);
        history
            .services
            .retain(|name, _| desired.services.contains_key(name));
        port_labels::restore_ports(history, desired, observed);
        let mut by_service: BTreeMap<&str, Vec<&Container>> = BTreeMap::new();
        for container in observed.containers.values() {
            if let Some(started_at @ None) = self.stopped_by_us.get_mut(&container.id) {
                *started_at = container.inspect.as_ref().and_then(|info| info.started_at);
            }
            if let Some(name) = container.labels.get(labels::SERVICE)
                && !self.not_owned.contains(&container.id)
            {
                by_service.entry(name).or_default().push(container);
            }
        }
        for service in desired.services.values() {
            let mut containers = by_service.remove(service.name.as_str()).unwrap_or_default();
            // Failures are sorted by their observation, then by their ends: times of two clocks are not comparable.
            containers.sort_by_key(|container| (container.state.is_up(), finished_at(container)));
            RunObserver {
                env,
                service,
                desired,
                observed,
                before: before.as_deref(),
                stopped_by_us: &self.stopped_by_us,
                context,
            }
            .observe_service(history, &containers);
        }
        let ports_before = before.as_ref().map(|before| &before.ports);
        let observation = Observation {
            is_image_forgotten,
            is_changed: before.as_deref() != Some(&current),
            has_new_ports: ports_before != Some(&current.ports),
        };
        // An unchanged history stays shared with the snapshots.
        if observation.is_changed {
            self.environments.insert(env.clone(), Arc::new(current));
        }
        observation
    }
}

/// Observer of one service's containers.
pub(super) struct RunObserver<'a> {
    pub(super) env: &'a EnvName,
    pub(super) service: &'a Service,
    pub(super) desired: &'a Desired,
    pub(super) observed: &'a Observed,
    /// History before this observation.
    pub(super) before: Option<&'a EnvHistory>,
    pub(super) stopped_by_us: &'a BTreeMap<ContainerId, Option<Timestamp>>,
    pub(super) context: &'a Context<'a>,
}

impl RunObserver<'_> {
    fn observe_service(&self, history: &mut EnvHistory, containers: &[&Container]) {
        let changes = {
            let known = history.services.entry(self.service.name.clone()).or_default();
            let mut current = ServiceHistory::clone(known);
            let service_history = &mut current;
            let mut changes = disruption::Changes {
                failures_before: service_history.failure_count,
                interruption: disruption::find_interruption(self, service_history, containers),
                ended: None,
            };
            self.record_external_stop(service_history, containers);
            self.forget_transitions_of_outages(service_history);
            for container in containers {
                changes.ended = run_count::record(service_history, container).or(changes.ended);
                service_history.record_requested_run(container);
                // The end of this run is requested.
                if service_history.is_restart_requested(container) {
                    continue;
                }
                Self::record_next_run(service_history, container);
                self.record_probe(service_history, container);
                memory_use::record(self, service_history, container);
                self.record_exit(service_history, container);
                run_end::record_stop(service_history, container, self);
                restart::record_retag(service_history, container, self);
            }
            run_count::reset_budget(
                service_history,
                self.service,
                &self.desired.restart,
                containers,
                self.context.now,
            );
            // An unchanged history stays shared with the snapshots.
            if **known != current {
                *known = Arc::new(current);
            }
            changes
        };
        disruption::record(self, history, changes);
    }

    pub(super) fn is_stopped_externally(&self, container: &Container) -> bool {
        container.state == ContainerState::Paused || container.is_stopped_externally(self.service.stop_grace)
    }

    fn record_external_stop(&self, service_history: &mut ServiceHistory, containers: &[&Container]) {
        if containers
            .iter()
            .any(|container| self.is_stopped_externally(container))
        {
            service_history
                .stopped_externally_since
                .get_or_insert(self.context.now);
        } else {
            service_history.stopped_externally_since = None;
        }
    }

    /// Forgets changes of the health around an outage, which the engine caused.
    fn forget_transitions_of_outages(&self, service_history: &mut ServiceHistory) {
        let known = service_history.health_transitions.len();
        service_history
            .health_transitions
            .retain(|at| !self.context.outages.iter().any(|outage| outage.is_near(*at)));
        if service_history.health_transitions.len() < known {
            // The next result is compared with none, so that the recovery is no change either.
            service_history.health = None;
        }
    }

    /// Marks the last failure as followed by a run.
    fn record_next_run(service_history: &mut ServiceHistory, container: &Container) {
        let Some(started) = container.inspect.as_ref().and_then(|info| info.started_at) else {
            return;
        };
        let Some(last) = service_history
            .failures
            .last_mut()
            .filter(|last| !last.followed_by_run)
        else {
            return;
        };
        if last.started_at.is_none_or(|before| before < started)
            && (last.container != container.id || last.started_at.is_some())
        {
            last.followed_by_run = true;
        }
    }

    /// Records a change of the probe result, and a failure of the probe after its `retries`.
    fn record_probe(&self, service_history: &mut ServiceHistory, container: &Container) {
        if container.state != ContainerState::Running || self.service.one_shot {
            return;
        }
        let (health, outages) = (self.context.health, self.context.outages);
        let own = self.service.probe.as_ref();
        healthy_run::forget_other_probe(service_history, own);
        let decided = probe::probe_status(own, container, health, outages);
        let Some(status) = decided.filter(|status| *status != ProbeStatus::Starting) else {
            return;
        };
        if service_history.health.is_some_and(|before| before != status) {
            service_history.health_transitions.push(self.context.now);
            let surplus = service_history
                .health_transitions
                .len()
                .saturating_sub(HEALTH_TRANSITIONS_LIMIT);
            service_history.health_transitions.drain(..surplus);
        }
        service_history.health = Some(status);
        let started_at = container.inspect.as_ref().and_then(|info| info.started_at);
        let current_failure = service_history.failures.last_mut().filter(|last| {
            last.cause == FailureCause::Unhealthy
                && !last.followed_by_run
                && last.container == container.id
                && last.started_at == started_at
        });
        match (status, current_failure) {
            // It recovered without a restart.
            (ProbeStatus::Healthy, Some(current_failure)) if current_failure.memory_used.is_none() => {
                (current_failure.followed_by_run, current_failure.recovered_at) =
                    (true, Some(self.context.now));
            }
            // Its answer can be later than its failure.
            (ProbeStatus::Unhealthy, Some(current_failure)) => {
                let seen = health.get(&container.id).and_then(|seen| seen.late_answer);
                current_failure.late_answer = current_failure.late_answer.or(seen);
            }
            (ProbeStatus::Unhealthy, None) => {
                self.push_failure(
                    service_history,
                    container,
                    self.context.now,
                    FailureCause::Unhealthy,
                );
                if let Some(failed_run) = service_history
                    .failures
                    .iter_mut()
                    .find(|failed_run| failed_run.number == service_history.failure_count)
                {
                    failed_run.probe_output = probe::recent_output(container, health);
                    let seen = health.get(&container.id);
                    failed_run.failing_since = seen.and_then(|seen| seen.failing_since);
                    failed_run.host_pressure = seen.and_then(|seen| seen.host_pressure);
                    failed_run.late_answer = seen.and_then(|seen| seen.late_answer);
                }
            }
            (ProbeStatus::Starting | ProbeStatus::Healthy, _) => {}
        }
        healthy_run::record(service_history, (container, own), status, self.context.now);
    }

    /// Records an unexpected end of a run as a failure, and the exit code 0 of a service that can complete as its completion.
    fn record_exit(&self, service_history: &mut ServiceHistory, container: &Container) {
        let newest_run = service_history.newest_run.as_ref();
        if container.state != ContainerState::Exited
            || self.is_stopped_externally(container)
            || newest_run.is_some_and(|run| run.is_ended_by_other(container, self.service.stop_grace))
            || self.is_caused_by_us(container)
        {
            return;
        }
        let Some(info) = &container.inspect else { return };
        let at = info.finished_at.unwrap_or(self.context.now);
        if run_end::record_completion(self, service_history, container, at) {
            return;
        }
        let recorded = service_history.failures.iter_mut().find(|failed_run| {
            let same_run = failed_run.container == container.id && failed_run.started_at == info.started_at;
            (failed_run.container == container.id && failed_run.at == at)
                || (same_run && (failed_run.cause == FailureCause::Exited || !failed_run.followed_by_run))
        });
        if let Some(recorded) = recorded {
            if recorded.cause == FailureCause::Unhealthy {
                // It ended before its restart: the end says more than the failed probe.
                recorded.cause = FailureCause::Exited;
                (recorded.at, recorded.observed_at) = (at, Some(self.context.now));
                recorded.exit_code = info.exit_code;
                recorded.error.clone_from(&info.error);
                recorded.memory_used = None;
                recorded.evidence = None;
            }
            // The engine may set the flag, and send the event, after it reported the end.
            recorded.oom_killed |= info.oom_killed;
            recorded.oom_event |= container.oom_at.is_some();
            return;
        }
        if !is_ignored(service_history, container) {
            self.push_failure(service_history, container, at, FailureCause::Exited);
        }
    }

    /// True if Argus stopped this very run.
    pub(super) fn is_caused_by_us(&self, container: &Container) -> bool {
        let started_at = container.inspect.as_ref().and_then(|info| info.started_at);
        self.stopped_by_us
            .get(&container.id)
            .is_some_and(|run| run.is_none() || *run == started_at)
    }

    pub(super) fn push_failure(
        &self,
        service_history: &mut ServiceHistory,
        container: &Container,
        at: Timestamp,
        cause: FailureCause,
    ) {
        if container.inspect.is_none() {
            return;
        }
        service_history.failure_count += 1;
        let (failed_dependency, dependency_state) = failed_dependency::find(self, container, at).unzip();
        restart::clear_replaced_image(service_history);
        service_history.failures.push(FailedRun {
            observed_at: Some(self.context.now),
            cause,
            number: service_history.failure_count,
            started_by: service_history.last_start.clone(),
            failed_dependency,
            dependency_state,
            healthy_duration: healthy_run::healthy_duration_before(
                service_history,
                self.service,
                container,
                cause,
                self.context.now,
            ),
            ..FailedRun::observed(container, at)
        });
        let outages = self.context.outages;
        if restart::begins_budget(&self.desired.restart, &service_history.failures, outages) {
            service_history.end_budget(1, false, outages);
        }
        failed_dependency::drop_surplus(&mut service_history.failures, FAILURES_LIMIT);
    }
}

fn is_ignored(service_history: &ServiceHistory, container: &Container) -> bool {
    let started_at = container.inspect.as_ref().and_then(|info| info.started_at);
    service_history
        .ignored_run
        .as_ref()
        .is_some_and(|(id, run)| *id == container.id && *run == started_at)
}

fn finished_at(container: &Container) -> Option<Timestamp> {
    container.inspect.as_ref().and_then(|info| info.finished_at)
}
