//! What people and agents asked for beside the specs: holds and test leases.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ident::{EnvName, ServiceName};
use crate::time::Timestamp;

/// A lease that ran out is known for so long: whoever ends its test wants the report.
const EXPIRED_LIMIT: Duration = Duration::from_secs(3_600);

/// Everything that was asked for and is not over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UserRequests {
    /// What is left alone.
    pub holds: Vec<Hold>,
    /// Tests that run.
    pub leases: Vec<TestLease>,
    /// Projects whose orphans are removed whatever the settings say, each until then.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cleaning: BTreeMap<String, Timestamp>,
    /// Environments that are not desired because their time is over; kept with what is down.
    #[serde(skip)]
    pub expired: BTreeSet<EnvName>,
    /// What nobody asked for, but the controller's own state forbids; not kept.
    #[serde(skip)]
    pub restrictions: Restrictions,
}

/// What must not be done as things stand with the controller itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restrictions {
    /// Why nothing at all is done: mode `Safe`.
    pub safe: Option<String>,
    /// Environments that nobody desires as far as is known; a file that could not be read yet may.
    pub incomplete: BTreeSet<EnvName>,
}

/// An environment or a service that is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// Environment.
    pub environment: EnvName,
    /// One service of it; `None`: all of it.
    pub service: Option<ServiceName>,
    /// Since when.
    pub since: Timestamp,
    /// Until when; `None`: until somebody resumes it.
    pub until: Option<Timestamp>,
    /// Why, in somebody's words.
    pub reason: String,
    /// Who asked for it, in their own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
}

/// A test case that wants its services left running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestLease {
    /// Environment.
    pub environment: EnvName,
    /// Name of the test case.
    pub case: String,
    /// Since when.
    pub since: Timestamp,
    /// It ends by itself then.
    pub until: Timestamp,
    /// Who runs it, in their own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// What for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
}

impl UserRequests {
    /// Whether somebody asked for the orphans of a project to be removed.
    pub fn is_cleaning(&self, project: &str, now: Timestamp) -> bool {
        self.cleaning.get(project).is_some_and(|until| *until > now)
    }

    /// The hold that an environment is under as a whole.
    pub fn environment_hold(&self, env: &EnvName, now: Timestamp) -> Option<&Hold> {
        self.holds
            .iter()
            .find(|hold| hold.environment == *env && hold.service.is_none() && lasts(hold.until, now))
    }

    /// The hold that a service is under, by itself or with its environment.
    pub fn hold(&self, env: &EnvName, service: &ServiceName, now: Timestamp) -> Option<&Hold> {
        let own = |hold: &&Hold| {
            hold.environment == *env && hold.service.as_ref() == Some(service) && lasts(hold.until, now)
        };
        self.environment_hold(env, now)
            .or_else(|| self.holds.iter().find(own))
    }

    /// The test that runs longest on an environment.
    pub fn lease(&self, env: &EnvName, now: Timestamp) -> Option<&TestLease> {
        self.leases
            .iter()
            .filter(|lease| lease.environment == *env && lease.until > now)
            .max_by_key(|lease| lease.until)
    }

    /// Begins a test, or begins it anew.
    pub fn begin(&mut self, lease: TestLease) {
        self.end(&lease.environment, &lease.case);
        self.leases.push(lease);
    }

    /// Ends a test; the lease, if there was one.
    pub fn end(&mut self, env: &EnvName, case: &str) -> Option<TestLease> {
        let at = self
            .leases
            .iter()
            .position(|lease| lease.environment == *env && lease.case == case)?;
        Some(self.leases.remove(at))
    }

    /// Holds something, in place of an earlier hold of the same.
    pub fn hold_back(&mut self, hold: Hold) {
        self.resume(&hold.environment, hold.service.as_ref());
        self.holds.push(hold);
    }

    /// Lets a hold go; an environment's with those of its services. Tells whether there was one.
    pub fn resume(&mut self, env: &EnvName, service: Option<&ServiceName>) -> bool {
        let before = self.holds.len();
        self.holds.retain(|hold| {
            hold.environment != *env || service.is_some_and(|service| hold.service.as_ref() != Some(service))
        });
        self.holds.len() < before
    }

