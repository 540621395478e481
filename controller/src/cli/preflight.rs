//! `argus preflight`: checks engine, disk and host against the specs.

use std::fmt::Write as _;

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{
    CheckName, CheckResult, PreflightCheck, PreflightFix, PreflightOverall, PreflightReport,
};
use clap::Args;

use super::call;
use crate::api::preflight;
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::render::table;
use crate::render::table::Column;
use crate::settings::{Options, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Preflight {
    #[command(flatten)]
    specs: SpecOptions,
    /// Remove orphans of this controller's projects, then check again
    #[arg(long)]
    fix: bool,
    /// Skip checks: engine, api, disk, orphans, ports, networks, images, journal, clock
    #[arg(long, value_name = "CHECK", value_delimiter = ',', value_parser = parse_check_name)]
    skip: Vec<CheckName>,
    #[command(flatten)]
    output: OutputArgs,
}

impl Preflight {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &self.specs)?;
        let found = call::run(&context, &preflight::Preflight::new(self.skip, self.fix))?;
        let failed = failed_checks(&found.checks).map(|check| check.name);
        self.output.print(&found, failed, || {
            table::format_prose(&format_report(&found), output::terminal_width())
        })?;
        Ok(exit_for_report(&found))
    }
}

/// Parses the name of a check.
pub(crate) fn parse_check_name(text: &str) -> Result<CheckName, String> {
    let found = CheckName::ALL.iter().find(|name| name.as_str() == text);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = CheckName::ALL.iter().map(|name| name.as_str()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

fn failed_checks(checks: &[PreflightCheck]) -> impl Iterator<Item = &PreflightCheck> {
    checks.iter().filter(|check| check.result == CheckResult::Fail)
}

/// Failure of an unhealthy report: its first failed check.
pub(super) fn failure_of_report(found: &PreflightReport) -> Failure {
    let failed = failed_checks(&found.checks).next();
    let message = failed.map_or("the host is not healthy", |check| &check.message);
    let code = failed.and_then(|check| check.code).unwrap_or(Code::Internal);
    Failure::with_code(code, message).with_exit(exit_for_report(found))
}

/// Healthy and degraded reports are a success. An unhealthy report ends with the exit code of its first failed check.
fn exit_for_report(found: &PreflightReport) -> Exit {
    match failed_checks(&found.checks).next() {
        None => Exit::Done,
        Some(check) => check.code.map_or(Exit::Unexpected, Exit::from_code),
    }
}

pub(super) fn format_report(found: &PreflightReport) -> String {
    let table = |checks| table::format_columns(CHECKS, checks, output::terminal_width());
    let mut text = String::new();
    if let Some(before) = &found.before {
        let overall = format_overall(before.overall);
        let fixes = output::join_lines(found.fixed.iter().map(format_fix));
        // Writing into a String cannot fail.
        let _ = write!(text, "{}\nbefore: {overall}\n{fixes}\n", table(&before.checks));
    }
    let _ = write!(
        text,
        "{}\n{}\n",
        table(&found.checks),
        format_overall(found.overall)
    );
    let codes = failed_checks(&found.checks).filter_map(|check| check.code);
    let mut hints: Vec<String> = codes
        .flat_map(|code| output::format_hints(&StructuredError::new(code, "")))
        .collect();
    if found.fixed.is_empty() && has_orphan_warning(&found.checks) {
        hints.push(
            "remove orphans of the projects in the specs folder with `argus preflight --fix`".to_owned(),
        );
    }
    text + &output::join_lines(hints.into_iter().map(output::format_hint))
}

const CHECKS: &[Column<PreflightCheck>] = &[
    ("CHECK", |check| check.name.to_string()),
    ("RESULT", |check| format_result(check.result)),
    ("CODE", |check| {
        check.code.map(|code| code.to_string()).unwrap_or_default()
    }),
    ("DETAILS", |check| check.message.clone()),
];

fn has_orphan_warning(checks: &[PreflightCheck]) -> bool {
    checks
        .iter()
        .any(|check| check.code == Some(Code::OrphanDetected))
}

fn format_fix(fix: &PreflightFix) -> String {
    match (&fix.message, fix.removed) {
        (_, true) => format!("removed {} `{}`", fix.kind, fix.name),
        (message, false) => {
            let message = message.as_deref().unwrap_or("it still exists");
            format!(
                "{} {} `{}`: {message}",
                output::red("not removed:"),
                fix.kind,
                fix.name
            )
        }
    }
}

fn format_result(result: CheckResult) -> String {
    match result {
        CheckResult::Pass => output::green("pass"),
        CheckResult::Warn => output::yellow("warn"),
        CheckResult::Fail => output::red("fail"),
        CheckResult::Skipped => "skipped".to_owned(),
    }
}

fn format_overall(overall: PreflightOverall) -> String {
    match overall {
        PreflightOverall::Healthy => output::green("healthy"),
        PreflightOverall::Degraded => output::yellow("degraded"),
        PreflightOverall::Unhealthy => output::red("unhealthy"),
    }
}
