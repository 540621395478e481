//! Checks of the YAML suites that spec files name.

use std::collections::BTreeSet;
use std::path::Path;

use argus_core::quoting::PathText as _;
use argus_crds::diagnostic::{Diagnostic, DiagnosticSeverity};
use argus_crds::suite::{Runner, Tests};
use argus_reconciler::specs::scan::MAX_FILE_BYTES;
use tokio_util::sync::CancellationToken;

use super::report::File;
use crate::settings::Settings;
use crate::spec_files::{SpecFile, find_suite_file, read_suite_file};

/// Checks each suite file once, until `stop`. A suite without its file is a warning about the spec file.
pub(super) fn check_suites(
    specs: &mut [SpecFile],
    settings: &Settings,
    stop: &CancellationToken,
) -> Vec<File> {
    let strict = settings.strict;
    let (mut suites, mut known) = (Vec::new(), BTreeSet::new());
    for spec in specs.iter_mut().take_while(|_| !stop.is_cancelled()) {
        let name = spec.path.shown().to_string();
        let read = argus_crds::yaml::read(&name, spec.text.as_bytes());
        let Some(tests) = read.spec.and_then(|spec| spec.tests) else {
            continue;
        };
        let folder = spec.path.parent().unwrap_or(Path::new(".")).to_owned();
        for (index, file) in named_files(&tests) {
            let path = find_suite_file(&folder, file);
            match read_suite_file(settings, &spec.path, file, false) {
                Ok(Some(bytes)) if known.insert(path.clone()) => {
                    suites.push(check_suite(&path, &bytes, strict));
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    let message = format!("the suite file is larger than {MAX_FILE_BYTES} bytes");
                    suites.push(rejected(&path, message));
                }
                Err(error) => {
                    let message = format!("cannot read the suite file `{}`: {error}", path.shown());
                    let at = format!("tests.suites[{index}].file");
                    let diagnostic =
                        Diagnostic::warning(at, message).hint("write the suite, or correct its path");
                    spec.diagnostics
                        .push(with_strictness(read.source.with_location(diagnostic), strict));
                }
            }
        }
    }
    suites
}

/// Files of the runner `yaml`, with the index of their suite.
fn named_files(tests: &Tests) -> Vec<(usize, &str)> {
    let suites = tests.suites.iter().enumerate();
    suites
        .filter(|(_, suite)| suite.runner == Runner::Yaml)
        .filter_map(|(index, suite)| Some((index, suite.file.as_deref()?)))
        .collect()
}

fn check_suite(path: &Path, bytes: &[u8], strict: bool) -> File {
    let name = path.shown().to_string();
    let parsed = argus_suite::parse(&name, bytes);
    let diagnostics: Vec<Diagnostic> = parsed
        .diagnostics
        .into_iter()
        .map(|diagnostic| with_strictness(diagnostic, strict))
        .collect();
    let is_rejected = diagnostics.iter().any(Diagnostic::is_error);
    let suite = parsed.suite.as_ref();
    File {
        accepted: !is_rejected,
        suite: suite.map(|suite| suite.name.clone()),
        cases: suite.map(|suite| suite.cases.len()),
        text: String::from_utf8_lossy(bytes).into_owned(),
        diagnostics,
        ..rejected(path, String::new())
    }
}

fn rejected(path: &Path, message: String) -> File {
    File {
        text: String::new(),
        spec_path: path.shown().to_string(),
        accepted: false,
        environment: None,
        revision: None,
        services: None,
        suite: None,
        cases: None,
        diagnostics: vec![Diagnostic::error("", message)],
    }
}

fn with_strictness(diagnostic: Diagnostic, strict: bool) -> Diagnostic {
    let severity = if strict {
        DiagnosticSeverity::Error
    } else {
        diagnostic.severity
    };
    Diagnostic {
        severity,
        ..diagnostic
    }
}
