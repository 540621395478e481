//! Named volumes: created when missing, kept unless the spec or a person requests their removal. External ones only have to exist.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Decision, Plan, PlanInput, render};
use crate::action::{Action, Cause, Subject};
use crate::desired::{Accepted, Desired, Mount};
use crate::ident::{ResourceName, ServiceName};
use crate::labels;
use crate::observed::Volume;
use crate::wait::WaitReason;

/// Interval of the checks of a volume that belongs to another project.
const FOREIGN_RETRY: Duration = Duration::from_secs(10);

pub(super) fn exists(input: &PlanInput<'_>, name: &ResourceName) -> bool {
    match input.observed.volumes.get(name.as_str()) {
        Some(volume) => !is_foreign(input, name, volume),
        None => input.state.volumes.contains(&(input.env.clone(), name.clone())),
    }
}

/// Returns whether a volume belongs to another project. An external volume can.
pub(super) fn is_foreign(input: &PlanInput<'_>, name: &ResourceName, volume: &Volume) -> bool {
    let is_external = |accepted: &Accepted| accepted.desired.external_volumes.contains(name);
    input.is_foreign(labels::maker(&volume.labels)) && !input.accepted.is_some_and(is_external)
}

/// Returns whether a service mounts a volume that belongs to another project.
pub(super) fn is_foreign_mounted(input: &PlanInput<'_>, service: &ServiceName) -> bool {
    let services = input.accepted.map(|accepted| &accepted.desired.services);
    let Some(service) = services.and_then(|services| services.get(service)) else {
        return false;
    };
    service.mounts.iter().any(|mount| match mount {
        Mount::Volume { name, .. } => {
            let found = input.observed.volumes.get(name.as_str());
            found.is_some_and(|volume| is_foreign(input, name, volume))
        }
        Mount::Bind { .. } => false,
    })
}

/// Wait for the removal of a volume with this name that belongs to another project. Only the services that mount it wait with it.
fn check_foreign(input: &PlanInput<'_>, desired: &Desired, name: &ResourceName) -> Result<(), WaitReason> {
    let found = input.observed.volumes.get(name.as_str());
    let owner = found.filter(|volume| is_foreign(input, name, volume));
    let Some(owner) = owner.and_then(|volume| volume.owner()) else {
        return Ok(());
    };
    Err(WaitReason::NameTaken {
        name: name.to_string(),
        conflicting_object: format!(
            "`{name}`: {}",
            owner.describe_volume_holder(desired.folder.as_deref())
        ),
        until: input.now + FOREIGN_RETRY,
        attempts: Vec::new(),
        compose_project: None,
    })
}

/// Wait for a volume of the Compose project of the environment, whose data only an allowed project receives. An empty volume would look
/// like a loss of the data.
fn check_compose(input: &PlanInput<'_>, desired: &Desired, name: &ResourceName) -> Result<(), WaitReason> {
    let found = desired.volume_key(name);
    let found = found.and_then(|key| input.store.compose_volume(input.env, key));
    let is_allowed = input.accepted.is_some_and(|accepted| accepted.allowed);
    let Some((found, project)) = found.filter(|_| !is_allowed) else {
        return Ok(());
    };
    Err(WaitReason::NameTaken {
        name: found.to_owned(),
        conflicting_object: format!(
            "the Compose project `{project}`, which has data in it; `docker compose -p {project} down` keeps the volume, and \
`argus allow` uses it"
        ),
        until: input.now + FOREIGN_RETRY,
        attempts: Vec::new(),
        compose_project: Some(project.to_owned()),
    })
}

pub(super) fn plan(input: &PlanInput<'_>, desired: &Desired, plan: &mut Plan) {
    for name in desired.volumes.iter().filter(|name| !exists(input, name)) {
        let subject = Subject::Volume {
            environment: input.env.clone(),
            name: name.clone(),
        };
        let decision = match input
            .blocked_by(&subject)
            .or_else(|| check_foreign(input, desired, name).err())
            .or_else(|| check_compose(input, desired, name).err())
            .or_else(|| input.check_preflight(desired, false).err())
        {
            Some(wait) => Decision::Wait(wait),
            None => Decision::Do(
                create(input, desired, name),
                input.cause(&subject, Cause::Missing),
            ),
        };
        plan.add(subject, decision);
    }
}

fn create(input: &PlanInput<'_>, desired: &Desired, name: &ResourceName) -> Action {
    let external = desired.external_volumes.contains(name);
    let labels = || render::labels_of(desired, "volume", input.identity, input.now);
    Action::CreateVolume {
        name: name.clone(),
        labels: if external { BTreeMap::new() } else { labels() },
        external,
    }
}
