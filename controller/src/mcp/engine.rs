//! Tools for the engine: preflight checks, circuit breakers and orphans.

use std::fmt::Write as _;
use std::time::Duration;

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{CheckName, CheckResult, Orphan, PreflightOverall, PreflightReport};
use argus_reconciler::Command;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::context::Call;
use super::reply::{NextStep, Output};
use super::tool::{Effect, Tool};
use crate::breaker_reset::BreakerReset;
use crate::cli::{orphans, output, status};
use crate::exit::Failure;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an established name of an argument"
)]
pub(super) struct Preflight {
    /// Names of checks to skip
    #[serde(default)]
    skip: Vec<CheckName>,
    /// Same as `disk` in `skip`
    #[serde(default)]
    skip_disk_check: bool,
    /// Same as `orphans` in `skip`
    #[serde(default)]
    skip_orphan_check: bool,
    /// Same as `networks` in `skip`
    #[serde(default)]
    skip_network_check: bool,
    /// Remove orphans, then check again; the result has both rounds
    #[serde(default)]
    auto_fix: bool,
}

impl Tool for Preflight {
    const NAME: &'static str = "argus_preflight_check";
    const TITLE: &'static str = "Check engine, disk and more";
    const ABOUT: &'static str = "Checks engine, API version, disk, orphans, ports, networks, images, journal and clock against the needs of \
the specs; each result is pass, warn, fail or skipped, with a reason. Needs no environment and no running controller. Call it if \
nothing starts, or before the first environment.";
    const EFFECT: Effect = Effect::Destructive;
    type Output = PreflightReport;

    async fn call(self, call: Call) -> Result<Output<PreflightReport>, Failure> {
        let flags = [
            (self.skip_disk_check, CheckName::Disk),
            (self.skip_orphan_check, CheckName::Orphans),
            (self.skip_network_check, CheckName::Networks),
        ];
        let mut skip = self.skip;
        skip.extend(
            flags
                .into_iter()
                .filter_map(|(flag, check)| flag.then_some(check)),
        );
        let report = call.client.run_preflight(&skip, self.auto_fix).await?;
        let mut text = format!("preflight: {:?}\n", report.overall).to_lowercase();
        for check in &report.checks {
            if check.result != CheckResult::Pass {
                let code = check.code.map(|code| format!(" {code}")).unwrap_or_default();
                let result = format!("{:?}", check.result).to_lowercase();
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{}: {result}{code}: {}", check.name, check.message);
            }
        }
        for fix in &report.fixed {
            let word = if fix.removed { "removed" } else { "not removed" };
            let _ = writeln!(text, "{word}: {} {}", fix.kind, fix.name);
        }
        let orphaned = report
            .checks
            .iter()
            .any(|check| check.code == Some(Code::OrphanDetected));
        let codes = report
            .checks
            .iter()
            .filter(|check| check.result == CheckResult::Fail);
        let explain: Vec<NextStep> = codes
            .filter_map(|check| check.code)
            .map(|code| {
                NextStep::new(
                    "explanation and remedies",
                    "argus_explain",
                    json!({ "code": code }),
                )
            })
            .collect();
        let mut output = Output::new(report, text);
        if orphaned && !self.auto_fix {
            output = output.with_next(NextStep::new(
                "remove them and check again",
                Self::NAME,
                json!({ "autoFix": true }),
            ));
        }
        let fit = output.data.overall != PreflightOverall::Unhealthy;
        output.next.extend(explain.into_iter().filter(|_| !fit));
        Ok(output)
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ResetBreaker {
    /// Environment name [default: the engine and all environments]
    environment: Option<String>,
}

/// Result of a breaker reset.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BreakerResetOutput {
    /// The command in one word.
    verb: String,
    /// The requested environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<String>,
    /// Kind of the value: `circuit`.
    kind: String,
    /// The breaker before and after.
    value: BreakerReset,
}

impl Tool for ResetBreaker {
    const NAME: &'static str = "argus_reset_circuit";
    const TITLE: &'static str = "Test the engine immediately";
    const ABOUT: &'static str = "Ends the pause of an open circuit breaker: the controller tests the engine immediately with a full list and \
one call, instead of after `retryAfter`. Call it after `CIRCUIT_OPEN`, once the engine is fixed. It does not change a closed breaker, \
and returns its state and history.";
    const EFFECT: Effect = Effect::Additive;
    type Output = BreakerResetOutput;

