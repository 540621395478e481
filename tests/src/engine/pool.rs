//! Engines of finished tests, for the next ones of the same program: a start takes more time than the removal of all objects.

use std::process::Child;
use std::sync::{Mutex, PoisonError};

use super::PrivateEngine;
use super::slot::Slot;

static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

/// A running engine without objects, with Docker's defaults. Its watchdog removes it at the end of the process.
#[derive(Debug)]
pub(super) struct Idle {
    pub(super) slot: Slot,
    pub(super) daemon: Child,
    pub(super) watchdog: Child,
}

pub(super) fn take() -> Option<Idle> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop()
}

pub(super) fn keep(engine: Idle) {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(engine);
}

/// Ends an idle engine, so that a further one does not exceed the bound of running engines.
pub(super) fn end_idle() {
    drop(take().map(|idle| PrivateEngine::of(idle, None)));
}
