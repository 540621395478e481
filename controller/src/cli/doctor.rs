//! `argus doctor`: diagnoses problems, most severe first, and writes a support bundle.

use std::collections::BTreeSet;
use std::path::PathBuf;

use argus_core::preflight::size;
use argus_core::quoting::{escape_line, shell_path};
use clap::Args;

use super::call;
use crate::api::doctor;
use crate::api::doctor::findings::{Finding, FindingSeverity};
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::render::table;
use crate::render::table::Column;
use crate::settings::{Options, SpecOptions};

const FINDINGS: &[Column<Finding>] = &[
    ("SEVERITY", |finding| match finding.severity {
        FindingSeverity::Fail => output::red("fail"),
        FindingSeverity::Warn => output::yellow("warn"),
    }),
    ("WHERE", |finding| finding.place.clone()),
    ("CODE", |finding| {
        finding.code.map(|code| code.to_string()).unwrap_or_default()
    }),
    ("PROBLEM", |finding| finding.message.clone()),
];

/// Size of a build cache from which the command names it, in bytes.
const LARGE_CACHE: u64 = 1_000_000_000;

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    specs: SpecOptions,
    /// Write a support bundle: a tar file without secrets or spec files
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

impl Doctor {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &self.specs)?;
        let found = call::run(&context, &doctor::Doctor { bundle: self.out })?;
        let findings = &found.findings;
        let places = findings.iter().map(|finding| &finding.place);
        self.output.print(&found, places, || format_findings(findings))?;
        if let Some(bytes) = found.build_cache_bytes.filter(|bytes| *bytes >= LARGE_CACHE) {
            let cache = size(bytes);
            output::print_note(&format!(
                "the unused build cache of the engine has {cache}; limit it with `build-cache-limit` in `argus.toml`"
            ));
        }
        match &found.bundle {
            Some(out) => output::print_note(&format!(
                "wrote `{}`; inspect it with `tar -tvf {}` before you share it",
                escape_line(out),
                shell_path(out)
            )),
            None if !findings.is_empty() => output::print_note(&output::format_hint(
                "write a support bundle without secrets with `argus doctor --out support.tar`",
            )),
            None => {}
        }
        Ok(exit_for_findings(findings))
    }
}

/// Exit code of the most severe finding; warnings alone are a success.
fn exit_for_findings(findings: &[Finding]) -> Exit {
    match findings
        .first()
        .filter(|worst| worst.severity == FindingSeverity::Fail)
    {
        None => Exit::Done,
        Some(worst) => worst.code.map_or(Exit::Unexpected, Exit::from_code),
    }
}

fn format_findings(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return format!("{}\n", output::green("no problems found"));
    }
    let mut text = table::format_columns(FINDINGS, findings, output::terminal_width());
    let mut printed = BTreeSet::new();
    let hints = findings.iter().flat_map(|one| &one.remedies);
    let hints = hints.filter(|hint| printed.insert(hint.as_str()));
    text.push_str(&output::join_lines(hints.map(output::format_hint)));
    text
}
