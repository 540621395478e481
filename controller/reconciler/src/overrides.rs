//! What people and agents asked for beside the specs, and what is desired because of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use argus_core::desired::Accepted;
use argus_core::ident::{EnvName, Revision, ServiceName};
use argus_core::observed::Store;
use argus_core::state::{Disruption, PlannerState};
use argus_core::time::Timestamp;
use argus_core::user_requests::{Hold, TestLease, UserRequests};
use serde::{Deserialize, Serialize};

use crate::handle::{Command, CommandError, Reply, TestReport};
use crate::specs::SpecRegistry;

mod auto_rollback;
mod known_good;
mod ttl;

/// The longest lease: what was forgotten must not hold restarts back for ever.
const LONGEST_LEASE: Duration = Duration::from_secs(24 * 3600);

/// What somebody asked to be removed is tried for this long.
const CLEANING: Duration = Duration::from_secs(120);

/// What every environment shall be.
pub type DesiredState = BTreeMap<EnvName, Arc<Accepted>>;

/// Everything that was asked for and stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Overrides {
    /// What is taken down, and the revision it is down at.
    pub down: BTreeMap<EnvName, Revision>,
    /// What of that nobody took down: it has lived for as long as its file says.
    pub expired: BTreeSet<EnvName>,
    /// What somebody brought back: at which revision, and when; its time begins anew.
    pub revived: BTreeMap<EnvName, (Revision, Timestamp)>,
    /// Holds and test leases.
    pub requests: UserRequests,
    /// The last revisions that became Ready, the newest last; two at most.
    pub known_good: BTreeMap<EnvName, Vec<Arc<Accepted>>>,
    /// What gave way to an earlier revision.
    pub rollbacks: BTreeMap<EnvName, Rollback>,
    /// Copies of environments beside them.
    pub forks: DesiredState,
    /// Since when a revision is being tried that may be rolled back; a controller that was away begins anew.
    #[serde(skip)]
    attempted: BTreeMap<EnvName, (Revision, Timestamp)>,
}

/// A revision that gave way to an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollback {
    /// The revision that gave way; another one of its file ends the rollback.
    pub from: Revision,
    /// What is desired instead.
    pub to: Arc<Accepted>,
    /// It missed its deadline, and nobody asked for this.
    #[serde(default)]
    pub automatic: bool,
}

/// What a wish is judged by.
#[derive(Clone, Copy)]
pub(crate) struct OverrideInputs<'a> {
    pub(crate) specs: &'a SpecRegistry,
    pub(crate) store: &'a Store,
    pub(crate) memory: &'a PlannerState,
    pub(crate) now: Timestamp,
}

