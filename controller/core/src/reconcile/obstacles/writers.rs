//! Search for containers that can write a directory above a desired bind source, or exchange the source of a desired cover.
//!
//! Admission refuses such a pair of files. A rollback, a fork or the state of an earlier version can make it desired nevertheless.
//! A desired container counts even if it does not run, because it can start in the same pass. An observed container can be of an
//! earlier revision.

use std::collections::BTreeMap;

use argus_crds::SpecEdit;

use super::Finder;
use crate::action::{ActionKind, Subject};
use crate::desired::nested_mounts::format_mount;
use crate::desired::{Accepted, Mount, Role, Service, covers};
use crate::ident::{EnvName, ServiceName};
use crate::labels;
use crate::lease::Ownership;
use crate::observed::{Container, ContainerState};
use crate::wait::MountWriter;

/// A container with a writable mount.
#[derive(Clone, Copy)]
struct Writer<'a> {
    env: &'a EnvName,
    mount: &'a Mount,
    allowed: bool,
    origin: Origin<'a>,
}

/// Reason why a container counts.
#[derive(Clone, Copy)]
enum Origin<'a> {
    /// It is desired, and can start at any time.
    Desired(&'a Accepted, &'a Service),
    /// It runs or starts.
    Observed(&'a Container),
}

impl Writer<'_> {
    /// Returns whether it exposes bind sources of a project. The containers of two projects that a person allowed expose nothing.
    fn exposes(&self, allowed: bool) -> bool {
        !(self.allowed && allowed)
    }

    /// Returns whether its mount is a cover. The mount of the file above it has the same effect on other mounts of files.
    fn is_cover(&self) -> bool {
        match self.origin {
            Origin::Desired(_, service) => !service.mounts.contains(self.mount),
            Origin::Observed(_) => false,
        }
    }

    /// Returns whether it can exchange the source of a cover. `accepted` is the file of its environment.
    fn can_exchange(&self, source: &str, accepted: Option<&Accepted>) -> bool {
        match self.origin {
            Origin::Desired(_, service) => {
                covers::can_exchange(self.mount, source, service.all_mounts(), &service.tmpfs)
            }
            Origin::Observed(container) => {
                let mounts = container.inspect.iter().flat_map(|info| &info.config.mounts);
                // The engine does not list tmpfs with the mounts.
                let service = accepted.and_then(|accepted| desired_service(accepted, container));
                let tmpfs = service.map_or(&[][..], |service| &service.tmpfs);
                covers::can_exchange(self.mount, source, mounts, tmpfs)
            }
        }
    }
}

