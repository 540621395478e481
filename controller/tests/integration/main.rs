//! The binary without an engine and mostly without a controller: commands on prepared state directories.

mod allocator;
mod breaker;
mod cli;
mod controller_socket;
mod doctor;
mod errors;
mod events;
mod format;
mod init;
mod links;
mod modes;
mod targets;
mod trust;
mod why;
