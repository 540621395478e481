//! Status row of each service: state, health, wait reason and last error.

use std::collections::BTreeSet;

use argus_crds::error::{Class, Code, Severity, StructuredError};
use argus_crds::status::{
    Health, ImageAction, ImageProgress as ImageProgressStatus, RestartBudget, ServiceRole, ServiceState,
    ServiceStatus, WaitingOn,
};

use crate::action::{ActionKind, ActionProgress, Step, Subject};
use crate::desired::{Role, Service};
use crate::ident::ServiceName;
use crate::labels;
use crate::observed::{Container, ContainerState, EngineHealthStatus};
use crate::plan::Plan;
use crate::probe::{self, ProbeStatus};
use crate::state::{ServiceHistory, restart};
use crate::wait::WaitReason;

use super::error::{ErrorScope, error_of_last_run, error_of_wait, probe_result, same_occurrence};
use super::wait::{action_message, describe_wait};
use super::{StatusInput, port, state, warning};
use crate::outcome::one_line;

/// Inputs of the row of one service.
pub(super) struct RowInputs<'a> {
    pub(super) desired: Option<&'a Service>,
    pub(super) container: Option<&'a Container>,
    /// True if the container carries the desired hash.
    pub(super) current: bool,
    pub(super) step: Option<&'a Step>,
    pub(super) wait: Option<&'a WaitReason>,
    pub(super) image: ImageProgress<'a>,
    pub(super) history: Option<&'a ServiceHistory>,
    pub(super) health: Health,
    /// True if the one-shot exited with 0 at the desired hash.
    pub(super) completed: bool,
}

/// Action on an image in progress, or the wait of the image.
#[derive(Clone, Copy)]
pub(super) struct ImageProgress<'a> {
    pub(super) action: Option<ActionKind>,
    pub(super) wait: Option<&'a WaitReason>,
    progress: Option<&'a ActionProgress>,
}

/// Rows of all desired services, and of services whose containers still exist.
pub(super) fn all(input: &StatusInput<'_>) -> Vec<ServiceStatus> {
    let desired = input
        .accepted
        .iter()
        .flat_map(|accepted| accepted.desired.services.keys().cloned());
    let seen = input
        .observed
        .containers
        .values()
        .filter(|container| has_row(input, container))
        .filter_map(|container| container.owner()?.service);
    let names: BTreeSet<ServiceName> = desired.chain(seen).collect();
    names.iter().map(|name| row(input, name)).collect()
}

/// True if the container belongs to a row. Orphans and containers of other controllers have none.
fn has_row(input: &StatusInput<'_>, container: &Container) -> bool {
    let Some(plan) = input.plan.filter(|_| input.engine.synced) else {
        return true;
    };
    let subject = Subject::ExtraContainer {
        id: container.id.clone(),
    };
    let about = plan.steps.iter().map(|step| &step.subject);
    let mut about = about.chain(plan.waits.iter().map(|wait| &wait.subject));
    let is_left = input.accepted.is_none() && container.is_made_by(input.controller);
    let is_being_removed = is_left || about.any(|found| *found == subject);
    is_being_removed && !plan.is_about_an_orphan(&subject)
}

fn row(input: &StatusInput<'_>, name: &ServiceName) -> ServiceStatus {
    let facts = row_inputs(input, name);
    let state = state::service_state(input, &facts);
    let role = match facts.desired.map(|service| service.role) {
        Some(Role::Mock) => ServiceRole::Mock,
        Some(Role::Service) => ServiceRole::Service,
        None => role_of(facts.container),
    };
    let image = facts.desired.map(|service| service.image.reference().to_owned());
    let last_error = last_error(input, name, &facts, state).map(|error| {
        let severity = severity(input, error.code, facts.desired);
        error.severity(severity)
    });
    let mut waiting_on = waiting_on(input, &facts, state);
    // A wait only knows that a run failed; the error knows the reason.
    if let Some(on) = &mut waiting_on
        && on.error.is_some()
    {
        on.error = last_error.as_ref().map(|error| error.code).or(on.error);
    }
    let container = facts.container;
    let not_unhealthy = container.filter(|_| facts.health != Health::Unhealthy);
    ServiceStatus {
        name: name.to_string(),
        role,
        state,
        health: facts.health,
        restarts: facts.history.map_or(0, |history| history.restarts),
        restart_budget: restart_budget(input, &facts),
        host_pressure: not_unhealthy.and_then(|container| input.health.get(&container.id)?.host_pressure),
        memory_warning: warning::memory(input, container),
        waiting_on,
        container_id: container.map(|container| container.id.to_string()),
        container_name: container.map(|container| container.name.clone()),
        image_id: container.and_then(|container| container.inspect.as_ref()?.image_id.clone()),
        image: image.or_else(|| container.map(|container| container.image.clone())),
        labels: facts
            .desired
            .map(|service| service.labels.clone())
            .unwrap_or_default(),
        ports: facts
            .desired
            .map(|service| port::of(input, service))
            .unwrap_or_default(),
        last_error,
    }
}

