//! `argus doctor`: everything that is wrong as far as can be found out, the worst first, and a bundle of it for others.

use std::path::PathBuf;

use argus_backend::Backend as _;
use argus_core::secrets::Secrets;
use argus_crds::status::{ControllerStatus, EnvironmentStatus, PreflightReport};
use argus_reconciler::identity;
use argus_reconciler::specs::{SpecRegistry, StartingPoint};
use argus_reconciler::state_dir::StateDir;
use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::output::{self, Format};
use super::{incidents, plan, preflight, spec_files, status, table};
use crate::app;
use crate::blocking_io;
use crate::exit::{Exit, Failure};
use crate::settings::{Options, Settings, SpecOptions};

mod bundle;
mod findings;
mod machine;

use findings::{Finding, FindingSeverity};

const HEAD: &[&str] = &["GRAVITY", "WHERE", "FOUND", "CODE"];

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    specs: SpecOptions,
    /// Write a bundle for whoever is to help: a tar file without secrets and without the spec files
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Format
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

/// All that was found out; what could not be is told in words.
struct DoctorInputs {
    settings: Settings,
    state: StateDir,
    alive: bool,
    controller: Option<ControllerStatus>,
    environments: Vec<EnvironmentStatus>,
    incidents: Vec<argus_crds::incident::Incident>,
    book: SpecRegistry,
    preflight: PreflightReport,
    /// What is not told, of all files.
    secrets: Secrets,
}

/// What goes into a bundle, and is no sign of anything by itself.
struct OtherInputs {
    engine: Result<Value, String>,
    plan: Result<String, String>,
}

/// What is told, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DoctorReport {
    healthy: bool,
    findings: Vec<Finding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bundle: Option<String>,
}

/// What is wrong.
pub(crate) async fn told(settings: Settings) -> Result<DoctorReport, Failure> {
    let findings = findings::of(&look(settings).await?);
    Ok(DoctorReport {
        healthy: findings.is_empty(),
        findings,
        bundle: None,
    })
}

impl Doctor {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let seen = super::block_on(look(Settings::resolve(options, &self.specs)?))?;
        let findings = findings::of(&seen);
        if let Some(out) = &self.out {
            let beside = super::block_on(beside(&seen))?;
            bundle::write(out, &seen, &beside, &findings)?;
        }
        let told = DoctorReport {
            healthy: findings.is_empty(),
            findings,
            bundle: self.out.as_ref().map(|out| out.display().to_string()),
        };
        let findings = &told.findings;
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::json(&told)?,
            Format::Yaml => output::yaml(&told)?,
            Format::Name => output::data(&output::lines(findings.iter().map(|one| &one.place)))?,
            Format::Table | Format::Wide => output::data(&text(findings))?,
        }
        match &self.out {
            Some(out) => output::note(&format!(
                "wrote `{}`; look into it before you give it away: `tar -tvf {0}`",
                out.display()
            )),
            None if !findings.is_empty() => output::note(&format!(
                "{} `argus doctor --out support.tar` writes all of it down, without secrets",
                output::cyan("hint:")
            )),
            None => {}
        }
        Ok(exit(findings))
    }
}

/// As the worst that was found would end; warnings are no failure.
fn exit(findings: &[Finding]) -> Exit {
    match findings
        .first()
        .filter(|worst| worst.severity == FindingSeverity::Fail)
    {
        None => Exit::Done,
        Some(worst) => worst.code.map_or(Exit::Unexpected, Exit::of),
    }
}

async fn look(settings: Settings) -> Result<DoctorInputs, Failure> {
    let preflight = Box::pin(preflight::look(&settings, &[], false)).await?;
    blocking_io::read(move || read(settings, preflight)).await
}

/// What lies in files.
fn read(settings: Settings, preflight: PreflightReport) -> Result<DoctorInputs, Failure> {
    let state = StateDir::at(settings.state.clone());
    let kept: StartingPoint = status::peek(&state.specs_json());
    let identity = identity::peek(&state.identity()).unwrap_or_default();
    let book = spec_files::folder(&settings, &settings.specs, &identity, kept)?;
    let mut secrets = Secrets::default();
    let held = book.files.values().filter_map(|entry| entry.holds.as_ref());
    for accepted in held.chain(book.environments.values()) {
        secrets.join(&accepted.desired.not_to_be_told());
    }
    Ok(DoctorInputs {
        alive: status::is_alive(&state),
        controller: status::controller(&state)?,
        environments: status::all(&state)?,
        incidents: incidents::read(&state)?,
        settings,
        state,
        book,
        preflight,
        secrets,
    })
}

async fn beside(seen: &DoctorInputs) -> Result<OtherInputs, Failure> {
    let docker = app::docker(&seen.settings)?;
    let (engine, plan) = tokio::join!(docker.info(), plan::as_text(&seen.settings, &seen.book));
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

fn text(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return format!("{}\n", output::green("nothing is wrong"));
    }
    let row = |one: &Finding| {
        let gravity = match one.severity {
            FindingSeverity::Fail => output::red("fail"),
            FindingSeverity::Warn => output::yellow("warn"),
        };
        let code = one.code.map(|code| code.to_string());
        vec![
            gravity,
            one.place.clone(),
            code.unwrap_or_default(),
            one.message.clone(),
        ]
    };
    let rows: Vec<_> = findings.iter().map(row).collect();
    let mut lines = table::fitted(HEAD, &rows, output::width());
    let mut said = std::collections::BTreeSet::new();
    let hints = findings.iter().flat_map(|one| &one.remedies);
    for hint in hints.filter(|hint| said.insert(hint.as_str())) {
        lines.push(format!("{} {hint}", output::cyan("hint:")));
    }
    output::lines(lines)
}
