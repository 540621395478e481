//! Limit of repeated restarts over all environments: prevents restarts from overloading a failing host. A restart neither waits nor
//! counts if the last restart of its service was a minute or more before the failure, whatever its number is.

use std::time::Duration;

use super::{Plan, PlanInput};
use crate::action::{Step, Subject};
use crate::desired::{Accepted, Criticality};
use crate::failed_run::FailedRun;
use crate::state::{EnvHistory, RESTART_RATE_WINDOW};
use crate::time::Timestamp;
use crate::wait::{Wait, WaitReason};

/// Time after which a restart asks again for a permit that a more urgent restart did not use.
const CLAIMED_PERMIT_RECHECK: Duration = Duration::from_secs(1);

/// Urgency of a restart; the smallest is the most urgent: the tier of its service, then the time of its failure.
pub type Urgency = (Criticality, Timestamp);

/// Returns the urgency of the restart of a service.
pub(crate) fn urgency(
    accepted: Option<&Accepted>,
    history: Option<&EnvHistory>,
    subject: &Subject,
    now: Timestamp,
) -> Option<Urgency> {
    let name = subject.service()?;
    let service = accepted?.desired.services.get(name)?;
    let history = history.and_then(|history| history.services.get(name));
    let last = history.and_then(|history| history.failures.last());
    Some((service.criticality, last.map_or(now, FailedRun::seen)))
}

/// Turns restarts beyond the limit into waits. The most urgent restarts run first. Each restart of another environment that
/// waits and is more urgent keeps a permit.
pub(super) fn apply(input: &PlanInput<'_>, plan: &mut Plan) {
    let urgency = |subject: &Subject| {
        let history = input.history();
        urgency(input.accepted, history, subject, input.now).unwrap_or((Criticality::Optional, input.now))
    };
    limit(
        plan,
        (&input.state.restarts, input.state.retries.restarts_per_minute),
        input.restart_claims,
        urgency,
        input.now,
    );
}

/// Applies the limit. `recent` are the starts of earlier restarts and their maximum number within the window, `claims` the
/// waiting restarts of other environments.
fn limit(
    plan: &mut Plan,
    recent: (&[Timestamp], u32),
    claims: &[Urgency],
    urgency: impl Fn(&Subject) -> Urgency,
    now: Timestamp,
) {
    let (mut restarts, others): (Vec<Step>, Vec<Step>) =
        plan.steps.drain(..).partition(Step::is_repeated_restart);
    plan.steps = others;
    restarts.sort_by_key(|step| urgency(&step.subject));
    let (recent, most) = recent;
    let recent = recent.iter().filter(|at| **at + RESTART_RATE_WINDOW > now);
    let oldest = recent.clone().min().copied().unwrap_or(now);
    let free = usize::try_from(most)
        .unwrap_or(usize::MAX)
        .saturating_sub(recent.count());
    let mut granted = 0;
    for step in restarts {
        let own = urgency(&step.subject);
        let claimed = claims.iter().filter(|claim| **claim < own).count();
        if granted + claimed < free {
            granted += 1;
            plan.steps.push(step);
            continue;
        }
        let until = if granted < free {
            now + CLAIMED_PERMIT_RECHECK
        } else {
            oldest + RESTART_RATE_WINDOW
        };
        plan.waits.push(Wait {
            subject: step.subject,
            on: WaitReason::RestartRateLimited { until, limit: most },
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Action, Cause};
    use crate::ident::{ContainerId, EnvName, ServiceName};

    fn restart(number: usize) -> Step {
        Step {
            subject: Subject::Service {
                environment: EnvName::new("shop").unwrap(),
                service: ServiceName::new(format!("s{number}")).unwrap(),
            },
            action: Action::StartContainer {
                id: ContainerId::new(format!("c{number}")).unwrap(),
            },
            cause: Cause::Restart {
                attempt: 1,
                repeated: true,
            },
        }
    }

    fn important(_: &Subject) -> Urgency {
        (Criticality::Important, Timestamp(0))
    }

    fn thirty() -> Plan {
        Plan {
            steps: (0..30).map(restart).collect(),
            ..Plan::default()
        }
    }

    /// Names of the services that a plan restarts.
    fn restarted(plan: &Plan) -> Vec<&str> {
        let services = plan.steps.iter().filter_map(|step| step.subject.service());
        services.map(ServiceName::as_str).collect()
    }

    #[test]
    fn repeated_restarts_are_limited_to_ten_per_minute() {
        let check = |recent: &[i64], now: i64| {
            let mut plan = thirty();
            let recent: Vec<_> = recent.iter().map(|at| Timestamp(*at)).collect();
            limit(&mut plan, (&recent, 10), &[], important, Timestamp(now));
            assert_eq!(plan.steps.len() + plan.waits.len(), 30, "nothing is lost");
            (plan.steps.len(), plan.wake_at())
        };
        assert_eq!(check(&[], 100), (10, Some(Timestamp(60_100))));
        assert_eq!(check(&[90, 95], 100), (8, Some(Timestamp(60_090))));
        assert_eq!(check(&[0; 10], 59_999), (0, Some(Timestamp(60_000))));
        assert_eq!(check(&[0; 10], 60_000).0, 10, "the minute is over");
        let spent = [Timestamp(0); 10];
        let (attempt, repeated) = (2, false);
        for cause in [Cause::Ready, Cause::Restart { attempt, repeated }] {
            let mut other = thirty();
            other.steps.iter_mut().for_each(|step| step.cause = cause.clone());
            limit(&mut other, (&spent, 10), &[], important, Timestamp(1));
            assert_eq!(
                other.steps.len(),
                30,
                "a start with the cause `{cause}` is not limited"
            );
        }
        let mut more = thirty();
        limit(&mut more, (&spent, 12), &[], important, Timestamp(1));
        assert_eq!(more.steps.len(), 2, "the limit is a setting");
    }

    #[test]
    fn permits_go_to_critical_services_first_then_by_age() {
        let tiers = [
            ("s0", Criticality::Optional, 1),
            ("s1", Criticality::Critical, 9),
            ("s2", Criticality::Recoverable, 1),
            ("s3", Criticality::Important, 5),
            ("s4", Criticality::Important, 4),
        ];
        let urgency = |subject: &Subject| {
            let name = subject.service().map(ServiceName::as_str);
            let of = tiers.iter().find(|(service, ..)| Some(*service) == name);
            of.map(|(_, tier, at)| (*tier, Timestamp(*at))).unwrap()
        };
        let with = |free: usize, claims: &[Urgency]| {
            let mut plan = Plan {
                steps: (0..5).map(restart).collect(),
                ..Plan::default()
            };
            let recent = vec![Timestamp(10); 10 - free];
            limit(&mut plan, (&recent, 10), claims, urgency, Timestamp(20));
            restarted(&plan)
                .into_iter()
                .map(ToOwned::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(with(5, &[]), ["s1", "s4", "s3", "s2", "s0"]);
        assert_eq!(with(3, &[]), ["s1", "s4", "s3"]);
        assert_eq!(with(1, &[]), ["s1"]);
        // A more urgent restart of another environment keeps its permit.
        assert_eq!(with(2, &[(Criticality::Important, Timestamp(1))]), ["s1"]);
        assert_eq!(with(1, &[(Criticality::Critical, Timestamp(1))]), [""; 0]);
        assert_eq!(with(1, &[(Criticality::Optional, Timestamp(9))]), ["s1"]);
    }
}
