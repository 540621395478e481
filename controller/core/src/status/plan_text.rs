//! Plan as text for comparisons: one line per action and per wait, sorted, then the next wake-up.

use super::describe_wait;
use crate::action::{Action, ContainerSpec, Step};
use crate::plan::Plan;
use crate::wait::Wait;

/// Formats the plan. Environment variables are left out, because they may be secret.
pub fn text(plan: &Plan) -> String {
    if plan.is_settled() {
        return "settled\n".to_owned();
    }
    let mut steps: Vec<String> = plan.steps.iter().map(step).collect();
    let mut waits: Vec<String> = plan.waits.iter().map(wait).collect();
    steps.sort();
    waits.sort();
    let mut out = String::new();
    for line in steps.iter().chain(&waits) {
        out.push_str(line);
        out.push('\n');
    }
    if let Some(at) = plan.wake_at() {
        out.push_str("next wake ");
        out.push_str(&at.to_string());
        out.push('\n');
    }
    out
}

fn step(step: &Step) -> String {
    let Step {
        subject,
        action,
        cause,
    } = step;
    let details = object(action);
    let verb = action.verb();
    if details.is_empty() {
        format!("{verb} {subject} because {cause}")
    } else {
        format!("{verb} {subject} ({details}) because {cause}")
    }
}

fn wait(wait: &Wait) -> String {
    let status = describe_wait(&wait.on);
    let until = status.until.map(|at| format!(", until {at}")).unwrap_or_default();
    format!(
        "{} waits: {} {}{until}",
        wait.subject, status.reason, status.message
    )
}

/// Object of the call, as far as the subject does not name it.
fn object(action: &Action) -> String {
    match action {
        Action::CreateNetwork { name, .. } => name.to_string(),
        Action::RemoveNetwork { name, .. } => name.clone(),
        Action::CreateVolume { .. }
        | Action::RemoveVolume { .. }
        | Action::PullImage { .. }
        | Action::BuildImage(_) => String::new(),
        Action::CreateContainer { name, spec } => describe_container(name.as_str(), spec),
        Action::CollectEvidence { run, .. } => format!("{}, {}", run.number, run.container),
        Action::CopyFile { id, files } => {
            let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
            format!("{} into {id}", paths.join(", "))
        }
        Action::StartContainer { id } | Action::UnpauseContainer { id } => id.to_string(),
        Action::StopContainer { id, grace } => format!("{id}, grace {}s", grace.as_secs()),
        Action::RenameContainer { id, to } => format!("{id} to {to}"),
        Action::RemoveContainer { id, name } => format!("{id} {name}"),
        Action::ConnectNetwork {
            network,
            container,
            aliases,
            ..
        } => format!("{container} to {network} as {}", aliases.join(", ")),
        Action::DisconnectNetwork { network, container } => format!("{container} from {network}"),
    }
}

fn describe_container(name: &str, spec: &ContainerSpec) -> String {
    let mut parts = vec![format!("{name} of {}", spec.image)];
    for binding in &spec.bindings {
        let address = std::net::SocketAddr::new(binding.address, binding.host);
        parts.push(format!("{address} to {}/{}", binding.container, binding.protocol));
    }
    parts.join(", ")
}
