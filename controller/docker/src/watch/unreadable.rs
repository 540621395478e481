//! Responses of the engine that Argus cannot read.

use argus_core::observed::Unreadable as Report;
use argus_core::outcome::ActionError;
use argus_core::quoting::start_of;
use bollard::errors::Error;

use crate::call::{self, CallTimes};
use crate::error::Op;

/// Maximum size of the text in a warning, in bytes.
const MAX_TEXT_BYTES: usize = 2 * 1024;

/// A response that Argus cannot read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unreadable {
    cause: String,
    text: String,
}

impl Unreadable {
    /// Returns the text and the cause of an error that a text caused; `None` for another error.
    pub(super) fn from_error(error: &Error) -> Option<Self> {
        match error {
            Error::JsonDataError {
                message, contents, ..
            } => Some(Self {
                cause: message.clone(),
                text: plain_start_of(contents),
            }),
            // The client drops a text that is not JSON.
            Error::JsonSerdeError { err } => Some(Self {
                cause: err.to_string(),
                text: String::new(),
            }),
            _ => None,
        }
    }

    /// Describes the response, with the version of the engine.
    pub(super) async fn describe(
        self,
        what: &str,
        client: &bollard::Docker,
        times: CallTimes,
    ) -> Box<Report> {
        let version = call::run(Op::Info, times.read, client.version()).await;
        let version = version.ok().and_then(|found| found.version);
        let Self { cause, text } = self;
        Box::new(Report {
            what: what.to_owned(),
            version: version.unwrap_or_else(|| "unknown".to_owned()),
            cause,
            text,
        })
    }
}

/// Failure of a list.
#[derive(Debug)]
pub(super) enum ListError {
    /// The engine did not return a list.
    Failed(ActionError),
    /// The engine returned a list that Argus cannot read.
    Unreadable(Box<Report>),
}

/// Start of a text, without control characters.
fn plain_start_of(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    start_of(text, MAX_TEXT_BYTES).chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_has_the_first_2_kib_of_the_text() {
        let contents = format!("{{\n{}", "é".repeat(2_000));
        let unreadable = Unreadable::from_error(&Error::JsonDataError {
            message: "invalid type".to_owned(),
            contents,
            column: 1,
        });
        let text = unreadable.unwrap().text;
        assert_eq!(text, format!("{{ {}", "é".repeat(1_023)));
        assert_eq!(Unreadable::from_error(&Error::RequestTimeoutError), None);
    }
}
