//! Memory of repairs: the edit of a spec file that ended a failure. The next equal failure names it.

use std::collections::BTreeMap;
use std::sync::Arc;

use argus_crds::diff::{KeyChange, LastRepair, Repair, SeenBefore};
use serde::{Deserialize, Serialize};

use crate::desired::Accepted;
use crate::desired::hash::hash_of;
use crate::failed_run::{self, FailedRun, FailureKind};
use crate::ident::{EnvName, ServiceName};
use crate::remedy;
use crate::spec_diff::value_changes;
use crate::state::{EnvHistory, ServiceHistory};
use crate::time::Timestamp;

/// Maximum number of repairs.
const MAX_REPAIRS: usize = 500;
/// Maximum number of changed keys. A larger edit does not show which change ended the failure.
const MAX_CHANGES: usize = 8;
/// Maximum number of failing revisions of an environment.
const MAX_REVISIONS: usize = 4;

/// Repairs, the last one at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RepairMemory(Vec<Repair>);

impl RepairMemory {
    /// Returns true without any repair.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All repairs, the last one at the end.
    pub fn repairs(&self) -> &[Repair] {
        &self.0
    }

    /// Returns the repairs of earlier failures that equal this one.
    pub fn find(&self, service: &str, failed_run: &FailedRun) -> Option<&SeenBefore> {
        if self.is_empty() {
            return None;
        }
        let signature = signature(service, failed_run)?;
        let repair = self.0.iter().find(|repair| repair.failure == signature)?;
        Some(&repair.seen)
    }

    /// Adds a repair. It replaces an earlier one of the same failure.
    pub fn add(&mut self, mut repair: Repair) {
        if let Some(index) = self.0.iter().position(|known| known.failure == repair.failure) {
            repair.seen.times += self.0.remove(index).seen.times;
        }
        self.0.push(repair);
        let surplus = self.0.len().saturating_sub(MAX_REPAIRS);
        self.0.drain(..surplus);
    }
}

#[cfg(test)]
impl RepairMemory {
    /// Memory with one repair: a change of `key`.
    pub(crate) fn of_failure(service: &str, failed_run: &FailedRun, key: &str) -> Self {
        let mut repair = Repair {
            failure: signature(service, failed_run).unwrap_or_default(),
            service: service.to_owned(),
            seen: SeenBefore::default(),
        };
        repair.seen.times = 1;
        repair.seen.last_repair.keys = vec![key.to_owned()];
        Self(vec![repair])
    }
}

/// Returns what equal failures of a service have in common, as a hash, because an output can contain secrets. `None` without an
/// output: silence does not prove a repetition.
fn signature(service: &str, failed_run: &FailedRun) -> Option<String> {
    let kind = failed_run::kind(failed_run);
    let line = match kind {
        FailureKind::Unhealthy => failed_run.last_probe_output(),
        _ => failed_run.evidence.as_ref().and_then(remedy::cause_line),
    };
    let line = failed_run::normalised(line?);
    (!line.is_empty()).then(|| hash_of(&(service, kind, failed_run.exit_code, line)).to_string())
}

/// Revisions that failed and were not Ready since, by environment.
#[derive(Debug, Default)]
pub struct FailingRevisions(BTreeMap<EnvName, Vec<FailingRevision>>);

#[derive(Debug)]
struct FailingRevision {
    accepted: Arc<Accepted>,
    /// Last failure of each service: its time and signature.
    failures: BTreeMap<ServiceName, (Timestamp, Option<String>)>,
}

impl FailingRevisions {
    /// Removes the environments that are not desired any more.
    pub fn retain(&mut self, is_desired: impl Fn(&EnvName) -> bool) {
        self.0.retain(|env, _| is_desired(env));
    }

    /// Returns true if an earlier revision of the environment failed.
    pub fn contains_other(&self, accepted: &Accepted) -> bool {
        let of_env = self.0.get(&accepted.desired.env);
        of_env.is_some_and(|all| all.iter().any(|one| one.is_other(accepted)))
    }

    /// Records the new failures of an environment at its current revision.
    pub fn record(&mut self, accepted: &Arc<Accepted>, history: &EnvHistory) {
        let started_at = history.started_at(accepted);
        let is_failing = |service: &ServiceHistory| service.failure_count > service.failures_before_recovery;
        for (name, service) in history.services.iter().filter(|(_, service)| is_failing(service)) {
            let last = service.failures.last();
            if let Some(last) = last.filter(|last| last.seen() >= started_at) {
                self.record_failure(accepted, name, last);
            }
        }
    }

