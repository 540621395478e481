//! Dependencies between services of an environment, and the effect of a failed service on it.

use serde::{Deserialize, Serialize};

use crate::ident::ServiceName;

/// Dependency on another service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// Service that must reach the condition first.
    pub service: ServiceName,
    /// Condition that it must reach.
    pub condition: Condition,
    /// True if the service also starts when Argus gave the other one up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// True if the service starts again after each later start of the other one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restart: bool,
}

/// Condition that a dependency must reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// Its process runs, or a one-shot has completed.
    Started,
    /// It runs and its probe succeeds; without a probe, it runs.
    Healthy,
    /// It exited with 0.
    Completed,
}

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
