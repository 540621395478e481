//! Journal: the append-only file of intents, results and events, with its recovery at start and the quarantine of
//! corrupt files.
//!
//! [`Journal`] is the handle that all tasks clone. One task, [`handle::WriterTask`], owns the file
//! ([`log_file::LogFile`]). Readers use [`Feed`] within the process and [`Tail`] from another process.

pub mod checksum;
pub mod feed;
pub mod handle;
pub mod log_file;
pub mod quarantine;
pub(crate) mod recorder;
pub mod recovery;
pub(crate) mod startup;
pub mod tail;
pub(crate) mod writer;

pub use feed::{Feed, Page};
pub use handle::{Journal, JournalHealth};
pub use quarantine::Quarantined;
pub use recovery::Recovery;
pub use tail::Tail;