    fn record_failure(&mut self, accepted: &Arc<Accepted>, name: &ServiceName, last: &FailedRun) {
        let revisions = self.0.entry(accepted.desired.env.clone()).or_default();
        let is_current = revisions.last().is_some_and(|newest| !newest.is_other(accepted));
        if !is_current {
            revisions.push(FailingRevision {
                accepted: accepted.clone(),
                failures: BTreeMap::new(),
            });
            let surplus = revisions.len().saturating_sub(MAX_REVISIONS);
            revisions.drain(..surplus);
        }
        let Some(newest) = revisions.last_mut() else {
            return;
        };
        // The output of a run arrives after its end.
        let is_known = |(at, signature): &(Timestamp, Option<String>)| *at == last.at && signature.is_some();
        if !newest.failures.get(name).is_some_and(is_known) {
            let failure = (last.at, signature(name.as_str(), last));
            newest.failures.insert(name.clone(), failure);
        }
    }

    /// Forgets the failing revisions of an environment that is Ready now, and returns the repairs that this revision is.
    pub fn take_repairs(&mut self, ready: &Accepted, now: Timestamp) -> Vec<Repair> {
        let revisions = self.0.remove(&ready.desired.env).unwrap_or_default();
        let failed = revisions.iter().filter(|one| one.is_other(ready));
        failed.flat_map(|one| one.repairs(ready, now)).collect()
    }
}

impl FailingRevision {
    fn is_other(&self, accepted: &Accepted) -> bool {
        self.accepted.desired.revision != accepted.desired.revision
    }

    fn repairs(&self, ready: &Accepted, now: Timestamp) -> Vec<Repair> {
        let diff = changes(&self.accepted, ready);
        if diff.is_empty() || diff.len() > MAX_CHANGES {
            return Vec::new();
        }
        let seen = SeenBefore {
            times: 1,
            last_repair: LastRepair {
                when: now.to_string(),
                environment: ready.desired.env.to_string(),
                keys: diff.iter().map(|change| change.key.clone()).collect(),
                diff,
            },
        };
        let failures = self.failures.iter();
        let repair = |(service, (_, signature)): (&ServiceName, &(Timestamp, Option<String>))| {
            Some(Repair {
                failure: signature.clone()?,
                service: service.to_string(),
                seen: seen.clone(),
            })
        };
        failures.filter_map(repair).collect()
    }
}

