//! What `argus run` shows: a table on a terminal, lines everywhere else.

pub(crate) mod lines;
pub(crate) mod screen;
pub(crate) mod table;