impl Overrides {
    /// Takes a command in; what it means for the brain and the hands is the caller's to do.
    pub(crate) fn apply(
        &mut self,
        command: &Command,
        facts: OverrideInputs<'_>,
    ) -> Result<Reply, CommandError> {
        let now = facts.now;
        let Some(env) = command.environment() else {
            self.clean(command, facts);
            return Ok(Reply::Done);
        };
        let standing = self.accepted(env, facts.specs);
        let seen = facts.memory.environments.contains_key(env);
        let Some(accepted) = standing else {
            return match command {
                // Whatever is left of it can be tried again.
                Command::Retry { .. } if seen => Ok(Reply::Done),
                Command::EndTest { case, .. } => self.end_test(env, case, facts),
                _ => Err(CommandError::Unknown(env.clone())),
            };
        };
        match command {
            Command::Down { .. } => {
                // A fork has no file that could bring it back, and so nothing of it is remembered.
                if self.forks.remove(env).is_none()
                    && let Some(file) = facts.specs.environments.get(env)
                {
                    self.down.insert(env.clone(), file.desired.revision.clone());
                    self.expired.remove(env);
                }
                Ok(Reply::Done)
            }
            Command::Retry { .. } => {
                if let Some(revision) = self.down.remove(env) {
                    self.expired.remove(env);
                    self.revived.insert(env.clone(), (revision, now));
                }
                // What a person went back to stays; what was decided without them is theirs to take back.
                self.rollbacks.retain(|rolled, to| rolled != env || !to.automatic);
                self.attempted.remove(env);
                Ok(Reply::Done)
            }
            Command::Hold {
                service,
                until,
                reason,
                holder,
                ..
            } => {
                known(&accepted, service.as_ref())?;
                self.requests.hold_back(Hold {
                    environment: env.clone(),
                    service: service.clone(),
                    since: now,
                    until: *until,
                    reason: reason.clone(),
                    holder: holder.clone(),
                });
                Ok(Reply::Done)
            }
            Command::Resume { service, .. } => {
                known(&accepted, service.as_ref())?;
                if self.requests.resume(env, service.as_ref()) {
                    Ok(Reply::Done)
                } else {
                    Err(CommandError::Refused(format!("`{env}` is not held")))
                }
            }
            Command::Cancel { .. } => {
                self.requests.hold_back(Hold {
                    environment: env.clone(),
                    service: None,
                    since: now,
                    until: None,
                    reason: "cancelled".to_owned(),
                    holder: None,
                });
                Ok(Reply::Done)
            }
            Command::BeginTest {
                case,
                ttl,
                holder,
                purpose,
                ..
            } => {
                let lease = TestLease {
                    environment: env.clone(),
                    case: case.clone(),
                    since: now,
                    until: now + (*ttl).min(LONGEST_LEASE),
                    holder: holder.clone(),
                    purpose: purpose.clone(),
                };
                self.requests.begin(lease.clone());
                Ok(Reply::TestLease(lease))
            }
            Command::EndTest { case, .. } => self.end_test(env, case, facts),
            Command::Rollback { .. } => self.roll_back(env, &accepted, false, facts),
            Command::Fork { to, .. } => self.fork(&accepted, to, facts),
            Command::ResetBreaker { .. }
            | Command::CleanOrphans { .. }
            | Command::ResumeController
            | Command::Sync => Ok(Reply::Done),
        }
    }

    /// For a while the orphans of these projects go, whatever else is said about them.
    fn clean(&mut self, command: &Command, facts: OverrideInputs<'_>) {
        let Command::CleanOrphans { projects } = command else {
            return;
        };
        let held = facts
            .specs
            .environments
            .values()
            .map(|accepted| &accepted.desired.project);
        let asked: Vec<String> = match projects.as_slice() {
            [] => held.cloned().collect(),
            some => some.to_vec(),
        };
        for project in asked {
            self.requests.cleaning.insert(project, facts.now + CLEANING);
        }
    }

    /// What an environment shall be, before anybody took it down.
    pub(crate) fn accepted(&self, env: &EnvName, specs: &SpecRegistry) -> Option<Arc<Accepted>> {
        let forked = self.forks.get(env);
        let rolled = self.rollbacks.get(env).map(|rollback| &rollback.to);
        forked.or(rolled).or_else(|| specs.environments.get(env)).cloned()
    }

    fn end_test(
        &mut self,
        env: &EnvName,
        case: &str,
        facts: OverrideInputs<'_>,
    ) -> Result<Reply, CommandError> {
        let found = facts.memory.environments.get(env);
        let all = found.map(|kept| kept.disruptions.as_slice()).unwrap_or_default();
        let Some(lease) = self.requests.end(env, case) else {
            let message = format!(
                "no test `{case}` runs on `{env}`; its lease may have ended by itself, an hour ago or more"
            );
            return Err(CommandError::Refused(message));
        };
        // Of tests that run at once one is named with a failure, and all of them met it.
        let own = all
            .iter()
            .filter(|found| found.at >= lease.since && found.at < lease.until);
        let disruptions: Vec<_> = own
            .map(|found| Disruption {
                case: case.to_owned(),
                ..found.clone()
            })
            .collect();
        Ok(Reply::Test(TestReport {
            environment: env.clone(),
            case: case.to_owned(),
            began: lease.since.to_string(),
            ended: facts.now.to_string(),
            expired: (lease.until <= facts.now).then(|| lease.until.to_string()),
            restarts_during_run: disruptions.len(),
            disruptions,
        }))
    }

    /// The last good revision but this one: what a rollback goes back to.
    pub fn good_before(&self, accepted: &Accepted) -> Option<&Arc<Accepted>> {
        let goods = self.known_good.get(&accepted.desired.env)?;
        let other = |good: &&Arc<Accepted>| good.desired.revision != accepted.desired.revision;
        goods.iter().rev().find(other)
    }

