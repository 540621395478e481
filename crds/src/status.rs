//! What agents read in the status files.
