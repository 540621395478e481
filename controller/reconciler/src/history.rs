//! What happened, on disk: the journal, what it tells of a dead run, and what could not be read.

pub mod aside;
pub(crate) mod chronicle;
pub(crate) mod desk;
pub mod feed;
pub mod journal;
pub mod line;
pub(crate) mod opening;
pub mod recovery;
pub mod segment;
pub mod tail;

pub use aside::Aside;
pub use feed::{Feed, Page};
pub use journal::{Health, Journal};
pub use recovery::Recovery;
pub use tail::Tail;
