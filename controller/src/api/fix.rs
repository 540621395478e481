//! Writes the change of the spec file that the first error of an environment proposes.

use std::time::Duration;

use argus_core::secrets::REDACTED;
use argus_crds::error::{Code, Confidence, Reason, SpecEdit, StructuredError, ToolCall};
use argus_crds::status::EnvironmentStatus;
use argus_crds::yaml::text_edit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::apply::{Applied, Apply, find_current_file};
use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool, target};
use crate::client::ControllerClient;
use crate::process::exit::Failure;
use crate::spec_files;

/// Maximum time for the scan of earlier edits.
const SYNC_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Fix {
    /// Environment name
    pub(crate) environment: String,
    /// Return the change without writing it
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// Also write a likely change
    #[serde(default)]
    pub(crate) likely: bool,
}

/// Change of a spec file. It names no other values of the file, which can be secret.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Fixed {
    pub(crate) environment: String,
    /// Code of the error that proposes the change.
    code: Code,
    /// Service of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    #[serde(flatten)]
    edit: SpecEdit,
    /// First replaced byte of the file, from 0.
    start: usize,
    /// End of the replaced bytes.
    end: usize,
    /// New text of these bytes.
    text: String,
    /// The written file; absent with `dryRun`.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<Applied>,
}

impl Operation for Fix {
    const EFFECT: Effect = Effect::DestructiveEachTime;
    // As for `argus_apply`: images of any registry.
    const IS_OPEN_WORLD: bool = true;
    // Programs write the file themselves.
    const ROUTES: &'static [Route] = &[];
    type Output = Fixed;

    async fn run(&self, context: &Context) -> Result<Fixed, Failure> {
        let why = "services share the file of their environment";
        let remedy = |env: &str| format!("correct the environment with `argus fix {env}`");
        let env = target::parse_whole_environment(&self.environment, why, remedy)?;
        if context.client.missing_controller().await?.is_none() {
            // The errors are those of the current file.
            context.client.sync_within(SYNC_LIMIT).await?;
        }
        let status = context.client.find_environment(env.as_str()).await?;
        let find =
            move |client: &ControllerClient, stop: &CancellationToken| find_change(client, &status, stop);
        let (mut fixed, old_text, new_text) = context.client.run_blocking_until(find).await?;
        if !self.dry_run {
            if fixed.is_likely() && !self.likely {
                return Err(refuse_likely(fixed));
            }
            fixed.applied = Some(Apply::instead_of(old_text, new_text).run(context).await?);
        }
        Ok(fixed)
    }
}

impl Fixed {
    /// Returns whether another cause is possible, so that the change may not help.
    pub(crate) fn is_likely(&self) -> bool {
        self.edit.confidence == Confidence::Likely
    }
}

/// Names a change that is only likely, with the calls that write it.
fn refuse_likely(fixed: Fixed) -> Failure {
    let env = fixed.environment;
    let message = "the change is only likely, because another cause is possible";
    let mut error = StructuredError::missing(Reason::NotPossible, message)
        .environment(env.as_str())
        .suggest(&[])
        .edit(fixed.edit);
    let arguments = [
        ("environment".to_owned(), Value::from(env.as_str())),
        ("likely".to_owned(), Value::from(true)),
    ];
    for remedy in &mut error.remedies {
        remedy.verify = None;
        remedy.command = Some(format!("argus fix {env} --yes --likely"));
        remedy.mcp = Some(ToolCall {
            tool: Fix::NAME.to_owned(),
            arguments: arguments.clone().into_iter().collect(),
            verify: None,
        });
    }
    Failure::new(error)
}

/// Returns the change that the first error proposes, and the old and the new text.
fn find_change(
    client: &ControllerClient,
    status: &EnvironmentStatus,
    stop: &CancellationToken,
) -> Result<(Fixed, String, String), Failure> {
    let env = &status.environment;
    let refused = |why: String| {
        Failure::with_reason(Reason::NotPossible, why)
            .with_hint(format!("see the next steps with `argus why {env}`"))
    };
    let Some(error) = status.errors.first() else {
        return Err(refused(format!("environment `{env}` has no error")));
    };
    let Some(edit) = proposed_edit(error) else {
        let first = error
            .remedies
            .first()
            .map_or("unknown", |remedy| remedy.summary.as_str());
        return Err(refused(format!(
            "the first step is not a change of the spec file to a known value: {first}"
        )));
    };
    let specs = client.specs_folder();
    let file = find_current_file(&specs, Some(&status.spec_path));
    let Some(path) = file.filter(|file| find_current_file(&specs, Some(&edit.file)).as_ref() == Some(file))
    else {
        return Err(refused(format!(
            "Argus writes only spec files, not `{}`",
            edit.file
        )));
    };
    let text = spec_files::read_file(client.settings(), &path, stop).text;
    let change = text_edit(&text, edit).filter(|_| !text.contains(char::REPLACEMENT_CHARACTER));
    let Some(change) = change.map(|change| change.shortened(&text)) else {
        return Err(refused(format!(
            "`{}` cannot be written safely at its place in `{}`, or the file changed, for example by this change: {}",
            edit.key,
            edit.file,
            error
                .remedies
                .first()
                .map_or("", |remedy| remedy.summary.as_str()),
        )));
    };
    let content = change.apply(&text);
    let fixed = Fixed {
        environment: env.clone(),
        code: error.code,
        service: error.service.clone(),
        edit: edit.clone(),
        start: change.range.start,
        end: change.range.end,
        text: change.text,
        applied: None,
    };
    Ok((fixed, text, content))
}

/// Change of the first remedy, if it has a value.
fn proposed_edit(error: &StructuredError) -> Option<&SpecEdit> {
    let edit = error.remedies.first()?.edit.as_ref()?;
    let is_known = edit
        .suggest
        .as_ref()
        .is_some_and(|value| !value.contains(REDACTED));
    is_known.then_some(edit)
}

/// Formats a change as the removed and the added value.
pub(crate) fn format_change(fixed: &Fixed) -> String {
    let edit = &fixed.edit;
    let line = edit.line.map_or_else(String::new, |line| format!(":{line}"));
    let line_of = |sign, value: &Option<String>| {
        value
            .as_ref()
            .map_or_else(String::new, |value| format!("{sign} {value}\n"))
    };
    format!(
        "{} in {}{line} ({}: {})\n{}{}",
        edit.key,
        edit.file,
        edit.confidence.name(),
        edit.reason,
        line_of('-', &edit.now),
        line_of('+', &edit.suggest)
    )
}

impl Tool for Fix {
    const NAME: &'static str = "argus_fix";
    const TITLE: &'static str = "Write the proposed change";
    const ABOUT: &'static str = "Writes the change that the first remedy proposes (`fix_spec` with `suggest`) to its file. One with `confidence: likely` needs \
`likely: true`. Then call `argus_wait`.";
    type Data = Fixed;

    async fn summarize(&self, fixed: Fixed, _context: &Context) -> Summary<Fixed> {
        let word = if fixed.applied.is_some() {
            "wrote"
        } else {
            "proposes"
        };
        let text = format!("{word} {}", format_change(&fixed));
        let wait = json!({ "environment": fixed.environment });
        let step = NextStep::new("wait until it is ready or fails", "argus_wait", wait);
        let is_written = fixed.applied.is_some();
        let summary = Summary::new(fixed, text);
        if is_written {
            summary.with_next(step)
        } else {
            summary
        }
    }
}
