//! The one type of error that everything shows.

mod action;
mod call;
mod code;
mod kind;
mod mocks;
mod reason;
mod table;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use action::{ActionId, Remedy, ToolCall};
pub use call::Call;
pub use code::{Code, UnknownCode};
pub use kind::{Category, Class, Severity};
pub use reason::Reason;
pub use table::Explanation;

/// An error as everything shows it: status files, CLI, HTTP, MCP, events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StructuredError {
    /// What kind of error it is.
    pub code: Code,
    /// What part of the world it is about.
    pub category: Category,
    /// How bad it is.
    pub severity: Severity,
    /// Who or what can make it go away: time, nothing, a person.
    pub class: Class,
    /// What happened, in words.
    pub message: String,
    /// The evidence, by code. Of `PREREQ_MISSING` its `reason` is one word of: `notFound`, `badRequest`, `usage`, `unauthorized`,
    /// `forbidden`, `misdirected`, `methodNotAllowed`, `tooLarge`, `timeout`, `unavailable`, `notRunning`, `exists`, `notReady`,
    /// `notPossible`, `unreadable`, `settings`, `unfit`.
    #[serde(default, deserialize_with = "known")]
    #[schemars(!default)]
    pub details: Map<String, Value>,
    /// What can be done, as identifiers.
    pub suggested_actions: Vec<ActionId>,
    /// What can be done, callable as it stands.
    pub remedies: Vec<Remedy>,
    /// Whether doing the same again may help.
    pub retryable: bool,
    /// In how many seconds it is worth to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// Identity of this occurrence (ULID).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_id: Option<String>,
    /// What was being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// Which attempt it was, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The service or mock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The engine's id of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_id: Option<String>,
    /// How the container's main process ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// The end of its standard output, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_tail: Option<String>,
    /// The end of its standard error, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_tail: Option<String>,
    /// The revision of the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// When it happened (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// The calls that led to it, the outermost first; only on request or with `ARGUS_DEBUG=1`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub debug: Vec<Call>,
}

/// Longest tail that an error carries, in bytes.
const TAIL: usize = 4096;

impl StructuredError {
    /// An error of a kind, with everything that the table says about the kind.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let about = code.about();
        Self {
            code,
            category: about.category,
            severity: about.severity,
            class: about.class,
            message: message.into(),
            details: Map::new(),
            suggested_actions: about.actions.to_vec(),
            remedies: about
                .actions
                .iter()
                .map(|action| action.remedy(None, None))
                .collect(),
            retryable: about.retryable,
            retry_after: None,
            error_id: None,
            stage: None,
            attempt: None,
            environment: None,
            service: None,
            container_id: None,
            exit_code: None,
            stdout_tail: None,
            stderr_tail: None,
            revision: None,
            timestamp: None,
            debug: Vec::new(),
        }
    }

    /// The same error in an environment; its remedies name it.
    #[must_use]
    pub fn environment(mut self, environment: impl Into<String>) -> Self {
        self.environment = Some(environment.into());
        self.with_remedies()
    }

    /// The same error in a service; its remedies name it.
    #[must_use]
    pub fn service(mut self, service: impl Into<String>) -> Self {
        self.service = Some(service.into());
        self.with_remedies()
    }

    /// The same error with other suggestions than the table's.
    #[must_use]
    pub fn suggest(mut self, actions: &[ActionId]) -> Self {
        self.suggested_actions = actions.to_vec();
        self.with_remedies()
    }

    /// The same error with evidence, beside what it has: an object. Nothing that has no name is evidence.
    #[must_use]
    pub fn details(mut self, details: Value) -> Self {
        if let Value::Object(details) = details {
            self.details.extend(details);
        }
        self
    }

    /// The same error with another severity than the table's.
    #[must_use]
    pub fn severity(self, severity: Severity) -> Self {
        Self { severity, ..self }
    }

    /// The same error with the seconds after which to try again.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        Self {
            retry_after: Some(seconds),
            ..self
        }
    }

    /// The same error with the time after which to try again, in whole seconds that have passed by then.
    #[must_use]
    pub fn retry_after_span(self, span: Duration) -> Self {
        let begun = u64::from(span.subsec_nanos() > 0);
        self.retry_after((span.as_secs() + begun).max(1))
    }

    /// The same error with the identity of this occurrence.
    #[must_use]
    pub fn error_id(self, id: impl Into<String>) -> Self {
        Self {
            error_id: Some(id.into()),
            ..self
        }
    }

    /// The same error with what was being done.
    #[must_use]
    pub fn stage(self, stage: impl Into<String>) -> Self {
        Self {
            stage: Some(stage.into()),
            ..self
        }
    }

    /// The same error with the number of the attempt.
    #[must_use]
    pub fn attempt(self, attempt: u32) -> Self {
        Self {
            attempt: Some(attempt),
            ..self
        }
    }

    /// The same error with the container it is about.
    #[must_use]
    pub fn container_id(self, id: impl Into<String>) -> Self {
        Self {
            container_id: Some(id.into()),
            ..self
        }
    }

    /// The same error with how the main process ended.
    #[must_use]
    pub fn exit_code(self, code: i64) -> Self {
        Self {
            exit_code: Some(code),
            ..self
        }
    }

    /// The same error with the end of what the container wrote; redacted by the caller, cut here.
    #[must_use]
    pub fn tails(self, stdout: &str, stderr: &str) -> Self {
        let tail = |text: &str| (!text.is_empty()).then(|| last_bytes(text).to_owned());
        Self {
            stdout_tail: tail(stdout),
            stderr_tail: tail(stderr),
            ..self
        }
    }

    /// The same error with the revision it happened in.
    #[must_use]
    pub fn revision(self, revision: impl Into<String>) -> Self {
        Self {
            revision: Some(revision.into()),
            ..self
        }
    }

    /// The same error with the time it happened at (RFC 3339).
    #[must_use]
    pub fn timestamp(self, timestamp: impl Into<String>) -> Self {
        Self {
            timestamp: Some(timestamp.into()),
            ..self
        }
    }

    /// The same error with the call that led to those it tells of already, or to it.
    #[must_use]
    pub fn with_call(mut self, call: Call) -> Self {
        self.debug.insert(0, call);
        self
    }

    fn with_remedies(mut self) -> Self {
        let (environment, service) = (self.environment.as_deref(), self.service.as_deref());
        self.remedies = self
            .suggested_actions
            .iter()
            .map(|action| action.remedy(environment, service))
            .collect();
        self
    }
}

impl std::fmt::Display for StructuredError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for StructuredError {}

/// What is said of nothing in particular is no object: earlier versions wrote `null`, or nothing.
fn known<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn last_bytes(text: &str) -> &str {
    let mut start = text.len().saturating_sub(TAIL);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}
