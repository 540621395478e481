//! Response of the engine that Argus cannot read.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Response of the engine that Argus cannot read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unreadable {
    /// Kind of response, such as `an event` or `the list of containers`.
    pub what: String,
    /// Version of the engine.
    pub version: String,
    /// Reason why Argus cannot read it.
    pub cause: String,
    /// First 2 KiB of the response; empty if it is not JSON.
    pub text: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            version,
            cause,
            text,
        } = self;
        write!(
            f,
            "cannot read {what} of the engine (version {version}): {cause}: {text}"
        )
    }
}
