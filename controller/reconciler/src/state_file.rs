//! Limits of state files. They are opened, read and written as all files below a root.

pub use argus_backend::host_path::folder::{open, open_or_create, read, read_text};

/// Maximum size of a file that is read into memory, in bytes. The controller never writes a larger one.
pub const MAX_BYTES: u64 = 256 * 1024 * 1024;
