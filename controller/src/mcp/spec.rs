//! Tools for spec files: validation, and writing to the specs folder.

use std::path::PathBuf;
use std::time::Duration;

use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::{Code, StructuredError};
use argus_reconciler::clock;
use argus_reconciler::specs::scan::MAX_FILE_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::context::Call;
use super::reply::{NextStep, Output};
use super::tool::{Effect, Tool};
use crate::cli::{spec_files, status, validate};
use crate::client::ControllerClient;
use crate::exit::Failure;

mod place;

use place::{check_file_name, conflict_failure, find_current_file, write_file};

/// Maximum time until the controller has read a file. A stable file is read twice within this time.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

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
pub(super) const SMALL: &str = small!();

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Validate {
    /// Text of an e2e.yaml [default: all files of the specs folder]
    content: Option<String>,
}

impl Tool for Validate {
    const NAME: &'static str = "argus_validate";
    const TITLE: &'static str = "Validate spec files";
    const ABOUT: &'static str = "Validates an e2e.yaml given as `content`, or all files of the specs folder. Returns all mistakes together, each \
with line, column and hint. Needs no engine and changes nothing. `argus_apply` validates as well before it writes.";
    const EFFECT: Effect = Effect::ReadOnly;
    type Output = validate::ValidationReport;

    async fn call(self, call: Call) -> Result<Output<validate::ValidationReport>, Failure> {
        call.client
            .run_blocking(move |client| self.validate(client))
            .await
    }
}

impl Validate {
    fn validate(&self, client: &ControllerClient) -> Result<Output<validate::ValidationReport>, Failure> {
        let (settings, specs) = (client.settings(), client.specs_folder());
        let parsed = match &self.content {
            Some(content) => vec![spec_files::parse_text(
                settings,
                &specs.join("e2e.yaml"),
                content.as_bytes(),
            )],
            None => validate::check_paths(settings, &[specs])?,
        };
        let output = validate::create_report(&parsed);
        let mut text = String::new();
        for file in &output.files {
            let name = self
                .content
                .as_ref()
                .map_or(file.spec_path.as_str(), |_| "content");
            let word = if file.accepted { "ok" } else { "rejected" };
            let env = file
                .environment
                .as_deref()
                .map(|env| format!(", environment `{env}`"));
            text.extend([format!("{name}: {word}{}\n", env.unwrap_or_default())]);
            text.extend(file.diagnostics.iter().map(format_diagnostic));
        }
        if output.files.is_empty() {
            text.push_str("no spec files; argus_apply writes one\n");
        }
        Ok(Output::new(output, text))
    }
}

/// Formats a diagnostic as one line.
fn format_diagnostic(diagnostic: &Diagnostic) -> String {
    let place = diagnostic
        .location
        .map(|place| format!("{}:{}: ", place.line, place.column));
    let hint = diagnostic.hint.as_ref().map(|hint| format!(" (hint: {hint})"));
    format!(
        "  {}{}{}\n",
        place.unwrap_or_default(),
        diagnostic.message,
        hint.unwrap_or_default()
    )
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Apply {
    /// Complete text of the e2e.yaml
    content: String,
    /// File name in the specs folder, such as `shop.e2e.yaml` [default: the environment's current file, else ENVIRONMENT.e2e.yaml]
    name: Option<String>,
}

/// Result of a write, with the environment to wait for.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Applied {
    environment: String,
    spec_path: String,
    /// True if the content of the file changed.
    changed: bool,
    /// True if the controller has read the file; otherwise it reads the file later.
    accepted: bool,
    /// The desired revision of the environment.
    revision: Option<String>,
    /// Warnings about the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Diagnostic>,
}

