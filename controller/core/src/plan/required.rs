//! Unfinished parts of an environment that block `Ready`.

use std::collections::BTreeMap;

use super::Plan;
use crate::action::Subject;
use crate::desired::Service;
use crate::ident::ServiceName;
use crate::wait::WaitReason;

impl Plan {
    /// Subjects with an action or a wait, without optional services, orphans, and services of which only evidence is read.
    pub fn unfinished<'p>(
        &'p self,
        desired: &'p BTreeMap<ServiceName, Service>,
    ) -> impl Iterator<Item = &'p Subject> {
        let waits = WaitIndex::of(self);
        let is_optional = move |service: &Service| {
            let gives_up = self.gives_up_after(service, waits.reason(service));
            !service.criticality.is_required(gives_up)
        };
        let is_extra = move |subject: &Subject| match subject {
            Subject::Service { service, .. } => {
                self.reading_evidence.contains(service) || desired.get(service).is_some_and(&is_optional)
            }
            Subject::Image { key } => {
                let users = desired.values().filter(|service| *key == service.image.key());
                let mut users = users.peekable();
                users.peek().is_some() && users.all(&is_optional)
            }
            _ => self.is_about_an_orphan(subject),
        };
        let acted = self.steps.iter().map(|step| &step.subject);
        acted
            .chain(self.waits.iter().map(|wait| &wait.subject))
            .filter(move |subject| !is_extra(subject))
    }

    /// True if the environment needs this service for `Ready`, given its progress.
    pub fn is_required(&self, service: &Service) -> bool {
        service.criticality.is_required(self.gives_up(service))
    }

    /// True if nothing more happens to a service until something changes. False while a container of the old revision
    /// still runs.
    pub fn gives_up(&self, service: &Service) -> bool {
        self.gives_up_after(service, self.wait_reason(service))
    }

    fn gives_up_after(&self, service: &Service, waits_on: Option<&WaitReason>) -> bool {
        waits_on.is_some_and(WaitReason::is_given_up) && !self.replaced_but_running.contains(&service.name)
    }

    /// Wait reason of a service. If it waits for its image, the wait reason of the image.
    pub fn wait_reason(&self, service: &Service) -> Option<&WaitReason> {
        let wait = |of: &dyn Fn(&Subject) -> bool| {
            let wait = self.waits.iter().find(|wait| of(&wait.subject));
            wait.map(|wait| &wait.on)
        };
        match wait(
            &|subject| matches!(subject, Subject::Service { service: name, .. } if *name == service.name),
        ) {
            Some(WaitReason::Image { .. }) => {
                let key = service.image.key();
                wait(&|subject| matches!(subject, Subject::Image { key: of } if *of == key))
            }
            on => on,
        }
    }
}

/// First wait reason of each service and image. A search of all waits for each service would take quadratic time.
pub(super) struct WaitIndex<'p> {
    services: BTreeMap<&'p ServiceName, &'p WaitReason>,
    images: BTreeMap<&'p str, &'p WaitReason>,
}

impl<'p> WaitIndex<'p> {
    pub(super) fn of(plan: &'p Plan) -> Self {
        let (mut services, mut images) = (BTreeMap::new(), BTreeMap::new());
        for wait in &plan.waits {
            match &wait.subject {
                Subject::Service { service, .. } => drop(services.entry(service).or_insert(&wait.on)),
                Subject::Image { key } => drop(images.entry(key.as_str()).or_insert(&wait.on)),
                _ => {}
            }
        }
        Self { services, images }
    }

    /// Wait reason of a service itself.
    pub(super) fn of_service(&self, service: &ServiceName) -> Option<&'p WaitReason> {
        self.services.get(service).copied()
    }

    /// Wait reason of a service. If it waits for its image, the wait reason of the image.
    fn reason(&self, service: &Service) -> Option<&'p WaitReason> {
        match self.of_service(&service.name) {
            Some(WaitReason::Image { .. }) => self.images.get(service.image.key().as_str()).copied(),
            on => on,
        }
    }
}
