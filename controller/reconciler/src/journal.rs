//! What happened, on disk: the journal, what it tells of a dead run, and what could not be read.

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
