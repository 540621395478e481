//! Reads spec files with the rules of the controller.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_backend::host_path::{self, PathError};
use argus_core::desired::Desired;
use argus_core::quoting::PathText as _;
use argus_core::secrets::{Secrets, is_secret};
use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::{Code, Reason};
use argus_crds::yaml;
use argus_docker::Endpoint;
use argus_reconciler::clock;
use argus_reconciler::specs::admission::SpecAdmitter;
use argus_reconciler::specs::build_context::OwnImageContext;
use argus_reconciler::specs::evaluation::{BuildContexts, Evaluation};
use argus_reconciler::specs::location::HostAccess;
use argus_reconciler::specs::parsed_file::ComposeSource;
use argus_reconciler::specs::scan::{BAD_NAME, MAX_FILE_BYTES, SpecPathError, Text, is_bad_name, read_spec};
use argus_reconciler::specs::source::SpecSource;
use argus_reconciler::specs::{PersistedSpecs, SpecLoader, SpecLoaderSettings, SpecRegistry, env_vars};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::compose;
use crate::local_state::status;
use crate::process::exit::Failure;
use crate::process::own_image;
use crate::settings::{Settings, private_folders};

/// A spec file that was read and checked.
#[derive(Debug)]
pub(crate) struct SpecFile {
    /// Path as given.
    pub(crate) path: PathBuf,
    /// Content, for snippets in diagnostics.
    pub(crate) text: String,
    /// Errors and warnings.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Desired state. `None` for a rejected file.
    pub(crate) desired: Option<Desired>,
}

/// Settings with which a controller reads this folder.
pub(crate) fn create_rules(settings: &Settings, folder: &Path, controller: &str) -> SpecLoaderSettings {
    SpecLoaderSettings {
        source: SpecSource::new(folder, settings.state.root()),
        strict: settings.strict,
        env_allow: settings.env_allow.clone(),
        process_env: create_process_env(settings),
        controller: controller.to_owned(),
        admitter: create_admitter(settings),
        translate: Some(compose::translate),
    }
}

/// Reads a folder like a starting controller, and returns its registry. It is incomplete after `stop`.
pub(crate) fn read_folder(
    settings: &Settings,
    folder: &Path,
    controller: &str,
    stored: PersistedSpecs,
    stop: &CancellationToken,
) -> SpecRegistry {
    let loader = SpecLoader::new(create_rules(settings, folder, controller), stored);
    let mut loader = loader.until(stop.clone());
    let mut now = clock::now();
    // The loader accepts a file after two equal reads with time between them. This loop passes a later time instead of
    // waiting.
    for _ in 0..20 {
        loader.scan_once(now);
        if loader.registry().scanned || loader.registry().unavailable.is_some() || stop.is_cancelled() {
            break;
        }
        now = now + Duration::from_secs(1);
    }
    loader.registry().clone()
}

/// Reads the specs folder of the settings as the controller with this identity would, until `stop`.
pub(crate) fn read_own_folder(
    settings: &Settings,
    controller: &str,
    stop: &CancellationToken,
) -> SpecRegistry {
    let state = settings.state.clone();
    let stored: PersistedSpecs = status::read_or_default(&state.specs_json());
    read_folder(settings, &settings.specs, controller, stored, stop)
}

/// Reads and checks one file with any name, until `stop`.
pub(crate) fn read_file(settings: &Settings, path: &Path, stop: &CancellationToken) -> SpecFile {
    let diagnostic = |message: String| Diagnostic::error("", message);
    let rejected = |diagnostic: Diagnostic| SpecFile {
        path: path.to_owned(),
        text: String::new(),
        diagnostics: vec![diagnostic],
        desired: None,
    };
    if is_bad_name(Path::new(path.file_name().unwrap_or_default())) {
        return rejected(diagnostic(BAD_NAME.to_owned()));
    }
    match read_spec(path, &create_admitter(settings).access) {
        Ok(Some(bytes)) => parse_text(settings, path, &bytes, stop),
        Ok(None) => rejected(diagnostic(format!(
            "the file is larger than {MAX_FILE_BYTES} bytes"
        ))),
        Err(SpecPathError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            let hint =
                "name your file, such as `argus validate e2e.yaml`, or write a first one with `argus init`";
            rejected(diagnostic("the file or folder does not exist".to_owned()).hint(hint))
        }
        Err(SpecPathError::Link(link)) => {
            rejected(diagnostic(format!("the file is not read: {link}")).hint(link.hint()))
        }
        Err(error) => rejected(diagnostic(format!("cannot read the file: {error}"))),
    }
}

