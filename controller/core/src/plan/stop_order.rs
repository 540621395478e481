//! Order of stops. Invariant 26: a container ends after the containers that depend on it, directly or through other services.
//!
//! The filter concerns containers that are going to leave: those that no file declares, and those with a replacement. It delays a
//! step that ends such a container while a dependent is up and about to leave too. Containers without a dependent end in
//! parallel.
//!
//! A dependent delays nothing if its own end does not proceed: a hold keeps it, or its stop has failed for 30 s. The grace period
//! of a stop limits a slow one.
//!
//! The dependencies of a service come from the last accepted file, which the history records. If the history does not know the
//! service, they come from the labels of its containers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Plan, PlanInput};
use crate::action::{ActionFailure, Subject};
use crate::desired::{Desired, Service};
use crate::ident::{ContainerId, ServiceName};
use crate::labels;
use crate::observed::Container;
use crate::wait::{Wait, WaitReason};

/// Names of the services that are reached from a service, by its name.
type Graph<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Returns the value of the label [`labels::DEPENDS_ON`].
pub(super) fn dependencies_label(desired: &Desired, service: &str) -> String {
    let mut found = BTreeSet::new();
    let mut next = vec![service];
    while let Some(name) = next.pop() {
        let services = desired.services.get(name).into_iter();
        let names = services
            .flat_map(|it| &it.depends_on)
            .map(|it| it.service.as_str());
        next.extend(names.filter(|name| found.insert(*name)));
    }
    let names: Vec<&str> = found.into_iter().collect();
    names.join(",")
}

/// Returns the time that the stop of all services takes if each uses its grace period: that of the slowest chain.
pub fn longest_stop(desired: &Desired) -> Duration {
    let mut known = BTreeMap::new();
    let services = desired.services.keys();
    services
        .map(|name| longest_stop_from(desired, name, &mut known))
        .max()
        .unwrap_or_default()
}

fn longest_stop_from<'a>(
    desired: &'a Desired,
    name: &'a ServiceName,
    known: &mut BTreeMap<&'a ServiceName, Duration>,
) -> Duration {
    if let Some(known) = known.get(name) {
        return *known;
    }
    let Some(service) = desired.services.get(name) else {
        return Duration::ZERO;
    };
    let dependencies = service.depends_on.iter();
    let longest = dependencies
        .map(|it| longest_stop_from(desired, &it.service, known))
        .max();
    let total = service.stop_grace + longest.unwrap_or_default();
    known.insert(name, total);
    total
}

/// Turns the steps into waits that would end a container before one of its dependents.
pub(super) fn apply(input: &PlanInput<'_>, plan: &mut Plan) {
    if !plan.steps.iter().any(|step| step.action.kind().ends_run()) {
        return;
    }
    let mut waits = find_waits(input, plan);
    let mut delayed = Vec::new();
    plan.steps.retain(|step| {
        let id = step.action.container().filter(|_| step.action.kind().ends_run());
        let Some(on) = id.and_then(|id| waits.remove(id)) else {
            return true;
        };
        let subject = step.subject.clone();
        delayed.push(Wait { subject, on });
        false
    });
    plan.waits.extend(delayed);
}

/// Waits of the containers that have a dependent, by container.
fn find_waits(input: &PlanInput<'_>, plan: &Plan) -> BTreeMap<ContainerId, WaitReason> {
    let progress = Progress::of(input, plan);
    let containers = input.observed.containers.values();
    let mut leaving: Vec<Leaving<'_>> = containers
        .filter_map(|container| Leaving::of(input, &progress, container))
        .collect();
    // If two dependents delay a container, the wait names one that leaves now.
    leaving.sort_by_key(|it| it.is_later);
    let graph = dependencies(input);
    let mut dependents = find_dependents(&leaving, &graph);
    if leaving
        .iter()
        .all(|it| dependents.contains_key(it.service.as_str()))
    {
        dependents = find_dependents_outside_cycles(&leaving, &graph);
    }
    let delayed = leaving.iter().filter_map(|it| {
        let dependent = dependents.get(it.service.as_str())?;
        // Orphans reach their age one after the other. Nothing else waits for that, and no orphan that is in the way.
        let can_wait = it.is_orphan && !input.obstacles.contains(it.id.as_str());
        let service = dependent.service.clone();
        (can_wait || !dependent.is_later).then(|| (it.id.clone(), WaitReason::Dependent { service }))
    });
    delayed.collect()
}

/// Returns a leaving dependent of each service that has one.
fn find_dependents<'a>(
    leaving: &'a [Leaving<'_>],
    dependencies: &Graph<'a>,
) -> BTreeMap<&'a str, &'a Leaving<'a>> {
    let mut found = BTreeMap::new();
    for dependent in leaving {
        let mut next = vec![dependent.service.as_str()];
        while let Some(name) = next.pop() {
            for on in dependencies.get(name).into_iter().flatten() {
                found.entry(*on).or_insert_with(|| {
                    next.push(*on);
                    dependent
                });
            }
        }
    }
    found
}

