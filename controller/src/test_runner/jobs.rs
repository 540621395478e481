//! Jobs of a run, from the spec file and its suite files. They are read before anything runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use argus_core::quoting::{PathText as _, escape_line, shell_path};
use argus_core::secrets::render_diagnostics;
use argus_core::test_results::HistoryLimits;
use argus_crds::E2eSpec;
use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::{Code, Reason};
use argus_crds::status::EnvironmentStatus;
use argus_crds::suite::{History, Runner, Suite, TestRetry, Tests};
use argus_reconciler::specs::scan::{MAX_FILE_BYTES, read_bounded};
use argus_reconciler::specs::source::SpecSource;

use super::job::{Job, LocalCommand, Work, create_job, digest, suite_id};
use super::report::Outcome;
use super::selection::{Entry, Selection};
use super::suite_output::OutputSettings;
use super::yaml::context::find_service;
use super::yaml::redaction::env_names;
use super::yaml::{SuiteOwner, YamlSuite};
use crate::api::logs::sources;
use crate::client::ControllerClient;
use crate::local_state::status;
use crate::process::blocking_io;
use crate::process::exit::Failure;
use crate::render::output::format_count;
use crate::settings::Settings;
use crate::spec_files::read_suite_file;

/// Jobs of a run, and their maximum number in parallel.
pub(super) struct Jobs {
    /// Suites in the order of the file.
    pub(super) entries: Vec<Entry>,
    pub(super) concurrency: usize,
    /// Bounds of the history of results. `None` for a command, whose result is not recorded.
    pub(super) history: Option<HistoryLimits>,
}

/// Maximum number of parallel suites without `concurrency`.
const CONCURRENCY: u32 = 4;

/// Returns the selected jobs: the command, or suites of the spec file. `output` gets notes about suite files.
pub(super) async fn read_jobs(
    client: &ControllerClient,
    selection: &Selection,
    status: &EnvironmentStatus,
    output: &OutputSettings,
) -> Result<Jobs, Failure> {
    if !selection.command.is_empty() {
        return Ok(Jobs {
            entries: vec![Ok(create_command(selection)?)],
            concurrency: 1,
            history: None,
        });
    }
    let (there, named) = (client.state().clone(), status.spec_path.clone());
    let settings = client.settings().clone();
    let (status, selection, output) = (status.clone(), selection.clone(), output.clone());
    blocking_io::read(move || {
        let specs = status::read_controller(&there)?.map(|controller| controller.specs);
        // A controller can also watch one file.
        let watched = PathBuf::from(specs.unwrap_or_default());
        let file = SpecSource::new(&watched, there.root()).folder.join(named);
        // The paths in a linked file are relative to its target.
        let file = file.canonicalize().unwrap_or(file);
        let owner = SuiteOwner {
            spec: read_spec(&file)?,
            file,
            secrets: sources::read_secrets(&there, Some(&status.environment)),
            reads_own_folder_only: selection.refuses_commands(),
            allowed_hosts: selection.allowed_hosts(),
            allowed_containers: selection.allowed_containers(),
        };
        read_suites(&status, &selection, &Arc::new(owner), &settings, &output)
    })
    .await
}

/// Creates the job of the command.
fn create_command(selection: &Selection) -> Result<Job, Failure> {
    let words = selection.command.clone();
    let folder = std::env::current_dir()
        .map_err(|error| Failure::operation_failed("cannot read the current folder", &error))?;
    let program = words.first().map(String::as_str).unwrap_or_default();
    let name = match selection.cases.as_slice() {
        [] => Path::new(program)
            .file_name()
            .map_or_else(|| program.to_owned(), |name| name.to_string_lossy().into_owned()),
        [name] => name.clone(),
        _ => {
            return Err(Failure::usage(
                "a command has one name, so `--case` occurs at most once",
            ));
        }
    };
    Ok(Job {
        name,
        work: Work::Command(LocalCommand { words, folder }),
        retry: TestRetry::default(),
        is_parallel: false,
        digest: String::new(),
        is_wrapped: true,
    })
}

/// Reads the suites of the spec file, and applies the selection.
fn read_suites(
    status: &EnvironmentStatus,
    selection: &Selection,
    owner: &Arc<SuiteOwner>,
    settings: &Settings,
    output: &OutputSettings,
) -> Result<Jobs, Failure> {
    let env = &status.environment;
    let none = Tests::default();
    let tests = owner.spec.tests.as_ref().unwrap_or(&none);
    let folder = owner.file.parent().unwrap_or(Path::new("."));
    if tests.suites.is_empty() {
        let message = format!("`{}` has no suites under `tests`", owner.file.shown());
        let hint = format!("run a command with `argus test run {env} -- COMMAND`");
        return Err(Failure::with_code(Code::PrereqMissing, message).with_hint(hint));
    }
    let ids: Vec<_> = tests.suites.iter().map(suite_id).collect();
    selection.check_suites(env, &ids)?;
    let chosen = tests
        .suites
        .iter()
        .filter(|suite| selection.has_suite(suite_id(suite)));
    let read = |suite: &Suite| match (&suite.file, suite.runner) {
        (Some(path), Runner::Yaml) => read_suite(suite, path, tests, owner, settings, output),
        _ => create_job(suite, tests, folder)
            .map_err(|reason| Box::new(Outcome::skipped(suite_id(suite), reason))),
    };
    let entries = selection.apply(env, &status.test_results, chosen.map(read).collect())?;
    if selection.refuses_commands() {
        refuse_commands(env, &entries)?;
    }
    Ok(Jobs {
        concurrency: max_parallel(tests),
        history: Some(history_limits(&owner.spec.history)),
        entries,
    })
}

