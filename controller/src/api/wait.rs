//! Waits until environments or services are ready or gone, with progress.

mod ended;
pub(crate) mod engine_reports;
pub(crate) mod goal;
mod rejected;
pub(crate) mod removal;
pub(crate) mod target_status;

use std::collections::BTreeMap;
use std::time::Duration;

use argus_crds::error::Reason;
use argus_crds::status::{EnvironmentStatus, ServiceState, ServiceStatus};
use argus_reconciler::clock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::environment_summary::EnvironmentSummary;
use super::target::Target;
use super::{Context, Effect, Operation, Route, Summary, Tool};
use crate::process::exit::Failure;
use crate::render::output;
use crate::render::status_text::format_ports;
use engine_reports::EngineReports;
use goal::{ENGINE_PATIENCE, WaitGoal, WaitLimits};
use target_status::TargetStatus;

/// Maximum number of waiting clients over HTTP.
const MAX_WAITS: usize = 64;
/// Maximum wait, in seconds.
const MAX_TIMEOUT: u64 = 3_600;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Wait {
    /// Environments, or ENVIRONMENT/SERVICE, separated by commas [default: all]
    pub(crate) environment: Option<String>,
    /// Service name [default: the whole environment]
    pub(crate) service: Option<String>,
    /// `ready`: Ready at the desired revision; `gone`: removed
    #[serde(default, rename = "for")]
    pub(crate) goal: WaitGoal,
    /// Maximum wait
    #[serde(default = "default_timeout")]
    #[schemars(range(max = 3600))]
    timeout_seconds: u64,
}

fn default_timeout() -> u64 {
    120
}

/// Targets that reached the goal: the requested one, or a list.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum WaitOutput {
    One(Reached),
    All(Vec<Reached>),
}

/// An environment or a service that reached the goal.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Reached {
    /// A ready environment.
    Ready(Box<EnvironmentStatus>),
    /// A ready service.
    Service(Box<ReadyService>),
    /// A removed environment or service.
    Gone(Gone),
}

/// A ready service.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReadyService {
    /// Environment name.
    pub(crate) environment: String,
    #[serde(flatten)]
    pub(crate) status: ServiceStatus,
}

/// A removed environment or service.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Gone {
    /// Environment name.
    environment: String,
    /// Service name; absent for a whole environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    /// `Gone`.
    phase: &'static str,
}

impl WaitOutput {
    /// Returns the targets.
    pub(crate) fn targets(&self) -> &[Reached] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::All(all) => all,
        }
    }
}

/// Targets that reached the goal, for a model.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitSummary {
    environments: Vec<EnvironmentSummary>,
    /// Ready services, if the wait was for services.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    services: Vec<ServiceSummary>,
}

/// A ready service, for a model.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ServiceSummary {
    environment: String,
    service: String,
    state: ServiceState,
    /// Addresses of its published ports.
    #[serde(skip_serializing_if = "String::is_empty")]
    endpoints: String,
}

impl ServiceSummary {
    fn from_ready(ready: &ReadyService) -> Self {
        Self {
            environment: ready.environment.clone(),
            service: ready.status.name.clone(),
            state: ready.status.state,
            endpoints: format_ports(&ready.status.ports),
        }
    }

    fn format_text(&self) -> String {
        let line = format!("{}/{} is {:?}", self.environment, self.service, self.state);
        if self.endpoints.is_empty() {
            return line;
        }
        format!("{line} at {}", self.endpoints)
    }
}

impl Operation for Wait {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] = &[
        Route::get(
            "/api/v1/environments/{environment}/wait",
            "responds when the environment is Ready at the desired revision, or with `for=gone` when it is removed; with the error when Argus gives up",
        )
        .without(&["service"])
        .max_calls(MAX_WAITS),
        Route::get(
            "/api/v1/environments/{environment}/services/{service}/wait",
            "responds when the service is Ready or Completed at the desired revision, or with `for=gone` when it is removed; with the error when Argus gives up",
        )
        .max_calls(MAX_WAITS),
    ];
    type Output = WaitOutput;

    async fn run(&self, context: &Context) -> Result<WaitOutput, Failure> {
        if let Some(start) = context.client.missing_controller().await? {
            let message = "no controller is running, so waiting has no effect";
            return Err(Failure::with_reason(Reason::NotRunning, message).with_hint(start));
        }
        let limit = Duration::from_secs(self.timeout_seconds.min(MAX_TIMEOUT));
        let mut progress = Progress::default();
        let report = |seen: &[TargetStatus]| progress.report(seen, context);
        let limits = WaitLimits {
            timeout: limit,
            engine_patience: ENGINE_PATIENCE,
            ends_at_rejection: true,
        };
        self.wait_within(limits, context, report).await
    }
}

