//! Environments that are taken down: they stay down until an edit of their spec file or a retry.

use std::collections::BTreeSet;

use argus_core::desired::Accepted;
use argus_core::ident::{EnvName, Hash, Revision};
use argus_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{OverrideInputs, Overrides};
use crate::command::{CommandError, Reply};
use crate::specs::SpecRegistry;

/// An environment that is taken down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "StoredDown")]
pub struct Down {
    /// Hashes of the spec file at that time, as [`Accepted::file_hash`]: as accepted, and as on the disk if that is known. Empty in
    /// the state of an earlier version.
    pub file_hashes: BTreeSet<Hash>,
}

/// Form of [`Down`] in the state of this version, and of earlier ones.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredDown {
    #[serde(rename_all = "camelCase")]
    Current { file_hashes: BTreeSet<Hash> },
    /// The revision, which also changes with build contexts and `.env`.
    #[expect(dead_code, reason = "only the form distinguishes it")]
    Earlier(Revision),
}

impl From<StoredDown> for Down {
    fn from(stored: StoredDown) -> Self {
        let file_hashes = match stored {
            StoredDown::Current { file_hashes } => file_hashes,
            StoredDown::Earlier(_) => BTreeSet::new(),
        };
        Self { file_hashes }
    }
}

impl Down {
    /// Returns the entry of an environment that is taken down with this spec file.
    pub fn of(accepted: &Accepted) -> Self {
        Self {
            file_hashes: accepted.file_hash.iter().cloned().collect(),
        }
    }

    /// True until an edit of the spec file. An unknown file counts as unedited.
    fn is_of(&self, accepted: &Accepted) -> bool {
        let is_known = |hash| self.file_hashes.contains(hash);
        self.file_hashes.is_empty() || accepted.file_hash.as_ref().is_none_or(is_known)
    }
}

impl Overrides {
    /// Takes an environment down until an edit of its spec file or a retry.
    pub(crate) fn take_down(
        &mut self,
        env: &EnvName,
        inputs: OverrideInputs<'_>,
    ) -> Result<Reply, CommandError> {
        self.find(env, inputs)?;
        // A fork has no file that could bring it back, so nothing is stored.
        if self.forks.remove(env).is_none()
            && let Some(file) = inputs.specs.environments.get(env)
        {
            self.down.insert(env.clone(), Down::of(file));
            self.ttl_expired.remove(env);
        }
        Ok(Reply::Done)
    }

    /// True if the environment of this spec file is taken down.
    pub fn is_down(&self, accepted: &Accepted) -> bool {
        let down = self.down.get(&accepted.desired.env);
        down.is_some_and(|down| down.is_of(accepted))
    }

    /// Drops the environments whose spec file was edited or is gone. One that an earlier version took down stays until the next edit.
    pub(super) fn drop_ended_downs(&mut self, specs: &SpecRegistry, now: Timestamp) {
        let retried = &mut self.retried;
        self.down.retain(|env, down| {
            let Some(accepted) = specs.environments.get(env) else {
                return false;
            };
            let stays = down.is_of(accepted);
            if down.file_hashes.is_empty() {
                *down = Down::of(accepted);
            }
            // After an edit of a comment, the revision is still the one whose TTL expired.
            if !stays && accepted.accepted_at < now {
                retried.insert(env.clone(), (accepted.desired.revision.clone(), now));
            }
            stays
        });
        let down = &self.down;
        self.ttl_expired.retain(|env| down.contains_key(env));
    }
}