/// Checks the content of a file as if it were stored at this path, until `stop`.
pub(crate) fn parse_text(
    settings: &Settings,
    path: &Path,
    bytes: &[u8],
    stop: &CancellationToken,
) -> SpecFile {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = host_path::real(&absolute);
    let folder = absolute.parent().unwrap_or(Path::new("/"));
    let (mut evaluation, now) = (Evaluation::default(), clock::now());
    evaluation.update(
        &create_rules(settings, folder, ""),
        (path, &real),
        &Text::new(bytes.to_vec()),
        &mut BuildContexts::until(stop.clone()),
        (now, now),
    );
    let admission = evaluation.take_admission().map(|(admission, _)| admission);
    let admission = admission.unwrap_or_default();
    let rejected = admission.diagnostics.iter().any(Diagnostic::is_error);
    SpecFile {
        path: path.to_owned(),
        text: String::from_utf8_lossy(bytes).into_owned(),
        diagnostics: admission.diagnostics,
        desired: admission.desired.filter(|_| !rejected),
    }
}

/// Formats an accepted file as YAML: a Compose file after its translation, with the values of variables. All secrets are redacted. A
/// variable with a secret name, and one without a value here, keep their references.
pub(crate) fn format_resolved(settings: &Settings, file: &SpecFile) -> Result<String, Failure> {
    let absolute = std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone());
    let location = create_admitter(settings).locate(&host_path::real(&absolute));
    let process = create_process_env(settings);
    let permitted = env_vars::permitted(&process, &settings.env_allow);
    let (mut variables, _) = env_vars::dotenv(&location, &permitted);
    variables.extend(permitted);
    if location.host.allowed {
        variables.extend(process);
    }
    let name = file.path.shown().to_string();
    let translation = compose::translate(&ComposeSource {
        name: &name,
        file: &location.file,
        bytes: file.text.as_bytes(),
        read: &|path: &Path| match location.read(path, MAX_FILE_BYTES) {
            Ok(found) => found.ok_or_else(|| format!("it is longer than {MAX_FILE_BYTES} bytes")),
            Err(error) => Err(error.to_string()),
        },
        variables: &variables,
    });
    let text = translation.map_or_else(|| file.text.clone(), |translation| translation.text);
    let document = yaml::document(&name, text.as_bytes())
        .map_err(|diagnostic| Failure::with_code(Code::SpecInvalid, diagnostic.message))?;
    let mut value = document.value;
    if let Some(desired) = &file.desired {
        let secrets = desired.secret_values();
        redact_numbers(&mut value, &secrets);
        value = secrets.redacted_json(value, &[]);
    }
    // The value of a variable can contain that of another one.
    let mut secrets = Secrets::default();
    variables.retain(|name, value| {
        let is_secret = is_secret(name);
        if is_secret {
            secrets.add(value);
        }
        // The controller can have a value.
        !is_secret && !value.is_empty()
    });
    fill_variables(&mut value, &variables);
    let value = secrets.redacted_json(value, &[]);
    yaml::to_yaml(&value).map_err(|error| Failure::operation_failed("cannot write YAML", &error))
}

