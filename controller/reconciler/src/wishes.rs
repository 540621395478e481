//! What people and agents asked for beside the specs, and what is desired because of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_core::desired::{Accepted, Image};
use argus_core::ident::{EnvName, Revision, ServiceName};
use argus_core::memory::{Death, Memory};
use argus_core::observed::World;
use argus_core::orders::{Hold, Lease, Orders};
use argus_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::handle::{Answer, Command, CommandError, TestReport};
use crate::specs::SpecBook;

/// The longest lease: what was forgotten must not hold restarts back for ever.
const LONGEST_LEASE: Duration = Duration::from_secs(24 * 3600);

/// What was ready for less is nothing to go back to.
const PROVEN: Duration = Duration::from_secs(10);

/// What every environment shall be.
pub type Desires = BTreeMap<EnvName, Arc<Accepted>>;

/// Everything that was asked for and stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Wishes {
    /// What a person took down, and the revision it is down at.
    pub down: BTreeMap<EnvName, Revision>,
    /// Holds and test leases.
    pub orders: Orders,
    /// The last revisions that became Ready, the newest last; two at most.
    pub goods: BTreeMap<EnvName, Vec<Arc<Accepted>>>,
    /// What gave way to an earlier revision.
    pub rollbacks: BTreeMap<EnvName, Rollback>,
    /// Copies of environments beside them.
    pub forks: Desires,
}

/// A revision that gave way to an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollback {
    /// The revision that gave way; another one of its file ends the rollback.
    pub from: Revision,
    /// What is desired instead.
    pub to: Arc<Accepted>,
}

/// What a wish is judged by.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) specs: &'a SpecBook,
    pub(crate) world: &'a World,
    pub(crate) memory: &'a Memory,
    pub(crate) now: Timestamp,
}

