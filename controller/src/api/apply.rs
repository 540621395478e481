//! Writes a spec file to the specs folder.

use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_core::quoting::PathText as _;
use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::{Code, Reason, StructuredError};
use argus_crds::status::EnvironmentStatus;
use argus_reconciler::specs::scan::MAX_FILE_BYTES;
use argus_reconciler::specs::source::SpecSource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::validate::format_diagnostic;
use super::validate::report as validate;
use super::wait::goal::find_engine_error;
use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};
use crate::client::ControllerClient;
use crate::local_state::status;
use crate::process::exit::Failure;
use crate::spec_files;

mod place;

pub(super) use place::find_current_file;
use place::{check_file_name, conflict_failure, write_file};

/// Maximum time until the controller has read a file. A stable file is read twice within this time.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Example of a small spec file for the model.
macro_rules! small {
    () => {
        "version: \"1\"\nproject: {name: shop}\nservices:\n  db: {image: \"postgres:17\", container: {name: shop-db}}\n  web:\n    \
image: \"shop-web:dev\"\n    dependsOn: [db]\n    container: {name: shop-web, ports: [\"8080:80\"], healthcheck: {path: /healthz, \
port: 80}}\n"
    };
}

/// The example, for tests that it is valid.
#[cfg(test)]
pub(crate) const SMALL: &str = small!();

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Apply {
    /// Complete text of the e2e.yaml
    content: String,
    /// File name in the specs folder, such as `shop.e2e.yaml` [default: the environment's current file, else ENVIRONMENT.e2e.yaml]
    name: Option<String>,
    /// Content that the file must still have.
    #[serde(skip)]
    expected: Option<String>,
}

/// Result of a write, with the environment to wait for.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Applied {
    environment: String,
    spec_path: String,
    /// True if the content of the file changed.
    changed: bool,
    /// True if the controller has read the file; otherwise it reads the file later.
    accepted: bool,
    /// The desired revision of the environment.
    revision: Option<String>,
    /// True if the content of the file changed, but not the revision: no container changes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    same_revision: bool,
    /// Reason why the controller cannot act at present: the engine does not answer, its circuit breaker is open, or the mode is `Safe`.
    #[serde(skip_serializing_if = "Option::is_none")]
    inactive: Option<StructuredError>,
    /// Warnings about the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Diagnostic>,
}

impl Operation for Apply {
    const EFFECT: Effect = Effect::Destructive;
    // The file names images of any registry, and their programs reach any host.
    const IS_OPEN_WORLD: bool = true;
    // Programs write the file themselves.
    const ROUTES: &'static [Route] = &[];
    type Output = Applied;

    async fn run(&self, context: &Context) -> Result<Applied, Failure> {
        let client = &context.client;
        let request = self.clone();
        let written = client.run_blocking_until(move |client, stop| request.write(client, stop));
        let written = written.await?;
        // The file is written, even if the status cannot be read.
        let revision = wait_until_read(client, &written).await.unwrap_or_default();
        let names = [written.env.clone()];
        let statuses = client.select_statuses(Some(&names)).await.unwrap_or_default();
        let mut statuses = statuses.iter().filter_map(|(_, status)| status.as_ref());
        Ok(Applied {
            inactive: statuses.find_map(find_inactive_error).cloned(),
            environment: written.env,
            spec_path: written.path.display().to_string(),
            changed: written.changed,
            accepted: revision.is_some(),
            same_revision: written.changed && revision.is_some() && revision == written.previous_revision,
            revision,
            warnings: written.warnings,
        })
    }
}