/// Redacts the numbers of a document that are secrets.
fn redact_numbers(value: &mut Value, secrets: &Secrets) {
    match value {
        Value::Number(number) => {
            let text = number.to_string();
            let redacted = secrets.redacted(&text);
            if redacted != text {
                *value = Value::String(redacted);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact_numbers(item, secrets)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| redact_numbers(field, secrets)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Replaces the references `{{env.NAME}}` in all texts of a document.
fn fill_variables(value: &mut Value, variables: &BTreeMap<String, String>) {
    match value {
        Value::String(text) if text.contains("{{env.") => {
            for (name, value) in variables {
                *text = text.replace(&format!("{{{{env.{name}}}}}"), value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill_variables(item, variables)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| fill_variables(field, variables)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Variables of the `.env` file next to a spec file. A statement that is not understood has none, nor has an unreadable file.
pub(crate) fn read_dotenv(
    settings: &Settings,
    path: &Path,
    permitted: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    env_vars::dotenv(
        &create_admitter(settings).locate(&host_path::real(&absolute)),
        permitted,
    )
    .0
}

/// Reads a suite file that a spec file names; `None` if it is longer than a spec file may be.
///
/// # Errors
/// The file leads out of the project of the spec file, or out of its folder if `own_folder_only`. Or it cannot be read.
pub(crate) fn read_suite_file(
    settings: &Settings,
    spec: &Path,
    file: &str,
    own_folder_only: bool,
) -> io::Result<Option<Vec<u8>>> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut location = create_admitter(settings).locate(&host_path::real(&absolute(spec)));
    if own_folder_only {
        location = location.confined_to_folder();
    }
    let path = find_suite_file(spec.parent().unwrap_or(Path::new(".")), file);
    let scope = if own_folder_only { "folder" } else { "project" };
    let explain = |error: io::Error| {
        let why = error.get_ref().and_then(|why| why.downcast_ref::<PathError>());
        if matches!(why, Some(PathError::Outside { .. })) {
            // The message does not contain the target of a link.
            return io::Error::other(format!("it is outside the {scope} of the spec file"));
        }
        error
    };
    location.read(&absolute(&path), MAX_FILE_BYTES).map_err(explain)
}

/// Path of a suite file: in the folder of the spec file, else in the current folder.
pub(crate) fn find_suite_file(folder: &Path, file: &str) -> PathBuf {
    let near = folder.join(file);
    let current = PathBuf::from(file);
    if !near.exists() && current.exists() {
        return current;
    }
    near
}

fn create_admitter(settings: &Settings) -> SpecAdmitter {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let own = absolute(settings.state.locked_folder());
    SpecAdmitter {
        // The folder is not filled here: it is missing before the first controller run, and mocks are still validated.
        own_image: OwnImageContext {
            folder: own_image::context_folder(&settings.state),
            write_context: None,
        },
        access: HostAccess {
            allow_mounts: allowed_mounts(settings),
            allowed: settings.allowed.clone(),
            allow_external: settings.allow_external.clone(),
            git_writable: settings.git_writable,
            state: absolute(settings.state.root()),
            private: private_folders().into_iter().chain([own]).collect(),
            engine: find_engine_socket(settings),
        },
        namespace_from: settings.namespace_from.clone(),
        ceiling: settings.ceiling,
    }
}

/// Path of the engine's socket. `None` for engines over TCP and for invalid settings.
pub(crate) fn find_engine_socket(settings: &Settings) -> Option<PathBuf> {
    let endpoint = Endpoint::discover(settings.docker_host.as_deref()).ok()?;
    endpoint.socket().map(Path::to_path_buf)
}

/// Absolute paths of the folders outside a file's own that it may mount.
pub(crate) fn allowed_mounts(settings: &Settings) -> Vec<String> {
    // A missing folder cannot be made absolute. Its name as written still identifies it in messages.
    let absolute = |path: &PathBuf| {
        std::path::absolute(path)
            .unwrap_or_else(|_| path.clone())
            .display()
            .to_string()
    };
    settings.allow_mount.iter().map(absolute).collect()
}

/// Environment variables of this process that are valid text.
pub(crate) fn read_process_env() -> BTreeMap<String, String> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}

/// Environment variables of this process with those of the options of Compose files.
pub(crate) fn create_process_env(settings: &Settings) -> BTreeMap<String, String> {
    let given = settings.compose.clone();
    read_process_env().into_iter().chain(given).collect()
}

/// Returns the path of the folder of a new spec file, below which no access follows a link. The folder itself is a link only if a person
/// named it: a repository can contain a link, for example into its git directory.
pub(crate) fn resolve_new_folder(settings: &Settings, folder: &Path) -> Result<PathBuf, Failure> {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    if settings.specs_given {
        return Ok(host_path::real(&absolute));
    }
    if folder.is_symlink() {
        let message = format!("`{}` is a link, so Argus writes no file there", folder.shown());
        let hint = "remove the link, or name its target with `--specs`";
        return Err(Failure::with_reason(Reason::NotPossible, message).with_hint(hint));
    }
    Ok(match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => host_path::real(parent).join(name),
        _ => absolute,
    })
}

#[cfg(test)]
#[path = "spec_files_tests.rs"]
mod tests;