impl<'a> Finder<'a> {
    /// Finds the containers that expose a desired bind source.
    pub(super) fn find_writers(&mut self) {
        let specs = self.inputs.specs;
        let services = |accepted: &'a Accepted| accepted.desired.services.values();
        let is_bound = |accepted: &Accepted| {
            let mut mounts = accepted.desired.services.values().flat_map(|it| &it.mounts);
            mounts.any(|mount| mount.source().is_some())
        };
        if !specs.values().any(|accepted| is_bound(accepted)) {
            return;
        }
        let mut writers: BTreeMap<&str, Vec<Writer<'_>>> = BTreeMap::new();
        let mut add = |writer: Writer<'a>| {
            if let Some(source) = writer.mount.writable_source() {
                writers.entry(source).or_default().push(writer);
            }
        };
        for (env, accepted) in specs {
            for service in services(accepted) {
                for mount in service.all_mounts() {
                    add(Writer {
                        env,
                        mount,
                        allowed: accepted.allowed,
                        origin: Origin::Desired(accepted, service),
                    });
                }
            }
        }
        for (env, container) in self.active_containers() {
            // Another controller knows whether its project is allowed. An allowed project here trusts the others on its engine.
            let allowed = self.is_of_other(env) || specs.get(env).is_some_and(|accepted| accepted.allowed);
            let Some(info) = &container.inspect else {
                let uninspected = &mut self.found.uninspected;
                if allowed {
                    uninspected.allowed = true;
                } else {
                    uninspected.other = true;
                }
                continue;
            };
            for mount in &info.config.mounts {
                add(Writer {
                    env,
                    mount,
                    allowed,
                    origin: Origin::Observed(container),
                });
            }
        }
        // Desired mounts by their source and whether they are covers, and whether only allowed projects have them.
        let mut needed: BTreeMap<(&str, bool), (&Mount, bool)> = BTreeMap::new();
        for accepted in specs.values() {
            for (mount, is_cover) in services(accepted).flat_map(Service::mounts_and_covers) {
                let source = mount.source().unwrap_or_default();
                let (_, allowed) = needed.entry((source, is_cover)).or_insert((mount, true));
                *allowed &= accepted.allowed;
            }
        }
        for ((source, is_cover), (mount, allowed)) in needed {
            let above = mount.parents().filter_map(|parent| writers.get(parent));
            let above = above.flatten().filter(|writer| {
                if is_cover {
                    writer.can_exchange(source, specs.get(writer.env).map(|it| &**it))
                } else {
                    !writer.is_cover()
                }
            });
            let above: Vec<&Writer<'_>> = above.collect();
            if !above.iter().any(|writer| writer.exposes(allowed)) {
                continue;
            }
            let above: Vec<MountWriter> = above.into_iter().map(|it| self.describe(it)).collect();
            let ids = above.iter().filter_map(|writer| writer.id.as_ref());
            self.found.ids.extend(ids.map(ToString::to_string));
            let found = if is_cover {
                &mut self.found.exchangeable
            } else {
                &mut self.found.writable
            };
            found.insert(source.to_owned(), above);
        }
    }

    /// Containers that run, start or are being removed, also those of other controllers: two of them can have a file of one worktree.
    fn active_containers(&self) -> Vec<(&'a EnvName, &'a Container)> {
        let environments = self.inputs.store.environments().iter();
        environments
            .flat_map(move |(env, observed)| {
                let containers = observed.containers.values().map(move |it| (env, &**it));
                containers.filter(move |(env, it)| self.is_active(env, it))
            })
            .collect()
    }

    /// Returns whether another controller has the environment.
    fn is_of_other(&self, env: &EnvName) -> bool {
        let inputs = self.inputs;
        let ownership = inputs
            .leases
            .ownership(env, inputs.specs.contains_key(env), inputs.now);
        matches!(ownership, Ownership::HeldByOther(_))
    }

    fn is_active(&self, env: &EnvName, container: &Container) -> bool {
        match container.state {
            // The processes run until the engine has killed them.
            ContainerState::Running
            | ContainerState::Paused
            | ContainerState::Restarting
            | ContainerState::Removing => true,
            ContainerState::Created | ContainerState::Exited | ContainerState::Dead => {
                self.is_starting(env, container)
            }
        }
    }

    /// Returns whether a start of the service was submitted whose effect is not observed.
    fn is_starting(&self, env: &EnvName, container: &Container) -> bool {
        let service = container.labels.get(labels::SERVICE).map(String::as_str);
        let is_of_container = |subject: &Subject| {
            subject.environment() == Some(env) && subject.service().map(ServiceName::as_str) == service
        };
        let calls = self
            .state
            .in_flight
            .iter()
            .map(|(subject, call)| (subject, call.verb));
        let effects = self
            .state
            .expectations
            .iter()
            .map(|(subject, it)| (subject, it.verb));
        let mut starts = calls
            .chain(effects)
            .filter(|(_, verb)| *verb == ActionKind::StartContainer);
        starts.any(|(subject, _)| is_of_container(subject))
    }

    fn describe(&self, writer: &Writer<'_>) -> MountWriter {
        let described = MountWriter {
            container: String::new(),
            environment: writer.env.clone(),
            mount: format_mount(writer.mount),
            id: None,
            is_going: false,
            allowed: writer.allowed,
            is_of_other: false,
            edit: None,
        };
        match writer.origin {
            Origin::Desired(accepted, service) => MountWriter {
                container: service.container_name.to_string(),
                is_going: accepted.is_ending && self.removes_objects_of(writer.env),
                edit: read_only_edit(accepted, service, writer.mount),
                ..described
            },
            Origin::Observed(container) => MountWriter {
                container: container.name.clone(),
                id: Some(container.id.clone()),
                is_going: self.is_replaced_or_removed(writer.env, container),
                is_of_other: self.is_of_other(writer.env),
                ..described
            },
        }
    }

    /// Returns whether the container is about to be removed: its service has another revision, or does not exist.
    fn is_replaced_or_removed(&self, env: &EnvName, container: &Container) -> bool {
        let accepted = self.inputs.specs.get(env);
        let is_of_service = accepted.is_some_and(|accepted| desired_service(accepted, container).is_some());
        container.state == ContainerState::Removing
            || (self.removes_objects_of(env) && (is_of_service || self.is_container_going(env, container)))
    }
}

/// Service of a container.
fn desired_service<'a>(accepted: &'a Accepted, container: &Container) -> Option<&'a Service> {
    let service = container.labels.get(labels::SERVICE)?;
    accepted.desired.services.get(service.as_str())
}

/// Change of the file that makes a mount of an admitted service read-only: each text of the file became one mount. `None` if it
/// cannot be read-only.
fn read_only_edit(accepted: &Accepted, service: &Service, mount: &Mount) -> Option<SpecEdit> {
    let index = service.mounts.iter().position(|other| other == mount)?;
    let key = match service.role {
        Role::Service => format!("container.volumes[{index}]"),
        Role::Mock if service.injected_file.is_some() => return None,
        Role::Mock => format!("volumes[{index}]"),
    };
    let reason = format!("the container can write `{}`", mount.writable_source()?);
    let edit = accepted
        .lines
        .edit_service(&accepted.spec_path, service.name.as_str(), &key, reason);
    let suggestion = edit.now.as_ref().map(|now| read_only(now));
    Some(match suggestion {
        Some(suggestion) => edit.suggest(suggestion),
        None => SpecEdit {
            hint: Some("add `:ro`".to_owned()),
            ..edit
        },
    })
}

/// Returns the text of a mount with the option `ro`.
fn read_only(text: &str) -> String {
    match text.trim().splitn(3, ':').collect::<Vec<_>>()[..] {
        [source, target, options] => {
            let others = options.split(',').filter(|option| *option != "rw");
            let options: Vec<&str> = others.chain(["ro"]).collect();
            format!("{source}:{target}:{}", options.join(","))
        }
        _ => format!("{text}:ro"),
    }
}
