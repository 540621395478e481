//! Overrides: requests of people and agents outside the specs, and the desired state that results from them.
//!
//! The reconciler owns [`Overrides`]. Commands change them, and each pass: automatic rollbacks, expired TTLs, and
//! overrides that ended. [`Overrides::effective`] merges them with the
//! spec registry into the [`DesiredState`] that the planner receives.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use argus_core::desired::{Accepted, Desired};
use argus_core::ident::{EnvName, Revision, ServiceName};
use argus_core::observed::Store;
use argus_core::repair::RepairMemory;
use argus_core::spec_diff::GoodImages;
use argus_core::state::PlannerState;
use argus_core::status::fork_notes;
use argus_core::time::Timestamp;
use argus_core::user_requests::{Hold, UserRequests, VolumeRemoval};
use argus_crds::status::ROLLED_BACK;
use serde::{Deserialize, Serialize};

use crate::command::{CommandError, Reply};
use crate::specs::SpecRegistry;

mod auto_rollback;
mod down;
mod known_good;
mod test;

pub use down::Down;

/// Duration for which requested removals of orphans are attempted.
const CLEANUP_SPAN: Duration = Duration::from_secs(120);

/// Accepted spec of every environment that should exist.
pub type DesiredState = BTreeMap<EnvName, Arc<Accepted>>;

/// All overrides in effect.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Overrides {
    /// Environments that are taken down.
    pub down: BTreeMap<EnvName, Down>,
    /// Subset of `down` whose TTL expired; no person took them down.
    #[serde(rename = "expired")]
    pub ttl_expired: BTreeSet<EnvName>,
    /// Environments that a person brought back, with revision and time. Their TTL counts from that time.
    pub retried: BTreeMap<EnvName, (Revision, Timestamp)>,
    /// Holds and test leases.
    pub requests: UserRequests,
    /// Newest revisions that have been Ready long enough, newest last; at most two.
    pub known_good: BTreeMap<EnvName, Vec<Arc<Accepted>>>,
    /// Images of the newest known good revisions.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub good_images: BTreeMap<EnvName, GoodImages>,
    /// Edits that ended failures.
    #[serde(skip_serializing_if = "is_empty")]
    pub repairs: Arc<RepairMemory>,
    /// Rollbacks in effect.
    pub rollbacks: BTreeMap<EnvName, Rollback>,
    /// Copies of environments.
    pub forks: DesiredState,
    /// Start of the attempt of a revision with automatic rollback. A restart of the controller restarts the
    /// attempt.
    #[serde(skip)]
    attempted: BTreeMap<EnvName, (Revision, Timestamp)>,
}

/// Rollback to an earlier revision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollback {
    /// Replaced revision. Another revision of its file ends the rollback.
    pub from: Revision,
    /// Desired revision.
    pub to: Arc<Accepted>,
    /// True if the revision missed its deadline, and no person requested the rollback.
    #[serde(default)]
    pub automatic: bool,
}

fn is_empty(repairs: &Arc<RepairMemory>) -> bool {
    repairs.is_empty()
}

/// Inputs for the decision about a command.
#[derive(Clone, Copy)]
pub(crate) struct OverrideInputs<'a> {
    pub(crate) specs: &'a SpecRegistry,
    pub(crate) store: &'a Store,
    pub(crate) state: &'a PlannerState,
    pub(crate) now: Timestamp,
}

impl Overrides {
    /// Brings an environment back, and reverts its automatic rollback.
    pub(crate) fn retry(&mut self, env: &EnvName, inputs: OverrideInputs<'_>) -> Result<Reply, CommandError> {
        // A removed environment with remaining resources can be tried again.
        if self.accepted(env, inputs.specs).is_none() && inputs.state.environments.contains_key(env) {
            return Ok(Reply::Done);
        }
        self.find(env, inputs)?;
        if self.down.remove(env).is_some() {
            self.ttl_expired.remove(env);
            // The revision can have changed since.
            let revision = inputs
                .specs
                .environments
                .get(env)
                .map(|file| &file.desired.revision);
            let retried = revision.map(|revision| (env.clone(), (revision.clone(), inputs.now)));
            self.retried.extend(retried);
        }
        // A rollback that a person requested stays.
        self.rollbacks.retain(|rolled, to| rolled != env || !to.automatic);
        self.attempted.remove(env);
        Ok(Reply::Done)
    }

