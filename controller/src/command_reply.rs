//! What a command is answered with, over every surface.

use argus_reconciler::{Command, Reply};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::breaker_reset::BreakerReset;

/// A command was taken in; what follows from it goes on by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandReply {
    /// The command in a word.
    pub(crate) verb: String,
    /// What it is about; the whole controller without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) environment: Option<String>,
    /// What kind of answer it is: `done`, `lease`, `test`, `revision`, `forked` or `circuit`.
    pub(crate) kind: String,
    /// What came of it, for those that say more than that they were taken in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<Value>,
}

impl CommandReply {
    /// Of a command and the controller's answer.
    pub(crate) fn of(command: &Command, answer: &Reply) -> Self {
        let (kind, value) = match answer {
            Reply::Done => ("done", None),
            // In the controller's own files its times are numbers.
            Reply::TestLease(lease) => {
                let (since, until) = (lease.since.to_string(), lease.until.to_string());
                let mut told = json!({
                    "environment": lease.environment, "case": lease.case, "since": since, "until": until,
                });
                for (name, words) in [("holder", &lease.holder), ("purpose", &lease.purpose)] {
                    if let Some(words) = words {
                        told[name] = json!(words);
                    }
                }
                ("lease", Some(told))
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

    /// The same with what became of a circuit breaker.
    pub(crate) fn reset(self, reset: &BreakerReset) -> Self {
        Self {
            kind: "circuit".to_owned(),
            value: Some(json!(reset)),
            ..self
        }
    }

    /// What became of a circuit breaker.
    pub(crate) fn circuit(&self) -> BreakerReset {
        let value = self.value.clone().map(serde_json::from_value);
        value.and_then(Result::ok).unwrap_or_default()
    }
}
