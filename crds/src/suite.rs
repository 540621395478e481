//! Test suites and the history of their results.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::quantity::HumanDuration;
use crate::text;

/// The test suites of an environment and how they are run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Tests {
    /// The suites, in the order they are run.
    pub suites: Vec<Suite>,
    /// How a failed suite is run again, where it says nothing itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<TestRetry>,
    /// How many suites run at once; carried through, not acted on: they run one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<Parallel>,
}

/// One test suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Suite {
    /// Name for people.
    pub name: String,
    /// Short name for commands; by default the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The file or folder that `vitest`, `pytest` or `playwright` is given; not beside a `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What runs the tests; a suite of `yaml`, which is the Node tool's own, is skipped.
    #[serde(default)]
    pub runner: Runner,
    /// The command, by `sh -c`. The runners `shell` and `exec` need one; in place of what the others run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The configuration file that `vitest`, `pytest` or `playwright` is given; not beside a `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// How it is run again when it fails; in place of `tests.retry`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<TestRetry>,
    /// Whether the tests of this suite run at once; carried through, not acted on: that is its runner's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<Parallel>,
    /// How many tests of this suite run at once; carried through, not acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub concurrency: Option<u32>,
}

/// What runs a test suite.
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

/// How a failed suite is run again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TestRetry {
    /// How often a suite is run at most; once an attempt that infrastructure disturbed is not counted.
    #[schemars(range(min = 1, max = 10))]
    pub max_attempts: u32,
    /// The delay before the second attempt; none is longer than `10m`.
    pub delay: HumanDuration,
    /// How the delay grows.
    pub backoff: RetryBackoff,
    /// The factor of an exponential backoff.
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

/// How the delay between attempts grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum RetryBackoff {
    #[default]
    Linear,
    Exponential,
}

/// Whether things run at once, and how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Parallel {
    /// Whether they run at once.
    pub enabled: bool,
    /// How many at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

/// Whether things run at once, and how many.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "ParallelWithConcurrency")]
struct LongParallel {
    /// Whether they run at once.
    enabled: bool,
    /// How many at once.
    #[schemars(range(min = 1, max = 1024))]
    concurrency: Option<u32>,
}

impl<'de> Deserialize<'de> for Parallel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Parallel;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true`, `false`, or a map with `enabled` and `concurrency`")
            }
            fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Parallel, D::Error> {
                inner.deserialize_any(self)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Parallel, E> {
                let enabled = text.parse().map_err(E::custom)?;
                Ok(Parallel {
                    enabled,
                    concurrency: None,
                })
            }
            fn visit_bool<E: de::Error>(self, enabled: bool) -> Result<Parallel, E> {
                Ok(Parallel {
                    enabled,
                    concurrency: None,
                })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Parallel, A::Error> {
                let long = LongParallel::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Parallel {
                    enabled: long.enabled,
                    concurrency: long.concurrency,
                })
            }
        }
        deserializer.deserialize_newtype_struct(text::AS_WRITTEN, Either)
    }
}

impl JsonSchema for Parallel {
    fn schema_name() -> Cow<'static, str> {
        "Parallel".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let long = generator.subschema_for::<LongParallel>();
        json_schema!({
            "description": "Whether things run at once: a bool, or a map that also says how many.",
            "anyOf": [{ "type": "boolean" }, long]
        })
    }
}

/// The Node tool's history of test results; carried through, not acted on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct History {
    /// Whether results are kept.
    pub enabled: bool,
    /// Where they are kept: in a file, or in memory only.
    pub storage: HistoryStorage,
    /// The file they are kept in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How long they are kept: an age, or a map with an age and a number of runs.
    pub retention: Retention,
    /// How many runs are looked at to call a test flaky.
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

/// Where results are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum HistoryStorage {
    #[default]
    Local,
    Memory,
}

/// How long results are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retention {
    /// The oldest result that is kept.
    pub max_age: HumanDuration,
    /// How many runs are kept.
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

/// How long results are kept.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "RetentionWithRuns")]
struct LongRetention {
    /// The oldest result that is kept.
    max_age: HumanDuration,
    /// How many runs are kept.
    #[schemars(range(min = 1, max = 1_000_000))]
    max_runs: u32,
}

impl Default for LongRetention {
    fn default() -> Self {
        let Retention { max_age, max_runs } = Retention::default();
        Self { max_age, max_runs }
    }
}

impl Serialize for LongRetention {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Retention {
            max_age: self.max_age,
            max_runs: self.max_runs,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Retention {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Retention;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an age, or a map with `maxAge` and `maxRuns`")
            }
            fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Retention, D::Error> {
                inner.deserialize_any(self)
            }
            fn visit_str<E: de::Error>(self, age: &str) -> Result<Retention, E> {
                let max_age = age.parse().map_err(E::custom)?;
                Ok(Retention {
                    max_age,
                    ..Retention::default()
                })
            }
            fn visit_u64<E: de::Error>(self, milliseconds: u64) -> Result<Retention, E> {
                self.visit_str(&milliseconds.to_string())
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Retention, A::Error> {
                let long = LongRetention::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Retention {
                    max_age: long.max_age,
                    max_runs: long.max_runs,
                })
            }
        }
        deserializer.deserialize_newtype_struct(text::AS_WRITTEN, Either)
    }
}

impl JsonSchema for Retention {
    fn schema_name() -> Cow<'static, str> {
        "Retention".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let age = generator.subschema_for::<HumanDuration>();
        let long = generator.subschema_for::<LongRetention>();
        json_schema!({
            "description": "How long results are kept: an age, or a map with an age and a number of runs.",
            "anyOf": [age, long]
        })
    }
}
