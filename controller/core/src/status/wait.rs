//! Wait reasons as identifiers for programs and as messages for people.
//!
//! A message completes the text "waits for": it is a noun phrase.

use argus_crds::status::WaitingOn;

use crate::action::{ActionFailure, ActionKind};
use crate::desired::Condition;
use crate::lease::LeaseHolder;
use crate::outcome::one_line;
use crate::wait::{WaitReason, WritableSource};

use super::error::code_of_wait;

/// Status form of a wait reason.
pub fn describe_wait(on: &WaitReason) -> WaitingOn {
    WaitingOn {
        reason: reason(on).to_owned(),
        message: message(on),
        service: if let WaitReason::Dependency { service, .. } = on {
            Some(service.to_string())
        } else {
            None
        },
        // A check for a change is no announced retry.
        until: on
            .until()
            .filter(|_| !needs_change(on))
            .map(|until| until.to_string()),
        error: code_of_wait(on),
        image: None,
    }
}

/// Names restart budgets in a row, such as `3 restart budgets in a row`.
pub(super) fn in_budgets(budgets: u32) -> String {
    match budgets {
        1 => "the whole restart budget".to_owned(),
        _ => format!("{budgets} restart budgets in a row"),
    }
}

/// True for a failed call that only a change can repair.
fn needs_change(on: &WaitReason) -> bool {
    match on {
        WaitReason::Retry { failure, .. } => failure.needs_change(),
        WaitReason::Obstacle {
            retry: Some(retry), ..
        } => needs_change(retry),
        _ => false,
    }
}

fn reason(on: &WaitReason) -> &'static str {
    match on {
        WaitReason::Engine { .. } => "EngineNotReady",
        WaitReason::Breaker { .. } => "CircuitOpen",
        WaitReason::RampUp { .. } => "RampUp",
        WaitReason::Specs => "SpecsNotScanned",
        WaitReason::Safe { .. } => "ModeSafe",
        WaitReason::ControllerLease => "LeaseNotHeld",
        WaitReason::LeaseHeldByOther { .. } => "LeaseHeldByOther",
        WaitReason::Preflight { code: None, .. } => "PreflightPending",
        WaitReason::InFlight { .. } | WaitReason::Inspection => "ActionInFlight",
        WaitReason::EffectPending { .. } => "EffectPending",
        WaitReason::RelistPending { .. } => "RelistPending",
        WaitReason::Dependency { .. } => "DependencyNotReady",
        WaitReason::Image { .. } => "ImageNotPresent",
        WaitReason::Network => "NetworkNotPresent",
        WaitReason::Volume { .. } => "VolumeNotPresent",
        WaitReason::Probe => "ProbePending",
        WaitReason::MinimumRunTime { .. } => "MinimumRunTime",
        WaitReason::Unhealthy { .. } => "Unhealthy",
        WaitReason::Completion => "NotCompleted",
        WaitReason::RestartDelay { .. } => "RestartBackoff",
        WaitReason::Retry { failure, .. } if failure.needs_change() => "Failed",
        WaitReason::Retry { .. } => "RetryBackoff",
        WaitReason::Failed { .. } => "Failed",
        WaitReason::GaveUp { .. } => "GaveUp",
        WaitReason::Halted { .. } => "LoopHalted",
        WaitReason::NotRunnable { .. } => "NotRunnable",
        WaitReason::ProbeNotRunnable => "ProbeNotRunnable",
        WaitReason::NoHealthcheck => "NoHealthcheck",
        WaitReason::RestartRateLimited { .. } => "RateLimited",
        WaitReason::TestLease { .. } => "TestLease",
        WaitReason::Held { .. } => "Held",
        WaitReason::Shed { .. } => "Shed",
        WaitReason::RestartsDisabled => "NotRestarted",
        WaitReason::PortTaken { .. } => "PortTaken",
        WaitReason::PortsExhausted { .. } => "PortsExhausted",
        WaitReason::NameTaken { .. } => "NameTaken",
        WaitReason::StoppedExternally { .. } => "StoppedExternally",
        WaitReason::StabilityWindow { .. } => "StabilityWindow",
        WaitReason::SpecPending => "SpecPending",
        WaitReason::Preflight { .. } => "PreflightFailed",
        WaitReason::Obstacle { .. } => "ObstacleNotGone",
        WaitReason::WritableSource(_) => "SourceWritable",
        WaitReason::Containers => "ContainersNotGone",
        WaitReason::InUse { .. } => "InUse",
        WaitReason::Dependent { .. } => "DependentNotStopped",
        WaitReason::Removal => "RemovalInProgress",
    }
}