/// Refuses suites with commands, which run on this host.
fn refuse_commands(env: &str, entries: &[Entry]) -> Result<(), Failure> {
    let is_command = |job: &&Job| matches!(job.work, Work::Command(_));
    let (commands, others): (Vec<&Job>, Vec<&Job>) = entries.iter().flatten().partition(is_command);
    if commands.is_empty() {
        return Ok(());
    }
    let names = |jobs: &[&Job]| {
        let names = jobs.iter().map(|job| format!("`{}`", escape_line(&job.name)));
        names.collect::<Vec<_>>().join(", ")
    };
    let message = format!(
        "{} of `{env}` would run commands on the host of the controller, which it does not allow: {}",
        format_count(commands.len(), "suite"),
        names(&commands)
    );
    let mut hint = "start `argus run` or `argus mcp` with `--allow-test-commands`".to_owned();
    if !others.is_empty() {
        hint = format!(
            "select only suites of the runner `yaml` ({}), or {hint}",
            names(&others)
        );
    }
    Err(Failure::with_reason(Reason::Forbidden, message)
        .with_environment(env)
        .with_hint(hint))
}

/// Returns the bounds of the history. Without a history, only the last run is kept.
fn history_limits(history: &History) -> HistoryLimits {
    let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    HistoryLimits {
        max_runs: if history.enabled {
            count(history.retention.max_runs)
        } else {
            1
        },
        max_age: history.retention.max_age.get(),
        flaky_window: count(history.flaky_window),
    }
}

/// Returns the maximum number of parallel suites: that of the file, or the largest one of its suites.
fn max_parallel(tests: &Tests) -> usize {
    let of_suite = |suite: &Suite| suite.concurrency.or(suite.parallel?.concurrency);
    let concurrency = tests.parallel.and_then(|parallel| parallel.concurrency);
    let concurrency = concurrency.or_else(|| tests.suites.iter().filter_map(of_suite).max());
    usize::try_from(concurrency.unwrap_or(CONCURRENCY)).map_or(1, |most| most.max(1))
}

/// Reads the file of a YAML suite, and notes its errors.
fn read_suite(
    suite: &Suite,
    path: &str,
    tests: &Tests,
    owner: &Arc<SuiteOwner>,
    settings: &Settings,
    output: &OutputSettings,
) -> Entry {
    let rejected = |reason: String| Box::new(Outcome::rejected(suite_id(suite), reason));
    let bytes = match read_suite_file(settings, &owner.file, path, owner.reads_own_folder_only) {
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
        output.note(&render_diagnostics(
            path,
            &String::from_utf8_lossy(&bytes),
            &errors,
        ));
    } else if !warnings.is_empty() {
        let count = format_count(warnings.len(), "warning");
        output.note(&format!(
            "note: {count} about `{}`; list them with `argus validate`",
            escape_line(path)
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
    Ok(Job {
        name: suite_id(suite).to_owned(),
        digest: digest(&bytes),
        work: Work::Yaml(Box::new(yaml)),
        retry: TestRetry::default(),
        is_parallel: suite
            .parallel
            .or(tests.parallel)
            .is_some_and(|parallel| parallel.enabled),
        is_wrapped: false,
    })
}

/// Content of a spec file. Errors that do not prevent parsing are ignored.
fn read_spec(path: &Path) -> Result<E2eSpec, Failure> {
    let doing = || format!("cannot read `{}`", path.shown());
    let bytes = read_bounded(path, MAX_FILE_BYTES)
        .map_err(|error| Failure::operation_failed(&doing(), &error))?
        .unwrap_or_default();
    let read = argus_crds::yaml::read(&path.shown().to_string(), &bytes);
    read.spec.ok_or_else(|| {
        Failure::with_code(Code::SpecInvalid, format!("cannot parse `{}`", path.shown())).with_hint(format!(
            "check the file with `argus validate {}`",
            shell_path(path)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_runner::job::tests::{command, yaml};

    #[test]
    fn commands_are_refused_with_the_other_suites() {
        let refused = |entries: &[Entry]| {
            let error = refuse_commands("shop", entries).err().map(Failure::into_error);
            error.map(|error| {
                assert_eq!(error.details["reason"], "forbidden");
                format!("{}; {}", error.message, error.details["hint"].as_str().unwrap())
            })
        };
        let orders = || Ok(yaml("orders", &["list"]));
        let skipped = || Err(Box::new(Outcome::skipped("old", String::new())));
        assert_eq!(refused(&[orders(), skipped()]), None);
        assert_eq!(
            refused(&[orders(), Ok(command("unit")), skipped()]).as_deref(),
            Some(
                "1 suite of `shop` would run commands on the host of the controller, which it does not allow: `unit`; \
                 select only suites of the runner `yaml` (`orders`), or start `argus run` or `argus mcp` with `--allow-test-commands`"
            )
        );
        assert!(
            refused(&[Ok(command("unit"))])
                .unwrap()
                .contains("; start `argus run`")
        );
    }
}
