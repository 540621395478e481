//! Policy for host ports that are taken.

use serde::{Deserialize, Serialize};

/// Range and strategy for host ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortPolicy {
    /// First port of the range, inclusive.
    pub low: u16,
    /// Last port of the range, inclusive.
    pub high: u16,
    /// Strategy for a taken port.
    pub strategy: PortStrategy,
}

/// Strategy for a taken host port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PortStrategy {
    /// Argus assigns another port from the range.
    Auto,
    /// The service waits until it is free.
    Fail,
}