fn restart_budget(input: &StatusInput<'_>, facts: &RowInputs<'_>) -> Option<RestartBudget> {
    let policy = &input.accepted?.desired.restart;
    let failures = facts.history.map_or(&[][..], |history| &history.failures);
    let used = restart::used_restarts(policy, failures, input.outages)?;
    Some(RestartBudget {
        used,
        left: policy.max_restarts.saturating_sub(used),
    })
}

/// Severity for the environment: a warning for a given-up service that `Ready` does not require.
fn severity(input: &StatusInput<'_>, code: Code, desired: Option<&Service>) -> Severity {
    let is_lost = |service: &&Service| input.plan.is_some_and(|plan| plan.gives_up(service));
    match desired.filter(is_lost) {
        Some(service) if !service.criticality.is_required(true) => Severity::Warning,
        Some(_) | None => code.explanation().severity,
    }
}

fn row_inputs<'a>(input: &StatusInput<'a>, name: &ServiceName) -> RowInputs<'a> {
    let desired = input
        .accepted
        .and_then(|accepted| accepted.desired.services.get(name));
    let hash = input.plan.and_then(|plan| plan.hashes.get(name));
    let carries = |container: &Container| hash.is_some_and(|hash| container.carries(hash));
    let rank = |container: &&Container| {
        (
            carries(container),
            container.state == ContainerState::Running,
            container.created_at,
        )
    };
    let container = input
        .observed
        .containers
        .of(name)
        .map(AsRef::as_ref)
        .max_by_key(rank);
    // Extra containers have one subject each.
    let subject = match container.filter(|_| desired.is_none()) {
        Some(extra) => Subject::ExtraContainer { id: extra.id.clone() },
        None => Subject::of_service(input.env, name),
    };
    let history = input.history.service(name);
    let plan = input.plan.filter(|plan| !plan.reading_evidence.contains(name));
    RowInputs {
        desired,
        container,
        current: container.is_some_and(carries),
        step: plan.and_then(|plan| plan.steps.iter().find(|step| step.subject == subject)),
        wait: plan.and_then(|plan| wait_of(plan, &subject)),
        image: desired.map_or(
            ImageProgress {
                action: None,
                wait: None,
                progress: None,
            },
            |service| image_progress(input, service),
        ),
        history,
        health: health(input, desired, container),
        completed: hash.is_some() && history.is_some_and(|history| history.completed.as_ref() == hash),
    }
}

fn wait_of<'a>(plan: &'a Plan, subject: &Subject) -> Option<&'a WaitReason> {
    plan.waits
        .iter()
        .find(|wait| wait.subject == *subject)
        .map(|wait| &wait.on)
}

fn image_progress<'a>(input: &StatusInput<'a>, service: &Service) -> ImageProgress<'a> {
    let key = service.image.key();
    let matches = |subject: &Subject| matches!(subject, Subject::Image { key: of } if *of == key);
    let Some(plan) = input.plan else {
        return ImageProgress {
            action: None,
            wait: None,
            progress: None,
        };
    };
    let step = plan.steps.iter().find(|step| matches(&step.subject));
    let wait = plan
        .waits
        .iter()
        .find(|wait| matches(&wait.subject))
        .map(|wait| &wait.on);
    let waited = match wait {
        Some(WaitReason::InFlight { verb } | WaitReason::EffectPending { verb, .. }) => Some(*verb),
        Some(_) | None => None,
    };
    ImageProgress {
        action: step.map(|step| step.action.kind()).or(waited),
        wait,
        progress: input
            .progress
            .iter()
            .find(|(subject, _)| matches(subject))
            .map(|(_, progress)| progress),
    }
}

fn health(input: &StatusInput<'_>, desired: Option<&Service>, container: Option<&Container>) -> Health {
    let by_engine = probe::is_by_engine(desired.and_then(|service| service.probe.as_ref()), container);
    let unknown = if by_engine { Health::None } else { Health::Unknown };
    let Some(container) = container else {
        return unknown;
    };
    let facts = container.inspect.as_ref();
    let started = facts.and_then(|facts| facts.started_at);
    if let Some(result) = input
        .health
        .get(&container.id)
        .filter(|result| result.started_at == started)
    {
        return match result.status {
            ProbeStatus::Starting => Health::Starting,
            ProbeStatus::Healthy => Health::Healthy,
            ProbeStatus::Unhealthy => Health::Unhealthy,
        };
    }
    match facts
        .and_then(|facts| facts.health.as_ref())
        .filter(|_| by_engine)
    {
        Some(result) if result.checked_at < started => Health::Starting,
        Some(result) => match result.status {
            EngineHealthStatus::Starting => Health::Starting,
            EngineHealthStatus::Healthy => Health::Healthy,
            EngineHealthStatus::Unhealthy => Health::Unhealthy,
        },
        None => unknown,
    }
}

