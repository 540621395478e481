//! Starts: whether everything that is unfinished in an environment completes without an intervention.

use std::collections::BTreeMap;
use std::mem::{Discriminant, discriminant};

use super::Plan;
use super::required::WaitIndex;
use crate::action::{ActionKind, Subject};
use crate::desired::Service;
use crate::ident::ServiceName;
use crate::observed::Outage;
use crate::state::{EnvHistory, restart};
use crate::wait::WaitReason;

impl Plan {
    /// True if something is unfinished, and all of it proceeds. False as soon as an unfinished service has failed, or something
    /// waits for a retry, a restart delay or a person.
    pub fn is_starting(
        &self,
        services: &BTreeMap<ServiceName, Service>,
        history: Option<&EnvHistory>,
        outages: &[Outage],
    ) -> bool {
        let start = Start {
            waits: WaitIndex::of(self),
            history,
            outages,
        };
        let mut unfinished = self.unfinished(services).peekable();
        unfinished.peek().is_some()
            && unfinished.all(|subject| {
                if let Some(name) = subject.service() {
                    return start.service_proceeds(name, services.len());
                }
                let wait = self.waits.iter().find(|wait| wait.subject == *subject);
                wait.is_none_or(|wait| start.proceeds(&wait.on, services.len()))
            })
    }
}

impl Plan {
    /// Stages of everything that is unfinished. They change with each progress of a start, and not with the time.
    pub fn start_progress(&self, services: &BTreeMap<ServiceName, Service>) -> BTreeMap<Subject, StartStage> {
        let mut stages = BTreeMap::new();
        for step in &self.steps {
            stages
                .entry(&step.subject)
                .or_insert(StartStage::Action(step.action.kind()));
        }
        for wait in &self.waits {
            stages
                .entry(&wait.subject)
                .or_insert(StartStage::Wait(discriminant(&wait.on)));
        }
        let unfinished = self.unfinished(services);
        unfinished
            .filter_map(|subject| Some((subject.clone(), *stages.get(subject)?)))
            .collect()
    }
}

/// Stage of an unfinished subject: the kind of its action, or of its wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartStage {
    /// An action.
    Action(ActionKind),
    /// A wait, without its times.
    Wait(Discriminant<WaitReason>),
}

/// Facts about a start.
struct Start<'a> {
    waits: WaitIndex<'a>,
    history: Option<&'a EnvHistory>,
    outages: &'a [Outage],
}