    async fn call(self, call: Call) -> Result<Output<BreakerResetOutput>, Failure> {
        let env = self.environment.as_deref();
        let environment = env.map(status::parse_environment).transpose()?;
        let reply = call
            .client
            .send_if_running(Command::ResetBreaker { environment })
            .await?;
        let reset = reply.breaker_reset();
        let (owner, state) = (&reset.breaker, reset.current.as_ref().map(|now| now.state));
        let state = state.unwrap_or_default();
        let text = if reset.was_closed() {
            format!("the breaker of {owner} is closed; nothing changed")
        } else if reset.changed {
            format!("the breaker of {owner} was open and is {state:?} now; the controller tests the engine")
        } else {
            format!("the breaker of {owner} is still {state:?}; the controller reconnects to the engine")
        };
        let output = BreakerResetOutput {
            verb: reply.verb,
            environment: reply.environment,
            kind: reply.kind,
            value: reset,
        };
        let arguments = env.map_or_else(|| json!({}), |env| json!({ "environment": env }));
        Ok(Output::new(output, text).with_next(NextStep::new("current status", "argus_status", arguments)))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Orphans {
    /// Remove the orphans [default projects: those with a spec in this controller]
    #[serde(default)]
    clean: bool,
    /// Names of projects [default: all]
    #[serde(default)]
    projects: Vec<String>,
    /// Maximum wait for the removal
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 600))]
    timeout_seconds: u64,
}

fn default_limit() -> u64 {
    60
}

/// Resources of dead controllers.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OrphansOutput {
    items: Vec<Orphan>,
}

impl Tool for Orphans {
    const NAME: &'static str = "argus_orphans";
    const TITLE: &'static str = "List or remove orphans";
    const ABOUT: &'static str = "Lists containers, networks and volumes of dead controllers on the engine, each with its planned treatment. \
`clean: true` removes them and returns each result. Never changes resources without Argus labels or with a live controller.";
    const EFFECT: Effect = Effect::Destructive;
    type Output = OrphansOutput;

    async fn call(self, call: Call) -> Result<Output<OrphansOutput>, Failure> {
        let clean = self
            .clean
            .then(|| Duration::from_secs(self.timeout_seconds.clamp(1, 600)));
        let mut found = orphans::list_or_clean(call.client.settings(), &self.projects, clean).await?;
        let wanted = |orphan: &Orphan| {
            orphan
                .project
                .as_ref()
                .is_some_and(|of| self.projects.contains(of))
        };
        found.retain(|orphan| self.projects.is_empty() || wanted(orphan));
        let remaining = found
            .iter()
            .filter(|orphan| orphans::is_removal_pending(orphan))
            .count();
        if self.clean && remaining > 0 {
            let message = format!("cannot remove {}", output::format_count(remaining, "orphan"));
            let error = StructuredError::new(Code::CleanupFailed, message);
            return Err(Failure::new(error.details(json!({ "orphans": found }))));
        }
        let one = |orphan: &Orphan| {
            let reason = orphan
                .message
                .as_deref()
                .map(|reason| format!(": {reason}"))
                .unwrap_or_default();
            format!("{} {} {}{reason}\n", orphan.result, orphan.kind, orphan.name)
        };
        let mut text: String = found.iter().map(one).collect();
        if found.is_empty() {
            "no orphans\n".clone_into(&mut text);
        }
        let some = !found.is_empty();
        let output = Output::new(OrphansOutput { items: found }, text);
        if some && !self.clean {
            let mut arguments = json!({ "clean": true });
            if !self.projects.is_empty() {
                arguments["projects"] = json!(self.projects);
            }
            return Ok(output.with_next(NextStep::new(
                "remove those of this controller's projects",
                Self::NAME,
                arguments,
            )));
        }
        Ok(output)
    }
}
