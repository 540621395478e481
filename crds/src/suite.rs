//! Test suites of an environment, their retries, and the history of their results.

use std::str::ParseBoolError;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::quantity::{HumanDuration, QuantityError};
use crate::text::{self, shape};

/// Test suites of an environment, and their retries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Tests {
    /// Suites in their order of execution.
    pub suites: Vec<Suite>,
    /// Retries of failed suites without their own `retry`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<TestRetry>,
    /// Parallel execution of all suites, and the maximum number in parallel. Default: `false`, and 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<Parallel>,
}

/// Test suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Suite {
    /// Name of the suite for people.
    pub name: String,
    /// Short name for commands. Default: the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Service of the runner `yaml`: its address completes requests, and its container is the default. Default: the first service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// File of the runner `yaml`, relative to the file's folder. File or folder for `vitest`, `pytest` or `playwright`; not together
    /// with `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Test runner. `yaml` runs the cases of a YAML suite.
    #[serde(default)]
    pub runner: Runner,
    /// Command for `sh -c`. Required for the runners `shell` and `exec`; replaces the command of other runners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Configuration file for `vitest`, `pytest` or `playwright`; not together with `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Retries of this suite, or of the cases of a YAML suite; replaces `tests.retry`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<TestRetry>,
    /// True to run this suite in parallel with others. Default: `tests.parallel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<Parallel>,
    /// Maximum number of parallel suites, without `tests.parallel.concurrency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub concurrency: Option<u32>,
}

/// Runner of a test suite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum Runner {
    #[default]
    Yaml,
    Vitest,
    Pytest,
    Shell,
    Exec,
    Playwright,
}

/// Retries of a failed suite.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TestRetry {
    /// Maximum number of attempts. One attempt does not count if an infrastructure failure disrupted it.
    #[schemars(range(min = 1, max = 10))]
    pub max_attempts: u32,
    /// Delay before the second attempt. Every delay is at most `10m`.
    pub delay: HumanDuration,
    /// Growth of the delay between attempts.
    pub backoff: RetryBackoff,
    /// Factor of the exponential backoff.
    #[schemars(range(min = 1, max = 100))]
    pub backoff_multiplier: f64,
}

impl Default for TestRetry {
    fn default() -> Self {
        Self {
            max_attempts: 1,
            delay: HumanDuration::from_secs(1),
            backoff: RetryBackoff::Linear,
            backoff_multiplier: 2.0,
        }
    }
}

/// Growth of the delay between attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum RetryBackoff {
    #[default]
    Linear,
    Exponential,
}

/// Parallel execution and its maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Parallel {
    /// True for parallel execution.
    pub enabled: bool,
    /// Maximum number in parallel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

/// Parallel execution and its maximum.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "ParallelWithConcurrency")]
struct LongParallel {
    /// True for parallel execution.
    enabled: bool,
    /// Maximum number in parallel.
    #[schemars(range(min = 1, max = 1024))]
    concurrency: Option<u32>,
}

impl<'de> Deserialize<'de> for Parallel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "`true`, `false`, or a map with `enabled` and `concurrency`";
        let short = |text: &str| {
            let enabled = text.parse().map_err(|error: ParseBoolError| error.to_string());
            enabled.map(|enabled| Self {
                enabled,
                concurrency: None,
            })
        };
        let long = |long: LongParallel| Self {
            enabled: long.enabled,
            concurrency: long.concurrency,
        };
        text::scalar_or_map(deserializer, expected, short, long)
    }
}

shape!(Parallel, "Parallel", long: LongParallel; {
    "description": "Parallel execution: `true`, `false`, or a map with a maximum.",
    "anyOf": [{ "type": "boolean" }, long]
});

/// Maximum number of kept runs of an environment, whatever the file allows: each change writes all of them.
pub const MAX_HISTORY_RUNS: usize = 50;

/// History of test results. Argus keeps at most 50 runs in its state directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct History {
    /// True to store earlier results, not only the last ones.
    pub enabled: bool,
    /// Storage of the results; no effect, because Argus keeps them in its state directory.
    pub storage: HistoryStorage,
    /// Path of the file with the results; no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Retention of the results: a maximum age, or a map with age and number of runs.
    pub retention: Retention,
    /// Number of runs that decide if a test is flaky.
    #[schemars(range(min = 1, max = 10_000))]
    pub flaky_window: u32,
}

impl Default for History {
    fn default() -> Self {
        Self {
            enabled: true,
            storage: HistoryStorage::Local,
            path: None,
            retention: Retention::default(),
            flaky_window: 10,
        }
    }
}

/// Storage of test results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum HistoryStorage {
    #[default]
    Local,
    Memory,
}

/// Retention of test results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retention {
    /// Maximum age of a result.
    pub max_age: HumanDuration,
    /// Maximum number of runs.
    pub max_runs: u32,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            max_age: HumanDuration::from_secs(90 * 86_400),
            max_runs: 1000,
        }
    }
}

/// Retention of test results.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "RetentionWithRuns")]
struct LongRetention {
    /// Maximum age of a result.
    max_age: HumanDuration,
    /// Maximum number of runs.
    #[schemars(range(min = 1, max = 1_000_000))]
    max_runs: u32,
}

impl Default for LongRetention {
    fn default() -> Self {
        let Retention { max_age, max_runs } = Retention::default();
        Self { max_age, max_runs }
    }
}

impl<'de> Deserialize<'de> for Retention {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "an age, or a map with `maxAge` and `maxRuns`";
        let short = |age: &str| {
            let max_age = age.parse().map_err(|error: QuantityError| error.to_string());
            max_age.map(|max_age| Self {
                max_age,
                ..Self::default()
            })
        };
        let long = |long: LongRetention| Self {
            max_age: long.max_age,
            max_runs: long.max_runs,
        };
        text::scalar_or_map(deserializer, expected, short, long)
    }
}

shape!(Retention, "Retention", age: HumanDuration, long: LongRetention; {
    "description": "Retention of test results: a maximum age, or a map with a maximum age and a maximum number of runs.",
    "anyOf": [age, long]
});
