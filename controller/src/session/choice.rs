//! The spec file of a command, and its environment.

use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_core::desired::Desired;
use argus_core::desired::namespace::NamespaceFrom;
use argus_core::ident::ServiceName;
use argus_core::plan::longest_stop;
use argus_core::quoting::PathText as _;
use argus_core::secrets::render_diagnostics;
use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::{Code, Reason, StructuredError};
use tokio_util::sync::CancellationToken;

use super::compose_flags::Started;
use crate::api::validate::report::{check_paths, is_rejected};
use crate::local_state::status;
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::settings::{DEFAULT_FILE, Settings, parse_namespace_from};

/// An accepted spec file and its environment.
#[derive(Debug, Clone)]
pub(crate) struct SpecChoice {
    pub(crate) file: PathBuf,
    pub(crate) environment: String,
    /// Services that it starts: all, or the selected ones with their dependencies.
    pub(crate) services: Vec<ServiceName>,
    /// Maximum time of its stop, if each service uses its grace period.
    pub(crate) longest_stop: Duration,
}

impl SpecChoice {
    /// Reads the file of a command. `used` are the variables of Compose options that the command applies itself.
    pub(crate) fn read(settings: &Settings, path: Option<PathBuf>, used: &[&str]) -> Result<Self, Failure> {
        let (file, desired) = read_file(settings, path, used)?;
        Ok(Self {
            environment: desired.env.to_string(),
            longest_stop: longest_stop(&desired),
            services: desired.services.into_keys().collect(),
            file,
        })
    }
}

/// Reads the file of a command: `path`, else the one of the settings, else `e2e.yaml` or a Compose file. A folder must contain exactly one.
/// Of the Compose options, only those whose variables are `used` can differ from those of a running controller.
pub(crate) fn read_file(
    settings: &Settings,
    path: Option<PathBuf>,
    used: &[&str],
) -> Result<(PathBuf, Desired), Failure> {
    let settings = &follow_controller(settings, used)?;
    let path = path.unwrap_or_else(|| default_path(settings));
    let mut notes = Vec::new();
    let mut files = if path.exists() {
        let never = CancellationToken::new();
        check_paths(settings, std::slice::from_ref(&path), &mut notes, &never)?
    } else {
        Vec::new()
    };
    for note in notes {
        output::print_note(&format!("note: {note}"));
    }
    let Some(file) = files.pop() else {
        let message = format!("`{}` is not a spec file and contains none", path.shown());
        return Err(Failure::with_reason(Reason::NotFound, message)
            .with_exit(Exit::Usage)
            .with_hint("pass an existing spec file, or write a first one with `argus init`"));
    };
    if !files.is_empty() {
        let all = files
            .iter()
            .chain([&file])
            .map(|file| file.path.shown().to_string());
        let message = format!("`{}` contains {} spec files", path.shown(), files.len() + 1);
        let hint = format!("pass one of them: {}", all.collect::<Vec<_>>().join(", "));
        return Err(Failure::usage(message).with_hint(hint));
    }
    let name = file.path.shown().to_string();
    if !file.diagnostics.is_empty() {
        output::print_note(&render_diagnostics(&name, &file.text, &file.diagnostics));
    }
    let is_rejected = is_rejected(&file);
    let Some(desired) = file.desired.filter(|_| !is_rejected) else {
        let mistakes = file.diagnostics.iter().filter(|it| it.is_error()).collect();
        return Err(rejection(&name, &mistakes));
    };
    Ok((file.path, desired))
}

/// Returns the file or folder of a command without a path. A Compose file counts only in a project without spec files.
fn default_path(settings: &Settings) -> PathBuf {
    if !settings.specs_given && Path::new(DEFAULT_FILE).exists() {
        return Path::new(".").join(DEFAULT_FILE);
    }
    settings.clone().with_project_file().specs
}

/// Returns the settings with the namespace source of the running controller, because that controller reads the file. It does so with the
/// options of Compose files that it has, and the command can only apply the `used` ones.
fn follow_controller(settings: &Settings, used: &[&str]) -> Result<Settings, Failure> {
    let state = settings.state.clone();
    if !status::is_alive(&state) {
        return Ok(settings.clone());
    }
    let running = Started::of_running(&state);
    let has_option = |name: &str, value: &str| {
        used.contains(&name)
            || running
                .as_ref()
                .is_some_and(|running| running.has_option(name, value))
    };
    if !settings
        .compose
        .iter()
        .all(|(name, value)| has_option(name, value))
    {
        let message = "the running controller reads Compose files with other options";
        let hint = "end it with `argus stop`, or write `COMPOSE_FILE`, `COMPOSE_PROFILES` and the other variables to the `.env`";
        return Err(Failure::with_reason(Reason::NotPossible, message)
            .with_exit(Exit::Usage)
            .with_hint(hint));
    }
    let controller = status::read_controller(&state)?.unwrap_or_default();
    let (known, value) = (controller.namespace_from, controller.namespace);
    let given = (settings.namespace_from != NamespaceFrom::File).then(|| settings.namespace_from.to_string());
    match (given, known) {
        // A variable has its value where the controller runs.
        (given, Some(known)) if given.as_ref().is_none_or(|given| *given == known) => Ok(Settings {
            namespace_from: parse_namespace_from(&known).unwrap_or_default().with_value(value),
            ..settings.clone()
        }),
        (Some(given), known) => {
            let known = known.map_or_else(|| "none".to_owned(), |known| format!("`{known}`"));
            let message = format!("the running controller has the namespace source {known}, not `{given}`");
            Err(Failure::with_reason(Reason::NotPossible, message)
                .with_exit(Exit::Usage)
                .with_hint(format!(
                    "start the controller with `argus run --namespace-from {given}`, or omit the option"
                )))
        }
        (None, _) => Ok(settings.clone()),
    }
}

fn rejection(name: &str, mistakes: &Vec<&Diagnostic>) -> Failure {
    let count = output::format_count(mistakes.len(), "error");
    let line = mistakes
        .iter()
        .filter_map(|it| it.location)
        .map(|at| at.line)
        .min();
    let error = StructuredError::new(Code::SpecInvalid, format!("`{name}` is rejected: {count}"))
        .details(serde_json::json!({ "diagnostics": mistakes }))
        .spec(name.to_owned(), line);
    // The diagnostics are printed already.
    Failure::new(error.suggest(&[]))
}
