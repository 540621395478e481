//! Preflight checks: engine, disk and more against the specs.

pub(crate) mod checks;
pub(crate) mod facts;
mod fix;
pub(crate) mod run;

use std::fmt::Write as _;

use argus_crds::error::Code;
use argus_crds::status::{CheckName, CheckResult, PreflightOverall, PreflightReport};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};
use crate::process::exit::Failure;
use crate::render::foreign_text::mark_further_lines;
use run::{PREFLIGHT, run_preflight};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an established name of an argument"
)]
pub(crate) struct Preflight {
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
    /// True before a start of the environments, whatever was taken down before. Only commands start them.
    #[serde(skip)]
    starts: bool,
}

impl Preflight {
    /// Creates the checks of a command.
    pub(crate) fn new(skip: Vec<CheckName>, auto_fix: bool) -> Self {
        Self {
            skip,
            skip_disk_check: false,
            skip_orphan_check: false,
            skip_network_check: false,
            auto_fix,
            starts: false,
        }
    }

    /// Creates the checks before a command that starts the environments of its file.
    pub(crate) fn before_start() -> Self {
        Self {
            starts: true,
            ..Self::new(Vec::new(), false)
        }
    }
}

/// Arguments that repeat `skip`.
const SAME_AS_SKIP: &[&str] = &["skipDiskCheck", "skipOrphanCheck", "skipNetworkCheck"];

impl Operation for Preflight {
    const EFFECT: Effect = Effect::Destructive;
    const ROUTES: &'static [Route] = &[
        Route::get(
            PREFLIGHT,
            "checks engine, disk, orphans, ports, networks and more",
        )
        .fixed(&[("autoFix", "false")])
        .without(SAME_AS_SKIP)
        .serial(),
        Route::post(
            PREFLIGHT,
            "the same checks; `autoFix` removes orphans and checks again",
        )
        .without(SAME_AS_SKIP),
    ];
    type Output = PreflightReport;

    async fn run(&self, context: &Context) -> Result<PreflightReport, Failure> {
        let flags = [
            (self.skip_disk_check, CheckName::Disk),
            (self.skip_orphan_check, CheckName::Orphans),
            (self.skip_network_check, CheckName::Networks),
        ];
        let mut skip = self.skip.clone();
        let flagged = flags
            .into_iter()
            .filter_map(|(flag, check)| flag.then_some(check));
        skip.extend(flagged);
        run_preflight(&context.client, &skip, self.auto_fix, self.starts).await
    }
}

impl Tool for Preflight {
    const NAME: &'static str = "argus_preflight_check";
    const TITLE: &'static str = "Check engine, disk and more";
    const ABOUT: &'static str = "Checks engine, API version, disk, orphans, ports, networks, images, journal and clock against the needs of \
the specs; each result is pass, warn, fail or skipped, with a reason. Needs no environment and no running controller. Call it if \
nothing starts, or before the first environment.";
    type Data = PreflightReport;

    async fn summarize(&self, report: PreflightReport, _context: &Context) -> Summary<PreflightReport> {
        let mut text = format!("preflight: {:?}\n", report.overall).to_lowercase();
        for check in &report.checks {
            if check.result != CheckResult::Pass {
                let code = check.code.map(|code| format!(" {code}")).unwrap_or_default();
                let result = format!("{:?}", check.result).to_lowercase();
                // Writing to a string cannot fail.
                let message = mark_further_lines(&check.message);
                let _ = writeln!(text, "{}: {result}{code}: {message}", check.name);
            }
        }
        for fix in &report.fixed {
            let word = if fix.removed { "removed" } else { "not removed" };
            let _ = writeln!(text, "{word}: {} {}", fix.kind, fix.name);
        }
        let mut next = Vec::new();
        let mut codes = report.checks.iter().map(|check| check.code);
        if codes.any(|code| code == Some(Code::OrphanDetected)) && !self.auto_fix {
            let fix = json!({ "autoFix": true });
            next.push(NextStep::new("remove them and check again", Self::NAME, fix));
        }
        if report.overall == PreflightOverall::Unhealthy {
            let is_failed = |check: &&argus_crds::status::PreflightCheck| check.result == CheckResult::Fail;
            let failed = report.checks.iter().filter(is_failed);
            next.extend(failed.filter_map(|check| check.code).map(|code| {
                let code = json!({ "code": code });
                NextStep::new("explanation and remedies", "argus_explain", code)
            }));
        }
        Summary {
            data: report,
            text,
            next,
        }
    }
}
