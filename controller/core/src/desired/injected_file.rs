//! File that Argus copies into a container: the routes of a mock, or a file of a service.

use serde::{Deserialize, Serialize};

use crate::desired::hash;
use crate::ident::Hash;

/// File that Argus copies into a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InjectedFile {
    /// Absolute path in the container. The engine creates missing folders above it.
    pub path: String,
    /// Contents of the file.
    pub text: String,
    /// Permissions and owner. The default is not serialized, so that hashes stay the same.
    #[serde(default, skip_serializing_if = "FileAccess::is_default")]
    pub access: FileAccess,
    /// Address to which a mock forwards requests. The renderer replaces a host port in it that was reassigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl InjectedFile {
    /// Returns the hash of all files together.
    pub fn digest_of(files: &[Self]) -> Hash {
        hash::hash_of(files)
    }
}

/// Permissions and owner of a file; the default is readable by all users of the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileAccess {
    /// Permission bits.
    pub mode: u32,
    /// Numeric user ID of the owner.
    pub uid: u32,
    /// Numeric group ID.
    pub gid: u32,
}

impl Default for FileAccess {
    fn default() -> Self {
        Self {
            mode: 0o444,
            uid: 0,
            gid: 0,
        }
    }
}

impl FileAccess {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
