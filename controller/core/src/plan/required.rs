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
        let is_extra = |subject: &Subject| match subject {
            Subject::Service { service, .. } => {
                let is_optional = |service| !self.is_required(service);
                self.reading_evidence.contains(service) || desired.get(service).is_some_and(is_optional)
            }
            Subject::Image { key } => {
                let mut users = desired
                    .values()
                    .filter(|service| *key == service.image.key())
                    .peekable();
                users.peek().is_some() && users.all(|service| !self.is_required(service))
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
        let waits_on = self.wait_reason(service);
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
