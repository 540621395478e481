//! Tools about spec files: what is wrong with them, and putting one where the controller reads it.

use std::path::PathBuf;
use std::time::Duration;

use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::{Code, StructuredError};
use argus_reconciler::clock;
use argus_reconciler::specs::scan::MAX_FILE;
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

use place::{held, safe, taken_by_another, write};

/// A file is read twice within this, or the controller does not read at present.
const TAKEN: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(50);

/// A file that a model can begin with.
macro_rules! small {
    () => {
        "version: \"1\"\nproject: {name: shop}\nservices:\n  db: {image: \"postgres:17\", container: {name: shop-db}}\n  web:\n    \
image: \"shop-web:dev\"\n    dependsOn: [db]\n    container: {name: shop-web, ports: [\"8080:80\"], healthcheck: {path: /healthz, \
port: 80}}\n"
    };
}

/// The same for those who hold that it is taken.
#[cfg(test)]
pub(super) const SMALL: &str = small!();

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Validate {
    /// The text of an e2e.yaml; without it the files of the specs folder are looked at
    content: Option<String>,
}

impl Tool for Validate {
    const NAME: &'static str = "argus_validate";
    const TITLE: &'static str = "What is wrong with a file";
    const ABOUT: &'static str = "Checks an e2e.yaml given as `content`, or all files of the specs folder, without an engine and without \
changing anything: all mistakes at once, each with line, column and a hint. `argus_apply` checks the same before it writes.";
    const EFFECT: Effect = Effect::Looks;
    type Output = validate::ValidationReport;

    async fn call(self, call: Call) -> Result<Output<validate::ValidationReport>, Failure> {
        call.client.read(move |client| self.told(client)).await
    }
}

impl Validate {
    fn told(&self, client: &ControllerClient) -> Result<Output<validate::ValidationReport>, Failure> {
        let (settings, specs) = (client.settings(), client.specs());
        let looked = match &self.content {
            Some(content) => vec![spec_files::text(
                settings,
                &specs.join("e2e.yaml"),
                content.as_bytes(),
            )],
            None => validate::look(settings, &[specs])?,
        };
        let told = validate::told(&looked);
        let mut text = String::new();
        for file in &told.files {
            let name = self
                .content
                .as_ref()
                .map_or(file.spec_path.as_str(), |_| "content");
            let word = if file.accepted { "ok" } else { "refused" };
            let env = file
                .environment
                .as_deref()
                .map(|env| format!(", environment `{env}`"));
            text.extend([format!("{name}: {word}{}\n", env.unwrap_or_default())]);
            text.extend(file.diagnostics.iter().map(line));
        }
        if told.files.is_empty() {
            text.push_str("no spec files; argus_apply writes one\n");
        }
        Ok(Output::new(told, text))
    }
}

/// A complaint in a line.
fn line(diagnostic: &Diagnostic) -> String {
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
    /// The whole text of the e2e.yaml
    content: String,
    /// Name of the file in the specs folder, as in `shop.e2e.yaml`; without it the file that holds the environment already, else the
    /// environment's name
    name: Option<String>,
}

/// Where it was written, and what is to be waited for.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Applied {
    environment: String,
    spec_path: String,
    /// Whether the file is another one now.
    changed: bool,
    /// Whether the controller has read it; if not, it does so by itself later.
    accepted: bool,
    /// The revision that the controller wants now.
    revision: Option<String>,
    /// What is not refused and yet to be looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Diagnostic>,
}

impl Tool for Apply {
    const NAME: &'static str = "argus_apply";
    const TITLE: &'static str = "Make or change an environment";
    const ABOUT: &'static str = concat!(
        "Checks an e2e.yaml and writes it into the specs folder, from where the controller takes it up and makes \
or changes the environment. A file with mistakes is refused as SPEC_INVALID with line, column and hint of each, and nothing is written. \
Then call `argus_wait`. A small file, in which each line may grow:\n\n",
        small!()
    );
    const EFFECT: Effect = Effect::Replaces;
    type Output = Applied;

    async fn call(self, call: Call) -> Result<Output<Applied>, Failure> {
        let client = &call.client;
        let written = client.read(move |client| self.write(client)).await?;
        let revision = taken(&call, &written).await?;
        let (alive, start) = client
            .read(|client| Ok((client.is_alive(), client.how_to_start())))
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
        let what = match (&revision, alive) {
            (Some(_), _) => format!("; the controller works on environment {env}\n"),
            (None, true) => format!("; the controller has not read it yet, environment {env}\n"),
            (None, false) => {
                format!("; no controller is running: nothing happens until one is started: {start}\n")
            }
        };
        text.push_str(&what);
        text.extend(warnings.iter().map(line));
        let step = NextStep::new(
            "returns when it is ready or given up",
            "argus_wait",
            json!({ "environment": env }),
        );
        let told = Applied {
            environment: env,
            spec_path: path.display().to_string(),
            changed,
            accepted: revision.is_some(),
            revision,
            warnings,
        };
        let said = Output::new(told, text);
        Ok(if alive { said.then(step) } else { said })
    }
}

