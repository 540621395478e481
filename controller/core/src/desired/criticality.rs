//! Effect of a failed service on its environment.

use serde::{Deserialize, Serialize};

/// Effect of a failed service on its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Criticality {
    /// The environment becomes `Failed`.
    Critical,
    /// The environment becomes `Degraded`.
    Important,
    /// The environment waits for the service until it is given up, and then becomes `Ready` with a warning.
    Recoverable,
    /// The environment is not affected and does not wait for the service.
    Optional,
}

impl Criticality {
    /// Returns whether `Ready` requires the service. `given_up` is true once Argus has stopped restarting it.
    pub fn is_required(self, given_up: bool) -> bool {
        match self {
            Self::Critical | Self::Important => true,
            Self::Recoverable => !given_up,
            Self::Optional => false,
        }
    }
}
