//! Whole controllers on an engine in memory, in virtual time.

mod evidence;
mod options;
mod phase;
mod state;