    /// Forgets what is over; a lease that ran out only after a while, so that its test can still be ended.
    pub fn expire(&mut self, now: Timestamp) {
        self.holds.retain(|hold| lasts(hold.until, now));
        self.leases.retain(|lease| lease.until + EXPIRED_LIMIT > now);
        self.cleaning.retain(|_, until| *until > now);
    }

    /// When the next of them is over by itself.
    pub fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        let holds = self.holds.iter().filter_map(|hold| hold.until);
        let leases = self.leases.iter().map(|lease| lease.until);
        let cleaning = self.cleaning.values().copied();
        holds.chain(leases).chain(cleaning).filter(|end| *end > now).min()
    }
}

fn lasts(until: Option<Timestamp>, now: Timestamp) -> bool {
    until.is_none_or(|until| until > now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> EnvName {
        EnvName::new(name).unwrap()
    }

    fn service(name: &str) -> ServiceName {
        ServiceName::new(name).unwrap()
    }

    fn hold(name: Option<&str>, until: Option<i64>) -> Hold {
        Hold {
            environment: env("shop"),
            service: name.map(service),
            since: Timestamp(0),
            until: until.map(Timestamp),
            reason: String::new(),
            holder: None,
        }
    }

    #[test]
    fn a_hold_covers_what_it_names_until_it_is_over() {
        let mut requests = UserRequests::default();
        requests.hold_back(hold(Some("web"), Some(100)));
        let held = |requests: &UserRequests, name: &str, at: i64| {
            requests
                .hold(&env("shop"), &service(name), Timestamp(at))
                .is_some()
        };
        assert!(held(&requests, "web", 99) && !held(&requests, "web", 100) && !held(&requests, "db", 1));
        requests.hold_back(hold(None, None));
        assert!(held(&requests, "db", 1_000_000));
        assert!(
            requests
                .hold(&env("other"), &service("web"), Timestamp(1))
                .is_none()
        );
        assert!(requests.resume(&env("shop"), None));
        assert_eq!(requests, UserRequests::default());
        assert!(!requests.resume(&env("shop"), None));
    }

    #[test]
    fn what_was_kept_before_there_were_holders_is_still_read() {
        let kept = r#"{"holds":[{"environment":"shop","service":null,"since":0,"until":null,"reason":"look"}],
            "leases":[{"environment":"shop","case":"a","since":0,"until":10}]}"#;
        let requests: UserRequests = serde_json::from_str(kept).unwrap();
        assert_eq!(
            (&requests.holds[0].holder, &requests.leases[0].purpose),
            (&None, &None)
        );
        let again: UserRequests = serde_json::from_str(&serde_json::to_string(&requests).unwrap()).unwrap();
        assert_eq!(requests, again);
    }

    #[test]
    fn a_lease_ends_by_itself_or_by_its_name() {
        let lease = |case: &str, until| TestLease {
            environment: env("shop"),
            case: case.to_owned(),
            since: Timestamp(0),
            until: Timestamp(until),
            holder: None,
            purpose: None,
        };
        let mut requests = UserRequests::default();
        requests.begin(lease("a", 10));
        requests.begin(lease("b", 20));
        requests.begin(lease("a", 15));
        assert_eq!(requests.leases.len(), 2, "begun anew, not twice");
        let current = |requests: &UserRequests, at| {
            requests
                .lease(&env("shop"), Timestamp(at))
                .map(|lease| lease.case.clone())
        };
        assert_eq!(current(&requests, 5).as_deref(), Some("b"));
        assert_eq!(requests.next_end(Timestamp(5)), Some(Timestamp(15)));
        assert!(requests.end(&env("shop"), "b").is_some() && requests.end(&env("shop"), "b").is_none());
        assert_eq!(current(&requests, 14).as_deref(), Some("a"));
        assert_eq!(current(&requests, 15), None);
        requests.expire(Timestamp(15));
        assert_eq!(requests.leases.len(), 1, "it can still be ended");
        assert_eq!(requests.next_end(Timestamp(15)), None);
        requests.expire(Timestamp(15) + EXPIRED_LIMIT);
        assert_eq!(requests, UserRequests::default());
    }
}