    fn roll_back(
        &mut self,
        env: &EnvName,
        accepted: &Arc<Accepted>,
        by_itself: bool,
        facts: OverrideInputs<'_>,
    ) -> Result<Reply, CommandError> {
        let revision = &accepted.desired.revision;
        let Some(good) = self.good_before(accepted) else {
            let message = format!("no other revision of `{env}` was ever ready");
            return Err(CommandError::Refused(message));
        };
        let from = match self.rollbacks.get(env) {
            Some(rollback) => rollback.from.clone(),
            None => revision.clone(),
        };
        let mut to = Accepted::clone(good);
        to.accepted_at = facts.now;
        to.has_pending_edit = false;
        to.desired.hold = false;
        to.desired.notes.push(format!("rolled back from revision {from}"));
        let answer = Reply::Revision(to.desired.revision.clone());
        self.rollbacks.insert(
            env.clone(),
            Rollback {
                from,
                to: Arc::new(to),
                automatic: by_itself,
            },
        );
        Ok(answer)
    }

    fn fork(
        &mut self,
        accepted: &Accepted,
        to: &EnvName,
        facts: OverrideInputs<'_>,
    ) -> Result<Reply, CommandError> {
        let taken = self.accepted(to, facts.specs).is_some() || facts.store.of(to).is_some();
        if taken {
            return Err(CommandError::Refused(format!(
                "there is an environment `{to}` already"
            )));
        }
        let forked = Accepted {
            desired: accepted.desired.forked(to),
            spec_path: accepted.spec_path.clone(),
            accepted_at: facts.now,
            has_pending_edit: false,
        };
        self.forks.insert(to.clone(), Arc::new(forked));
        Ok(Reply::Forked(to.clone()))
    }

    /// What was asked for about a revision ends with another one, and all of it with its file.
    pub(crate) fn drop_expired(&mut self, specs: &SpecRegistry, now: Timestamp) {
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
        self.down.retain(|env, revision| at(env, revision));
        self.revived.retain(|env, (revision, _)| at(env, revision));
        let down = &self.down;
        self.expired.retain(|env| down.contains_key(env));
        self.rollbacks.retain(|env, rollback| at(env, &rollback.from));
        // A file of the same name is the better source.
        self.forks.retain(|env, _| !specs.environments.contains_key(env));
        let forks = &self.forks;
        let known = |env: &EnvName| specs.environments.contains_key(env) || forks.contains_key(env);
        self.known_good.retain(|env, _| known(env));
        self.attempted.retain(|env, _| known(env));
        self.requests.holds.retain(|hold| known(&hold.environment));
    }

    /// What is desired with all of this; `None`: what the specs say.
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

    /// Keeps what is Ready and has been for a while, with the ids of the images that it runs; when to look again.
    pub(crate) fn record_known_good(
        &mut self,
        desired: &DesiredState,
        facts: OverrideInputs<'_>,
    ) -> Option<Timestamp> {
        let mut next: Option<Timestamp> = None;
        for (env, accepted) in desired {
            let revision = &accepted.desired.revision;
            let ready = facts
                .memory
                .environments
                .get(env)
                .is_some_and(|kept| kept.last_good.as_ref() == Some(revision));
            let goods = self.known_good.get(env).map(Vec::as_slice).unwrap_or_default();
            let last = goods.last().filter(|last| last.desired.revision == *revision);
            if !ready || last.is_some_and(|last| known_good::runs_as_pinned(last, facts.store)) {
                continue;
            }
            let proven = known_good::proven_at(env, facts.store);
            if proven > facts.now {
                next = Some(next.map_or(proven, |next| next.min(proven)));
                continue;
            }
            let goods = self.known_good.entry(env.clone()).or_default();
            goods.retain(|good| good.desired.revision != *revision);
            goods.push(Arc::new(known_good::pinned(accepted, facts.store)));
            let surplus = goods.len().saturating_sub(2);
            goods.drain(..surplus);
        }
        next
    }
}

fn known(accepted: &Accepted, service: Option<&ServiceName>) -> Result<(), CommandError> {
    match service {
        Some(name) if !accepted.desired.services.contains_key(name) => {
            let env = &accepted.desired.env;
            Err(CommandError::Refused(format!("`{env}` has no service `{name}`")))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
#[path = "overrides_tests.rs"]
mod tests;