impl Wishes {
    /// Takes a command in; what it means for the brain and the hands is the caller's to do.
    pub(crate) fn obey(&mut self, command: &Command, facts: Facts<'_>) -> Result<Answer, CommandError> {
        let env = command.environment();
        let now = facts.now;
        let standing = self.accepted(env, facts.specs);
        let seen = facts.memory.environments.contains_key(env);
        let Some(accepted) = standing else {
            return match command {
                // Whatever is left of it can be tried again.
                Command::Retry { .. } if seen => Ok(Answer::Done),
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
                }
                Ok(Answer::Done)
            }
            Command::Retry { .. } => {
                self.down.remove(env);
                Ok(Answer::Done)
            }
            Command::Hold {
                service,
                until,
                reason,
                ..
            } => {
                known(&accepted, service.as_ref())?;
                self.orders.hold_back(Hold {
                    environment: env.clone(),
                    service: service.clone(),
                    since: now,
                    until: *until,
                    reason: reason.clone(),
                });
                Ok(Answer::Done)
            }
            Command::Resume { service, .. } => {
                known(&accepted, service.as_ref())?;
                if self.orders.resume(env, service.as_ref()) {
                    Ok(Answer::Done)
                } else {
                    Err(CommandError::Refused(format!("`{env}` is not held")))
                }
            }
            Command::Cancel { .. } => {
                self.orders.hold_back(Hold {
                    environment: env.clone(),
                    service: None,
                    since: now,
                    until: None,
                    reason: "cancelled".to_owned(),
                });
                Ok(Answer::Done)
            }
            Command::BeginTest { case, ttl, .. } => {
                let lease = Lease {
                    environment: env.clone(),
                    case: case.clone(),
                    since: now,
                    until: now + (*ttl).min(LONGEST_LEASE),
                };
                self.orders.begin(lease.clone());
                Ok(Answer::Lease(lease))
            }
            Command::EndTest { case, .. } => self.end_test(env, case, facts),
            Command::Rollback { .. } => self.roll_back(env, &accepted, facts),
            Command::Fork { to, .. } => self.fork(&accepted, to, facts),
        }
    }

    /// What an environment shall be, before anybody took it down.
    fn accepted(&self, env: &EnvName, specs: &SpecBook) -> Option<Arc<Accepted>> {
        let forked = self.forks.get(env);
        let rolled = self.rollbacks.get(env).map(|rollback| &rollback.to);
        forked.or(rolled).or_else(|| specs.environments.get(env)).cloned()
    }

    fn end_test(&mut self, env: &EnvName, case: &str, facts: Facts<'_>) -> Result<Answer, CommandError> {
        let found = facts.memory.environments.get(env);
        let all = found.map(|kept| kept.disturbances.as_slice()).unwrap_or_default();
        let mut disturbances: Vec<_> = all.iter().filter(|found| found.case == case).cloned().collect();
        let Some(lease) = self.orders.end(env, case) else {
            let message = format!("no test `{case}` runs on `{env}`; its lease may have ended by itself");
            return Err(CommandError::Refused(message));
        };
        // An earlier run of the same case has its own report.
        disturbances.retain(|found| found.at >= lease.since);
        Ok(Answer::Test(TestReport {
            environment: env.clone(),
            case: case.to_owned(),
            began: lease.since.to_string(),
            ended: facts.now.to_string(),
            restarts_during_run: disturbances.len(),
            disturbances,
        }))
    }

    fn roll_back(
        &mut self,
        env: &EnvName,
        accepted: &Arc<Accepted>,
        facts: Facts<'_>,
    ) -> Result<Answer, CommandError> {
        let revision = &accepted.desired.revision;
        let goods = self.goods.get(env).map(Vec::as_slice).unwrap_or_default();
        let Some(good) = goods.iter().rev().find(|good| good.desired.revision != *revision) else {
            let message = format!("no other revision of `{env}` was ever ready");
            return Err(CommandError::Refused(message));
        };
        let from = match self.rollbacks.get(env) {
            Some(rollback) => rollback.from.clone(),
            None => revision.clone(),
        };
        let mut to = Accepted::clone(good);
        to.accepted_at = facts.now;
        to.disputed = false;
        to.desired.hold = false;
        to.desired.notes.push(format!("rolled back from revision {from}"));
        let answer = Answer::Revision(to.desired.revision.clone());
        self.rollbacks.insert(
            env.clone(),
            Rollback {
                from,
                to: Arc::new(to),
            },
        );
        Ok(answer)
    }

    fn fork(&mut self, accepted: &Accepted, to: &EnvName, facts: Facts<'_>) -> Result<Answer, CommandError> {
        let taken = self.accepted(to, facts.specs).is_some() || facts.world.of(to).is_some();
        if taken {
            return Err(CommandError::Refused(format!(
                "there is an environment `{to}` already"
            )));
        }
        let forked = Accepted {
            desired: accepted.desired.forked(to),
            spec_path: accepted.spec_path.clone(),
            accepted_at: facts.now,
            disputed: false,
        };
        self.forks.insert(to.clone(), Arc::new(forked));
        Ok(Answer::Forked(to.clone()))
    }

    /// What was asked for about a revision ends with another one, and all of it with its file.
    pub(crate) fn lift(&mut self, specs: &SpecBook, now: Timestamp) {
        self.orders.expire(now);
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
        self.rollbacks.retain(|env, rollback| at(env, &rollback.from));
        // A file of the same name is the better source.
        self.forks.retain(|env, _| !specs.environments.contains_key(env));
        let forks = &self.forks;
        let known = |env: &EnvName| specs.environments.contains_key(env) || forks.contains_key(env);
        self.goods.retain(|env, _| known(env));
        self.orders.holds.retain(|hold| known(&hold.environment));
    }

    /// What is desired with all of this; `None`: what the specs say.
    pub fn standing(&self, specs: &SpecBook) -> Option<Desires> {
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
    pub(crate) fn learn(&mut self, desired: &Desires, facts: Facts<'_>) -> Option<Timestamp> {
        let mut next: Option<Timestamp> = None;
        for (env, accepted) in desired {
            let revision = &accepted.desired.revision;
            let ready = facts
                .memory
                .environments
                .get(env)
                .is_some_and(|kept| kept.last_good.as_ref() == Some(revision));
            let goods = self.goods.get(env).map(Vec::as_slice).unwrap_or_default();
            if !ready
                || goods
                    .last()
                    .is_some_and(|last| last.desired.revision == *revision)
            {
                continue;
            }
            let proven = proven_at(env, facts.world);
            if proven > facts.now {
                next = Some(next.map_or(proven, |next| next.min(proven)));
                continue;
            }
            let goods = self.goods.entry(env.clone()).or_default();
            goods.retain(|good| good.desired.revision != *revision);
            goods.push(Arc::new(pinned(accepted, facts.world)));
            let surplus = goods.len().saturating_sub(2);
            goods.drain(..surplus);
        }
        next
    }

    /// Rolls back what missed its deadline; when the next deadline is.
    pub(crate) fn roll_back_by_itself(&mut self, facts: Facts<'_>) -> Option<Timestamp> {
        let mut next: Option<Timestamp> = None;
        let mut late = Vec::new();
        for (env, accepted) in &facts.specs.environments {
            let Some(deadline) = accepted.desired.rollback else {
                continue;
            };
            let revision = &accepted.desired.revision;
            let goods = self.goods.get(env).map(Vec::as_slice).unwrap_or_default();
            let good =
                goods.iter().any(|good| good.desired.revision == *revision) || is_ready(env, revision, facts);
            let other = goods.iter().any(|good| good.desired.revision != *revision);
            if good || !other || self.rollbacks.contains_key(env) || self.down.contains_key(env) {
                continue;
            }
            let due = accepted.accepted_at + deadline;
            if due <= facts.now {
                late.push((env.clone(), accepted.clone()));
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        for (env, accepted) in late {
            tracing::warn!(environment = %env, revision = %accepted.desired.revision,
                "revision missed its deadline: rolling back");
            // There is one, as was just seen.
            let _rolled = self.roll_back(&env, &accepted, facts);
        }
        next
    }
}

/// It became ready, and nothing of it has failed since and not come back.
fn is_ready(env: &EnvName, revision: &Revision, facts: Facts<'_>) -> bool {
    facts.memory.environments.get(env).is_some_and(|kept| {
        let failing = |death: &Death| !death.answered;
        let mut services = kept.services.values();
        kept.last_good.as_ref() == Some(revision)
            && !services.any(|kept| kept.deaths.last().is_some_and(failing))
    })
}

/// From when on all that runs has run for long enough to be called good: what is ready for a moment may end in the next.
fn proven_at(env: &EnvName, world: &World) -> Timestamp {
    let containers = world
        .of(env)
        .into_iter()
        .flat_map(|seen| seen.containers.values());
    let started = containers.filter_map(|container| container.facts.as_ref()?.started_at);
    started.max().map_or(Timestamp(0), |at| at + PROVEN)
}

/// What it runs now, whatever its tags and build contexts become.
fn pinned(accepted: &Accepted, world: &World) -> Accepted {
    let mut pinned = accepted.clone();
    let ids: BTreeMap<ServiceName, String> = world
        .of(&accepted.desired.env)
        .into_iter()
        .flat_map(|seen| seen.containers.values())
        .filter_map(|container| {
            let service = container.owner()?.service?;
            Some((service, container.facts.as_ref()?.image_id.clone()?))
        })
        .collect();
    for (name, service) in &mut pinned.desired.services {
        if let Some(id) = ids.get(name) {
            service.image = Image::Named(id.clone());
        }
    }
    pinned
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
#[path = "wishes_tests.rs"]
mod tests;
