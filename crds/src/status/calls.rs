//! Call traces of the errors in a status, in a separate file. Interfaces add them to the errors on request.

use std::collections::BTreeMap;

use super::EnvironmentStatus;
use crate::error::Call;

/// Call traces of an environment's errors by `errorId`: `<state>/environments/ENV.debug`.
pub type Calls = BTreeMap<String, Vec<Call>>;

impl EnvironmentStatus {
    /// Removes the call traces from all errors and returns them.
    pub fn take_calls(&mut self) -> Calls {
        let rows = self.services.iter_mut();
        let rows = rows.filter_map(|row| row.last_error.as_mut());
        let mut calls = Calls::new();
        for error in self.errors.iter_mut().chain(rows) {
            let taken = std::mem::take(&mut error.debug);
            if let Some(id) = error.error_id.clone().filter(|_| !taken.is_empty()) {
                calls.insert(id, taken);
            }
        }
        calls
    }

    /// Adds call traces to their errors.
    pub fn put_calls(&mut self, calls: &Calls) {
        let rows = self.services.iter_mut();
        let rows = rows.filter_map(|row| row.last_error.as_mut());
        for error in self.errors.iter_mut().chain(rows) {
            let id = error.error_id.as_ref();
            if let Some(calls) = id.and_then(|id| calls.get(id)) {
                error.debug.clone_from(calls);
            }
        }
    }
}