fn message(on: &WaitReason) -> String {
    match on {
        WaitReason::Engine { why } if why.is_empty() => "the first list of the engine".to_owned(),
        WaitReason::Engine { why } => format!("the engine, which does not answer: {why}"),
        WaitReason::Breaker { engine, until, why } => breaker(*engine, until.is_some(), why),
        WaitReason::RampUp { environment, .. } => {
            format!("`{environment}`, which runs first after the engine recovered")
        }
        WaitReason::Specs => "the first scan of the specs folder".to_owned(),
        WaitReason::Safe { why } => format!(
            "`argus resume`, because the controller is in mode `Safe`: {}",
            one_line(why)
        ),
        WaitReason::ControllerLease => "this controller's lease on the engine".to_owned(),
        WaitReason::LeaseHeldByOther { controller: by, .. } => format!("{}, which owns it", controller(by)),
        WaitReason::InFlight { verb } => action_message(*verb).to_owned(),
        WaitReason::Inspection => "the inspection of its container".to_owned(),
        WaitReason::EffectPending { verb, .. } => format!("the observation of the effect of `{verb}`"),
        WaitReason::RelistPending { .. } => {
            "the next full list, because the outcome of a call is unknown".to_owned()
        }
        WaitReason::Dependency {
            service,
            failing: true,
            ..
        } => format!("the health check of `{service}` to succeed again"),
        WaitReason::Dependency {
            service, condition, ..
        } => {
            format!("`{service}` to {}", condition_verb(*condition))
        }
        WaitReason::Image { reference } => format!("image `{reference}`"),
        WaitReason::Network => "the network of the environment".to_owned(),
        WaitReason::Volume { name } => format!("volume `{name}`"),
        WaitReason::Probe => "its health check to succeed".to_owned(),
        WaitReason::MinimumRunTime { .. } => {
            "its minimum run time, because it has no health check".to_owned()
        }
        WaitReason::Unhealthy { until } => match until {
            None => "its health check, which fails".to_owned(),
            Some(_) => "its restart delay, because its health check fails".to_owned(),
        },
        WaitReason::Completion => "its process to complete".to_owned(),
        WaitReason::RestartDelay { attempt, .. } => format!("its restart delay before restart {attempt}"),
        WaitReason::Retry { failure, .. } if failure.needs_change() => {
            format!("a change, because {}", failed_action(failure))
        }
        WaitReason::Retry { failure, .. } => {
            let error = one_line(&failure.error.to_string());
            format!("the retry of `{}`, which failed: {error}", failure.verb)
        }
        WaitReason::Failed { failure } => new_revision(&failed_action(failure)),
        WaitReason::GaveUp { restarts } => new_revision(&format!("Argus gave up after {restarts} restarts")),
        WaitReason::Halted { budgets } => {
            let budgets = in_budgets(*budgets);
            format!("a new revision or `argus retry`, because it failed in the same way in {budgets}")
        }
        WaitReason::NotRunnable { exit_code } => not_runnable(*exit_code),
        WaitReason::ProbeNotRunnable => {
            "the image does not have the program of the health check; restarting will not help".to_owned()
        }
        WaitReason::NoHealthcheck => {
            "a health check: `type: docker` uses the image's health check, and the image has none".to_owned()
        }
        WaitReason::RestartRateLimited { limit, .. } => {
            format!("the restart rate limit ({limit} per minute)")
        }
        WaitReason::TestLease { case, .. } => format!("the end of the test `{case}`"),
        WaitReason::Held { why, .. } if why.is_empty() => "the end of its hold".to_owned(),
        WaitReason::Held { why, .. } => format!("the end of its hold: {}", one_line(why)),
        WaitReason::Shed { why } => format!("the end of a shortage, because it is optional: {why}"),
        WaitReason::RestartsDisabled => {
            "a new revision or `argus retry`, because its restart policy does not restart it".to_owned()
        }
        WaitReason::PortTaken { port, owner, .. } => format!("host port {port}, held by {owner}"),
        WaitReason::PortsExhausted { tried, .. } => {
            format!("a free host port: {tried} ports of the range were tried")
        }
        WaitReason::NameTaken {
            name,
            conflicting_object: holder,
            ..
        } => format!("the name `{name}`, held by {holder}"),
        WaitReason::StoppedExternally { .. } => {
            "the grace period after it was stopped or paused externally".to_owned()
        }
        WaitReason::SpecPending => "a valid version of its file".to_owned(),
        WaitReason::StabilityWindow { .. } => "the new revision to be stable before any removal".to_owned(),
        WaitReason::Preflight { code: None, why, .. } => why.clone(),
        WaitReason::Preflight { check, why, .. } => format!("preflight check `{check}`: {}", one_line(why)),
        WaitReason::Obstacle { object, .. } => {
            format!("the removal of {object}, which nothing needs any more")
        }
        WaitReason::WritableSource(on) => writable_source(on),
        WaitReason::Containers => "its containers to be removed first".to_owned(),
        WaitReason::InUse { containers, .. } => {
            format!("the end of {containers}, which Argus does not remove")
        }
        WaitReason::Dependent { service } => format!("the stop of `{service}`, which depends on it"),
        WaitReason::Removal => "the engine to finish its removal".to_owned(),
    }
}

