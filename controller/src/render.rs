//! Everything that becomes text on a terminal or in a CI system: styles, tables, the live view, and text that containers wrote.

pub(crate) mod ci_system;
pub(crate) mod foreign_text;
pub(crate) mod live;
pub(crate) mod output;
pub(crate) mod run_summary;
pub(crate) mod status_text;
pub(crate) mod table;
