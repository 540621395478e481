//! Tools about the engine: whether it is fit, its circuit breakers, what was left behind on it.

use std::fmt::Write as _;
use std::time::Duration;

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{
    BreakerScope, BreakerState, BreakerStatus, CheckName, CheckResult, Orphan, PreflightOverall,
    PreflightReport,
};
use argus_reconciler::{Command, clock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::answer::{NextStep, Said};
use super::call::Call;
use super::tool::{Effect, Tool};
use crate::cli::{orphans, output, preflight, status};
use crate::exit::Failure;
use crate::surface::Surface;

/// A breaker that was reset shows what it is now within this, or it is told as it is then.
const SEEN: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(50);

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
    type Told = PreflightReport;

    async fn call(self, call: Call) -> Result<Said<PreflightReport>, Failure> {
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
        let settings = call.surface.read(|surface| Ok(surface.looking())).await?;
        let report = preflight::look(&settings, &skip, self.auto_fix).await?;
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
        let mut said = Said::new(report, text);
        if orphaned && !self.auto_fix {
            said = said.then(NextStep::new(
                "removes them and looks again",
                Self::NAME,
                json!({ "autoFix": true }),
            ));
        }
        let fit = said.told.overall != PreflightOverall::Unhealthy;
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

/// What came of a reset.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reset {
    /// Whether anything had to be done: a closed breaker stays as it is.
    changed: bool,
    /// How it was.
    previous: Option<BreakerStatus>,
    /// How it is: half-open lets one call through, whose result closes or opens it.
    current: Option<BreakerStatus>,
}

impl Tool for ResetCircuit {
    const NAME: &'static str = "argus_reset_circuit";
    const TITLE: &'static str = "Try the engine at once";
    const ABOUT: &'static str = "Ends the pause of an open circuit breaker: the engine is tried at once by a full list and one call, \
instead of after `retryAfter`. Call it after `CIRCUIT_OPEN` once the engine is mended; it does nothing to a closed breaker, and shows \
how it stands and why it opened.";
    const EFFECT: Effect = Effect::Adds;
    type Told = Reset;

    async fn call(self, call: Call) -> Result<Said<Reset>, Failure> {
        let surface = &call.surface;
        let env = self.environment.as_deref();
        let environment = env.map(status::named).transpose()?;
        let previous = breaker(surface, env).await?;
        surface.command(Command::ResetBreaker { environment }).await?;
        let closed = |breaker: &Option<BreakerStatus>| {
            breaker
                .as_ref()
                .is_none_or(|breaker| breaker.state == BreakerState::Closed)
        };
        let mut current = breaker(surface, env).await?;
        let changed = !closed(&previous);
        let deadline = clock::now() + SEEN;
        let unseen = |now: &Option<BreakerStatus>| {
            let word = |breaker: &Option<BreakerStatus>| {
                breaker.as_ref().map(|breaker| (breaker.state, breaker.openings))
            };
            changed && word(now) == word(&previous)
        };
        while unseen(&current) && clock::now() < deadline {
            tokio::time::sleep(LOOK).await;
            current = breaker(surface, env).await?;
        }
        let whose = env.unwrap_or("the engine");
        let state = current
            .as_ref()
            .map_or(BreakerState::Closed, |breaker| breaker.state);
        let text = if changed {
            format!("the breaker of {whose} was open and is {state:?} now; the engine is tried")
        } else {
            format!("the breaker of {whose} is closed; there was nothing to do")
        };
        let told = Reset {
            changed,
            previous,
            current,
        };
        let arguments = env.map_or_else(|| json!({}), |env| json!({ "environment": env }));
        Ok(Said::new(told, text).then(NextStep::new("how it is now", "argus_status", arguments)))
    }
}

/// The engine's breaker, or that of an environment that has one of its own.
async fn breaker(surface: &Surface, env: Option<&str>) -> Result<Option<BreakerStatus>, Failure> {
    let env = env.map(str::to_owned);
    surface.read(move |surface| shown(surface, env.as_deref())).await
}

fn shown(surface: &Surface, env: Option<&str>) -> Result<Option<BreakerStatus>, Failure> {
    let Some(env) = env else {
        let shown = surface.shown()?;
        let open = |breaker: &&BreakerStatus| {
            breaker.scope == BreakerScope::Environment && breaker.state != BreakerState::Closed
        };
        let engine = shown.controller.breaker.clone();
        if engine
            .as_ref()
            .is_some_and(|breaker| breaker.state != BreakerState::Closed)
        {
            return Ok(engine);
        }
        // Without a name all are reset: one that is not closed tells.
        let mut own = shown
            .environments
            .values()
            .filter_map(|status| status.breaker.as_ref());
        return Ok(own.find(open).cloned().or(engine));
    };
    Ok(surface.environment(env)?.breaker)
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
pub(super) struct OrphansTold {
    items: Vec<Orphan>,
}

impl Tool for Orphans {
    const NAME: &'static str = "argus_orphans";
    const TITLE: &'static str = "What dead controllers left";
    const ABOUT: &'static str = "Lists containers, networks and volumes that dead controllers left on the engine, and what becomes of each; \
with `clean: true` removes them and tells each result. Never touches what is not labelled as ours or has a living controller.";
    const EFFECT: Effect = Effect::Replaces;
    type Told = OrphansTold;

    async fn call(self, call: Call) -> Result<Said<OrphansTold>, Failure> {
        let clean = self
            .clean
            .then(|| Duration::from_secs(self.timeout_seconds.clamp(1, 600)));
        let mut found = orphans::of(call.surface.settings(), &self.projects, clean).await?;
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
        let said = Said::new(OrphansTold { items: found }, text);
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
