//! Begin, end and results of tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_core::desired::Criticality;
use argus_core::ident::EnvName;
use argus_core::journal::Event;
use argus_core::plan::Plan;
use argus_core::state::{Disruption, TestRestart};
use argus_core::test_results::TestRun;
use argus_core::time::Timestamp;
use argus_core::user_requests::TestLease;

use super::{DesiredState, OverrideInputs, Overrides};
use crate::command::{CommandError, Reply, TestReport};

/// Maximum duration of a test lease: a forgotten one must not defer restarts forever.
const MAX_TEST_LEASE: Duration = Duration::from_secs(24 * 3600);

impl Overrides {
    /// Begins a test. Its lease ends after [`MAX_TEST_LEASE`] at the latest.
    pub(crate) fn begin_test(
        &mut self,
        mut lease: TestLease,
        inputs: OverrideInputs<'_>,
    ) -> Result<Reply, CommandError> {
        self.find(&lease.environment, inputs)?;
        lease.until = lease.until.min(lease.since + MAX_TEST_LEASE);
        self.requests.begin(lease.clone());
        Ok(Reply::TestLease(lease))
    }

    /// Ends the test leases of environments whose critical service is given up, because their tests cannot pass. Returns an event per lease.
    pub(crate) fn end_lost_leases(
        &mut self,
        desired: &DesiredState,
        plans: &BTreeMap<EnvName, Arc<Plan>>,
        now: Timestamp,
    ) -> Vec<Event> {
        let lost_service = |env: &EnvName| {
            let (accepted, plan) = desired.get(env).zip(plans.get(env))?;
            let mut services = accepted.desired.services.values();
            services.find(|service| service.criticality == Criticality::Critical && plan.gives_up(service))
        };
        let mut events = Vec::new();
        for lease in self
            .requests
            .test_leases
            .iter_mut()
            .filter(|lease| lease.until > now)
        {
            let Some(service) = lost_service(&lease.environment) else {
                continue;
            };
            lease.until = now;
            events.push(Event::LeaseEnded {
                environment: lease.environment.clone(),
                case: lease.case.clone(),
                holder: lease.holder.clone(),
                service: service.name.to_string(),
            });
        }
        events
    }

    /// Records the results of a test run.
    pub(crate) fn record_tests(
        &mut self,
        env: &EnvName,
        run: TestRun,
        inputs: OverrideInputs<'_>,
    ) -> Result<Reply, CommandError> {
        self.find(env, inputs)?;
        self.requests.record_tests(env, run);
        Ok(Reply::Done)
    }

    /// Ends a test, and reports the restarts and disruptions during it.
    pub(crate) fn end_test(
        &mut self,
        env: &EnvName,
        case: &str,
        inputs: OverrideInputs<'_>,
    ) -> Result<Reply, CommandError> {
        let Some(lease) = self.requests.end(env, case) else {
            let message =
                format!("no test `{case}` runs on `{env}`; its lease may have expired an hour ago or more");
            return Err(CommandError::Refused(message));
        };
        // An entry is recorded for one test, and counts for all tests that run in parallel.
        let is_own = |at: Timestamp| at >= lease.since && at < lease.until;
        let history = inputs.state.environments.get(env);
        let case = || case.to_owned();
        let disruptions = history.into_iter().flat_map(|history| &history.disruptions);
        let disruptions: Vec<_> = disruptions
            .filter(|found| is_own(found.at))
            .map(|found| Disruption {
                case: case(),
                ..found.clone()
            })
            .collect();
        let restarts = history.into_iter().flat_map(|history| &history.restarts);
        let restarts: Vec<_> = restarts
            .filter(|found| is_own(found.at))
            .map(|found| TestRestart {
                case: case(),
                ..found.clone()
            })
            .collect();
        Ok(Reply::Test(TestReport {
            environment: env.clone(),
            case: case(),
            started: lease.since.to_string(),
            ended: inputs.now.to_string(),
            verified: lease.unverified.is_none(),
            unverified: lease.unverified,
            lease_ended_at: (lease.until <= inputs.now).then(|| lease.until.to_string()),
            restart_count: restarts.len(),
            restarts,
            disruptions,
        }))
    }
}