    /// Holds an environment or a service.
    pub(crate) fn hold(&mut self, hold: Hold, inputs: OverrideInputs<'_>) -> Result<Reply, CommandError> {
        let accepted = self.find(&hold.environment, inputs)?;
        check_service(&accepted, hold.service.as_ref())?;
        if let Some(fork) = self.forks.get_mut(&hold.environment)
            && fork.desired.ttl.is_some()
            && hold.service.is_none()
        {
            // A temporary copy ends with its hold.
            let since = fork.accepted_at;
            Arc::make_mut(fork).desired.ttl = hold.until.map(|until| until.since(since));
        }
        self.requests.add_hold(hold);
        Ok(Reply::Done)
    }

    /// Ends a hold.
    pub(crate) fn resume(
        &mut self,
        env: &EnvName,
        service: Option<&ServiceName>,
        inputs: OverrideInputs<'_>,
    ) -> Result<Reply, CommandError> {
        let accepted = self.find(env, inputs)?;
        check_service(&accepted, service)?;
        if self.requests.resume(env, service) {
            Ok(Reply::Done)
        } else {
            Err(CommandError::Refused(format!("`{env}` is not held")))
        }
    }

    /// Returns to the last other revision that was ready.
    pub(crate) fn roll_back(
        &mut self,
        env: &EnvName,
        inputs: OverrideInputs<'_>,
    ) -> Result<Reply, CommandError> {
        let accepted = self.find(env, inputs)?;
        self.start_rollback(env, &accepted, false, inputs)
    }

    /// Requests the removal of the projects' orphans for a limited time, whatever the specs say, with these kept volumes. Without a project, the request is for all projects of the specs.
    pub(crate) fn request_orphan_removal(
        &mut self,
        projects: &[String],
        volumes: VolumeRemoval,
        inputs: OverrideInputs<'_>,
    ) -> Reply {
        let known = inputs
            .specs
            .environments
            .values()
            .map(|accepted| &accepted.desired.project);
        let selected: Vec<String> = match projects {
            [] => known.cloned().collect(),
            some => some.to_vec(),
        };
        let until = inputs.now + CLEANUP_SPAN;
        self.requests.request_orphan_removal(selected, volumes, until);
        Reply::Done
    }

    /// Accepted spec of an environment that exists.
    fn find(&self, env: &EnvName, inputs: OverrideInputs<'_>) -> Result<Arc<Accepted>, CommandError> {
        self.accepted(env, inputs.specs)
            .ok_or_else(|| CommandError::Unknown(env.clone()))
    }

    /// Accepted spec of an environment, regardless of whether it is down.
    pub(crate) fn accepted(&self, env: &EnvName, specs: &SpecRegistry) -> Option<Arc<Accepted>> {
        let forked = self.forks.get(env);
        let rolled = self.rollbacks.get(env).map(|rollback| &rollback.to);
        forked.or(rolled).or_else(|| specs.environments.get(env)).cloned()
    }

    /// Compares everything that the status of an environment shows. Its effect on the desired state is compared there.
    pub(crate) fn is_same_for(&self, env: &EnvName, other: &Self) -> bool {
        self.down.get(env) == other.down.get(env)
            && self.known_good.get(env) == other.known_good.get(env)
            && self.requests == other.requests
    }

    /// Last known good revision other than this one: the target of a rollback.
    pub fn rollback_target(&self, accepted: &Accepted) -> Option<&Arc<Accepted>> {
        let good_revisions = self.known_good.get(&accepted.desired.env)?;
        let other = |good: &&Arc<Accepted>| good.desired.revision != accepted.desired.revision;
        good_revisions.iter().rev().find(other)
    }

    fn start_rollback(
        &mut self,
        env: &EnvName,
        accepted: &Arc<Accepted>,
        automatic: bool,
        inputs: OverrideInputs<'_>,
    ) -> Result<Reply, CommandError> {
        let revision = &accepted.desired.revision;
        let Some(good) = self.rollback_target(accepted) else {
            let message = format!("no other revision of `{env}` was ever ready");
            return Err(CommandError::Refused(message));
        };
        let from = match self.rollbacks.get(env) {
            Some(rollback) => rollback.from.clone(),
            None => revision.clone(),
        };
        let mut to = Accepted::clone(good);
        to.accepted_at = inputs.now;
        to.has_pending_edit = false;
        to.allowed = accepted.allowed;
        to.is_ending = false;
        to.desired.hold = false;
        to.desired.notes.push(format!("{ROLLED_BACK}{from}"));
        known_good::keep_unchanged(&mut to, accepted, inputs);
        let reply = Reply::Revision(to.desired.revision.clone());
        self.rollbacks.insert(
            env.clone(),
            Rollback {
                from,
                to: Arc::new(to),
                automatic,
            },
        );
        Ok(reply)
    }

