//! Requests and reports of people and agents, in addition to the spec files: holds, tests and orphan removal.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ident::{EnvName, ServiceName};
use crate::test_results::{TestHistory, TestRun};
use crate::time::Timestamp;

/// Time that an expired test lease is kept, so that the end of its test can still return the report.
const EXPIRED_LIMIT: Duration = Duration::from_secs(3_600);
/// Maximum number of environments with test results.
const MAX_RESULTS: usize = 100;

/// Requests that have not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UserRequests {
    /// Holds on environments and services.
    pub holds: Vec<Hold>,
    /// Leases of running tests.
    #[serde(rename = "leases")]
    pub test_leases: Vec<TestLease>,
    /// Results of the last test runs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub test_results: BTreeMap<EnvName, TestHistory>,
    /// Projects whose orphans are removed regardless of the settings, each with the end of that permission.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub orphan_removal_until: BTreeMap<String, Timestamp>,
    /// Subset of these projects whose kept volumes are removed as well.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub volume_removal: BTreeSet<String>,
    /// Subset of those projects whose kept volumes of other folders are removed as well.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub foreign_volume_removal: BTreeSet<String>,
    /// Environments whose `ttl` has ended, and which are therefore not desired. The overrides persist them.
    #[serde(skip)]
    pub expired: BTreeSet<EnvName>,
    /// Restrictions that follow from the state of the controller; never persisted.
    #[serde(skip)]
    pub restrictions: Restrictions,
}

/// Kept volumes that a removal of orphans includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeRemoval {
    /// None.
    None,
    /// Those of the folders of this controller's projects.
    OwnFolders,
    /// Also those of other folders. Only a person requests this.
    AllFolders,
}

impl VolumeRemoval {
    /// Returns the volumes that a request names.
    pub fn new(volumes: bool, all_folders: bool) -> Self {
        match (volumes, all_folders) {
            (false, _) => Self::None,
            (true, false) => Self::OwnFolders,
            (true, true) => Self::AllFolders,
        }
    }

    /// Returns whether the request includes kept volumes, or those of other folders.
    pub fn includes(self, is_foreign: bool) -> bool {
        match self {
            Self::None => false,
            Self::OwnFolders => !is_foreign,
            Self::AllFolders => true,
        }
    }
}

/// Actions that the state of the controller itself forbids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restrictions {
    /// Reason of mode `Safe`, in which no action is performed; `None` in other modes.
    pub safe_mode_reason: Option<String>,
    /// Undesired environments that an unreadable spec file may describe. Argus does not remove them.
    pub protected: BTreeSet<EnvName>,
}

/// Hold: Argus does not change the environment or service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// Name of the environment.
    pub environment: EnvName,
    /// Service under hold; `None` for the whole environment.
    pub service: Option<ServiceName>,
    /// Start time.
    pub since: Timestamp,
    /// End time; `None` until a resume request.
    pub until: Option<Timestamp>,
    /// True if Argus also stops the service, until its start is requested.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stops: bool,
    /// Reason, as the requester gave it.
    pub reason: String,
    /// Requester, as it named itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Identifier of the command, as in the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// Lease of a running test case: Argus does not disrupt its services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestLease {
    /// Name of the environment.
    pub environment: EnvName,
    /// Name of the test case.
    pub case: String,
    /// Start time.
    pub since: Timestamp,
    /// End time, unless the test ends earlier.
    pub until: Timestamp,
    /// Runner of the test, as it named itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Purpose of the test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// Reason why the connectivity of the environment was not verified at the begin of the test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unverified: Option<String>,
}

impl UserRequests {
    /// Requests the removal of the orphans of projects until a time, with these kept volumes.
    pub fn request_orphan_removal(
        &mut self,
        projects: impl IntoIterator<Item = String>,
        volumes: VolumeRemoval,
        until: Timestamp,
    ) {
        for project in projects {
            for (is_foreign, requested) in [
                (false, &mut self.volume_removal),
                (true, &mut self.foreign_volume_removal),
            ] {
                if volumes.includes(is_foreign) {
                    requested.insert(project.clone());
                } else {
                    requested.remove(&project);
                }
            }
            self.orphan_removal_until.insert(project, until);
        }
    }

    /// Returns whether the removal of the kept volumes of a project was requested, or of those of other folders.
    pub fn is_volume_removal_requested(&self, project: &str, is_foreign: bool, now: Timestamp) -> bool {
        let requested = if is_foreign {
            &self.foreign_volume_removal
        } else {
            &self.volume_removal
        };
        requested.contains(project) && self.is_orphan_removal_requested(project, now)
    }

