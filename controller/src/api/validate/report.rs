//! Checks of spec files and folders.

use std::path::{Path, PathBuf};

use argus_core::quoting::PathText as _;
use argus_crds::diagnostic::Diagnostic;
use argus_reconciler::specs::{FileState, PersistedSpecs};
use schemars::JsonSchema;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::process::exit::Failure;
use crate::settings::Settings;
use crate::spec_files;
use crate::spec_files::SpecFile;

/// Checks files, and all spec files of folders, until `stop`. Adds remarks about the folders to `notes`.
pub(crate) fn check_paths(
    settings: &Settings,
    paths: &[PathBuf],
    notes: &mut Vec<String>,
    stop: &CancellationToken,
) -> Result<Vec<SpecFile>, Failure> {
    let mut all = Vec::new();
    for path in paths {
        if path.is_dir() {
            all.extend(check_folder(settings, path, notes, stop)?);
        } else {
            all.push(spec_files::read_file(settings, path, stop));
        }
    }
    Ok(all)
}

/// Returns true if a file is rejected.
pub(crate) fn is_rejected(file: &SpecFile) -> bool {
    file.desired.is_none() || file.diagnostics.iter().any(Diagnostic::is_error)
}

fn check_folder(
    settings: &Settings,
    path: &Path,
    notes: &mut Vec<String>,
    stop: &CancellationToken,
) -> Result<Vec<SpecFile>, Failure> {
    let registry = spec_files::read_folder(settings, path, "", PersistedSpecs::default(), stop);
    if let Some(cause) = registry.unavailable {
        let details = serde_json::json!({ "path": path, "reason": cause });
        return Err(Failure::with_code(argus_crds::error::Code::SpecInvalid, cause).with_details(details));
    }
    notes.extend(registry.notes);
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
    /// Content of the file.
    #[serde(skip)]
    pub(crate) text: String,
    pub(crate) spec_path: String,
    /// True if the file is accepted.
    pub(crate) accepted: bool,
    pub(crate) environment: Option<String>,
    pub(crate) revision: Option<String>,
    pub(crate) services: Option<Vec<String>>,
    /// Name of the YAML suite, in the file of a suite.
    pub(crate) suite: Option<String>,
    /// Number of cases of the YAML suite.
    pub(crate) cases: Option<usize>,
    /// Errors and warnings with location and hint.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Report about checked spec files, and about the suite files that they name.
pub(crate) fn create_report(all: Vec<SpecFile>, suites: Vec<File>) -> ValidationReport {
    let one = |file: SpecFile| {
        let desired = file.desired.as_ref();
        File {
            spec_path: file.path.shown().to_string(),
            accepted: !is_rejected(&file),
            environment: desired.map(|desired| desired.env.to_string()),
            revision: desired.map(|desired| desired.revision.to_string()),
            services: desired.map(|desired| desired.services.keys().map(ToString::to_string).collect()),
            suite: None,
            cases: None,
            diagnostics: file.diagnostics,
            text: file.text,
        }
    };
    ValidationReport {
        accepted: !all.iter().any(is_rejected) && suites.iter().all(|suite| suite.accepted),
        files: all.into_iter().map(one).chain(suites).collect(),
    }
}
