//! Dependency that explains a failed run.

use super::{FailedRun, FailureKind, kind};
use crate::ident::ServiceName;

/// Returns the dependency that explains a failure. A lack of memory, a signal, or a command that cannot run has a cause of
/// its own.
pub fn of_run(failed_run: &FailedRun) -> Option<&ServiceName> {
    let dependency = failed_run.failed_dependency.as_ref()?;
    match kind(failed_run) {
        FailureKind::Exit | FailureKind::Unhealthy => Some(dependency),
        FailureKind::Signal | FailureKind::OutOfMemory | FailureKind::NotRunnable => None,
    }
}
