//! `argus preflight`: whether engine, disk and the rest are fit for what the specs ask for.

use argus_core::preflight::{Policy, PreflightFacts, report, verdicts};
use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{
    CheckName, CheckResult, PreflightBefore, PreflightCheck, PreflightFix, PreflightOverall, PreflightReport,
};
use argus_reconciler::clock;
use clap::Args;

use super::output::{self, Format};
use super::table;
use crate::blocking_io;
use crate::exit::{Exit, Failure};
use crate::settings::{Options, Settings, SpecOptions};

mod fix;
mod gather;

pub(super) use gather::{Place, Wanted, wanted};

#[derive(Debug, Args)]
pub(crate) struct Preflight {
    #[command(flatten)]
    specs: SpecOptions,
    /// Remove what dead runs of this controller left behind, then look again
    #[arg(long)]
    fix: bool,
    /// Checks that are not made: engine, api, disk, orphans, ports, networks, images, journal, clock
    #[arg(long, value_name = "CHECK", value_delimiter = ',', value_parser = check_name)]
    skip: Vec<CheckName>,
    /// Format
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Preflight {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &self.specs)?;
        let found = super::block_on(look(&settings, &self.skip, self.fix))?;
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::json(&found)?,
            Format::Yaml => output::yaml(&found)?,
            Format::Name => output::data(&output::lines(failed(&found.checks).map(|check| check.name)))?,
            Format::Table | Format::Wide => output::data(&table::prose(&text(&found), output::width()))?,
        }
        Ok(exit(&found))
    }
}

/// Looks at everything but what is skipped; mends what is safe to mend, if that is wanted, and looks again.
pub(crate) async fn look(
    settings: &Settings,
    skip: &[CheckName],
    mend: bool,
) -> Result<PreflightReport, Failure> {
    let begun = clock::now();
    let own = settings.clone();
    let ground = blocking_io::read(move || Place::of(&own)).await?;
    let told = |facts: &PreflightFacts, policy: &Policy| {
        let now = clock::now();
        report(verdicts(facts, policy, skip, now), now)
    };
    let (facts, policy) = Box::pin(ground.facts()).await;
    let mut found = told(&facts, &policy);
    if mend && !skip.contains(&CheckName::Orphans) {
        let fixed = fix::orphans(settings, &facts).await?;
        if !fixed.is_empty() {
            let (facts, policy) = Box::pin(ground.facts()).await;
            let before = found;
            found = PreflightReport {
                before: Some(PreflightBefore {
                    overall: before.overall,
                    checks: before.checks,
                    as_of: before.as_of,
                }),
                fixed,
                ..told(&facts, &policy)
            };
        }
    }
    found.took_ms = u64::try_from(clock::now().since(begun).as_millis()).ok();
    Ok(found)
}

/// A check by its name.
pub(crate) fn check_name(text: &str) -> Result<CheckName, String> {
    let found = CheckName::ALL.iter().find(|name| name.as_str() == text);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = CheckName::ALL.iter().map(|name| name.as_str()).collect();
        format!("there are: {}", names.join(", "))
    })
}

fn failed(checks: &[PreflightCheck]) -> impl Iterator<Item = &PreflightCheck> {
    checks.iter().filter(|check| check.result == CheckResult::Fail)
}

/// A report that is not unhealthy is a success; an unhealthy one ends as the first check that failed would.
fn exit(found: &PreflightReport) -> Exit {
    match failed(&found.checks).next() {
        None => Exit::Done,
        Some(check) => check.code.map_or(Exit::Unexpected, Exit::of),
    }
}

fn text(found: &PreflightReport) -> String {
    let mut lines = Vec::new();
    if let Some(before) = &found.before {
        lines.extend(rows(&before.checks));
        lines.extend([String::new(), format!("before: {}", overall(before.overall))]);
        lines.extend(found.fixed.iter().map(fix_line));
        lines.push(String::new());
    }
    lines.extend(rows(&found.checks));
    lines.extend([String::new(), overall(found.overall)]);
    let mut hints: Vec<String> = failed(&found.checks)
        .filter_map(|check| check.code)
        .flat_map(|code| output::hints(&StructuredError::new(code, "")))
        .collect();
    if found.fixed.is_empty() && warns_of_orphans(&found.checks) {
        hints.push("`argus preflight --fix` removes those of projects whose specs are held here; `argus orphans` lists all".to_owned());
    }
    lines.extend(
        hints
            .into_iter()
            .map(|hint| format!("{} {hint}", output::cyan("hint:"))),
    );
    output::lines(lines)
}

fn rows(checks: &[PreflightCheck]) -> Vec<String> {
    let row = |check: &PreflightCheck| {
        let code = check.code.map(|code| code.to_string()).unwrap_or_default();
        vec![
            check.name.to_string(),
            result(check.result),
            code,
            check.message.clone(),
        ]
    };
    table::fitted(
        &["CHECK", "RESULT", "CODE", "FOUND"],
        &checks.iter().map(row).collect::<Vec<_>>(),
        output::width(),
    )
}

fn warns_of_orphans(checks: &[PreflightCheck]) -> bool {
    checks
        .iter()
        .any(|check| check.code == Some(Code::OrphanDetected))
}

fn fix_line(fix: &PreflightFix) -> String {
    match (&fix.message, fix.removed) {
        (_, true) => format!("removed {} `{}`", fix.kind, fix.name),
        (why, false) => {
            let why = why.as_deref().unwrap_or("it is still there");
            format!(
                "{} {} `{}`: {why}",
                output::red("not removed:"),
                fix.kind,
                fix.name
            )
        }
    }
}

fn result(result: CheckResult) -> String {
    match result {
        CheckResult::Pass => output::green("pass"),
        CheckResult::Warn => output::yellow("warn"),
        CheckResult::Fail => output::red("fail"),
        CheckResult::Skipped => "skipped".to_owned(),
    }
}

fn overall(overall: PreflightOverall) -> String {
    match overall {
        PreflightOverall::Healthy => output::green("healthy"),
        PreflightOverall::Degraded => output::yellow("degraded"),
        PreflightOverall::Unhealthy => output::red("unhealthy"),
    }
}
