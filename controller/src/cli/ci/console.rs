//! Output for the CI system: sections, annotations and the files of the step. Everything goes to stderr, in one order.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use argus_core::quoting::PathText as _;
use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::StructuredError;
use argus_reconciler::{clock, identity};

use crate::api::validate::report::File as CheckedFile;
use crate::process::exit::Failure;
use crate::render::ci_system::{Annotation, Appended, CiSystem, Level, Section};
use crate::session::SpecChoice;
use crate::spec_files::find_suite_file;
use crate::test_runner::report::{FailedPlace, Report};

/// Console of a CI system.
pub(super) struct Console {
    system: CiSystem,
    current: PathBuf,
    /// Annotations for the end, because the system shows only some of them.
    annotations: RefCell<Vec<Annotation>>,
}

impl Console {
    pub(super) fn new(system: CiSystem) -> Result<Self, Failure> {
        let current = std::env::current_dir()
            .map_err(|error| Failure::operation_failed("cannot read the current folder", &error))?;
        Ok(Self {
            system,
            current,
            annotations: RefCell::default(),
        })
    }

    /// Runs a step within a section.
    pub(super) async fn within<T>(&self, section: Section, work: impl Future<Output = T>) -> T {
        write(&self.system.begin(section, clock::now()));
        let result = work.await;
        write(&self.system.end(section, clock::now()));
        result
    }

    /// Annotates the diagnostics of a file.
    pub(super) fn annotate_file(&self, file: &CheckedFile) {
        for found in &file.diagnostics {
            self.annotate(of_diagnostic(found, &file.spec_path));
        }
    }

    /// Annotates the file of the environment with the failure of a step.
    pub(super) fn annotate_failure(&self, failure: &Failure, spec: Option<&SpecChoice>) {
        let Failure::Error { error, .. } = failure else {
            return;
        };
        let diagnostics = error.details.get("diagnostics").cloned().unwrap_or_default();
        let diagnostics: Vec<Diagnostic> = serde_json::from_value(diagnostics).unwrap_or_default();
        let file = spec.map(|spec| spec.file.clone());
        let file = file.or_else(|| error.spec_path.as_ref().map(PathBuf::from));
        for found in &diagnostics {
            let name = file.as_deref().unwrap_or(Path::new("")).display().to_string();
            self.annotate(of_diagnostic(found, &name));
        }
        if diagnostics.is_empty() {
            self.annotate(of_error(error, file));
        }
    }

    /// Annotates the suite files with their failed cases.
    pub(super) fn annotate_report(&self, report: &Report, spec: Option<&SpecChoice>) {
        let folder = spec.and_then(|spec| spec.file.parent()).unwrap_or(Path::new(""));
        for place in report.failed_places() {
            let message = place.describe();
            let FailedPlace {
                suite,
                case,
                file,
                line,
                message: _,
                output: _,
                attribution: _,
            } = place;
            // A failed command belongs to the spec file, which names it.
            let path = match file {
                Some(file) => Some(find_suite_file(folder, file)),
                None => spec.map(|spec| spec.file.clone()),
            };
            self.annotate(Annotation {
                level: Level::Error,
                file: path,
                line,
                column: None,
                title: if suite == case {
                    suite.to_owned()
                } else {
                    format!("{suite}: {case}")
                },
                message,
            });
        }
    }

    fn annotate(&self, annotation: Annotation) {
        self.annotations.borrow_mut().push(annotation);
    }

    /// Prints the annotations.
    pub(super) fn print_annotations(&self) {
        write(&self.system.annotate(self.annotations.take(), &self.current));
    }

    /// Gives the addresses to later steps.
    pub(super) fn publish_variables(&self, variables: &BTreeMap<String, String>) -> Result<(), Failure> {
        let appended = self.system.publish_variables(variables, &new_delimiter());
        appended.iter().try_for_each(append)
    }

    /// Gives the results to the workflow.
    pub(super) fn publish_results(
        &self,
        results: &BTreeMap<String, String>,
        summary: &str,
    ) -> Result<(), Failure> {
        let appended = self.system.publish_results(results, summary, &new_delimiter());
        appended.iter().try_for_each(append)
    }
}

/// Random text, which is in no value.
fn new_delimiter() -> String {
    format!("argus_{}", identity::new_ulid(clock::now()))
}

fn write(text: &str) {
    // The escape sequences of sections are no colours. A closed stderr does not end the run.
    drop(std::io::stderr().lock().write_all(text.as_bytes()));
}

fn append(appended: &Appended) -> Result<(), Failure> {
    let path = &appended.path;
    let opened = File::options().create(true).append(true).open(path);
    let written = opened.and_then(|mut file| {
        let used = file.metadata()?.len();
        file.write_all(appended.fit(used).as_bytes())
    });
    written.map_err(|error| Failure::operation_failed(&format!("cannot write `{}`", path.shown()), &error))
}

fn of_diagnostic(found: &Diagnostic, file: &str) -> Annotation {
    let hint = found.hint.as_ref().map(|hint| format!("\nhint: {hint}"));
    Annotation {
        level: if found.is_error() {
            Level::Error
        } else {
            Level::Warning
        },
        file: Some(file.into()),
        line: found.location.map(|at| at.line),
        column: found.location.map(|at| at.column),
        title: found.path.clone(),
        message: format!("{}{}", found.message, hint.unwrap_or_default()),
    }
}

fn of_error(error: &StructuredError, file: Option<PathBuf>) -> Annotation {
    let mut message = error.message.clone();
    for tail in [&error.stdout_tail, &error.stderr_tail].into_iter().flatten() {
        message.push('\n');
        message.push_str(tail.trim_end());
    }
    Annotation {
        level: Level::Error,
        line: error.spec_line.filter(|_| file.is_some()),
        file,
        column: None,
        title: error.code.to_string(),
        message,
    }
}
