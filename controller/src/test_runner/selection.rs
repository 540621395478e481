//! Choice of the suites of a run. Suite files are read before anything runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use argus_crds::E2eSpec;
use argus_crds::diagnostic::{self, Diagnostic};
use argus_crds::error::Code;
use argus_crds::status::EnvironmentStatus;
use argus_crds::suite::{Runner, Suite, TestRetry, Tests};
use argus_reconciler::specs::scan::{MAX_FILE_BYTES, read_bounded};

use super::RunTests;
use super::report::Outcome;
use super::suite::{Case, LocalCommand, Work, create_case, suite_id};
use super::yaml::context::find_service;
use super::yaml::redaction::env_names;
use super::yaml::{SuiteOwner, YamlSuite};
use crate::api::logs::sources;
use crate::blocking_io;
use crate::client::ControllerClient;
use crate::exit::Failure;
use crate::output;
use crate::spec_files::find_suite_file;
use crate::status;

/// Suites of a run.
pub(super) struct Selection {
    /// Cases to run, in the order of the file.
    pub(super) cases: Vec<Case>,
    /// Results of suites that do not run.
    pub(super) decided: Vec<Outcome>,
}

impl RunTests {
    /// Returns the suites of this run: the command, or those of the spec file.
    pub(super) async fn select(
        &self,
        client: &ControllerClient,
        status: &EnvironmentStatus,
    ) -> Result<Selection, Failure> {
        if let Some(program) = self.command.first() {
            let folder = std::env::current_dir()
                .map_err(|error| Failure::operation_failed("cannot read the current folder", &error))?;
            let program_name = || {
                let name = Path::new(program).file_name();
                name.map_or_else(|| program.clone(), |name| name.to_string_lossy().into_owned())
            };
            let words = self.command.clone();
            return Ok(Selection {
                cases: vec![Case {
                    name: self.case.clone().unwrap_or_else(program_name),
                    work: Work::Command(LocalCommand { words, folder }),
                    retry: TestRetry::default(),
                }],
                decided: Vec::new(),
            });
        }
        let (there, named) = (client.state().clone(), status.spec_path.clone());
        let (env, wanted) = (self.environment.clone(), self.suites.clone());
        blocking_io::read(move || {
            let specs = status::read_controller(&there)?.map(|controller| controller.specs);
            let file = PathBuf::from(specs.unwrap_or_default()).join(named);
            let owner = SuiteOwner {
                spec: read_spec(&file)?,
                file,
                secrets: sources::read_secrets(&there, Some(&env)),
            };
            choose(&env, &wanted, &Arc::new(owner))
        })
        .await
    }
}

/// Returns the cases to run, and the results of suites that do not run.
fn choose(env: &str, wanted: &[String], owner: &Arc<SuiteOwner>) -> Result<Selection, Failure> {
    let none = Tests::default();
    let tests = owner.spec.tests.as_ref().unwrap_or(&none);
    let folder = owner.file.parent().unwrap_or(Path::new("."));
    let known: Vec<_> = tests.suites.iter().map(suite_id).collect();
    if known.is_empty() {
        let message = format!("`{}` has no suites under `tests`", owner.file.display());
        let hint = format!("run a command with `argus test run {env} -- COMMAND`");
        return Err(Failure::with_code(Code::PrereqMissing, message).with_hint(hint));
    }
    if let Some(unknown) = wanted.iter().find(|id| !known.contains(&id.as_str())) {
        let message = format!("`{env}` has no suite `{unknown}`");
        return Err(Failure::usage(message).with_hint(format!("suites: {}", known.join(", "))));
    }
    let is_chosen = |suite: &&Suite| wanted.is_empty() || wanted.iter().any(|id| id == suite_id(suite));
    let (mut cases, mut decided) = (Vec::new(), Vec::new());
    for suite in tests.suites.iter().filter(is_chosen) {
        let case = match (&suite.file, suite.runner) {
            (Some(path), Runner::Yaml) => read_suite(suite, path, tests, owner),
            _ => {
                create_case(suite, tests, folder).map_err(|reason| Outcome::skipped(suite_id(suite), reason))
            }
        };
        match case {
            Ok(case) => cases.push(case),
            Err(outcome) => decided.push(outcome),
        }
    }
    Ok(Selection { cases, decided })
}

/// Reads the file of a YAML suite. Prints its errors.
fn read_suite(suite: &Suite, path: &str, tests: &Tests, owner: &Arc<SuiteOwner>) -> Result<Case, Outcome> {
    let folder = owner.file.parent().unwrap_or(Path::new("."));
    let rejected = |reason: String| Outcome::rejected(suite_id(suite), reason);
    let bytes = match read_bounded(&find_suite_file(folder, path), MAX_FILE_BYTES) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => {
            return Err(rejected(format!(
                "`{path}` is larger than {MAX_FILE_BYTES} bytes"
            )));
        }
        Err(error) => return Err(rejected(format!("cannot read `{path}`: {error}"))),
    };
    if let Some(service) = &suite.service
        && find_service(&owner.spec, service).is_none()
    {
        return Err(rejected(format!("the spec file has no service `{service}`")));
    }
    let parsed = argus_suite::parse(path, &bytes);
    let (errors, warnings): (Vec<_>, Vec<_>) = parsed.diagnostics.into_iter().partition(Diagnostic::is_error);
    if !errors.is_empty() {
        output::print_note(&diagnostic::render(
            path,
            &String::from_utf8_lossy(&bytes),
            &errors,
        ));
    } else if !warnings.is_empty() {
        let count = output::format_count(warnings.len(), "warning");
        output::print_note(&format!(
            "note: {count} about `{path}`; list them with `argus validate`"
        ));
    }
    let Some(file) = parsed.suite else {
        return Err(rejected(format!("`{path}` is not a valid suite")));
    };
    let yaml = YamlSuite {
        file: path.to_owned(),
        suite: file,
        retry: suite.retry.or(tests.retry).unwrap_or_default().into(),
        service: suite.service.clone(),
        env_names: env_names(&String::from_utf8_lossy(&bytes)),
        owner: Arc::clone(owner),
    };
    Ok(Case {
        name: suite_id(suite).to_owned(),
        work: Work::Yaml(Box::new(yaml)),
        retry: TestRetry::default(),
    })
}

/// Content of a spec file. Errors that do not prevent parsing are ignored.
fn read_spec(path: &Path) -> Result<E2eSpec, Failure> {
    let bytes = std::fs::read(path)
        .map_err(|error| Failure::operation_failed(&format!("cannot read `{}`", path.display()), &error))?;
    let read = argus_crds::yaml::read(&path.display().to_string(), &bytes);
    read.spec.ok_or_else(|| {
        Failure::with_code(Code::SpecInvalid, format!("cannot parse `{}`", path.display()))
            .with_hint(format!("check the file with `argus validate {}`", path.display()))
    })
}
