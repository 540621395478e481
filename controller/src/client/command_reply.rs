//! Reply to a command, on every interface.

use argus_reconciler::{Command, Reply, TestReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::view::breaker_reset::BreakerReset;

/// Reply to an accepted command. Its effects follow asynchronously.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandReply {
    /// The command in one word.
    pub(crate) verb: String,
    /// Affected environment; absent for the whole controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) environment: Option<String>,
    /// Result of the command.
    #[serde(flatten)]
    pub(crate) result: CommandResult,
}

/// Result of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "value", rename_all = "camelCase")]
pub(crate) enum CommandResult {
    /// The command was accepted.
    Done,
    /// A test began.
    TestLease(TestLease),
    /// A test ended: the restarts and disruptions of its services.
    Test(#[schemars(with = "serde_json::Map<String, serde_json::Value>")] TestReport),
    /// This revision is desired now.
    Revision(String),
    /// This environment is desired now.
    Forked(String),
    /// A circuit breaker was reset.
    Circuit(Box<BreakerReset>),
}

/// Lease of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TestLease {
    environment: String,
    /// Name of the test case.
    case: String,
    /// Start time (RFC 3339).
    since: String,
    /// End time (RFC 3339), unless the test ends earlier.
    until: String,
    /// Runner of the test, as it named itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    /// Purpose of the test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    purpose: Option<String>,
    /// Reason why the connectivity of the environment is not verified. The test began nevertheless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unverified: Option<String>,
}

impl CommandReply {
    /// Creates the reply from a command and the controller's result.
    pub(crate) fn new(command: &Command, result: Reply) -> Self {
        let result = match result {
            Reply::Done => CommandResult::Done,
            Reply::TestLease(lease) => CommandResult::TestLease(TestLease {
                environment: lease.environment.to_string(),
                case: lease.case,
                since: lease.since.to_string(),
                until: lease.until.to_string(),
                holder: lease.holder,
                purpose: lease.purpose,
                unverified: lease.unverified,
            }),
            Reply::Test(report) => CommandResult::Test(report),
            Reply::Revision(revision) => CommandResult::Revision(revision.to_string()),
            Reply::Forked(copy) => CommandResult::Forked(copy.to_string()),
        };
        Self {
            verb: command.verb().to_owned(),
            environment: command.environment().map(ToString::to_string),
            result,
        }
    }

    /// Adds the result of a breaker reset.
    pub(crate) fn with_reset(self, reset: BreakerReset) -> Self {
        Self {
            result: CommandResult::Circuit(Box::new(reset)),
            ..self
        }
    }
}