    /// Runs a copy of the same revision. With a `ttl`, it is temporary.
    pub(crate) fn fork(
        &mut self,
        env: &EnvName,
        to: &EnvName,
        ttl: Option<Duration>,
        inputs: OverrideInputs<'_>,
    ) -> Result<Reply, CommandError> {
        let accepted = self.find(env, inputs)?;
        let taken = self.accepted(to, inputs.specs).is_some() || inputs.store.of(to).is_some();
        if taken {
            return Err(CommandError::Refused(format!(
                "environment `{to}` already exists"
            )));
        }
        let mut desired = Desired {
            ttl,
            ..accepted.desired.forked(to)
        };
        if let Some(history) = inputs.state.environments.get(env) {
            desired.notes.extend(fork_notes(env, history));
        }
        let forked = Accepted {
            desired,
            spec_path: accepted.spec_path.clone(),
            lines: accepted.lines.clone(),
            accepted_at: inputs.now,
            has_pending_edit: false,
            allowed: accepted.allowed,
            is_ending: false,
            file_hash: accepted.file_hash.clone(),
            mounted_files: accepted.mounted_files.clone(),
        };
        self.forks.insert(to.clone(), Arc::new(forked));
        Ok(Reply::Forked(to.clone()))
    }

    /// Drops overrides whose revision was replaced, and those of environments without a file.
    pub(crate) fn drop_ended(&mut self, specs: &SpecRegistry, now: Timestamp) {
        self.requests.expire(now);
        if !specs.scanned {
            return;
        }
        let at = |env: &EnvName, revision: &Revision| {
            specs
                .environments
                .get(env)
                .is_some_and(|accepted| accepted.desired.revision == *revision)
        };
        self.drop_ended_downs(specs, now);
        self.retried.retain(|env, (revision, _)| at(env, revision));
        self.rollbacks.retain(|env, rollback| at(env, &rollback.from));
        // A spec file of the same name replaces the fork.
        self.forks.retain(|env, _| !specs.environments.contains_key(env));
        let forks = &self.forks;
        let known = |env: &EnvName| specs.environments.contains_key(env) || forks.contains_key(env);
        self.known_good.retain(|env, _| known(env));
        self.good_images.retain(|env, _| known(env));
        self.attempted.retain(|env, _| known(env));
        self.requests.holds.retain(|hold| known(&hold.environment));
        self.update_permissions(specs);
    }

    /// Gives earlier revisions and forks the permission of their file, which is not stored.
    fn update_permissions(&mut self, specs: &SpecRegistry) {
        let rollbacks = self.rollbacks.values_mut().map(|rollback| &mut rollback.to);
        for accepted in rollbacks.chain(self.forks.values_mut()) {
            let file = specs.files.get(Path::new(&accepted.spec_path));
            if let Some(current) = file.and_then(|file| file.accepted.as_ref())
                && current.allowed != accepted.allowed
            {
                Arc::make_mut(accepted).allowed = current.allowed;
            }
        }
    }

    /// Desired state with all overrides; `None` if the specs apply unchanged.
    pub fn effective(&self, specs: &SpecRegistry) -> Option<DesiredState> {
        if self.down.is_empty() && self.rollbacks.is_empty() && self.forks.is_empty() {
            return None;
        }
        let names = specs.environments.keys().chain(self.forks.keys());
        let stays = names.filter(|env| !self.down.contains_key(*env));
        Some(
            stays
                .filter_map(|env| Some((env.clone(), self.accepted(env, specs)?)))
                .collect(),
        )
    }
}

fn check_service(accepted: &Accepted, service: Option<&ServiceName>) -> Result<(), CommandError> {
    match service {
        Some(name) if !accepted.desired.services.contains_key(name) => {
            let env = &accepted.desired.env;
            let known: Vec<_> = accepted
                .desired
                .services
                .keys()
                .map(ServiceName::as_str)
                .collect();
            let message = format!(
                "`{env}` has no service `{name}`; its services: {}",
                known.join(", ")
            );
            Err(CommandError::Refused(message))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
#[path = "overrides_tests.rs"]
mod tests;
