//! `argus doctor`: diagnoses problems, most severe first, and writes a support bundle.

use std::path::PathBuf;

use argus_backend::Backend as _;
use argus_core::secrets::Secrets;
use argus_crds::status::{ControllerStatus, EnvironmentStatus, PreflightReport};
use argus_reconciler::identity;
use argus_reconciler::specs::{PersistedSpecs, SpecRegistry};
use argus_reconciler::state_dir::StateDir;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::incidents;
use super::plan;
use super::preflight;
use crate::app;
use crate::blocking_io;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::settings::{Options, Settings, SpecOptions};
use crate::spec_files;
use crate::status;
use crate::table;

mod bundle;
mod findings;
mod machine;

use findings::{Finding, FindingSeverity};

const HEAD: &[&str] = &["SEVERITY", "WHERE", "CODE", "PROBLEM"];

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    specs: SpecOptions,
    /// Write a support bundle: a tar file without secrets or spec files
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

/// Inputs of the findings: settings, status files, specs and the preflight report.
struct DoctorInputs {
    settings: Settings,
    state: StateDir,
    alive: bool,
    controller: Option<ControllerStatus>,
    environments: Vec<EnvironmentStatus>,
    incidents: Vec<argus_crds::incident::Incident>,
    book: SpecRegistry,
    preflight: PreflightReport,
    /// Secrets of all spec files. Redacted in the report and in the bundle.
    secrets: Secrets,
}

/// Further contents of a bundle. They are not evaluated.
struct OtherInputs {
    engine: Result<Value, String>,
    plan: Result<String, String>,
}

/// Report for `-o json`, `-o yaml` and HTTP.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DoctorReport {
    healthy: bool,
    findings: Vec<Finding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bundle: Option<String>,
}

/// Diagnoses the controller, its engine and its environments.
pub(crate) async fn create_report(settings: Settings) -> Result<DoctorReport, Failure> {
    let findings = findings::collect_findings(&gather_inputs(settings).await?);
    Ok(DoctorReport {
        healthy: findings.is_empty(),
        findings,
        bundle: None,
    })
}

impl Doctor {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let inputs = super::block_on(gather_inputs(Settings::resolve(options, &self.specs)?))?;
        let findings = findings::collect_findings(&inputs);
        if let Some(out) = &self.out {
            let other = super::block_on(gather_other_inputs(&inputs))?;
            bundle::write_bundle(out, &inputs, &other, &findings)?;
        }
        let report = DoctorReport {
            healthy: findings.is_empty(),
            findings,
            bundle: self.out.as_ref().map(|out| out.display().to_string()),
        };
        let findings = &report.findings;
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::print_json(&report)?,
            Format::Yaml => output::print_yaml(&report)?,
            Format::Name => output::print(&output::join_lines(findings.iter().map(|one| &one.place)))?,
            Format::Table | Format::Wide => output::print(&format_findings(findings))?,
        }
        match &self.out {
            Some(out) => output::print_note(&format!(
                "wrote `{}`; inspect it with `tar -tvf {0}` before you share it",
                out.display()
            )),
            None if !findings.is_empty() => output::print_note(&format!(
                "{} write a support bundle without secrets with `argus doctor --out support.tar`",
                output::cyan("hint:")
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

async fn gather_inputs(settings: Settings) -> Result<DoctorInputs, Failure> {
    let preflight = Box::pin(preflight::run_checks(&settings, &[], false)).await?;
    blocking_io::read(move || read_inputs(settings, preflight)).await
}

/// Reads the inputs that are files.
fn read_inputs(settings: Settings, preflight: PreflightReport) -> Result<DoctorInputs, Failure> {
    let state = StateDir::at(settings.state.clone());
    let stored: PersistedSpecs = status::read_or_default(&state.specs_json());
    let identity = identity::peek(&state.identity()).unwrap_or_default();
    let book = spec_files::read_folder(&settings, &settings.specs, &identity, stored)?;
    let mut secrets = Secrets::default();
    let accepted = book.files.values().filter_map(|entry| entry.accepted.as_ref());
    for accepted in accepted.chain(book.environments.values()) {
        secrets.join(&accepted.desired.secret_values());
    }
    Ok(DoctorInputs {
        alive: status::is_alive(&state),
        controller: status::read_controller(&state)?,
        environments: status::read_environments(&state)?,
        incidents: incidents::read_incidents(&state)?,
        settings,
        state,
        book,
        preflight,
        secrets,
    })
}

async fn gather_other_inputs(inputs: &DoctorInputs) -> Result<OtherInputs, Failure> {
    let docker = app::connect_docker(&inputs.settings)?;
    let (engine, plan) = tokio::join!(
        docker.info(),
        plan::format_forecasts_for(&inputs.settings, &inputs.book)
    );
    let engine = engine.map_err(|error| error.to_string()).map(|about| {
        serde_json::json!({
            "version": about.version,
            "apiVersion": about.api_version,
            "dataRoot": about.data_root,
            "endpoint": about.endpoint,
            "facts": about.facts,
        })
    });
    Ok(OtherInputs {
        engine,
        plan: plan.map_err(|failure| failure.message().to_owned()),
    })
}

fn format_findings(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return format!("{}\n", output::green("no problems found"));
    }
    let row = |one: &Finding| {
        let severity = match one.severity {
            FindingSeverity::Fail => output::red("fail"),
            FindingSeverity::Warn => output::yellow("warn"),
        };
        let code = one.code.map(|code| code.to_string());
        vec![
            severity,
            one.place.clone(),
            code.unwrap_or_default(),
            one.message.clone(),
        ]
    };
    let rows: Vec<_> = findings.iter().map(row).collect();
    let mut lines = table::format_fitted(HEAD, &rows, output::terminal_width());
    let mut printed = std::collections::BTreeSet::new();
    let hints = findings.iter().flat_map(|one| &one.remedies);
    for hint in hints.filter(|hint| printed.insert(hint.as_str())) {
        lines.push(format!("{} {hint}", output::cyan("hint:")));
    }
    output::join_lines(lines)
}
