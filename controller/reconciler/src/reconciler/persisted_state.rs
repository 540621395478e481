//! State that survives the process: `state.json` with the overrides, and one file per environment with its history, so that a change
//! writes only what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use argus_backend::host_path::folder;
use argus_core::ident::EnvName;
use argus_core::state::{EnvHistory, PlannerState};
use argus_core::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::overrides::Overrides;
use crate::persisted;
use crate::quarantine::Quarantined;
use crate::snapshot::Snapshot;
use crate::state_dir::StateDir;
use crate::state_file;

type Histories = BTreeMap<EnvName, Arc<EnvHistory>>;

/// State that survives the process. Commands without a controller write it as one document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistedState {
    /// Assigned ports and counters.
    pub environments: Histories,
    /// Requests of people and agents.
    #[serde(flatten)]
    pub overrides: Overrides,
}

/// Content of `state.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StateFile {
    /// Histories that an earlier version or a command without a controller wrote. They are newer than the files of the environments.
    environments: Option<Histories>,
    #[serde(flatten)]
    overrides: Overrides,
}

impl PersistedState {
    /// Reads the state of a directory whose lock is held. Unusable files are quarantined.
    pub fn read(dir: &StateDir, now: Timestamp) -> (Self, Vec<Quarantined>) {
        let mut quarantined = Vec::new();
        let file = persisted::read(&dir.state_json(), now);
        quarantined.extend(file.quarantined);
        let state = Self::assemble(file.value, dir, |path| {
            let history = persisted::read(path, now);
            quarantined.extend(history.quarantined);
            history.value
        });
        (state, quarantined)
    }

    /// Reads the state without the lock. Missing, unreadable and invalid files give the default.
    pub fn peek(dir: &StateDir) -> Self {
        fn parse<T: DeserializeOwned>(path: &Path) -> Option<T> {
            serde_json::from_slice(&state_file::read(path, state_file::MAX_BYTES).ok()?).ok()
        }
        Self::assemble(parse(&dir.state_json()), dir, parse)
    }

    fn assemble(
        file: Option<StateFile>,
        dir: &StateDir,
        mut read: impl FnMut(&Path) -> Option<EnvHistory>,
    ) -> Self {
        let StateFile {
            environments,
            overrides,
        } = file.unwrap_or_default();
        let environments = environments.unwrap_or_else(|| {
            let names = stored_environments(dir).into_iter();
            names
                .filter_map(|env| Some((env.clone(), Arc::new(read(&dir.history(&env))?))))
                .collect()
        });
        Self {
            environments,
            overrides,
        }
    }
}

/// Environments with a file of their history.
fn stored_environments(dir: &StateDir) -> BTreeSet<EnvName> {
    let names = folder::list(&dir.histories()).unwrap_or_default();
    let names = names
        .iter()
        .filter_map(|name| name.to_str()?.strip_suffix(".json"));
    names.filter_map(|name| EnvName::new(name).ok()).collect()
}

/// The part of a snapshot that survives the process.
#[derive(Debug, Clone)]
pub(crate) struct StateToPersist {
    state: Arc<PlannerState>,
    overrides: Arc<Overrides>,
    /// Number of accepted commands. A command is answered when its number is on disk.
    pub(crate) accepted_commands: u64,
}

impl StateToPersist {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        Self {
            state: snapshot.state.clone(),
            overrides: snapshot.overrides.clone(),
            accepted_commands: snapshot.accepted_commands,
        }
    }

    /// Writes what differs from `last`, which is on disk; everything without it. Returns the number of written bytes.
    pub(crate) fn write(&self, last: Option<&Self>, dir: &StateDir) -> io::Result<usize> {
        let (histories, none) = (&self.state.environments, BTreeMap::new());
        let on_disk = last.map_or(&none, |last| &last.state.environments);
        let mut bytes = 0;
        for (env, history) in histories {
            if on_disk.get(env) != Some(history) {
                bytes += persisted::write(&dir.history(env), history)?;
            }
        }
        let stored = last.map_or_else(|| stored_environments(dir), |_| BTreeSet::new());
        let stored = stored.iter().chain(on_disk.keys());
        for env in stored.filter(|env| !histories.contains_key(*env)) {
            folder::remove(&dir.history(env))?;
        }
        // Last, because its older content can contain the histories.
        let is_same =
            |last: &Self| self.accepted_commands == last.accepted_commands && self.has_overrides_of(last);
        if !last.is_some_and(is_same) {
            bytes += persisted::write(&dir.state_json(), &self.overrides)?;
        }
        Ok(bytes)
    }

    fn has_overrides_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.overrides, &other.overrides) || self.overrides == other.overrides
    }
}

