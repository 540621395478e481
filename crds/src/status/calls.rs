//! The calls behind the errors of a status, apart from it: they are told to who asks for them.

use std::collections::BTreeMap;

use super::EnvironmentStatus;
use crate::error::Call;

/// `<state>/environments/ENV.debug`: the calls that led to each error of the environment, by its `errorId`.
pub type Calls = BTreeMap<String, Vec<Call>>;

impl EnvironmentStatus {
    /// Takes the calls out of all its errors.
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

    /// Puts calls to the errors that they led to.
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
