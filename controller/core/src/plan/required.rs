//! What is left before an environment is all that its file requires.

use std::collections::BTreeMap;

use super::{Plan, Subject, WaitingOn, image};
use crate::desired::Service;
use crate::ident::ServiceName;

impl Plan {
    /// What is acted on or waited for, but for services that are not required, and for what dead controllers left.
    pub fn unfinished<'p>(
        &'p self,
        desired: &'p BTreeMap<ServiceName, Service>,
    ) -> impl Iterator<Item = &'p Subject> {
        let is_extra = |subject: &Subject| match subject {
            Subject::Service { service, .. } => desired
                .get(service)
                .is_some_and(|service| !self.is_required(service)),
            Subject::Image { key } => {
                let mut users = desired
                    .values()
                    .filter(|service| *key == image::key(&service.image))
                    .peekable();
                users.peek().is_some() && users.all(|service| !self.is_required(service))
            }
            Subject::Network { .. }
            | Subject::Volume { .. }
            | Subject::ExtraContainer { .. }
            | Subject::ExtraNetwork { .. } => self.is_about_an_orphan(subject),
        };
        let acted = self.steps.iter().map(|step| &step.subject);
        acted
            .chain(self.waits.iter().map(|wait| &wait.subject))
            .filter(move |subject| !is_extra(subject))
    }

    /// Whether the environment is not `Ready` without a service, as far as that has come.
    pub fn is_required(&self, service: &Service) -> bool {
        service.criticality.is_required(self.gives_up(service))
    }

    /// Nothing is done about a service any more before something changes. What still runs as it was is not lost because its replacement
    /// failed.
    pub fn gives_up(&self, service: &Service) -> bool {
        let waits_on = self.wait_reason(service);
        waits_on.is_some_and(WaitingOn::is_given_up) && !self.replaced_but_running.contains(&service.name)
    }

    /// What a service waits for in the end: what its image waits for, where it waits for that.
    pub fn wait_reason(&self, service: &Service) -> Option<&WaitingOn> {
        let wait = |of: &dyn Fn(&Subject) -> bool| {
            let wait = self.waits.iter().find(|wait| of(&wait.subject));
            wait.map(|wait| &wait.on)
        };
        match wait(
            &|subject| matches!(subject, Subject::Service { service: name, .. } if *name == service.name),
        ) {
            Some(WaitingOn::Image { .. }) => {
                let key = image::key(&service.image);
                wait(&|subject| matches!(subject, Subject::Image { key: of } if *of == key))
            }
            on => on,
        }
    }
}
