//! Engines of finished tests, for the next ones of the same program: a start takes more time than the removal of all objects.

use std::process::Child;
use std::sync::{Mutex, PoisonError};

use super::PrivateEngine;
use super::permit::{self, MAX_ENGINES};
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

/// Ends idle engines if there would be too many with a further one, which has its permission already.
pub(super) fn end_surplus() {
    let idle = || IDLE.lock().unwrap_or_else(PoisonError::into_inner).len();
    while permit::running() + idle() > MAX_ENGINES {
        let Some(idle) = take() else { return };
        drop(PrivateEngine::of(idle, None));
    }
}
