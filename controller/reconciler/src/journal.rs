//! Journal: the append-only file of intents, results and events.
//!
//! [`Journal`] is the handle that all tasks clone. One task, [`handle::WriterTask`], owns the file
//! ([`log_file::LogFile`]). A command without a controller writes through [`CommandJournal`]. Readers use [`Feed`]
//! within the process and [`Tail`] from another process.
//!
//! Invariant 10: no reader delays a writer, and without a writable journal no action starts.

pub mod checksum;
mod command_journal;
pub mod feed;
pub mod handle;
pub mod log_file;
pub mod tail;
pub(crate) mod writer;

pub use command_journal::{CommandJournal, StartedStep};
pub use feed::{Feed, Page};
pub use handle::{Journal, JournalHealth};
pub use tail::Tail;
