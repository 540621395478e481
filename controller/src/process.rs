//! Basis of every command of the program: exit codes and failures, the runtime, blocking reads, the context of the request, and
//! the image of the program itself. No other module of this crate is below this one.

pub(crate) mod blocking_io;
pub(crate) mod correlation;
pub(crate) mod exit;
pub(crate) mod own_image;
pub(crate) mod runtime;
