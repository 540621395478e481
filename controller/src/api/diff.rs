//! Changes of an environment since its last good revision.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use argus_core::desired::key_lines::KeyLines;
use argus_core::ident::EnvName;
use argus_core::secrets::Secrets;
use argus_core::spec_diff::{image_changes, key_changes};
use argus_crds::diff::{EnvironmentDiff, GoodRevision, ImageChange, KeyChange};
use argus_crds::status::{EnvironmentStatus, Phase, ROLLED_BACK};
use argus_reconciler::reconciler::PersistedState;
use argus_reconciler::specs::FileEntry;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::plan::forecasts;
use super::target;
use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};
use crate::client::ControllerClient;
use crate::local_state::status;
use crate::process::exit::Failure;
use crate::render::foreign_text::mark_further_lines;

/// Maximum number of changed keys in a summary.
const MAX_KEYS: usize = 40;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Diff {
    /// Environment name
    pub(crate) environment: String,
}

impl Operation for Diff {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] = &[Route::get(
        "/api/v1/environments/{environment}/diff",
        "changes of the file and of the images since the last good revision; needs the token",
    )
    .serial()];
    const IS_PRIVATE: bool = true;
    type Output = EnvironmentDiff;

    async fn run(&self, context: &Context) -> Result<EnvironmentDiff, Failure> {
        let why = "services share the file of their environment";
        let remedy = |env: &str| format!("compare the environment with `argus diff {env}`");
        let env = target::parse_whole_environment(&self.environment, why, remedy)?;
        let status = context.client.find_environment(env.as_str()).await?;
        let compare =
            move |client: &ControllerClient, stop: &CancellationToken| compare(client, &env, &status, stop);
        context.client.run_blocking_until(compare).await
    }
}

fn compare(
    client: &ControllerClient,
    env: &EnvName,
    status: &EnvironmentStatus,
    stop: &CancellationToken,
) -> Result<EnvironmentDiff, Failure> {
    let (registry, _) = forecasts::read_folder(&client.query_settings(), stop)?;
    let persisted: PersistedState = status::read_or_default(&client.state().state_json());
    let overrides = &persisted.overrides;
    let file = registry.file_of(env);
    let mut diff = EnvironmentDiff {
        environment: env.to_string(),
        spec_path: file.map(|(path, _)| path.display().to_string()),
        revision: status.revision.clone(),
        rolled_back_from: overrides.rollbacks.get(env).map(|to| to.from.to_string()),
        rejected: file.is_some_and(|(_, entry)| is_rejected(entry)),
        ..EnvironmentDiff::default()
    };
    let good = overrides.known_good.get(env).and_then(|good| good.last());
    let (Some(good), Some(images)) = (good, overrides.good_images.get(env)) else {
        return Ok(diff);
    };
    diff.good = Some(GoodRevision {
        revision: good.desired.revision.to_string(),
        since: images.since.to_string(),
    });
    let current = overrides
        .forks
        .get(env)
        .or_else(|| registry.environments.get(env));
    let mut secrets = good.desired.secret_values();
    if let Some(current) = current {
        secrets.join(&current.desired.secret_values());
        diff.images = image_changes(images, &current.desired, &running_images(status), &secrets);
    }
    if let Some((path, entry)) = file {
        diff.keys = changed_keys(path, entry, &good.lines, &secrets);
    }
    Ok(diff)
}

/// Compares the keys of a file with those of the good revision.
fn changed_keys(path: &Path, entry: &FileEntry, good: &KeyLines, secrets: &Secrets) -> Vec<KeyChange> {
    let accepted = entry.accepted.as_ref();
    // The keys of a Compose file are not those of its translation.
    if accepted.map_or(good, |accepted| &accepted.lines).is_compose() {
        return Vec::new();
    }
    let bytes = entry
        .text
        .as_ref()
        .map(|text| text.bytes.clone())
        .unwrap_or_default();
    let source = argus_crds::read(&path.display().to_string(), &bytes).source;
    // Without a tree, every key would look removed; the diagnostics say why it cannot be parsed.
    if source.locate("").is_none() {
        return Vec::new();
    }
    key_changes(good.values(), &source, secrets)
}

fn is_rejected(entry: &FileEntry) -> bool {
    entry.diagnostics.iter().any(argus_crds::Diagnostic::is_error)
}

/// Image ids of the current containers, by service.
fn running_images(status: &EnvironmentStatus) -> BTreeMap<String, String> {
    let rows = status.services.iter();
    rows.filter_map(|row| Some((row.name.clone(), row.image_id.clone()?)))
        .collect()
}

