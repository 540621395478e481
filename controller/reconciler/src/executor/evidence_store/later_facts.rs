//! Facts of a failed run that arrive after the collection of its evidence.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::PoisonError;

use argus_core::action::{Action, Step};
use argus_core::failed_run::{FailureKind, Stopper};
use argus_core::outcome::{Diagnosis, Evidence};
use argus_core::secrets::Secrets;

use super::{EvidenceFacts, EvidenceStore, FACTS_FILE, folders, has_same_run, number, write_synced};
use crate::state_file;

impl EvidenceStore {
    /// Adds the results of a diagnosis to the stored evidence of its run. Returns them without secrets.
    pub(in crate::executor) async fn attach(
        &self,
        step: &Step,
        mut diagnosis: Diagnosis,
        secrets: &Secrets,
    ) -> Diagnosis {
        for text in diagnosis.results.values_mut().chain(&mut diagnosis.missing) {
            *text = secrets.redacted(text);
        }
        if let Some((folder, facts)) = self.describe(step, &Evidence::default(), secrets) {
            let found = diagnosis.clone();
            self.change(move || attach(&folder, &facts, found)).await;
        }
        diagnosis
    }

    /// Adds the stop of a container to the evidence of its unhealthy run. Other steps change nothing.
    pub(in crate::executor) async fn record_stop(&self, step: &Step) {
        let (Some(environment), Some(service), Action::StopContainer { id, .. }) =
            (step.subject.environment(), step.subject.service(), &step.action)
        else {
            return;
        };
        let runs = self
            .state_dir
            .evidence()
            .join(environment.as_str())
            .join(service.as_str());
        let (id, now) = (id.to_string(), self.clock.now().to_string());
        self.change(move || {
            let Some(newest) = folders(&runs).into_iter().max_by_key(|run| number(run)) else {
                return Ok(());
            };
            update(&newest, |facts| {
                let run = &mut facts.run;
                if run.container_id == id
                    && run.kind == Some(FailureKind::Unhealthy)
                    && run.stopped_by.is_none()
                {
                    run.stopped_by = Some(Stopper::Argus);
                    run.stopped_at = Some(now);
                }
            })
        })
        .await;
    }

    /// Runs a change of stored facts, one at a time.
    async fn change(&self, job: impl FnOnce() -> io::Result<()> + Send + 'static) {
        let changes = self.changes.clone();
        let job = move || {
            let _one_writer = changes.lock().unwrap_or_else(PoisonError::into_inner);
            job()
        };
        if let Ok(Err(error)) = tokio::task::spawn_blocking(job).await
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "cannot add facts to the evidence");
        }
    }
}

/// Adds a diagnosis to the details in the folder, unless they belong to another run.
pub(super) fn attach(folder: &Path, facts: &EvidenceFacts, diagnosis: Diagnosis) -> io::Result<()> {
    if !has_same_run(folder, facts) {
        return Ok(());
    }
    update(folder, |stored| {
        stored.network_diagnostics.extend(diagnosis.results);
        stored.missing.extend(diagnosis.missing);
    })
}

/// Replaces the details in the folder if they change.
fn update(folder: &Path, change: impl FnOnce(&mut EvidenceFacts)) -> io::Result<()> {
    let path = folder.join(FACTS_FILE);
    let before: EvidenceFacts = serde_json::from_slice(&state_file::read(&path, state_file::MAX_BYTES)?)?;
    let mut after = before.clone();
    change(&mut after);
    if after == before {
        return Ok(());
    }
    let unfinished = folder.join(format!("{FACTS_FILE}.new"));
    write_synced(&unfinished, &serde_json::to_vec_pretty(&after)?)?;
    fs::rename(unfinished, path)
}
