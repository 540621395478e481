//! Bound of the engines that run at the same time in a test program: more of them only wait for the processor.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, PoisonError};

/// Maximum number of engines that run, with idle ones, except further engines of one test, and one that ends.
pub(super) const MAX_ENGINES: usize = 3;

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

thread_local! {
    /// Engines that this thread has started and not ended.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// Permission to run an engine, released on drop.
#[derive(Debug)]
pub(super) struct Permit;

impl Permit {
    /// Waits until fewer engines run. A test that already has one gets a further one immediately: two such tests would wait for each other.
    pub(super) fn take() -> Self {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        while *running >= MAX_ENGINES && OWN.get() == 0 {
            running = ENDED.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        *running += 1;
        OWN.set(OWN.get() + 1);
        Self
    }
}

/// Number of engines with a permission.
pub(super) fn running() -> usize {
    *RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Permit {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        OWN.set(OWN.get().saturating_sub(1));
        ENDED.notify_one();
    }
}