    /// Returns whether the removal of the orphans of a project was requested.
    pub fn is_orphan_removal_requested(&self, project: &str, now: Timestamp) -> bool {
        let until = self.orphan_removal_until.get(project);
        until.is_some_and(|until| *until > now)
    }

    /// Returns the hold on the whole environment.
    pub fn environment_hold(&self, env: &EnvName, now: Timestamp) -> Option<&Hold> {
        self.holds
            .iter()
            .find(|hold| hold.environment == *env && hold.service.is_none() && is_active(hold.until, now))
    }

    /// Returns the hold on a service, or on its environment.
    pub fn hold(&self, env: &EnvName, service: &ServiceName, now: Timestamp) -> Option<&Hold> {
        let own = |hold: &&Hold| {
            hold.environment == *env && hold.service.as_ref() == Some(service) && is_active(hold.until, now)
        };
        let all = || self.holds.iter().filter(own);
        self.environment_hold(env, now)
            .or_else(|| all().find(|hold| hold.stops))
            .or_else(|| all().next())
    }

    /// Returns the test lease of an environment that ends last.
    pub fn test_lease(&self, env: &EnvName, now: Timestamp) -> Option<&TestLease> {
        let leases = self.test_leases.iter();
        let active = leases.filter(|lease| lease.environment == *env && lease.until > now);
        active.max_by_key(|lease| lease.until)
    }

    /// Starts a test, or restarts it with a new lease.
    pub fn begin(&mut self, lease: TestLease) {
        self.end(&lease.environment, &lease.case);
        self.test_leases.push(lease);
    }

    /// Ends a test and returns its lease, if it had one.
    pub fn end(&mut self, env: &EnvName, case: &str) -> Option<TestLease> {
        let is_of_test = |lease: &TestLease| lease.environment == *env && lease.case == case;
        let at = self.test_leases.iter().position(is_of_test)?;
        Some(self.test_leases.remove(at))
    }

    /// Adds the results of a test run. Without space, the environment with the oldest run loses its results.
    pub fn record_tests(&mut self, env: &EnvName, run: TestRun) {
        self.test_results.entry(env.clone()).or_default().record(run);
        if self.test_results.len() > MAX_RESULTS {
            let results = self.test_results.iter();
            let oldest = results.min_by_key(|(_, history)| history.last_at());
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.test_results.remove(&oldest);
            }
        }
    }

    /// Adds a hold, which replaces an earlier hold on the same subject. A stop and a hold of one service stay next to each other.
    pub fn add_hold(&mut self, hold: Hold) {
        let subject = |hold: &Hold| (hold.environment.clone(), hold.service.clone(), hold.stops);
        let added = subject(&hold);
        self.holds.retain(|earlier| subject(earlier) != added);
        self.holds.push(hold);
    }

    /// Removes a hold; for an environment, those of its services as well. Returns whether there was one.
    pub fn resume(&mut self, env: &EnvName, service: Option<&ServiceName>) -> bool {
        let before = self.holds.len();
        self.holds.retain(|hold| {
            hold.environment != *env || service.is_some_and(|service| hold.service.as_ref() != Some(service))
        });
        self.holds.len() < before
    }

    /// Removes the holds that stop a service, or any service of an environment.
    pub fn start(&mut self, env: &EnvName, service: Option<&ServiceName>) {
        self.holds.retain(|hold| {
            let is_other = service.is_some_and(|service| hold.service.as_ref() != Some(service));
            !hold.stops || hold.environment != *env || is_other
        });
    }

    /// Removes ended requests. An expired test lease stays for one hour, so that its test can still be ended.
    pub fn expire(&mut self, now: Timestamp) {
        self.holds.retain(|hold| is_active(hold.until, now));
        self.test_leases.retain(|lease| lease.until + EXPIRED_LIMIT > now);
        self.orphan_removal_until.retain(|_, until| *until > now);
        let requested = &self.orphan_removal_until;
        for volumes in [&mut self.volume_removal, &mut self.foreign_volume_removal] {
            volumes.retain(|project| requested.contains_key(project));
        }
    }

    /// Returns the next time at which a request ends.
    pub fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        let holds = self.holds.iter().filter_map(|hold| hold.until);
        let leases = self.test_leases.iter().map(|lease| lease.until);
        let cleaning = self.orphan_removal_until.values().copied();
        holds.chain(leases).chain(cleaning).filter(|end| *end > now).min()
    }
}

fn is_active(until: Option<Timestamp>, now: Timestamp) -> bool {
    until.is_none_or(|until| until > now)
}

#[cfg(test)]
#[path = "user_requests_tests.rs"]
mod tests;
