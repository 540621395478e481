//! File that Argus copies into a container, such as the routes of a mock.

use serde::{Deserialize, Serialize};

use crate::desired::hash;
use crate::ident::Hash;

/// File that Argus copies into a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InjectedFile {
    /// Absolute path in the container; its folder exists.
    pub path: String,
    /// Contents of the file.
    pub text: String,
    /// Address to which a mock forwards requests. The renderer replaces a host port in it that was reassigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl InjectedFile {
    /// Returns the hash of path, contents and target.
    pub fn digest(&self) -> Hash {
        hash::hash_of(self)
    }
}