impl Tool for Apply {
    const NAME: &'static str = "argus_apply";
    const TITLE: &'static str = "Create or change an environment";
    const ABOUT: &'static str = concat!(
        "Validates an e2e.yaml and writes it to the specs folder. A file with mistakes is rejected as SPEC_INVALID with line, column and hint of each, and nothing is written. Then \
call `argus_wait`. A small example:\n\n",
        small!()
    );
    type Data = Applied;

    async fn summarize(&self, applied: Applied, context: &Context) -> Summary<Applied> {
        let (env, path) = (&applied.environment, &applied.spec_path);
        let missing = context.client.missing_controller().await.unwrap_or_default();
        let word = if applied.changed { "wrote" } else { "unchanged:" };
        let same = if applied.same_revision {
            "; the revision stays the same, so no container changes"
        } else {
            ""
        };
        let outcome = match (&applied.revision, &missing) {
            (Some(_), _) => format!("the controller reconciles environment {env}{same}"),
            (None, None) => format!("the controller has not read environment {env} yet"),
            (None, Some(start)) => format!("no controller is running; start one with `{start}`"),
        };
        let mut text = format!("{word} {path}; {outcome}\n");
        if let Some(error) = &applied.inactive {
            _ = writeln!(text, "Argus cannot act at present: {error}");
        }
        text.extend(applied.warnings.iter().map(format_diagnostic));
        let wait = json!({ "environment": env });
        let step = NextStep::new("wait until it is ready or fails", "argus_wait", wait);
        let summary = Summary::new(applied, text);
        if missing.is_some() {
            return summary;
        }
        summary.with_next(step)
    }
}

/// A written spec file.
struct WrittenSpec {
    env: String,
    path: PathBuf,
    changed: bool,
    /// Desired revision before the write.
    previous_revision: Option<String>,
    /// Revision of the file, as far as this process can compute it.
    expected_revision: Option<String>,
    warnings: Vec<Diagnostic>,
}

impl Apply {
    /// Replaces the current file of its environment, if it still has the expected content.
    pub(super) fn instead_of(expected: String, content: String) -> Self {
        Self {
            content,
            name: None,
            expected: Some(expected),
        }
    }

    /// Validates the text, and writes it if it is valid, unless `stop` is cancelled before.
    fn write(&self, client: &ControllerClient, stop: &CancellationToken) -> Result<WrittenSpec, Failure> {
        if self.content.len() as u64 > MAX_FILE_BYTES {
            let message = format!("the file exceeds the limit of {MAX_FILE_BYTES} bytes");
            let details = json!({ "bytes": self.content.len(), "most": MAX_FILE_BYTES });
            return Err(Failure::with_code(Code::SpecInvalid, message).with_details(details));
        }
        let source = SpecSource::new(&client.specs_folder(), client.state().root());
        if let Some(compose) = source.compose_file() {
            let message =
                format!("the controller reads the Compose file `{compose}`, which Argus never writes");
            return Err(
                Failure::with_reason(Reason::NotPossible, message).with_hint(format!(
                    "edit `{compose}`, or write a spec file with `argus init` and start the controller again"
                )),
            );
        }
        let (specs, guess) = (&source.folder, source.path_of("e2e.yaml"));
        let real = spec_files::resolve_new_folder(client.settings(), specs)?;
        let parsed = spec_files::parse_text(client.settings(), &guess, self.content.as_bytes(), stop);
        let Some(desired) = parsed
            .desired
            .as_ref()
            .filter(|_| !validate::is_rejected(&parsed))
        else {
            return Err(rejection_failure(&guess, &parsed.diagnostics));
        };
        let env = desired.env.to_string();
        let before = status::read_environment(client.state(), &env)?;
        let current_file = find_current_file(specs, before.as_ref().map(|status| status.spec_path.as_str()));
        let path = match &self.name {
            Some(name) => source.path_of(check_file_name(name)?),
            None if source.only.is_some() => guess,
            None => current_file
                .clone()
                .unwrap_or_else(|| specs.join(format!("{env}.e2e.yaml"))),
        };
        if let Some(why) = conflict_failure(client, specs, &env, &path, current_file.as_deref(), stop) {
            return Err(Failure::new(
                StructuredError::new(Code::SpecConflict, why)
                    .details(json!({ "specPath": path, "currentFile": current_file }))
                    .spec(path.display().to_string(), None)
                    .suggest(&[]),
            ));
        }
        // The paths of mounts and build contexts depend on the folder of the file.
        let parsed = spec_files::parse_text(client.settings(), &path, self.content.as_bytes(), stop);
        if validate::is_rejected(&parsed) {
            return Err(rejection_failure(&path, &parsed.diagnostics));
        }
        // Nothing would report the change.
        if stop.is_cancelled() {
            let error = io::Error::new(io::ErrorKind::Interrupted, "the caller no longer waits for it");
            return Err(Failure::operation_failed(
                &format!("cannot write `{}`", path.shown()),
                &error,
            ));
        }
        let changed = write_file(
            specs,
            &real,
            &path,
            self.content.as_bytes(),
            self.expected.as_deref(),
        )
        .map_err(|error| {
            let doing = format!("cannot write `{}`", path.shown());
            if matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::Other) {
                return Failure::with_reason(Reason::NotPossible, format!("{doing}: {error}"))
                    .with_hint("choose another `name`, or remove the link");
            }
            Failure::operation_failed(&doing, &error)
        })?;
        let expected_revision = parsed.desired.as_ref();
        Ok(WrittenSpec {
            expected_revision: expected_revision.map(|desired| desired.revision.to_string()),
            previous_revision: before.and_then(|status| status.revision),
            warnings: parsed.diagnostics,
            env,
            path,
            changed,
        })
    }
}