/// Describes the comparison in one line.
pub(crate) fn format_head(diff: &EnvironmentDiff) -> String {
    let env = &diff.environment;
    let Some(good) = &diff.good else {
        return format!("{env}: never Ready for 10 s, so there is no good revision to compare with");
    };
    let count = diff.keys.len() + diff.images.len();
    let changes = match count {
        0 => "no changes".to_owned(),
        count => crate::render::output::format_count(count, "change"),
    };
    let rejected = if diff.rejected {
        "; the current file is rejected"
    } else {
        ""
    };
    let from = diff.rolled_back_from.as_ref();
    let rolled_back = from.map_or_else(String::new, |from| {
        format!("; {ROLLED_BACK}{from} until the file changes")
    });
    format!(
        "{env}: {changes} since revision {}, good since {}{rejected}{rolled_back}",
        good.revision, good.since
    )
}

/// Describes the change of a value, such as `1 -> 2`.
fn format_values(before: Option<&str>, after: Option<&str>) -> String {
    match (before, after) {
        (Some(before), Some(after)) => format!("{before} -> {after}"),
        (None, Some(after)) => format!("added: {after}"),
        (Some(before), None) => format!("removed, it was: {before}"),
        (None, None) => "no value".to_owned(),
    }
}

fn format_key(change: &KeyChange) -> String {
    let place = change
        .line
        .map_or_else(String::new, |line| format!(" (line {line})"));
    let values = format_values(change.before.as_deref(), change.after.as_deref());
    format!("  {}{place}: {}\n", change.key, mark_further_lines(&values))
}

fn format_image(change: &ImageChange) -> String {
    let values = format_values(Some(&change.before), change.after.as_deref());
    let build = if change.build_changed {
        ", the build context or arguments changed"
    } else {
        ""
    };
    format!(
        "  image of {} ({}): {values}{build}\n",
        change.service, change.image
    )
}

impl Tool for Diff {
    const NAME: &'static str = "argus_diff";
    const TITLE: &'static str = "Changes since the last good revision";
    const ABOUT: &'static str = "Returns, key by key, what changed in the spec file and in the images of an environment since it was last \
Ready for 10 s. Call it if an environment worked before and fails now. Secrets are redacted.";
    type Data = EnvironmentDiff;

    async fn summarize(&self, mut diff: EnvironmentDiff, context: &Context) -> Summary<EnvironmentDiff> {
        let env = json!({ "environment": diff.environment });
        let mut text = format_head(&diff) + "\n";
        text.extend(diff.keys.iter().take(MAX_KEYS).map(format_key));
        let more = diff.keys.len().saturating_sub(MAX_KEYS);
        if more > 0 {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  and {more} more keys");
        }
        diff.keys.truncate(MAX_KEYS);
        text.extend(diff.images.iter().map(format_image));
        let status = context.client.find_environment(&diff.environment).await;
        let is_ready = status.is_ok_and(|status| status.phase == Phase::Ready);
        let has_changes = !diff.keys.is_empty() || !diff.images.is_empty();
        let summary = Summary::new(diff, text);
        if is_ready {
            summary
        } else if has_changes {
            summary
                .with_next(NextStep::new("why it is not ready", "argus_why", env.clone()))
                .with_next(NextStep::new(
                    "return to the good revision",
                    "argus_rollback",
                    env,
                ))
        } else {
            summary.with_next(NextStep::new("why it is not ready", "argus_why", env))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::apply::SMALL;
    use crate::settings::{Options, Settings, SpecOptions};

    /// Changed keys of a file after its last replacement.
    fn changed(name: &str, texts: [&str; 2]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(name);
        let options = Options {
            state: Some(dir.path().join("state")),
            ..Options::default()
        };
        let specs = SpecOptions {
            specs: Some(file.clone()),
            ..SpecOptions::default()
        };
        let settings = Settings::resolve(&options, &specs).unwrap();
        let [good, current] = texts.map(|text| {
            std::fs::write(&file, text).unwrap();
            let (registry, rejected) = forecasts::read_folder(&settings, &CancellationToken::new()).unwrap();
            assert!(!rejected, "{registry:?}");
            registry.files.into_iter().next().unwrap()
        });
        let good = good.1.accepted.unwrap();
        let keys = changed_keys(&current.0, &current.1, &good.lines, &Secrets::default());
        keys.into_iter().map(|change| change.key).collect()
    }

    #[test]
    fn keys_are_compared_by_the_content_of_the_file() {
        let edited = SMALL.replace("postgres:17", "postgres:18");
        let keys = changed("e2e.yaml", [SMALL, &edited]);
        assert_eq!(keys.len(), 1, "{keys:?}");
        assert_eq!(
            changed("compose.yaml", [SMALL, &edited]),
            keys,
            "only its name is that of Compose"
        );
        let compose =
            |tag: &str| format!("name: shop\nservices: {{ db: {{ image: \"postgres:{tag}\" }} }}\n");
        let texts = [compose("17"), compose("18")];
        assert!(changed("compose.yaml", [&texts[0], &texts[1]]).is_empty());
    }
}