impl PartialEq for StateToPersist {
    fn eq(&self, other: &Self) -> bool {
        self.accepted_commands == other.accepted_commands
            && (Arc::ptr_eq(&self.state, &other.state) || self.state.environments == other.state.environments)
            && self.has_overrides_of(other)
    }
}

#[cfg(test)]
mod tests {
    use argus_core::ident::ServiceName;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn env(name: &str) -> EnvName {
        EnvName::new(name).unwrap()
    }

    /// History with a restart counter.
    fn history(restarts: u32) -> Arc<EnvHistory> {
        let mut history = EnvHistory::default();
        history.service_mut(&ServiceName::new("api").unwrap()).restarts = restarts;
        Arc::new(history)
    }

    fn state(environments: &[(&str, u32)]) -> StateToPersist {
        let environments = environments
            .iter()
            .map(|(name, restarts)| (env(name), history(*restarts)));
        StateToPersist {
            state: Arc::new(PlannerState {
                environments: environments.collect(),
                ..PlannerState::default()
            }),
            overrides: Arc::default(),
            accepted_commands: 0,
        }
    }

    fn state_dir() -> (tempfile::TempDir, StateDir) {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::prepare(&folder.path().join("state"), &folder.path().join("specs")).unwrap();
        (folder, dir)
    }

    fn restarts(dir: &StateDir) -> Vec<(String, u32)> {
        let (state, quarantined) = PersistedState::read(dir, NOW);
        assert_eq!(quarantined, []);
        assert_eq!(PersistedState::peek(dir), state);
        let restarts = |history: &EnvHistory| history.services.values().map(|service| service.restarts).sum();
        let all = state.environments.iter();
        all.map(|(env, history)| (env.to_string(), restarts(history)))
            .collect()
    }

    #[test]
    fn change_writes_only_the_files_of_its_environment() {
        let (_folder, dir) = state_dir();
        let first = state(&[("a", 1), ("b", 2), ("c", 3)]);
        first.write(None, &dir).unwrap();
        for path in [dir.history(&env("b")), dir.state_json()] {
            std::fs::remove_file(path).unwrap();
        }
        let second = state(&[("a", 4), ("b", 2)]);
        let bytes = second.write(Some(&first), &dir).unwrap();
        assert_eq!(
            bytes as u64,
            std::fs::metadata(dir.history(&env("a"))).unwrap().len()
        );
        assert_eq!(restarts(&dir), [("a".to_owned(), 4)]);
    }

    #[test]
    fn first_write_removes_files_of_absent_environments() {
        let (_folder, dir) = state_dir();
        state(&[("a", 1), ("b", 2)]).write(None, &dir).unwrap();
        state(&[("b", 3)]).write(None, &dir).unwrap();
        assert_eq!(restarts(&dir), [("b".to_owned(), 3)]);
    }

    #[test]
    fn histories_in_the_state_file_replace_the_files() {
        let (_folder, dir) = state_dir();
        state(&[("a", 1), ("b", 2)]).write(None, &dir).unwrap();
        let one_document = PersistedState {
            environments: [(env("a"), history(5))].into(),
            ..PersistedState::default()
        };
        persisted::write(&dir.state_json(), &one_document).unwrap();
        assert_eq!(restarts(&dir), [("a".to_owned(), 5)]);
        persisted::write(&dir.state_json(), &PersistedState::default()).unwrap();
        assert_eq!(restarts(&dir), []);
        state(&[("a", 6)]).write(None, &dir).unwrap();
        assert_eq!(restarts(&dir), [("a".to_owned(), 6)]);
    }

    #[test]
    fn damaged_history_is_quarantined_and_the_others_stay() {
        let (_folder, dir) = state_dir();
        state(&[("a", 1), ("b", 2)]).write(None, &dir).unwrap();
        std::fs::write(dir.history(&env("a")), "{}").unwrap();
        let (state, quarantined) = PersistedState::read(&dir, NOW);
        assert_eq!(quarantined.len(), 1);
        assert_eq!(quarantined[0].path, dir.history(&env("a")));
        assert_eq!(state.environments.into_keys().collect::<Vec<_>>(), [env("b")]);
    }
}