/// Error that prevents all actions of the controller.
fn find_inactive_error(status: &EnvironmentStatus) -> Option<&StructuredError> {
    let mut errors = status.errors.iter();
    find_engine_error(status).or_else(|| errors.find(|error| error.code == Code::JournalUnwritable))
}

/// Waits until the controller has read the file, and returns the desired revision.
async fn wait_until_read(
    client: &ControllerClient,
    written: &WrittenSpec,
) -> Result<Option<String>, Failure> {
    if client.missing_controller().await?.is_some() {
        return Ok(None);
    }
    let read = client.wait_for(READ_TIMEOUT, |statuses| {
        let now = statuses.environments.get(&written.env)?.revision.clone()?;
        // A change of a comment keeps the revision. With time or counter variables, this process cannot predict it.
        let is_read = !written.changed
            || written.previous_revision.as_ref() != Some(&now)
            || written.expected_revision.as_ref() == Some(&now);
        is_read.then_some(now)
    });
    read.await
}

fn rejection_failure(path: &Path, diagnostics: &[Diagnostic]) -> Failure {
    let mistakes: Vec<&Diagnostic> = diagnostics.iter().filter(|it| it.is_error()).collect();
    let mut message = format!(
        "cannot write the file: {} in it",
        crate::render::output::format_count(mistakes.len(), "mistake")
    );
    for mistake in mistakes.iter().take(20) {
        message.push('\n');
        message.push_str(format_diagnostic(mistake).trim_end());
    }
    let places = mistakes.iter().filter_map(|mistake| mistake.location);
    let line = places.map(|place| place.line).min();
    let error = StructuredError::new(Code::SpecInvalid, message)
        .details(json!({ "diagnostics": diagnostics }))
        .spec(path.display().to_string(), line);
    // The mistakes are in the given text, not in the folder.
    Failure::new(error.suggest(&[]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Options, Settings, SpecOptions};

    #[test]
    fn apply_without_a_caller_writes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let specs = dir.path().join("specs");
        std::fs::create_dir(&specs).unwrap();
        let options = Options {
            state: Some(dir.path().join("state")),
            ..Options::default()
        };
        let folder = SpecOptions {
            specs: Some(specs.clone()),
            ..SpecOptions::default()
        };
        let client = ControllerClient::remote(Settings::resolve(&options, &folder).unwrap());
        let apply = Apply {
            content: SMALL.to_owned(),
            name: None,
            expected: None,
        };
        let (stop, count) = (CancellationToken::new(), || {
            std::fs::read_dir(&specs).unwrap().count()
        });
        stop.cancel();
        assert!(apply.write(&client, &stop).is_err());
        assert_eq!(count(), 0);
        assert!(
            apply
                .write(&client, &CancellationToken::new())
                .is_ok_and(|it| it.changed)
        );
        assert_eq!(count(), 1);
    }
}