impl Wait {
    /// Creates the wait of a command, which has its own limit.
    pub(crate) fn new(environment: Option<String>, goal: WaitGoal) -> Self {
        Self {
            environment,
            service: None,
            goal,
            timeout_seconds: default_timeout(),
        }
    }

    /// Waits within the limits, and calls `report` on changes. A controller can also start during the wait.
    pub(crate) async fn wait_within(
        &self,
        limits: WaitLimits,
        context: &Context,
        report: impl FnMut(&[TargetStatus]),
    ) -> Result<WaitOutput, Failure> {
        let targets = self.parse_targets()?;
        let started = clock::now();
        context.client.sync_if_possible(limits.timeout).await?;
        let limits = limits.rest_since(started);
        let reached =
            goal::wait_until(&context.client, targets.as_deref(), self.goal, limits, report).await?;
        let mut reached: Vec<Reached> = reached
            .into_iter()
            .filter_map(|seen| Reached::new(seen, self.goal))
            .collect();
        Ok(match (targets.map(|targets| targets.len()), reached.pop()) {
            (Some(1), Some(one)) => WaitOutput::One(one),
            (_, last) => WaitOutput::All(reached.into_iter().chain(last).collect()),
        })
    }

    fn parse_targets(&self) -> Result<Option<Vec<Target>>, Failure> {
        let parse = |target: &str| Target::parse(target.trim(), self.service.as_deref());
        match (&self.environment, &self.service) {
            (None, Some(_)) => Err(Failure::usage("`service` needs `environment`")),
            (None, None) => Ok(None),
            (Some(targets), _) => targets.split(',').map(parse).collect::<Result<_, _>>().map(Some),
        }
    }
}

impl Reached {
    fn new(seen: TargetStatus, goal: WaitGoal) -> Option<Self> {
        if goal == WaitGoal::Gone {
            let Target { environment, service } = seen.target;
            let phase = "Gone";
            return Some(Self::Gone(Gone {
                environment,
                service,
                phase,
            }));
        }
        if seen.target.service.is_some() {
            let status = seen.row()?.clone();
            let environment = seen.target.environment;
            return Some(Self::Service(Box::new(ReadyService { environment, status })));
        }
        seen.status.map(|status| Self::Ready(Box::new(status)))
    }

    /// Returns the target.
    pub(crate) fn target(&self) -> Target {
        let (environment, service) = match self {
            Self::Ready(status) => (&status.environment, None),
            Self::Service(ready) => (&ready.environment, Some(ready.status.name.clone())),
            Self::Gone(gone) => (&gone.environment, gone.service.clone()),
        };
        Target {
            environment: environment.clone(),
            service,
        }
    }
}

impl Tool for Wait {
    const NAME: &'static str = "argus_wait";
    const TITLE: &'static str = "Wait";
    const ABOUT: &'static str = "Waits until an environment (or all), or one service, is Ready, or with `for: \"gone\"` until it is removed; reports progress. \
Fails early with the error if Argus gives up. After the timeout, it fails with TIMEOUT and the remaining waits; call it again to wait \
longer. Use it instead of repeated calls of `argus_status`.";
    type Data = WaitSummary;

    async fn summarize(&self, output: WaitOutput, _context: &Context) -> Summary<WaitSummary> {
        let (mut environments, mut services) = (Vec::new(), Vec::new());
        for reached in output.targets() {
            match reached {
                Reached::Ready(status) => environments.push(EnvironmentSummary::from_status(status)),
                Reached::Service(ready) => services.push(ServiceSummary::from_ready(ready)),
                Reached::Gone(_) => {}
            }
        }
        if output.targets().len() > 1 {
            environments = environments
                .into_iter()
                .map(EnvironmentSummary::shorten)
                .collect();
        }
        let mut text: String = environments.iter().map(EnvironmentSummary::format_text).collect();
        text.push_str(&output::join_lines(
            services.iter().map(ServiceSummary::format_text),
        ));
        if self.goal == WaitGoal::Gone {
            "gone\n".clone_into(&mut text);
        }
        Summary::new(
            WaitSummary {
                environments,
                services,
            },
            text,
        )
    }
}

/// Reporter of changed phases and waits.
#[derive(Default)]
struct Progress {
    /// Last message, by target.
    reported: BTreeMap<String, String>,
    engine: EngineReports,
}

impl Progress {
    fn report(&mut self, seen: &[TargetStatus], context: &Context) {
        if let Some(change) = self.engine.find_change(seen) {
            context.report(change);
        }
        for seen in seen {
            let Some((state, waits)) = seen.state_and_waits() else {
                continue;
            };
            let name = seen.target.to_string();
            let mut message = format!("{name} is {state}");
            if !waits.is_empty() {
                message.push_str(": ");
                message.push_str(&waits);
            }
            if self.reported.get(&name) != Some(&message) {
                context.report(message.clone());
                self.reported.insert(name, message);
            }
        }
    }
}
