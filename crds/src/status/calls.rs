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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::status::ServiceStatus;

    fn error(id: Option<&str>) -> StructuredError {
        let mut error = StructuredError::new(Code::Timeout, "no response");
        error.error_id = id.map(str::to_owned);
        error
    }

    #[test]
    fn only_known_errors_get_their_calls() {
        let plain = EnvironmentStatus {
            errors: vec![error(Some("01A")), error(Some("01B")), error(None)],
            services: vec![ServiceStatus {
                last_error: Some(error(Some("01A"))),
                ..ServiceStatus::default()
            }],
            ..EnvironmentStatus::default()
        };
        let call = |operation: &str| vec![Call::new(operation, serde_json::Map::new())];
        let known = Calls::from([("01A".to_owned(), call("create-container"))]);
        let mut stored = known.clone();
        stored.insert("01C".to_owned(), call("start-container"));
        let mut status = plain.clone();
        status.put_calls(&stored);
        let found: Vec<_> = status.errors_mut().map(|error| error.debug.len()).collect();
        assert_eq!(found, [1, 0, 0, 1]);
        assert_eq!(status.errors[0].debug, call("create-container"));
        let filled = status.clone();
        status.put_calls(&stored);
        assert_eq!(status, filled, "adding twice changes nothing");
        assert_eq!(status.take_calls(), known);
        assert_eq!(status, plain);
    }
}
