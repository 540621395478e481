//! Checks, and the failures that a case reports.

use argus_crds::error::Code;
use serde::Serialize;

/// A condition of a case that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Place of the value, such as `body.items.0.id`, or the part of the step.
    pub at: String,
    /// Description of the expected and the actual value.
    pub message: String,
    /// Code of an error that the tested service does not cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Address `HOST:PORT` that the suite may not reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

impl Failure {
    /// Creates a failure.
    pub fn new(at: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            at: at.into(),
            message: message.into(),
            code: None,
            address: None,
        }
    }
}

/// Result of one comparison. `not` inverts it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Check {
    pub(crate) at: String,
    pub(crate) holds: bool,
    /// Continuation of `expected AT …`, such as ``to be `5` ``.
    pub(crate) wanted: String,
    /// Actual value, for people.
    pub(crate) found: String,
}

impl Check {
    pub(crate) fn new(at: &str, holds: bool, wanted: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            at: at.to_owned(),
            holds,
            wanted: wanted.into(),
            found: found.into(),
        }
    }

    pub(crate) fn invert(mut self) -> Self {
        self.holds = !self.holds;
        self.wanted = match self.wanted.strip_prefix("not ") {
            Some(wanted) => wanted.to_owned(),
            None => format!("not {}", self.wanted),
        };
        self
    }

    /// Returns the failure, unless the check holds.
    pub(crate) fn failure(self) -> Option<Failure> {
        let message = || format!("expected `{}` {}, got {}", self.at, self.wanted, self.found);
        (!self.holds).then(|| Failure::new(self.at.clone(), message()))
    }
}

/// Returns the place of a field.
pub(crate) fn join(at: &str, key: &str) -> String {
    if at.is_empty() {
        key.to_owned()
    } else {
        format!("{at}.{key}")
    }
}

/// Checks of an expectation. The error ends the assertions of the step: the expectation itself is invalid.
pub(crate) type Checked = Result<Vec<Check>, String>;

/// Returns the failures of the checks.
pub(crate) fn failures(checks: impl IntoIterator<Item = Check>) -> Vec<Failure> {
    checks.into_iter().filter_map(Check::failure).collect()
}
