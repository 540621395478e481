//! Calls that the engine answers shortly before their deadline. Five in a row are failures of the engine, although each one succeeded.

use std::time::Duration;

use super::Planner;
use crate::action::Step;

impl Planner {
    /// Records the time that the engine needed for a call, without the wait for a permit. [`Planner::finished`] follows.
    pub fn answered(&mut self, step: &Step, took: Duration) {
        let slow = self.deadlines.slow(&step.action, took);
        self.state.breakers.slow = slow.map(|why| (step.subject.clone(), why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Action, Cause, Subject};
    use crate::ident::{ContainerId, EnvName, ServiceName};
    use crate::observed::{Observed, Store};
    use crate::outcome::Done;
    use crate::plan::ControllerIdentity;
    use crate::state::PlannerState;
    use crate::time::Timestamp;

    #[test]
    fn engine_that_answers_just_in_time_opens_its_breaker() {
        let env = EnvName::new("shop").unwrap();
        let step = Step {
            subject: Subject::Service {
                environment: env.clone(),
                service: ServiceName::new("api").unwrap(),
            },
            action: Action::StartContainer {
                id: ContainerId::new("c1").unwrap(),
            },
            cause: Cause::Ready,
        };
        let is_closed_after = |seconds: u64| {
            let identity = ControllerIdentity {
                controller: "me".to_owned(),
                run: "run".to_owned(),
                publish_address: [127, 0, 0, 1].into(),
            };
            let mut planner = Planner::new(identity, PlannerState::default());
            for now in (0..5).map(Timestamp) {
                planner.state.on_started(&env, &step, &Observed::default(), now);
                planner.answered(&step, Duration::from_secs(seconds));
                planner.finished(&step, &Ok(Done::Applied), &Store::default(), now);
            }
            planner.state().breakers.engine().is_closed()
        };
        assert!(is_closed_after(20));
        assert!(!is_closed_after(29));
    }
}
