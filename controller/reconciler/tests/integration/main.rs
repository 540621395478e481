//! Whole controllers on an engine in memory, in virtual time.

mod evidence;
mod phase;
mod state;
