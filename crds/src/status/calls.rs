//! Call traces of the errors in a status, in a separate file. Interfaces add them to the errors on request.

use std::collections::BTreeMap;

use super::EnvironmentStatus;
use crate::error::{Call, StructuredError};

/// Call traces of an environment's errors by `errorId`: `<state>/environments/ENV.debug`.
pub type Calls = BTreeMap<String, Vec<Call>>;

impl EnvironmentStatus {
    /// Removes the call traces from all errors and returns them.
    pub fn take_calls(&mut self) -> Calls {
        let mut calls = Calls::new();
        for error in self.errors_mut() {
            let taken = std::mem::take(&mut error.debug);
            if let Some(id) = error.error_id.clone().filter(|_| !taken.is_empty()) {
                calls.insert(id, taken);
            }
        }
        calls
    }

    /// Adds call traces to their errors.
    pub fn put_calls(&mut self, calls: &Calls) {
        for error in self.errors_mut() {
            let id = error.error_id.as_ref();
            if let Some(calls) = id.and_then(|id| calls.get(id)) {
                error.debug.clone_from(calls);
            }
        }
    }

    fn errors_mut(&mut self) -> impl Iterator<Item = &mut StructuredError> {
        let rows = self.services.iter_mut();
        let errors_of_rows = rows.filter_map(|row| row.last_error.as_mut());
        self.errors.iter_mut().chain(errors_of_rows)
    }
}
