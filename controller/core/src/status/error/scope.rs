//! Location and identity of an error.

use argus_crds::error::{Code, StructuredError};
use sha2::{Digest, Sha256};

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
    const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let text = format!(
        "{environment}\0{}\0{code}\0{message}\0{}",
        service.unwrap_or_default(),
        at.0
    );
    let hash = Sha256::digest(text.as_bytes());
    let tail = hash
        .iter()
        .take(10)
        .fold(0_u128, |bits, byte| (bits << 8) | u128::from(*byte));
    let time = u128::try_from(at.0).unwrap_or(0) % (1 << 48);
    let bits = (time << 80) | tail;
    let digit = |position: u32| CROCKFORD[usize::try_from((bits >> (5 * position)) & 31).unwrap_or(0)];
    (0..26)
        .rev()
        .map(|position| char::from(digit(position)))
        .collect()
}
