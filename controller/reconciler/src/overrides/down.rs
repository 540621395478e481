//! Environments that are taken down, by request or because their TTL has passed: they stay down until an edit of their spec file or a
//! retry.

use std::collections::BTreeSet;
use std::sync::Arc;

use argus_core::desired::Accepted;
use argus_core::ident::{EnvName, Hash, Revision, ServiceName};
use argus_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{OverrideInputs, Overrides, check_service};
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
    pub fn new(accepted: &Accepted) -> Self {
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
            self.down.insert(env.clone(), Down::new(file));
            self.ttl_expired.remove(env);
        }
        Ok(Reply::Done)
    }

    /// True if the environment of this spec file is taken down.
    pub fn is_down(&self, accepted: &Accepted) -> bool {
        let down = self.down.get(&accepted.desired.env);
        down.is_some_and(|down| down.is_of(accepted))
    }

    /// Brings an environment back, or retries one of its services. It ends the stops of the services.
    pub(crate) fn retry_target(
        &mut self,
        env: &EnvName,
        service: Option<&ServiceName>,
        inputs: OverrideInputs<'_>,
    ) -> Result<(), CommandError> {
        if service.is_some() {
            self.find_running(env, service, inputs)?;
        } else {
            self.retry(env, inputs)?;
        }
        self.requests.start(env, service);
        Ok(())
    }

    /// Returns the accepted spec of an environment that has the service and is not taken down.
    pub(crate) fn find_running(
        &self,
        env: &EnvName,
        service: Option<&ServiceName>,
        inputs: OverrideInputs<'_>,
    ) -> Result<Arc<Accepted>, CommandError> {
        let accepted = self.find(env, inputs)?;
        check_service(&accepted, service)?;
        if self.down.contains_key(env) {
            let message = format!("`{env}` was taken down; start it with `argus retry {env}`");
            return Err(CommandError::Refused(message));
        }
        Ok(accepted)
    }

    /// Returns the accepted spec of an environment that is neither taken down nor held.
    pub(crate) fn check_restart(
        &self,
        env: &EnvName,
        service: Option<&ServiceName>,
        inputs: OverrideInputs<'_>,
    ) -> Result<Arc<Accepted>, CommandError> {
        let accepted = self.find_running(env, service, inputs)?;
        let hold = match service {
            Some(service) => self.requests.hold(env, service, inputs.now),
            None => self.requests.environment_hold(env, inputs.now),
        };
        if hold.is_some() || accepted.desired.hold {
            let message = format!("`{env}` is held; end the hold before a restart");
            return Err(CommandError::Refused(message));
        }
        Ok(accepted)
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
                *down = Down::new(accepted);
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

    /// Takes down environments whose `argus.ttl` has passed, as `down` would, and returns the next expiry.
    ///
    /// As with every removal that a file causes, nothing expires while the folder cannot be read or the file has a
    /// pending edit. A running test ends first, because no person requests this removal now.
    pub(crate) fn expire_ttls(&mut self, inputs: OverrideInputs<'_>) -> Option<Timestamp> {
        if !inputs.specs.scanned || inputs.specs.unavailable.is_some() {
            return None;
        }
        let mut next = self.expire_forks(inputs);
        for (env, accepted) in &inputs.specs.environments {
            let Some(ttl) = accepted.desired.ttl else { continue };
            if accepted.has_pending_edit || self.down.contains_key(env) {
                continue;
            }
            let due = self.ttl_start(accepted) + ttl;
            let test = self.requests.test_lease(env, inputs.now);
            let due = test.map_or(due, |lease| due.max(lease.until));
            if due <= inputs.now {
                tracing::info!(environment = %env, ?ttl, "TTL expired: taking the environment down");
                self.down.insert(env.clone(), Down::new(accepted));
                self.ttl_expired.insert(env.clone());
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        next
    }

    /// Removes temporary copies whose time has passed, and returns the next expiry.
    fn expire_forks(&mut self, inputs: OverrideInputs<'_>) -> Option<Timestamp> {
        let requests = &self.requests;
        let mut next: Option<Timestamp> = None;
        self.forks.retain(|env, accepted| {
            let Some(ttl) = accepted.desired.ttl else {
                return true;
            };
            let due = accepted.accepted_at + ttl;
            let test = requests.test_lease(env, inputs.now);
            let due = test.map_or(due, |lease| due.max(lease.until));
            if due <= inputs.now {
                tracing::info!(environment = %env, "the time of a temporary copy ended: removing it");
                return false;
            }
            next = Some(next.map_or(due, |next| next.min(due)));
            true
        });
        next
    }

    /// Start of the TTL: the acceptance of the file, or the time at which a person brought this revision back.
    fn ttl_start(&self, accepted: &Accepted) -> Timestamp {
        let retried = self.retried.get(&accepted.desired.env);
        match retried.filter(|(revision, _)| *revision == accepted.desired.revision) {
            Some((_, at)) => (*at).max(accepted.accepted_at),
            None => accepted.accepted_at,
        }
    }
}