fn role_of(container: Option<&Container>) -> ServiceRole {
    let role = container.and_then(|container| container.labels.get(labels::ROLE));
    if role.is_some_and(|role| role == "mock") {
        ServiceRole::Mock
    } else {
        ServiceRole::Service
    }
}

/// Wait reason of a service; never `None` unless the service reached its goal.
fn waiting_on(input: &StatusInput<'_>, facts: &RowInputs<'_>, state: ServiceState) -> Option<WaitingOn> {
    if let Some(on) = facts.wait {
        return Some(match on {
            WaitReason::Image { reference } => image_wait(&facts.image, reference, on),
            WaitReason::Probe => {
                let probe = facts.desired.and_then(|service| service.probe.as_ref());
                probe_result::with_last(describe_wait(on), probe, facts.container, input.health)
            }
            on => describe_wait(on),
        });
    }
    if let Some(step) = facts.step {
        let message = format!("{} ({})", action_message(step.action.kind()), step.cause);
        return Some(WaitingOn {
            reason: "ActionInFlight".to_owned(),
            message,
            ..WaitingOn::default()
        });
    }
    if matches!(state, ServiceState::Ready | ServiceState::Completed) && input.engine.reachable {
        return None;
    }
    let on = if !input.specs_scanned {
        WaitReason::Specs
    } else if input.engine.synced {
        return Some(WaitingOn {
            reason: "NextCheck".to_owned(),
            message: "the next check of the engine and of its health".to_owned(),
            ..WaitingOn::default()
        });
    } else {
        WaitReason::Engine {
            why: input.engine.reason.to_owned(),
        }
    };
    Some(describe_wait(&on))
}

fn image_wait(image: &ImageProgress<'_>, reference: &str, on: &WaitReason) -> WaitingOn {
    let (action, verb) = match image.action {
        Some(ActionKind::PullImage) => (ImageAction::Pull, "pulled"),
        Some(ActionKind::BuildImage) => (ImageAction::Build, "built"),
        Some(_) | None => return image.wait.map_or_else(|| describe_wait(on), describe_wait),
    };
    let progress = image.progress.cloned().unwrap_or_default();
    let line = one_line(&progress.line);
    let details = if line.is_empty() {
        String::new()
    } else {
        format!(": {line}")
    };
    WaitingOn {
        reason: "ImageNotPresent".to_owned(),
        message: format!("image `{reference}` is being {verb}{details}"),
        image: Some(ImageProgressStatus {
            reference: reference.to_owned(),
            action,
            layers: progress.layers,
            bytes: progress.bytes,
            steps: progress.steps,
            line,
        }),
        ..WaitingOn::default()
    }
}

/// Last error: of the current wait, else of the last failed run. Without both, the error of the previous status stays while the failed
/// action is tried again.
fn last_error(
    input: &StatusInput<'_>,
    name: &ServiceName,
    facts: &RowInputs<'_>,
    state: ServiceState,
) -> Option<StructuredError> {
    let container = facts.container.map(|container| container.id.as_str());
    let location = ErrorScope::environment(input).of_service(name.as_str(), container);
    let on = match facts.wait {
        Some(WaitReason::Image { .. }) => facts.image.wait,
        other => other,
    };
    let now = on.and_then(|on| error_of_wait(input, &location, on));
    // The engine ended the last run, so the service has no error of its own.
    let by_engine = facts
        .history
        .and_then(|history| history.failures.last())
        .is_some_and(|last| restart::is_caused_by_engine(last, input.outages));
    if by_engine && now.is_none() {
        return None;
    }
    let last_failure = || {
        facts
            .history
            .and_then(|history| error_of_last_run(input, &location, history))
            // The container runs again, or is about to.
            .map(|error| error.class(Class::Transient))
    };
    if let Some(error) = now.or_else(last_failure) {
        return Some(same_occurrence(input, error));
    }
    if matches!(state, ServiceState::Ready | ServiceState::Completed) {
        return None;
    }
    let previous = input.previous?;
    let revision = input.accepted.map(|accepted| accepted.desired.revision.as_str());
    let row = previous.services.iter().find(|row| row.name == name.as_str())?;
    let error = row.last_error.clone()?;
    let is_current = previous.revision.as_deref() == revision;
    (is_current && is_repeated(input, facts, &error)).then_some(error)
}

/// True if the action that caused the error is in progress again, or if nothing is known about it.
fn is_repeated(input: &StatusInput<'_>, facts: &RowInputs<'_>, error: &StructuredError) -> bool {
    if !input.engine.synced || matches!(facts.wait, Some(WaitReason::RelistPending { .. })) {
        return true;
    }
    let own = facts.step.map(|step| step.action.kind()).or(match facts.wait {
        Some(WaitReason::InFlight { verb } | WaitReason::EffectPending { verb, .. }) => Some(*verb),
        Some(_) | None => None,
    });
    let verbs = [own, facts.image.action];
    let stage = error.stage.as_deref();
    stage.is_some() && verbs.iter().flatten().any(|verb| Some(verb.as_str()) == stage)
}
