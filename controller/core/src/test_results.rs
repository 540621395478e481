//! Results of the test runs of an environment, and flips between them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use argus_crds::suite::MAX_HISTORY_RUNS;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Maximum number of stored cases per suite.
const MAX_CASES: usize = 500;

/// Result of a suite or of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TestVerdict {
    /// All conditions hold.
    Passed,
    /// A condition does not hold.
    Failed,
    /// There is no verdict: not run, not supported, or disrupted by infrastructure.
    Skipped,
}

impl TestVerdict {
    /// Returns the name of the verdict, as in the status.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// Results of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestRun {
    /// End of the run.
    pub at: Timestamp,
    /// Tested revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Suites that ran.
    pub suites: Vec<SuiteRun>,
    /// Bounds of the history after this run.
    pub limits: HistoryLimits,
}

/// Results of a suite in one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuiteRun {
    /// Id of the suite.
    pub name: String,
    /// Digest of its file or its command.
    pub digest: String,
    /// Result of the suite.
    pub result: TestVerdict,
    /// Cases that ran. A command is one case.
    pub cases: BTreeMap<String, TestVerdict>,
}

impl SuiteRun {
    /// Returns the names of the failed cases.
    pub fn failed_cases(&self) -> impl Iterator<Item = &str> {
        let failed = |(name, verdict): (_, &TestVerdict)| (*verdict == TestVerdict::Failed).then_some(name);
        self.cases.iter().filter_map(failed).map(String::as_str)
    }
}

/// Bounds of a history, from `history` of the spec file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryLimits {
    /// Maximum number of runs.
    pub max_runs: usize,
    /// Maximum age of a run.
    pub max_age: Duration,
    /// Number of runs in which a flip counts.
    pub flaky_window: usize,
}

/// Last runs of an environment, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TestHistory {
    runs: Vec<TestRun>,
}

/// A case that passed and failed without a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flip<'a> {
    /// Id of the suite.
    pub suite: &'a str,
    /// Name of the case.
    pub case: &'a str,
    /// Number of runs with a verdict about it.
    pub runs: usize,
    /// Number of failures in these runs.
    pub failures: usize,
    /// Time of the last run.
    pub at: Timestamp,
}

impl TestHistory {
    /// Adds a run, and removes runs beyond the limits. The last run of each suite within the limits stays.
    pub fn record(&mut self, mut run: TestRun) {
        let limits = run.limits;
        for suite in &mut run.suites {
            while suite.cases.len() > MAX_CASES {
                suite.cases.pop_last();
            }
        }
        self.runs.retain(|old| run.at.since(old.at) <= limits.max_age);
        self.runs.push(run);
        let most = limits.max_runs.clamp(1, MAX_HISTORY_RUNS);
        let above = self.runs.len().saturating_sub(most);
        self.runs.drain(..above);
    }

    /// Returns the end of the last run.
    pub fn last_at(&self) -> Option<Timestamp> {
        self.runs.last().map(|run| run.at)
    }

    /// Returns the runs of each suite, newest first.
    pub fn suites(&self) -> BTreeMap<&str, Vec<(&TestRun, &SuiteRun)>> {
        let mut suites: BTreeMap<&str, Vec<(&TestRun, &SuiteRun)>> = BTreeMap::new();
        for run in self.runs.iter().rev() {
            for suite in &run.suites {
                suites.entry(suite.name.as_str()).or_default().push((run, suite));
            }
        }
        suites
    }

    /// Returns the cases of the newest revision and suite file whose last verdicts differ.
    pub fn flips(&self) -> Vec<Flip<'_>> {
        let mut flips = Vec::new();
        for (suite, runs) in self.suites() {
            let Some((newest, newest_suite)) = runs.first() else {
                continue;
            };
            let is_same = |(run, of): &&(&TestRun, &SuiteRun)| {
                run.revision == newest.revision && of.digest == newest_suite.digest
            };
            let same: Vec<_> = runs
                .iter()
                .filter(is_same)
                .take(newest.limits.flaky_window)
                .collect();
            let cases: BTreeSet<&str> = same
                .iter()
                .flat_map(|(_, of)| of.cases.keys().map(String::as_str))
                .collect();
            for case in cases {
                let verdicts = same.iter().filter_map(|(_, of)| of.cases.get(case));
                let count = |wanted| verdicts.clone().filter(|verdict| **verdict == wanted).count();
                let (passes, failures) = (count(TestVerdict::Passed), count(TestVerdict::Failed));
                if passes > 0 && failures > 0 {
                    flips.push(Flip {
                        suite,
                        case,
                        runs: passes + failures,
                        failures,
                        at: newest.at,
                    });
                }
            }
        }
        flips
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HistoryLimits = HistoryLimits {
        max_runs: 3,
        max_age: Duration::from_secs(100),
        flaky_window: 2,
    };

    fn run(second: i64, revision: &str, digest: &str, verdict: TestVerdict) -> TestRun {
        TestRun {
            at: Timestamp(second * 1000),
            revision: Some(revision.to_owned()),
            limits: LIMITS,
            suites: vec![SuiteRun {
                name: "orders".to_owned(),
                digest: digest.to_owned(),
                result: verdict,
                cases: BTreeMap::from([("list".to_owned(), verdict)]),
            }],
        }
    }

    fn history(runs: Vec<TestRun>) -> TestHistory {
        let mut history = TestHistory::default();
        for run in runs {
            history.record(run);
        }
        history
    }

    #[test]
    fn history_keeps_the_newest_runs_within_its_limits() {
        use TestVerdict::{Failed, Passed};
        let all = history((1..=5).map(|second| run(second, "r1", "d1", Passed)).collect());
        let times: Vec<_> = all.runs.iter().map(|run| run.at.0).collect();
        assert_eq!(times, [3000, 4000, 5000]);
        let old = history(vec![run(1, "r1", "d1", Passed), run(200, "r1", "d1", Failed)]);
        assert_eq!(old.runs.len(), 1);
        let suites = old.suites();
        assert_eq!(suites["orders"][0].1.failed_cases().collect::<Vec<_>>(), ["list"]);
        assert_eq!(old.last_at(), Some(Timestamp(200_000)));
    }

    #[test]
    fn verdict_that_changes_without_a_change_is_a_flip() {
        use TestVerdict::{Failed, Passed, Skipped};
        let flips = |runs: Vec<TestRun>| history(runs).flips().len();
        let (good, bad) = (run(1, "r1", "d1", Passed), run(2, "r1", "d1", Failed));
        assert_eq!(flips(vec![good.clone(), bad.clone()]), 1);
        assert_eq!(flips(vec![good.clone(), good.clone()]), 0);
        // Another revision or another suite file explains the change.
        assert_eq!(flips(vec![good.clone(), run(2, "r2", "d1", Failed)]), 0);
        assert_eq!(flips(vec![good.clone(), run(2, "r1", "d2", Failed)]), 0);
        // Only verdicts within the window count.
        assert_eq!(flips(vec![good.clone(), run(2, "r1", "d1", Skipped)]), 0);
        assert_eq!(flips(vec![bad, good.clone(), good]), 0);
    }
}
