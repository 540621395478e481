//! Structured errors: the only error type of all interfaces.
//!
//! A [`Code`] identifies the kind of an error. Its [`Explanation`] supplies category, severity, class and suggested
//! actions. [`StructuredError::new`] copies them into the error, and each [`Remedy`] gets its environment and service.

/// Defines an enum with the list of its values.
macro_rules! listed {
    ($(#[$attribute:meta])* pub enum $name:ident { $($(#[$doc:meta])* $value:ident,)+ }) => {
        $(#[$attribute])*
        pub enum $name { $($(#[$doc])* $value,)+ }

        impl $name {
            /// All values in their order.
            pub const ALL: &[Self] = &[$(Self::$value),+];
        }
    };
}

mod action;
mod call;
mod codes;
mod kind;
mod reason;
mod steps;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use action::{ActionId, Confidence, Remedy, SpecEdit, ToolCall};
pub use call::Call;
pub use codes::{Code, Explanation, UnknownCode};
pub use kind::{Category, Class, Severity};
pub use reason::Reason;

/// Error of Argus, with the same fields in status files, CLI, HTTP, MCP and events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StructuredError {
    /// Identifier of the kind of error. `argus explain CODE` describes it.
    pub code: Code,
    /// Area that the error belongs to.
    pub category: Category,
    /// Effect on the environment.
    pub severity: Severity,
    /// Party that acts next: Argus with a retry (`transient`), an agent or a developer (`permanent`), or a person with permissions or
    /// credentials (`human`).
    pub class: Class,
    /// Description of the event for a person: one line, lower case, no full stop.
    pub message: String,
    /// Evidence for programs; its fields depend on the code. In `PREREQ_MISSING` errors, `reason` is one of: `notFound`,
    /// `badRequest`, `usage`, `unauthorized`, `forbidden`, `misdirected`, `methodNotAllowed`, `tooLarge`, `timeout`,
    /// `unavailable`, `notRunning`, `exists`, `notReady`, `notPossible`, `unreadable`, `settings`, `missingPrerequisite`.
    #[serde(default, deserialize_with = "object_or_empty")]
    #[schemars(!default)]
    pub details: Map<String, Value>,
    /// Identifiers of suggested actions, most likely first.
    pub suggested_actions: Vec<ActionId>,
    /// Suggested actions with complete calls, in the same order.
    pub remedies: Vec<Remedy>,
    /// True if Argus retries automatically: the class is `transient`.
    pub retryable: bool,
    /// Seconds until the next automatic attempt, counted from `timestamp`. Absent if Argus does not retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// Identifier of this occurrence (ULID).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_id: Option<String>,
    /// Identifier of the controller that reports the error. Absent if no controller has used the state directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// Identifier of the action or command that caused the error, as in the journal; without such a cause, the `errorId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Path of the spec file of the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_path: Option<String>,
    /// Line of the spec file that the error concerns, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_line: Option<usize>,
    /// Operation that failed, such as `create-container`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// Number of the attempt, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Name of the affected environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// Name of the affected service or mock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Container id of the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_id: Option<String>,
    /// Exit code of the container's main process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// End of the container's standard output, at most 4096 bytes, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_tail: Option<String>,
    /// End of the container's standard error, at most 4096 bytes, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_tail: Option<String>,
    /// Revision of the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Time of the event (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// Calls behind the error, outermost first. Present only on request or with `ARGUS_DEBUG=1`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub debug: Vec<Call>,
}

/// Maximum length of `stdout_tail` and `stderr_tail`, in bytes.
const TAIL: usize = 4096;

impl StructuredError {
    /// Creates an error with the table's category, severity, class and actions of its code.
    ///
    /// ```rust
    /// use argus_crds::{ActionId, Code, Severity, StructuredError};
    ///
    /// let error = StructuredError::new(Code::PortConflict, "host port 8080/tcp is taken")
    ///     .environment("shop")
    ///     .service("web");
    /// assert_eq!(error.severity, Severity::Recoverable);
    ///
    /// let retry = error.remedies.iter().find(|remedy| remedy.action == ActionId::Retry).unwrap();
    /// assert_eq!(retry.command.as_deref(), Some("argus retry shop"));
    /// ```
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let entry = code.explanation();
        Self {
            code,
            category: entry.category,
            severity: entry.severity,
            class: entry.class,
            message: message.into(),
            details: Map::new(),
            suggested_actions: entry.actions.to_vec(),
            remedies: entry
                .actions
                .iter()
                .map(|action| action.remedy(None, None))
                .collect(),
            retryable: entry.class.is_retried(),
            retry_after: None,
            error_id: None,
            controller: None,
            correlation_id: None,
            spec_path: None,
            spec_line: None,
            stage: Some(code.stage().to_owned()),
            attempt: Some(1),
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

    /// Sets the environment, also in the remedies.
    #[must_use]
    pub fn environment(mut self, environment: impl Into<String>) -> Self {
        self.environment = Some(environment.into());
        self.with_remedies()
    }

    /// Sets the service, also in the remedies.
    #[must_use]
    pub fn service(mut self, service: impl Into<String>) -> Self {
        self.service = Some(service.into());
        self.with_remedies()
    }

    /// Replaces the suggested actions and their remedies.
    #[must_use]
    pub fn suggest(mut self, actions: &[ActionId]) -> Self {
        self.remedies.clear();
        self.suggested_actions = actions.to_vec();
        self.with_remedies()
    }

    /// Makes a change of the spec file the first remedy. It replaces general descriptions of such changes, and a useless retry.
    #[must_use]
    pub fn edit(mut self, edit: SpecEdit) -> Self {
        let remedy = Remedy::of_edit(edit, &self);
        let retryable = self.retryable;
        self.remedies.retain(|other| match other.action {
            ActionId::Retry => retryable,
            // A wait does not change the file.
            ActionId::Wait => false,
            action => !action.is_general_edit() || other.edit.is_some(),
        });
        self.remedies.insert(0, remedy);
        self.suggested_actions = self.remedies.iter().map(|remedy| remedy.action).collect();
        self
    }

    /// Adds the fields of an object to the details, also in the remedies; any other value is ignored.
    #[must_use]
    pub fn details(mut self, details: Value) -> Self {
        if let Value::Object(details) = details {
            self.details.extend(details);
        }
        self.with_remedies()
    }

    /// Replaces the severity of the table.
    #[must_use]
    pub fn severity(self, severity: Severity) -> Self {
        Self { severity, ..self }
    }

    /// Replaces the class of the table.
    #[must_use]
    pub fn class(self, class: Class) -> Self {
        Self {
            class,
            retryable: class.is_retried(),
            retry_after: self.retry_after.filter(|_| class.is_retried()),
            ..self
        }
    }

    /// Sets the seconds until the next automatic attempt, which makes the error transient.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        Self {
            retry_after: Some(seconds),
            ..self.class(Class::Transient)
        }
    }

    /// Sets the time until the next attempt, rounded up to whole seconds, at least 1.
    #[must_use]
    pub fn retry_after_span(self, span: Duration) -> Self {
        let started_second = u64::from(span.subsec_nanos() > 0);
        self.retry_after((span.as_secs() + started_second).max(1))
    }

    /// Sets the place in the spec file that the error concerns.
    #[must_use]
    pub fn spec(self, path: impl Into<String>, line: Option<usize>) -> Self {
        Self {
            spec_path: Some(path.into()),
            spec_line: line,
            ..self
        }
    }

    /// Sets the number of the attempt.
    #[must_use]
    pub fn attempt(self, attempt: u32) -> Self {
        Self {
            attempt: Some(attempt),
            ..self
        }
    }

    /// Sets the exit code of the main process.
    #[must_use]
    pub fn exit_code(self, code: i64) -> Self {
        Self {
            exit_code: Some(code),
            ..self
        }
    }

    /// Sets the tails of the container's output. The caller redacts them; this function truncates them.
    #[must_use]
    pub fn tails(self, stdout: &str, stderr: &str) -> Self {
        let tail = |text: &str| (!text.is_empty()).then(|| last_bytes(text).to_owned());
        Self {
            stdout_tail: tail(stdout),
            stderr_tail: tail(stderr),
            ..self
        }
    }

    /// Adds an outer call in front of the call trace.
    #[must_use]
    pub fn with_call(mut self, call: Call) -> Self {
        self.debug.insert(0, call);
        self
    }

    /// The remedies concern the dependency that explains the error, if there is one.
    /// Service of the remedies: a failed dependency, else its own.
    fn service_at_fault(&self) -> Option<&str> {
        let dependency = self.details.get("failedDependency").and_then(Value::as_str);
        dependency.or(self.service.as_deref())
    }

    fn with_remedies(mut self) -> Self {
        let (environment, service) = (self.environment.as_deref(), self.service_at_fault());
        let edits: Vec<Option<SpecEdit>> = self.remedies.iter().map(|remedy| remedy.edit.clone()).collect();
        let edits = edits.into_iter().chain(std::iter::repeat(None));
        let remedies = self.suggested_actions.iter().zip(edits).map(|(action, edit)| {
            let Some(edit) = edit.filter(|_| *action == ActionId::FixSpec) else {
                return action.remedy(environment, service).completed(&self.details);
            };
            Remedy::of_edit(edit, &self)
        });
        self.remedies = remedies.collect();
        self
    }
}

/// Defines functions that set a text.
macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident)+) => {
        impl StructuredError {$(
            $(#[$doc])*
            #[must_use]
            pub fn $field(self, text: impl Into<String>) -> Self {
                Self { $field: Some(text.into()), ..self }
            }
        )+}
    };
}

setters! {
    /// Sets the identifier of this occurrence.
    error_id
    /// Sets the identifier of the controller that reports the error.
    controller
    /// Sets the identifier of the action or command that caused the error.
    correlation_id
    /// Sets the operation that failed.
    stage
    /// Sets the container id.
    container_id
    /// Sets the revision.
    revision
    /// Sets the time of the event (RFC 3339).
    timestamp
}

impl std::fmt::Display for StructuredError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for StructuredError {}

/// Reads `null` as an empty object: earlier versions wrote `null`, or omitted the field.
fn object_or_empty<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Map<String, Value>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn last_bytes(text: &str) -> &str {
    let mut start = text.len().saturating_sub(TAIL);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}