/// Changed keys between two revisions. The keys of a Compose file are not those of its translation, so it has none.
fn changes(failed: &Accepted, ready: &Accepted) -> Vec<KeyChange> {
    if failed.lines.is_compose() || ready.lines.is_compose() {
        return Vec::new();
    }
    let mut secrets = failed.desired.secret_values();
    secrets.join(&ready.desired.secret_values());
    value_changes(failed.lines.values(), ready.lines.values(), &secrets, |_| None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::admit::{SpecContext, admit};
    use crate::desired::key_lines::KeyLines;
    use crate::ident::ContainerId;
    use crate::outcome::Evidence;

    fn accepted(mode: &str) -> Arc<Accepted> {
        let text = format!(
            "version: \"1\"\nproject: {{ name: shop }}\nservices:\n  web:\n    image: web:1\n    container:\n      name: shop-web\n      \
             environment: {{ MODE: {mode}, DB_PASSWORD: hunter22 }}\n"
        );
        let read = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
        let spec = read.spec.unwrap();
        Arc::new(Accepted {
            desired: admit(&spec, &SpecContext::default()).desired.unwrap(),
            spec_path: "e2e.yaml".to_owned(),
            lines: KeyLines::from_spec(&spec, &read.source),
            accepted_at: Timestamp(1_000),
            has_pending_edit: false,
            allowed: false,
            is_ending: false,
            file_hash: None,
            mounted_files: BTreeMap::new(),
        })
    }

    fn failed_run(at: i64, line: &str) -> FailedRun {
        FailedRun {
            exit_code: 1,
            evidence: Some(Evidence {
                stderr: vec![line.to_owned()],
                ..Evidence::default()
            }),
            ..FailedRun::new(ContainerId::new("c1").unwrap(), Timestamp(at))
        }
    }

    fn failing(at: i64, line: &str) -> EnvHistory {
        let mut history = EnvHistory::default();
        let service = history.service_mut(&ServiceName::new("web").unwrap());
        service.failures.push(failed_run(at, line));
        service.failure_count = 1;
        history
    }

    /// Memory after failures with these modes and messages, and a revision that is Ready.
    fn memory(failures: &[(&str, i64, &str)], ready: &str) -> RepairMemory {
        let mut revisions = FailingRevisions::default();
        let mut memory = RepairMemory::default();
        for (mode, at, line) in failures {
            revisions.record(&accepted(mode), &failing(*at, line));
        }
        for repair in revisions.take_repairs(&accepted(ready), Timestamp(9_000)) {
            memory.add(repair);
        }
        assert!(!revisions.contains_other(&accepted("other")), "it is forgotten");
        memory
    }

    #[test]
    fn equal_failure_names_the_edit_that_ended_it() {
        let memory = memory(&[("fats", 2_000, "unknown mode after 12 ms")], "fast");
        let seen = memory
            .find("web", &failed_run(7_000, "unknown mode after 340 ms"))
            .unwrap();
        assert_eq!(seen.times, 1);
        assert_eq!(seen.last_repair.environment, "shop");
        assert_eq!(seen.last_repair.keys, ["services.web.container.environment.MODE"]);
        let change = &seen.last_repair.diff[0];
        assert_eq!(
            (change.before.as_deref(), change.after.as_deref()),
            (Some("fats"), Some("fast"))
        );
        assert!(
            memory
                .find("api", &failed_run(7_000, "unknown mode after 1 ms"))
                .is_none()
        );
        assert!(memory.find("web", &failed_run(7_000, "unknown level")).is_none());
        assert!(memory.find("web", &failed_run(7_000, "")).is_none());
    }

    #[test]
    fn each_failing_revision_is_compared_with_the_ready_one() {
        let failures = [("a", 2_000, "no mode a"), ("b", 3_000, "mode b is bad")];
        let memory = memory(&failures, "c");
        let before = |line| {
            let seen = memory.find("web", &failed_run(8_000, line)).unwrap();
            seen.last_repair.diff[0].before.clone().unwrap()
        };
        assert_eq!(before("no mode a"), "a");
        assert_eq!(before("mode b is bad"), "b");
    }

    #[test]
    fn output_that_arrives_after_the_failure_counts() {
        let mut revisions = FailingRevisions::default();
        for line in ["", "no mode"] {
            revisions.record(&accepted("slow"), &failing(2_000, line));
        }
        let repairs = revisions.take_repairs(&accepted("fast"), Timestamp(9_000));
        assert_eq!(repairs.len(), 1);
    }

    #[test]
    fn failure_without_an_edit_or_before_the_edit_is_no_repair() {
        assert!(memory(&[("fast", 2_000, "flaky")], "fast").is_empty());
        assert!(memory(&[("slow", 500, "of an earlier revision")], "fast").is_empty());
        let mut history = failing(2_000, "it recovered");
        history
            .service_mut(&ServiceName::new("web").unwrap())
            .failures_before_recovery = 1;
        let mut revisions = FailingRevisions::default();
        revisions.record(&accepted("slow"), &history);
        assert!(!revisions.contains_other(&accepted("fast")));
    }

    #[test]
    fn repetitions_are_counted_and_old_repairs_go() {
        let repair = |number: usize| Repair {
            failure: number.to_string(),
            seen: SeenBefore {
                times: 1,
                ..SeenBefore::default()
            },
            ..Repair::default()
        };
        let mut memory = RepairMemory::default();
        for number in 0..MAX_REPAIRS {
            memory.add(repair(number));
        }
        memory.add(repair(0));
        memory.add(repair(MAX_REPAIRS));
        let all = memory.repairs();
        assert_eq!(all.len(), MAX_REPAIRS);
        assert_eq!(
            (all[0].failure.as_str(), all[MAX_REPAIRS - 2].seen.times),
            ("2", 2)
        );
    }

    #[test]
    fn memory_has_no_secret() {
        let memory = memory(&[("hunter22", 2_000, "mode hunter22 is bad")], "fast");
        let text = serde_json::to_string(&memory).unwrap();
        assert!(!text.contains("hunter22"), "{text}");
        let copy: RepairMemory = serde_json::from_str(&text).unwrap();
        assert_eq!(copy, memory);
    }
}
