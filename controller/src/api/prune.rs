//! Removal of old images and of the build cache.

pub(crate) mod report;

use std::time::Duration;

use argus_core::journal::Event;
use argus_core::status::unwritable;
use argus_crds::error::Reason;
use argus_crds::status::ControllerStatus;
use argus_reconciler::ControllerProblems;
use argus_reconciler::clock::{self, Clock};
use argus_reconciler::identity;
use argus_reconciler::journal::CommandJournal;
use argus_reconciler::lock::Lock;
use argus_reconciler::state_dir::StateDir;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Context, Effect, Operation, Route};
use crate::client::{ControllerClient, remote};
use crate::engine::find_endpoint;
use crate::engine::offline::{lock_state, unwritable_failure};
use crate::local_state::status;
use crate::process::correlation;
use crate::process::exit::Failure;
use crate::settings::Settings;
use report::PruneReport;

/// Path of the removal.
const REMOVAL: &str = "/api/v1/prune";
/// Maximum time of a removal by a controller.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Images and build cache that can be removed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Prune {
    /// Keep the build cache, which all users of the engine share
    #[serde(default)]
    images_only: bool,
    /// Ids of the images, if it is not all of them
    images: Option<Vec<String>>,
    /// Remove them
    #[serde(default)]
    remove: bool,
}

impl Operation for Prune {
    const EFFECT: Effect = Effect::Destructive;
    const ROUTES: &'static [Route] = &[
        Route::get("/api/v1/prune", "images and build cache that can be removed")
            .fixed(&[("remove", "false")])
            .serial(),
        Route::post(
            REMOVAL,
            "removes them, or those in `images`; `imagesOnly` keeps the build cache, which all users of the engine share",
        )
        .fixed(&[("remove", "true")])
        .serial(),
    ];
    type Output = PruneReport;

    async fn run(&self, context: &Context) -> Result<PruneReport, Failure> {
        let client = &context.client;
        let settings = client.run_blocking(|client| Ok(client.query_settings())).await?;
        let listed = self.images.as_deref();
        let report = report::create_report(&settings, self.images_only, listed);
        let mut report = Box::pin(report).await?;
        if self.remove {
            Box::pin(remove(client, &settings, self.images_only, &mut report)).await?;
        }
        Ok(report)
    }
}

/// Removes the images and the build cache of a report. The journal contains each removal, so none happens in mode `Safe`.
pub(crate) async fn remove(
    client: &ControllerClient,
    settings: &Settings,
    images_only: bool,
    found: &mut PruneReport,
) -> Result<(), Failure> {
    if let Some(parts) = client.in_process_parts() {
        check_mode(&parts.handle.snapshot().problems, client.state())?;
        let record = |change| parts.handle.record_event(Event::EngineChange(change));
        return report::remove_images(settings, images_only, found, record).await;
    }
    if client.is_alive() {
        let known = status::read_controller(client.state()).ok().flatten();
        check_engine(known.as_ref(), &find_endpoint(settings)?.to_string())?;
        let listed: Vec<&String> = found.images.iter().map(|row| &row.id).collect();
        let body = json!({ "imagesOnly": images_only, "images": listed });
        // The controller is the only writer of its journal.
        *found = remote::post(client.state(), REMOVAL, &body, TIMEOUT).await?;
        return Ok(());
    }
    let mut open = open_journal(client.state(), settings)?;
    let record = |change| {
        if let Some((journal, _)) = &mut open {
            // The first record shows that the journal can be written. A removal cannot be taken back.
            let _full_since_then = journal.record_event(Event::EngineChange(change));
        }
    };
    report::remove_images(settings, images_only, found, record).await
}

/// Locks the state, and records the command in its journal. `None` without a state: a removal is no reason to create one.
fn open_journal(state: &StateDir, settings: &Settings) -> Result<Option<(CommandJournal, Lock)>, Failure> {
    if !state.root().exists() {
        return Ok(None);
    }
    let run = identity::new_ulid(clock::now());
    let (_, held) = lock_state(settings, &run)?;
    let mut journal = CommandJournal::open(state, &run, Clock::system());
    let command = Event::Command {
        environment: None,
        verb: "prune".to_owned(),
        accepted: true,
        correlation_id: Some(correlation::current().id),
    };
    let recorded = journal.record_event(command);
    recorded.map_err(|error| unwritable_failure(&journal, &error))?;
    Ok(Some((journal, held)))
}

/// Refuses a removal by a controller of another engine than the listed one. The controller holds the journal of the state.
fn check_engine(known: Option<&ControllerStatus>, listed: &str) -> Result<(), Failure> {
    let used = known.and_then(|known| known.engine.as_ref());
    match used.map(|used| &used.endpoint).filter(|used| *used != listed) {
        None => Ok(()),
        Some(used) => {
            let message = format!("the controller uses the engine `{used}`, but the list is of `{listed}`");
            Err(Failure::with_reason(Reason::NotPossible, message)
                .with_hint(format!("use its engine with `argus prune --docker-host {used}`")))
        }
    }
}

/// Refuses a removal in mode `Safe`, in which nothing can be recorded.
fn check_mode(problems: &ControllerProblems, state: &StateDir) -> Result<(), Failure> {
    let refuse = |reason: &String| {
        Err(Failure::new(unwritable(
            &state.root().display().to_string(),
            reason,
        )))
    };
    problems.safe.as_ref().map_or(Ok(()), refuse)
}

#[cfg(test)]
mod tests {
    use argus_crds::error::Code;
    use argus_crds::status::EngineStatus;

    use super::*;
    use crate::settings::{Options, SpecOptions};

    #[test]
    fn prune_without_a_state_creates_none() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            state: Some(dir.path().join("state")),
            ..Options::default()
        };
        let settings = Settings::resolve(&options, &SpecOptions::default()).unwrap();
        assert!(open_journal(&settings.state, &settings).unwrap().is_none());
        assert!(!settings.state.root().exists());
        std::fs::create_dir(settings.state.root()).unwrap();
        let (journal, _held) = open_journal(&settings.state, &settings).unwrap().unwrap();
        assert!(journal.path().exists());
    }

    #[test]
    fn controller_of_another_engine_removes_nothing() {
        let status = ControllerStatus {
            engine: Some(EngineStatus {
                endpoint: "unix:///engine".to_owned(),
                ..EngineStatus::default()
            }),
            ..ControllerStatus::default()
        };
        assert!(check_engine(None, "unix:///engine").is_ok());
        assert!(check_engine(Some(&status), "unix:///engine").is_ok());
        let refused = check_engine(Some(&status), "unix:///other").unwrap_err();
        assert_eq!(refused.code(), Some(Code::PrereqMissing));
    }

    #[test]
    fn prune_is_refused_in_mode_safe() {
        let state = StateDir::at("state");
        let mut problems = ControllerProblems::default();
        assert!(check_mode(&problems, &state).is_ok());
        problems.safe = Some("the disk was full".to_owned());
        let refused = check_mode(&problems, &state).unwrap_err();
        assert_eq!(refused.code(), Some(Code::JournalUnwritable));
        assert_eq!(refused.message(), "the disk was full");
    }
}