impl Start<'_> {
    /// True if a service proceeds. `left` is the maximum length of its chain of dependencies.
    fn service_proceeds(&self, name: &ServiceName, left: usize) -> bool {
        !self.has_failed(name)
            // Without a wait, it has an action or is finished.
            && self.waits.of_service(name).is_none_or(|on| self.proceeds(on, left))
    }

    /// True if the last run of a service failed. The engine causes no failures of services.
    fn has_failed(&self, name: &ServiceName) -> bool {
        let history = self.history.and_then(|history| history.service(name));
        let last = history.and_then(|history| history.failures.last());
        last.is_some_and(|last| !last.budget_reset && !restart::is_caused_by_engine(last, self.outages))
    }

    fn proceeds(&self, on: &WaitReason, left: usize) -> bool {
        match on {
            // A dependency that the environment does not require is not among the unfinished subjects.
            WaitReason::Dependency { service, .. } => {
                left.checked_sub(1).is_some_and(|left| self.service_proceeds(service, left))
            }
            WaitReason::WritableSource(on) => on.writer.is_going,
            WaitReason::InFlight { .. }
            | WaitReason::Inspection
            | WaitReason::EffectPending { .. }
            | WaitReason::RelistPending { .. }
            | WaitReason::ControllerLease
            | WaitReason::RampUp { .. }
            // The subjects of these three have waits of their own.
            | WaitReason::Image { .. }
            | WaitReason::Network
            | WaitReason::Volume { .. }
            | WaitReason::Probe
            | WaitReason::MinimumRunTime { .. }
            | WaitReason::Completion
            | WaitReason::StabilityWindow { .. }
            | WaitReason::Preflight { code: None, .. }
            | WaitReason::Obstacle { retry: None, .. }
            | WaitReason::Containers
            | WaitReason::Dependent { .. }
            | WaitReason::Removal => true,
            WaitReason::Engine { .. }
            | WaitReason::Breaker { .. }
            | WaitReason::Specs
            | WaitReason::Safe { .. }
            | WaitReason::LeaseHeldByOther { .. }
            | WaitReason::Unhealthy { .. }
            | WaitReason::RestartDelay { .. }
            | WaitReason::Retry { .. }
            | WaitReason::Failed { .. }
            | WaitReason::GaveUp { .. }
            | WaitReason::Halted { .. }
            | WaitReason::NotRunnable { .. }
            | WaitReason::ProbeNotRunnable
            | WaitReason::NoHealthcheck
            | WaitReason::RestartRateLimited { .. }
            | WaitReason::TestLease { .. }
            | WaitReason::Held { .. }
            | WaitReason::Shed { .. }
            | WaitReason::RestartsDisabled
            | WaitReason::PortTaken { .. }
            | WaitReason::PortsExhausted { .. }
            | WaitReason::NameTaken { .. }
            | WaitReason::StoppedExternally { .. }
            | WaitReason::SpecPending
            | WaitReason::InUse { .. }
            | WaitReason::Preflight { code: Some(_), .. }
            | WaitReason::Obstacle { retry: Some(_), .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::Condition;
    use crate::desired::admit::{SpecContext, admit};
    use crate::failed_run::FailedRun;
    use crate::ident::{ContainerId, EnvName};
    use crate::time::Timestamp;
    use crate::wait::Wait;

    const SPEC: &str = "version: '1'\nproject: { name: shop }\nservices:\n  db: { image: a, container: { name: shop-db } }\n  \
                        web: { image: a, dependsOn: [db], container: { name: shop-web } }\n  \
                        log: { image: a, criticality: optional, container: { name: shop-log } }\n";

    fn services() -> BTreeMap<ServiceName, Service> {
        let spec = argus_crds::yaml::read("e2e.yaml", SPEC.as_bytes()).spec.unwrap();
        admit(&spec, &SpecContext::default()).desired.unwrap().services
    }

    fn service(name: &str) -> Subject {
        Subject::Service {
            environment: EnvName::new("shop").unwrap(),
            service: ServiceName::new(name).unwrap(),
        }
    }

    fn plan(waits: Vec<(Subject, WaitReason)>) -> Plan {
        let waits = waits.into_iter().map(|(subject, on)| Wait { subject, on });
        Plan {
            waits: waits.collect(),
            ..Plan::default()
        }
    }

    fn starting(plan: &Plan) -> bool {
        plan.is_starting(&services(), None, &[])
    }

    fn on(name: &str) -> WaitReason {
        WaitReason::Dependency {
            service: ServiceName::new(name).unwrap(),
            condition: Condition::Healthy,
            failing: false,
        }
    }

    fn delay() -> WaitReason {
        WaitReason::RestartDelay {
            until: Timestamp(1),
            attempt: 1,
        }
    }

    #[test]
    fn start_lasts_until_all_is_done_or_something_stays() {
        let image = || Subject::Image { key: "a".to_owned() };
        let reference = || WaitReason::Image {
            reference: "a".to_owned(),
        };
        let held = || WaitReason::Held {
            until: None,
            why: String::new(),
        };
        let web = |on: WaitReason| (service("web"), on);
        for starts in [
            vec![web(WaitReason::Probe)],
            vec![web(on("db")), (service("db"), WaitReason::Probe)],
            vec![web(WaitReason::Probe), (service("log"), delay())],
            vec![web(reference()), (image(), WaitReason::Removal)],
        ] {
            assert!(starting(&plan(starts.clone())), "{starts:?}");
        }
        for stays in [
            vec![],
            vec![(service("log"), WaitReason::Probe)],
            vec![web(WaitReason::Unhealthy { until: None })],
            vec![web(on("db")), (service("db"), delay())],
            vec![web(on("log")), (service("log"), delay())],
            vec![web(on("db")), (service("db"), on("web"))],
            vec![web(reference()), (image(), held())],
        ] {
            assert!(!starting(&plan(stays.clone())), "{stays:?}");
        }
    }

    #[test]
    fn service_that_failed_is_not_starting() {
        let plan = plan(vec![(service("web"), WaitReason::Probe)]);
        let run = FailedRun::new(ContainerId::new("c").unwrap(), Timestamp(100_000));
        let mut history = EnvHistory::default();
        history
            .service_mut(&ServiceName::new("web").unwrap())
            .failures
            .push(run);
        assert!(!plan.is_starting(&services(), Some(&history), &[]));
        let outage = Outage::starting_at(Timestamp(100_000));
        assert!(plan.is_starting(&services(), Some(&history), &[outage]));
    }
}
