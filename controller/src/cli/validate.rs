//! `argus validate`: checks spec files and reports all errors, without an engine.

use std::path::{Path, PathBuf};

use argus_crds::diagnostic::{self, Diagnostic};
use argus_reconciler::specs::{FileState, PersistedSpecs};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::settings::{Options, Settings, SpecOptions};
use crate::spec_files;
use crate::spec_files::SpecFile;
use crate::table;

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Spec files or folders [default: the specs folder]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    specs: SpecOptions,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Validate {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &self.specs)?;
        let paths = if self.paths.is_empty() {
            vec![settings.specs.clone()]
        } else {
            self.paths
        };
        let all = check_paths(&settings, &paths)?;
        let rejected = all.iter().filter(|file| is_rejected(file)).count();
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::print_json(&create_report(&all))?,
            Format::Yaml => output::print_yaml(&create_report(&all))?,
            Format::Name => {
                let good = all.iter().filter_map(|file| file.desired.as_ref());
                output::print(&output::join_lines(good.map(|desired| &desired.env)))?;
            }
            Format::Table | Format::Wide => print_files(&all)?,
        }
        if all.is_empty() {
            output::print_note("no spec files; their names are `e2e.yaml` or `NAME.e2e.yaml`");
        }
        Ok(if rejected > 0 {
            Exit::SpecRejected
        } else {
            Exit::Done
        })
    }
}

/// Checks files, and all spec files of folders.
pub(crate) fn check_paths(settings: &Settings, paths: &[PathBuf]) -> Result<Vec<SpecFile>, Failure> {
    let mut all = Vec::new();
    for path in paths {
        if path.is_dir() {
            all.extend(check_folder(settings, path)?);
        } else {
            all.push(spec_files::read_file(settings, path));
        }
    }
    Ok(all)
}

/// Returns true if a file is rejected.
pub(crate) fn is_rejected(file: &SpecFile) -> bool {
    file.desired.is_none() || file.diagnostics.iter().any(Diagnostic::is_error)
}

fn check_folder(settings: &Settings, path: &Path) -> Result<Vec<SpecFile>, Failure> {
    let registry = spec_files::read_folder(settings, path, "", PersistedSpecs::default())?;
    if let Some(cause) = registry.unavailable {
        let details = serde_json::json!({ "path": path, "reason": cause });
        return Err(Failure::with_code(argus_crds::error::Code::SpecInvalid, cause).with_details(details));
    }
    registry
        .notes
        .iter()
        .for_each(|note| output::print_note(&format!("note: {note}")));
    let file = |(name, entry): (PathBuf, argus_reconciler::specs::FileEntry)| SpecFile {
        path: path.join(name),
        text: entry
            .text
            .map(|text| String::from_utf8_lossy(&text.bytes).into_owned())
            .unwrap_or_default(),
        diagnostics: entry.diagnostics,
        desired: match entry.state {
            FileState::Accepted => entry.accepted.map(|held| held.desired.clone()),
            FileState::Unread | FileState::Rejected | FileState::Conflict { .. } => None,
        },
    };
    Ok(registry.files.into_iter().map(file).collect())
}

fn print_files(all: &[SpecFile]) -> Result<(), Failure> {
    for file in all {
        let name = file.path.display().to_string();
        if !file.diagnostics.is_empty() {
            output::print_note(&diagnostic::render(&name, &file.text, &file.diagnostics));
        }
        let line = if let Some(desired) = &file.desired {
            let services = output::format_count(desired.services.len(), "service");
            let revision: String = desired.revision.as_str().chars().take(12).collect();
            let ok = output::green("ok");
            format!(
                "{name}: {ok} environment `{}`, {services}, revision {revision}\n",
                desired.env
            )
        } else {
            let errors = file
                .diagnostics
                .iter()
                .filter(|diagnostic| diagnostic.is_error())
                .count();
            format!(
                "{name}: {} ({})\n",
                output::red("rejected"),
                output::format_count(errors, "error")
            )
        };
        output::print(&table::format_prose(&line, output::terminal_width()))?;
    }
    Ok(())
}

/// Result of a validation for programs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ValidationReport {
    /// True if all files are accepted.
    pub(crate) accepted: bool,
    pub(crate) files: Vec<File>,
}

/// Result of one file.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct File {
    pub(crate) spec_path: String,
    /// True if the file is accepted.
    pub(crate) accepted: bool,
    pub(crate) environment: Option<String>,
    pub(crate) revision: Option<String>,
    pub(crate) services: Option<Vec<String>>,
    /// Errors and warnings with location and hint.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Report about checked files.
pub(crate) fn create_report(all: &[SpecFile]) -> ValidationReport {
    let one = |file: &SpecFile| {
        let desired = file.desired.as_ref();
        File {
            spec_path: file.path.display().to_string(),
            accepted: !is_rejected(file),
            environment: desired.map(|desired| desired.env.to_string()),
            revision: desired.map(|desired| desired.revision.to_string()),
            services: desired.map(|desired| desired.services.keys().map(ToString::to_string).collect()),
            diagnostics: file.diagnostics.clone(),
        }
    };
    ValidationReport {
        accepted: !all.iter().any(is_rejected),
        files: all.iter().map(one).collect(),
    }
}
