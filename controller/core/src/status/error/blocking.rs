//! Errors that block an environment.

use argus_crds::error::{Class, Code, Severity, StructuredError};

/// Detail of a failed action that lasts too long.
pub(super) const PERSISTENT: &str = "persistent";

/// True if the environment cannot become ready without an intervention.
///
/// A transient error blocks only if its action fails persistently. Containers have restart budgets, and the engine has a breaker.
pub fn is_blocking(error: &StructuredError) -> bool {
    match error.class {
        // A hold with an end ends without an intervention.
        Class::Permanent | Class::Human if error.code == Code::Held => error.details["until"].is_null(),
        // An object that is only in the way of a removal blocks nothing else.
        Class::Permanent | Class::Human if error.code == Code::CleanupFailed => error.service.is_some(),
        Class::Permanent | Class::Human => error.severity != Severity::Warning,
        Class::Transient => {
            let is_persistent = error.details.get(PERSISTENT).is_some_and(|found| found == true);
            is_persistent && error.severity != Severity::Warning
        }
    }
}
