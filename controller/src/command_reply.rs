//! Reply to a command, on every interface.

use argus_reconciler::{Command, Reply};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::breaker_reset::BreakerReset;

/// Reply to an accepted command. Its effects follow asynchronously.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandReply {
    /// The command in one word.
    pub(crate) verb: String,
    /// Affected environment; absent for the whole controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) environment: Option<String>,
    /// Kind of the value: `done`, `lease`, `test`, `revision`, `forked` or `circuit`.
    pub(crate) kind: String,
    /// Result of the command, for commands that return one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<Value>,
}

impl CommandReply {
    /// Creates the reply from a command and the controller's result.
    pub(crate) fn new(command: &Command, result: &Reply) -> Self {
        let (kind, value) = match result {
            Reply::Done => ("done", None),
            // The controller's files store times as numbers.
            Reply::TestLease(lease) => {
                let (since, until) = (lease.since.to_string(), lease.until.to_string());
                let mut lease_json = json!({
                    "environment": lease.environment, "case": lease.case, "since": since, "until": until,
                });
                for (name, text) in [("holder", &lease.holder), ("purpose", &lease.purpose)] {
                    if let Some(text) = text {
                        lease_json[name] = json!(text);
                    }
                }
                ("lease", Some(lease_json))
            }
            Reply::Test(report) => ("test", Some(json!(report))),
            Reply::Revision(revision) => ("revision", Some(json!(revision))),
            Reply::Forked(copy) => ("forked", Some(json!(copy))),
        };
        Self {
            verb: command.verb().to_owned(),
            environment: command.environment().map(ToString::to_string),
            kind: kind.to_owned(),
            value,
        }
    }

    /// Adds the result of a breaker reset.
    pub(crate) fn with_reset(self, reset: &BreakerReset) -> Self {
        Self {
            kind: "circuit".to_owned(),
            value: Some(json!(reset)),
            ..self
        }
    }

    /// Returns the result of a breaker reset.
    pub(crate) fn breaker_reset(&self) -> BreakerReset {
        let value = self.value.clone().map(serde_json::from_value);
        value.and_then(Result::ok).unwrap_or_default()
    }
}
