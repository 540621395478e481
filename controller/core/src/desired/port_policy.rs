//! Where host ports come from.

use serde::{Deserialize, Serialize};

/// Where host ports come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortPolicy {
    /// First port of the range, inclusive.
    pub low: u16,
    /// Last port of the range, inclusive.
    pub high: u16,
    /// What happens to a taken port.
    pub strategy: PortStrategy,
}

/// What happens to a taken port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PortStrategy {
    /// It moves into the range.
    Auto,
    /// The service waits until it is free.
    Fail,
}
