//! Shedding: optional services stop while the host is short of memory or disk space, and start again after that.

use std::collections::BTreeSet;
use std::sync::Arc;

use argus_crds::status::CheckResult;

use super::{Plan, PlanInput};
use crate::action::{Action, Cause, Step, Subject};
use crate::desired::{Accepted, Criticality, Service};
use crate::ident::ServiceName;
use crate::observed::Container;
use crate::wait::{Wait, WaitReason};

/// A running service stops if all tasks waited for memory in more than this share of the last 10 s, in percent.
const STOP_ABOVE: u8 = 20;
/// A stopped service starts at most at this share, so that its own start does not stop it again.
const START_UP_TO: u8 = 5;

/// Stops the optional services during a shortage, and turns their further steps into waits.
pub(super) fn apply(input: &PlanInput<'_>, plan: &mut Plan) {
    let Some(accepted) = input.accepted.filter(|_| input.state.retries.shed_optional) else {
        return;
    };
    for service in stoppable(accepted) {
        let running = running_container(input, service);
        let Some(why) = shortage(input, accepted, running.is_some()) else {
            continue;
        };
        let subject = Subject::of_service(input.env, &service.name);
        // Collecting evidence starts nothing.
        let collects = |step: &Step| matches!(step.action, Action::CollectEvidence { .. });
        let mut steps = plan.steps.iter().filter(|step| step.subject == subject);
        let step = steps.next();
        match running {
            Some(container) if !step.is_some_and(collects) && input.blocked_by(&subject).is_none() => {
                plan.steps.retain(|step| step.subject != subject);
                plan.waits.retain(|wait| wait.subject != subject);
                let (id, grace) = (container.id.clone(), service.stop_grace);
                plan.steps.push(Step {
                    subject,
                    action: Action::StopContainer { id, grace },
                    cause: Cause::Shed,
                });
            }
            None if step.is_some_and(|step| !collects(step)) => {
                plan.steps.retain(|step| step.subject != subject);
                let on = WaitReason::Shed { why: why.to_owned() };
                plan.waits.push(Wait { subject, on });
            }
            Some(_) | None => {}
        }
    }
}

/// A running container of the service, of any revision.
fn running_container<'a>(input: &PlanInput<'a>, service: &Service) -> Option<&'a Arc<Container>> {
    let mut owned = input.observed.containers.of(&service.name);
    owned.find(|container| {
        let is_owned = container.is_made_by(&input.identity.controller);
        container.state.is_up() && is_owned && !input.state.not_owned.contains(&container.id)
    })
}

/// The optional services that no other service requires, directly or through services that it requires.
fn stoppable(accepted: &Accepted) -> impl Iterator<Item = &Service> {
    let services = &accepted.desired.services;
    let stays = |service: &&Service| service.criticality != Criticality::Optional || service.one_shot;
    let mut open: Vec<&Service> = services.values().filter(stays).collect();
    let mut required: BTreeSet<&ServiceName> = open.iter().map(|service| &service.name).collect();
    while let Some(service) = open.pop() {
        for dependency in service.depends_on.iter().filter(|it| !it.optional) {
            let other = services.get(&dependency.service);
            open.extend(other.filter(|other| required.insert(&other.name)));
        }
    }
    let is_free = move |service: &&Service| !required.contains(&service.name);
    services.values().filter(is_free)
}

/// The scarce resource of the host, by the last preflight check. The text stays the same during a shortage.
fn shortage(input: &PlanInput<'_>, accepted: &Accepted, is_running: bool) -> Option<&'static str> {
    let settings = &accepted.desired.preflight;
    let preflight = input.preflight.filter(|_| settings.enabled)?;
    let limit = if is_running { STOP_ABOVE } else { START_UP_TO };
    if preflight.host.memory_stall.is_some_and(|percent| percent > limit) {
        return Some("tasks of the host wait for memory");
    }
    let disk = preflight.disk(settings, input.state.disk_full, input.now)?;
    (disk.result == CheckResult::Fail).then_some("the disk of the engine is full")
}