fn breaker(engine: bool, is_open: bool, why: &str) -> String {
    let owner = if engine { "the engine" } else { "this environment" };
    if is_open {
        let cause = one_line(why);
        return format!("the open circuit breaker of {owner}, last failure: {cause}");
    }
    format!("the test call of the half-open circuit breaker of {owner}")
}

fn writable_source(on: &WritableSource) -> String {
    let (mount, container, above) = (&on.mount, &on.writer.container, &on.writer.mount);
    format!("the end of container `{container}`, which can write `{above}` above `{mount}`")
}

fn new_revision(cause: &str) -> String {
    format!("a new revision or `argus retry`, because {cause}")
}

fn failed_action(failure: &ActionFailure) -> String {
    format!(
        "`{}` failed: {}",
        failure.verb,
        one_line(&failure.error.to_string())
    )
}

/// Message for a command that cannot run, by the exit code of the shell convention; other codes are of a wrong format.
fn not_runnable(exit_code: i64) -> String {
    let problem = match exit_code {
        127 => "not found",
        126 => "not executable",
        // The kernel does not know the format of the program.
        _ => "of the wrong architecture",
    };
    format!("command {problem} (exit code {exit_code}); restarting will not help")
}

/// Description of another controller, such as `controller c1 (pid 7 on `host`)`.
pub(super) fn controller(holder: &LeaseHolder) -> String {
    format!(
        "controller {} (pid {} on `{}`)",
        holder.controller, holder.pid, holder.host
    )
}

/// Message for an action in progress, by its kind.
pub(super) fn action_message(kind: ActionKind) -> &'static str {
    match kind {
        ActionKind::CreateNetwork => "the creation of the network",
        ActionKind::RemoveNetwork => "the removal of the network",
        ActionKind::CreateVolume => "the creation of a volume",
        ActionKind::RemoveVolume => "the removal of a volume",
        ActionKind::PullImage => "the pull of its image",
        ActionKind::BuildImage => "the build of its image",
        ActionKind::CreateContainer => "the creation of its container",
        ActionKind::StartContainer => "the start of its container",
        ActionKind::StopContainer => "the stop of its container",
        ActionKind::UnpauseContainer => "the unpausing of its container",
        ActionKind::RenameContainer => "the renaming of its container",
        ActionKind::RemoveContainer => "the removal of its container",
        ActionKind::CopyFile => "the copy of its files into its container",
        ActionKind::CollectEvidence => "the collection of its evidence",
        ActionKind::ConnectNetwork => "the attachment of its container to the network",
        ActionKind::DisconnectNetwork => "the detachment of its container from a network",
        ActionKind::Other => "a call on the engine",
    }
}

fn condition_verb(condition: Condition) -> &'static str {
    match condition {
        Condition::Started => "start",
        Condition::Healthy => "be healthy",
        Condition::Completed => "complete",
    }
}