impl Tool for Apply {
    const NAME: &'static str = "argus_apply";
    const TITLE: &'static str = "Create or change an environment";
    const ABOUT: &'static str = concat!(
        "Validates an e2e.yaml and writes it to the specs folder. The controller reads it there and creates or changes \
the environment. A file with mistakes is rejected as SPEC_INVALID with line, column and hint of each, and nothing is written. Then \
call `argus_wait`. A small example:\n\n",
        small!()
    );
    const EFFECT: Effect = Effect::Destructive;
    type Output = Applied;

    async fn call(self, call: Call) -> Result<Output<Applied>, Failure> {
        let client = &call.client;
        let written = client.run_blocking(move |client| self.write(client)).await?;
        let revision = wait_until_read(&call, &written).await?;
        let (alive, start) = client
            .run_blocking(|client| Ok((client.is_alive(), client.start_command())))
            .await?;
        let WrittenSpec {
            env,
            path,
            changed,
            warnings,
            ..
        } = written;
        let mut text = format!(
            "{} {}",
            if changed { "wrote" } else { "unchanged:" },
            path.display()
        );
        let outcome = match (&revision, alive) {
            (Some(_), _) => format!("; the controller reconciles environment {env}\n"),
            (None, true) => format!("; the controller has not read environment {env} yet\n"),
            (None, false) => {
                format!("; no controller is running; start one with `{start}`\n")
            }
        };
        text.push_str(&outcome);
        text.extend(warnings.iter().map(format_diagnostic));
        let step = NextStep::new(
            "wait until it is ready or fails",
            "argus_wait",
            json!({ "environment": env }),
        );
        let output = Applied {
            environment: env,
            spec_path: path.display().to_string(),
            changed,
            accepted: revision.is_some(),
            revision,
            warnings,
        };
        let output = Output::new(output, text);
        Ok(if alive { output.with_next(step) } else { output })
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
    /// Validates the text, and writes it if it is valid.
    fn write(&self, client: &ControllerClient) -> Result<WrittenSpec, Failure> {
        if self.content.len() as u64 > MAX_FILE_BYTES {
            let message = format!("the file exceeds the limit of {MAX_FILE_BYTES} bytes");
            let details = json!({ "bytes": self.content.len(), "most": MAX_FILE_BYTES });
            return Err(Failure::with_code(Code::SpecInvalid, message).with_details(details));
        }
        let specs = client.specs_folder();
        let guess = specs.join("e2e.yaml");
        let parsed = spec_files::parse_text(client.settings(), &guess, self.content.as_bytes());
        let Some(desired) = parsed
            .desired
            .as_ref()
            .filter(|_| !validate::is_rejected(&parsed))
        else {
            return Err(rejection_failure(&parsed.diagnostics));
        };
        let env = desired.env.to_string();
        let before = status::read_environment(client.state(), &env)?;
        let holder = find_current_file(&specs, before.as_ref().map(|status| status.spec_path.as_str()));
        let path = match &self.name {
            Some(name) => specs.join(check_file_name(name)?),
            None => holder
                .clone()
                .unwrap_or_else(|| specs.join(format!("{env}.e2e.yaml"))),
        };
        if let Some(why) = conflict_failure(client, &env, &path, holder.as_deref()) {
            return Err(Failure::new(
                StructuredError::new(Code::SpecConflict, why)
                    .details(json!({ "specPath": path, "holder": holder }))
                    .suggest(&[]),
            ));
        }
        // The paths of mounts and build contexts depend on the folder of the file.
        let parsed = spec_files::parse_text(client.settings(), &path, self.content.as_bytes());
        if validate::is_rejected(&parsed) {
            return Err(rejection_failure(&parsed.diagnostics));
        }
        let changed = write_file(&specs, &path, self.content.as_bytes()).map_err(|error| {
            Failure::operation_failed(&format!("cannot write `{}`", path.display()), &error)
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

/// Waits until the controller has read the file, and returns the desired revision.
async fn wait_until_read(call: &Call, written: &WrittenSpec) -> Result<Option<String>, Failure> {
    let WrittenSpec {
        env,
        changed,
        previous_revision,
        expected_revision,
        ..
    } = written;
    let deadline = clock::now() + READ_TIMEOUT;
    while call.client.run_blocking(|client| Ok(client.is_alive())).await? {
        let Ok(now) = call.read_status(env).await else {
            return Ok(None);
        };
        let now = now.and_then(|status| status.revision);
        // A change of a comment keeps the revision. With time or counter variables, this process cannot predict it.
        let read = now.is_some() && (!changed || now != *previous_revision || now == *expected_revision);
        if read {
            return Ok(now);
        }
        if clock::now() >= deadline {
            return Ok(None);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(None)
}

fn rejection_failure(diagnostics: &[Diagnostic]) -> Failure {
    let mistakes: Vec<&Diagnostic> = diagnostics.iter().filter(|it| it.is_error()).collect();
    let mut message = format!(
        "cannot write the file: {} in it",
        crate::cli::output::format_count(mistakes.len(), "mistake")
    );
    for mistake in mistakes.iter().take(20) {
        message.push('\n');
        message.push_str(format_diagnostic(mistake).trim_end());
    }
    let error =
        StructuredError::new(Code::SpecInvalid, message).details(json!({ "diagnostics": diagnostics }));
    // The mistakes are in the given text, not in the folder.
    Failure::new(error.suggest(&[]))
}
