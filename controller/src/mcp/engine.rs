//! Tools about the engine: whether it is fit, its circuit breakers, what was left behind on it.

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
    reason = "each is an argument that is known under this name"
)]
pub(super) struct Preflight {
    /// Checks that are not made
    #[serde(default)]
    skip: Vec<CheckName>,
    /// The same as `disk` in `skip`
    #[serde(default)]
    skip_disk_check: bool,
    /// The same as `orphans` in `skip`
    #[serde(default)]
    skip_orphan_check: bool,
    /// The same as `networks` in `skip`
    #[serde(default)]
    skip_network_check: bool,
    /// Remove what dead runs left, then look again; the answer has both looks
    #[serde(default)]
    auto_fix: bool,
}

impl Tool for Preflight {
    const NAME: &'static str = "argus_preflight_check";
    const TITLE: &'static str = "Check engine, disk and the rest";
    const ABOUT: &'static str = "Checks whether engine, API version, disk, orphans, ports, networks, images, journal and clock are fit for \
what the specs ask for; each is pass, warn, fail or skipped with its reason. Needs no environment and no running controller. Call it \
when nothing starts, or before the first environment.";
    const EFFECT: Effect = Effect::Replaces;
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
        let report = call.client.preflight(&skip, self.auto_fix).await?;
        let mut text = format!("preflight: {:?}\n", report.overall).to_lowercase();
        for check in &report.checks {
            if check.result != CheckResult::Pass {
                let code = check.code.map(|code| format!(" {code}")).unwrap_or_default();
                let result = format!("{:?}", check.result).to_lowercase();
                // A string takes whatever is written.
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
            .map(|code| NextStep::new("what to do about it", "argus_explain", json!({ "code": code })))
            .collect();
        let mut said = Output::new(report, text);
        if orphaned && !self.auto_fix {
            said = said.then(NextStep::new(
                "removes them and looks again",
                Self::NAME,
                json!({ "autoFix": true }),
            ));
        }
        let fit = said.data.overall != PreflightOverall::Unhealthy;
        said.next.extend(explain.into_iter().filter(|_| !fit));
        Ok(said)
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ResetCircuit {
    /// One environment's; the engine's and all of them without
    environment: Option<String>,
}

/// A breaker was reset.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BreakerResetOutput {
    /// The command in a word.
    verb: String,
    /// The environment that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<String>,
    /// What kind of answer it is: `circuit`.
    kind: String,
    /// What came of it.
    value: BreakerReset,
}

impl Tool for ResetCircuit {
    const NAME: &'static str = "argus_reset_circuit";
    const TITLE: &'static str = "Try the engine at once";
    const ABOUT: &'static str = "Ends the pause of an open circuit breaker: the engine is tried at once by a full list and one call, \
instead of after `retryAfter`. Call it after `CIRCUIT_OPEN` once the engine is mended; it does nothing to a closed breaker, and shows \
how it stands and why it opened.";
    const EFFECT: Effect = Effect::Adds;
    type Output = BreakerResetOutput;

    async fn call(self, call: Call) -> Result<Output<BreakerResetOutput>, Failure> {
        let env = self.environment.as_deref();
        let environment = env.map(status::named).transpose()?;
        let taken = call.client.command(Command::ResetBreaker { environment }).await?;
        let reset = taken.circuit();
        let (whose, state) = (&reset.breaker, reset.current.as_ref().map(|now| now.state));
        let state = state.unwrap_or_default();
        let text = if reset.was_closed() {
            format!("the breaker of {whose} is closed; there was nothing to do")
        } else if reset.changed {
            format!("the breaker of {whose} was open and is {state:?} now; the engine is tried")
        } else {
            format!("the breaker of {whose} is {state:?} still; the engine is looked for")
        };
        let told = BreakerResetOutput {
            verb: taken.verb,
            environment: taken.environment,
            kind: taken.kind,
            value: reset,
        };
        let arguments = env.map_or_else(|| json!({}), |env| json!({ "environment": env }));
        Ok(Output::new(told, text).then(NextStep::new("how it is now", "argus_status", arguments)))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Orphans {
    /// Remove them; without `projects` those of the projects whose specs this controller holds
    #[serde(default)]
    clean: bool,
    /// Only those of these projects
    #[serde(default)]
    projects: Vec<String>,
    /// How long to wait until they are gone
    #[serde(default = "limit")]
    #[schemars(range(min = 1, max = 600))]
    timeout_seconds: u64,
}

fn limit() -> u64 {
    60
}

/// What dead controllers left.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OrphansOutput {
    items: Vec<Orphan>,
}

impl Tool for Orphans {
    const NAME: &'static str = "argus_orphans";
    const TITLE: &'static str = "What dead controllers left";
    const ABOUT: &'static str = "Lists containers, networks and volumes that dead controllers left on the engine, and what becomes of each; \
with `clean: true` removes them and tells each result. Never touches what is not labelled as ours or has a living controller.";
    const EFFECT: Effect = Effect::Replaces;
    type Output = OrphansOutput;

    async fn call(self, call: Call) -> Result<Output<OrphansOutput>, Failure> {
        let clean = self
            .clean
            .then(|| Duration::from_secs(self.timeout_seconds.clamp(1, 600)));
        let mut found = orphans::of(call.client.settings(), &self.projects, clean).await?;
        let wanted = |orphan: &Orphan| {
            orphan
                .project
                .as_ref()
                .is_some_and(|of| self.projects.contains(of))
        };
        found.retain(|orphan| self.projects.is_empty() || wanted(orphan));
        let left = found.iter().filter(|orphan| orphans::stays(orphan)).count();
        if self.clean && left > 0 {
            let message = format!("{} could not be removed", output::count(left, "orphan"));
            let error = StructuredError::new(Code::CleanupFailed, message);
            return Err(Failure::new(error.details(json!({ "orphans": found }))));
        }
        let one = |orphan: &Orphan| {
            let why = orphan
                .message
                .as_deref()
                .map(|why| format!(": {why}"))
                .unwrap_or_default();
            format!("{} {} {}{why}\n", orphan.result, orphan.kind, orphan.name)
        };
        let mut text: String = found.iter().map(one).collect();
        if found.is_empty() {
            "no orphans\n".clone_into(&mut text);
        }
        let some = !found.is_empty();
        let said = Output::new(OrphansOutput { items: found }, text);
        if some && !self.clean {
            let mut arguments = json!({ "clean": true });
            if !self.projects.is_empty() {
                arguments["projects"] = json!(self.projects);
            }
            return Ok(said.then(NextStep::new(
                "removes those of our projects",
                Self::NAME,
                arguments,
            )));
        }
        Ok(said)
    }
}
