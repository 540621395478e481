//! Location and identity of an error.

use argus_crds::error::{Code, StructuredError};

use crate::correlation::identifier;
use crate::status::StatusInput;
use crate::time::Timestamp;

/// Location of an error.
#[derive(Debug, Clone, Copy)]
pub(in crate::status) struct ErrorScope<'a> {
    pub(in crate::status) environment: Option<&'a str>,
    pub(in crate::status) service: Option<&'a str>,
    pub(in crate::status) container: Option<&'a str>,
    pub(in crate::status) revision: Option<&'a str>,
}

impl<'a> ErrorScope<'a> {
    pub(in crate::status) fn environment(input: &StatusInput<'a>) -> Self {
        let revision = input.accepted.map(|accepted| accepted.desired.revision.as_str());
        Self {
            environment: Some(input.env.as_str()),
            service: None,
            container: None,
            revision,
        }
    }

    pub(in crate::status) fn finish(&self, error: StructuredError, at: Timestamp) -> StructuredError {
        let id = error_id(
            self.environment.unwrap_or_default(),
            self.service,
            error.code,
            &error.message,
            at,
        );
        let mut error = error.error_id(id).timestamp(at.to_string());
        if let Some(environment) = self.environment {
            error = error.environment(environment);
        }
        if let Some(service) = self.service {
            error = error.service(service);
        }
        if let Some(container) = self.container {
            error = error.container_id(container);
        }
        if let Some(revision) = self.revision {
            error = error.revision(revision);
        }
        error
    }
}

/// Identity of an occurrence in the form of a ULID: its time, then a hash of its content. Repeated reports of the same
/// failure have the same id.
pub fn error_id(
    environment: &str,
    service: Option<&str>,
    code: Code,
    message: &str,
    at: Timestamp,
) -> String {
    identifier(
        &[environment, service.unwrap_or_default(), code.as_str(), message],
        at,
    )
}