/// The same for a cycle, which only labels of different revisions form: the containers of the cycle do not wait for each other.
fn find_dependents_outside_cycles<'a>(
    leaving: &'a [Leaving<'_>],
    dependencies: &Graph<'a>,
) -> BTreeMap<&'a str, &'a Leaving<'a>> {
    let reached = leaving
        .iter()
        .map(|it| find_dependents(std::slice::from_ref(it), dependencies));
    let reached: Vec<_> = reached.collect();
    let all = || leaving.iter().zip(&reached);
    let pairs = all().filter_map(|(it, on)| {
        let name = it.service.as_str();
        let mut others = all().filter(|(_, on)| on.contains_key(name));
        let (dependent, _) = others.find(|(other, _)| !on.contains_key(other.service.as_str()))?;
        Some((name, dependent))
    });
    pairs.collect()
}

/// Dependencies of all services with containers or a record.
fn dependencies<'a>(input: &'a PlanInput<'a>) -> Graph<'a> {
    let mut all = Graph::new();
    for container in input.observed.containers.values() {
        let label = |key| container.labels.get(key).map(String::as_str);
        if let (Some(service), Some(names)) = (label(labels::SERVICE), label(labels::DEPENDS_ON)) {
            let names = names
                .split(',')
                .filter(|name| !name.is_empty() && *name != service);
            all.entry(service).or_default().extend(names);
        }
    }
    let recorded = input.history().into_iter().flat_map(|it| it.depends_on.iter());
    all.extend(
        recorded.map(|(service, on)| (service.as_str(), on.iter().map(ServiceName::as_str).collect())),
    );
    all
}

/// A running container that is going to leave.
struct Leaving<'a> {
    service: ServiceName,
    id: &'a ContainerId,
    /// True for a container of a dead controller.
    is_orphan: bool,
    /// True for an orphan that is not old enough for its removal.
    is_later: bool,
}

impl<'a> Leaving<'a> {
    /// Returns `None` for a container that stays, or whose end does not proceed.
    fn of(input: &PlanInput<'_>, progress: &Progress<'_>, container: &'a Container) -> Option<Self> {
        if !container.state.is_up() || input.state.not_owned.contains(&container.id) {
            return None;
        }
        let service = ServiceName::new(container.labels.get(labels::SERVICE)?.clone()).ok()?;
        let id = &container.id;
        let orphan = progress.orphans.get(id.as_str());
        let is_later = orphan.is_some_and(|is_later| *is_later);
        // Without an accepted file, the rendered services are those of the last one.
        let subject = match input.accepted.and_then(|_| input.rendered.get(&service)) {
            Some((_, hash)) if container.carries(hash) => return None,
            Some(_) => Subject::of_service(input.env, &service),
            None => Subject::ExtraContainer { id: id.clone() },
        };
        (is_later || progress.proceeds(&subject)).then_some(Self {
            service,
            id,
            is_orphan: orphan.is_some(),
            is_later,
        })
    }
}

/// Steps and waits of a plan, by subject.
struct Progress<'a> {
    input: &'a PlanInput<'a>,
    steps: BTreeSet<&'a Subject>,
    waits: BTreeMap<&'a Subject, &'a WaitReason>,
    /// Orphans by id; the value is true for those that are not old enough.
    orphans: BTreeMap<&'a str, bool>,
}

impl<'a> Progress<'a> {
    fn of(input: &'a PlanInput<'a>, plan: &'a Plan) -> Self {
        let orphans = plan.orphans.iter();
        Self {
            input,
            steps: plan.steps.iter().map(|step| &step.subject).collect(),
            waits: plan.waits.iter().map(|wait| (&wait.subject, &wait.on)).collect(),
            orphans: orphans.map(|it| (it.id.as_str(), it.until().is_some())).collect(),
        }
    }

    /// Returns true if the subject has a step, or a wait that ends soon without another one.
    fn proceeds(&self, subject: &Subject) -> bool {
        let environment = self.input.env.clone();
        self.steps.contains(subject)
            || self.waits.get(subject).is_some_and(|on| match on {
                WaitReason::InFlight { .. }
                | WaitReason::Inspection
                | WaitReason::EffectPending { .. }
                | WaitReason::RelistPending { .. }
                | WaitReason::StabilityWindow { .. }
                | WaitReason::SpecPending
                | WaitReason::Removal
                | WaitReason::Preflight { code: None, .. } => true,
                WaitReason::Retry { failure, .. } => is_recent(failure),
                // These are subjects of their own.
                WaitReason::Image { .. } => self.image_of(subject).is_some_and(|image| self.proceeds(&image)),
                WaitReason::Network => self.do_networks_proceed(subject),
                WaitReason::Volume { name } => self.proceeds(&Subject::Volume {
                    environment,
                    name: name.clone(),
                }),
                _ => false,
            })
    }

    /// Returns whether a network of a service proceeds.
    fn do_networks_proceed(&self, subject: &Subject) -> bool {
        let desired = self.input.accepted.map(|accepted| &accepted.desired);
        let service = || desired?.services.get(subject.service()?);
        let Some((desired, service)) = desired.zip(service()) else {
            return false;
        };
        let mut networks = desired.networks_of(service);
        networks.any(|network| self.proceeds(&Subject::of_network(self.input.env, &network)))
    }

    fn image_of(&self, subject: &Subject) -> Option<Subject> {
        let services = &self.input.accepted?.desired.services;
        let service: &Service = services.get(subject.service()?)?;
        Some(Subject::of_image(&service.image))
    }
}

/// True until the action has failed for 30 s, or has spent its budget of attempts.
pub(super) fn is_recent(failure: &ActionFailure) -> bool {
    !failure.is_persistent() && !failure.has_lasted()
}