/// A file as it was written.
struct WrittenSpec {
    env: String,
    path: PathBuf,
    changed: bool,
    /// The revision that the controller wanted before.
    was: Option<String>,
    /// The revision that it is, as far as that can be known from here.
    wanted: Option<String>,
    warnings: Vec<Diagnostic>,
}

impl Apply {
    /// Looks at the text, and writes it where that is right.
    fn write(&self, client: &ControllerClient) -> Result<WrittenSpec, Failure> {
        if self.content.len() as u64 > MAX_FILE {
            let message = format!("file is longer than the {MAX_FILE} bytes that are read");
            let details = json!({ "bytes": self.content.len(), "most": MAX_FILE });
            return Err(Failure::of(Code::SpecInvalid, message).about(details));
        }
        let specs = client.specs();
        let guess = specs.join("e2e.yaml");
        let looked = spec_files::text(client.settings(), &guess, self.content.as_bytes());
        let Some(desired) = looked.desired.as_ref().filter(|_| !validate::is_refused(&looked)) else {
            return Err(refused(&looked.diagnostics));
        };
        let env = desired.env.to_string();
        let before = status::one(client.state(), &env)?;
        let holder = held(&specs, before.as_ref().map(|status| status.spec_path.as_str()));
        let path = match &self.name {
            Some(name) => specs.join(safe(name)?),
            None => holder
                .clone()
                .unwrap_or_else(|| specs.join(format!("{env}.e2e.yaml"))),
        };
        if let Some(why) = taken_by_another(client, &env, &path, holder.as_deref()) {
            return Err(Failure::new(
                StructuredError::new(Code::SpecConflict, why)
                    .details(json!({ "specPath": path, "holder": holder }))
                    .suggest(&[]),
            ));
        }
        // Mounts and contexts are told by the place of the file.
        let looked = spec_files::text(client.settings(), &path, self.content.as_bytes());
        if validate::is_refused(&looked) {
            return Err(refused(&looked.diagnostics));
        }
        let changed = write(&specs, &path, self.content.as_bytes())
            .map_err(|error| Failure::fault(&format!("cannot write `{}`", path.display()), &error))?;
        let wanted = looked.desired.as_ref();
        Ok(WrittenSpec {
            wanted: wanted.map(|desired| desired.revision.to_string()),
            was: before.and_then(|status| status.revision),
            warnings: looked.diagnostics,
            env,
            path,
            changed,
        })
    }
}

/// The revision that the controller wants once it has read the file.
async fn taken(call: &Call, written: &WrittenSpec) -> Result<Option<String>, Failure> {
    let WrittenSpec {
        env,
        changed,
        was,
        wanted,
        ..
    } = written;
    let deadline = clock::now() + TAKEN;
    while call.client.read(|client| Ok(client.is_alive())).await? {
        let Ok(now) = call.status(env).await else {
            return Ok(None);
        };
        let now = now.and_then(|status| status.revision);
        // A comment makes no other revision; what reads the clock or counts makes one that is not known here.
        let read = now.is_some() && (!changed || now != *was || now == *wanted);
        if read {
            return Ok(now);
        }
        if clock::now() >= deadline {
            return Ok(None);
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(None)
}

fn refused(diagnostics: &[Diagnostic]) -> Failure {
    let mistakes: Vec<&Diagnostic> = diagnostics.iter().filter(|it| it.is_error()).collect();
    let mut message = format!(
        "nothing is written: {} in it",
        crate::cli::output::count(mistakes.len(), "mistake")
    );
    for mistake in mistakes.iter().take(20) {
        message.push('\n');
        message.push_str(line(mistake).trim_end());
    }
    let error =
        StructuredError::new(Code::SpecInvalid, message).details(json!({ "diagnostics": diagnostics }));
    // What is in the folder is not what is wrong.
    Failure::new(error.suggest(&[]))
}
