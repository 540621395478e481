//! Exit codes, and failures that lead to one.

use std::io::ErrorKind;
use std::process::ExitCode;

pub(crate) use argus_backend::http1::format_chain;
use argus_core::quoting::PathText as _;
use argus_core::status::error_id;
use argus_crds::error::{Code, Reason, StructuredError};
use argus_reconciler::clock;
use argus_reconciler::lock::LockError;
use argus_reconciler::private_folder::FolderError;
use argus_reconciler::state_dir::StateError;
use serde_json::{Value, json};

use crate::process::correlation;

/// Result of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Done,
    /// Unexpected error, or a code without its own exit code.
    Unexpected,
    /// Invalid command line.
    Usage,
    /// Rejected spec.
    SpecRejected,
    /// Unreachable engine, or open breaker.
    Unreachable,
    /// Not ready within the timeout.
    TimedOut,
    /// Argus gave up.
    GaveUp,
    /// Another controller uses the state directory.
    LeaseHeld,
    /// Infrastructure prevented a verdict about a suite.
    Infrastructure,
    /// A second signal arrived.
    Interrupted,
    /// Exit code of the command that `argus exec` ran, or that the demo service was configured with.
    Code(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

impl Exit {
    /// Returns the number for the shell.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Unexpected => 1,
            Self::Usage => 2,
            Self::SpecRejected => 3,
            Self::Unreachable => 4,
            Self::TimedOut => 5,
            Self::GaveUp => 6,
            Self::LeaseHeld => 7,
            Self::Infrastructure => 8,
            Self::Interrupted => 130,
            Self::Code(number) => number,
        }
    }

    /// Returns the exit code of an error code.
    pub(crate) fn from_code(code: Code) -> Self {
        let exits = [
            Self::SpecRejected,
            Self::Unreachable,
            Self::TimedOut,
            Self::GaveUp,
            Self::LeaseHeld,
        ];
        let wanted = code.explanation().exit_code;
        let own = exits.into_iter().find(|exit| exit.number() == wanted);
        own.unwrap_or(Self::Unexpected)
    }
}

/// Failure of a command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Not an error: the reader closed the pipe. The command ends with exit code 0.
    BrokenPipe,
    /// A structured error.
    Error {
        /// The error.
        error: Box<StructuredError>,
        /// Exit code of the process.
        exit: Exit,
        /// Remedy that replaces the suggestions of the error code.
        hint: Option<String>,
    },
}

impl Failure {
    /// Creates a failure with the exit code of its error.
    pub(crate) fn new(error: StructuredError) -> Self {
        let exit = Exit::from_code(error.code);
        Self::Error {
            error: Box::new(error),
            exit,
            hint: None,
        }
    }

    /// Creates a failure from a code and a message.
    pub(crate) fn with_code(code: Code, message: impl Into<String>) -> Self {
        Self::new(StructuredError::new(code, message))
    }

    /// Creates a failure for a missing or impossible subject.
    pub(crate) fn with_reason(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(StructuredError::missing(reason, message))
    }

    /// Creates a failure for an invalid command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(StructuredError::new(Code::SpecInvalid, message).reason(Reason::Usage))
            .with_exit(Exit::Usage)
            .with_hint("argus help")
    }

    /// Creates a failure of the operating system, with its chain of causes; `doing` names the operation.
    pub(crate) fn operation_failed(doing: &str, error: &dyn std::error::Error) -> Self {
        let reason = format_chain(error);
        Self::with_code(Code::Internal, format!("{doing}: {reason}"))
            .with_details(json!({ "operation": doing, "reason": reason }))
            .without_suggestions()
    }

    /// Creates a failure for invalid data of Argus itself; it keeps the suggestions of `INTERNAL`.
    pub(crate) fn internal(what: &str, error: &dyn std::error::Error) -> Self {
        let reason = format_chain(error);
        Self::with_code(Code::Internal, format!("{what}: {reason}"))
            .with_details(json!({ "operation": what, "reason": reason }))
    }

    /// Changes the error.
    fn map_error(self, change: impl FnOnce(StructuredError) -> StructuredError) -> Self {
        match self {
            Self::Error { error, exit, hint } => Self::Error {
                error: Box::new(change(*error)),
                exit,
                hint,
            },
            Self::BrokenPipe => self,
        }
    }

    /// Sets the details of the error; `details` is an object.
    pub(crate) fn with_details(self, details: Value) -> Self {
        self.map_error(|error| error.details(details))
    }

    /// Returns the code of the error.
    pub(crate) fn code(&self) -> Option<Code> {
        match self {
            Self::Error { error, .. } => Some(error.code),
            Self::BrokenPipe => None,
        }
    }

    /// Returns the message of the error.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Error { error, .. } => &error.message,
            Self::BrokenPipe => "output pipe closed",
        }
    }

    /// Returns true if the error has this reason.
    pub(crate) fn has_reason(&self, reason: Reason) -> bool {
        let Self::Error { error, .. } = self else {
            return false;
        };
        error.details.get("reason") == Some(&json!(reason))
    }

    /// Converts the failure into its error, for interfaces other than a terminal. A hint becomes `details.hint`.
    pub(crate) fn into_error(self) -> StructuredError {
        let error = match self {
            Self::Error { mut error, hint, .. } => {
                if let Some(hint) = hint {
                    error.details.insert("hint".to_owned(), hint.into());
                }
                *error
            }
            Self::BrokenPipe => StructuredError::new(Code::Internal, "output pipe closed"),
        };
        add_context(error)
    }

    /// Sets the environment of the error.
    pub(crate) fn with_environment(self, env: &str) -> Self {
        self.map_error(|error| error.environment(env))
    }

    /// Sets the exit code.
    pub(crate) fn with_exit(mut self, code: Exit) -> Self {
        if let Self::Error { exit, .. } = &mut self {
            *exit = code;
        }
        self
    }

    /// Sets a hint, which replaces the suggestions of the error code.
    pub(crate) fn with_hint(self, text: impl Into<String>) -> Self {
        let mut failure = self.without_suggestions();
        if let Self::Error { hint, .. } = &mut failure {
            *hint = Some(text.into());
        }
        failure
    }

    /// Removes the suggestions of the error code.
    pub(crate) fn without_suggestions(self) -> Self {
        self.map_error(|error| error.suggest(&[]))
    }
}

/// Returns the exit code and the error of an ended command, for its output.
pub(crate) fn describe_end(ended: &Result<Exit, Failure>) -> (Exit, Option<StructuredError>) {
    match ended {
        Ok(exit) => (*exit, None),
        Err(Failure::BrokenPipe) => (Exit::Done, None),
        Err(Failure::Error { error, exit, .. }) => (*exit, Some(add_context((**error).clone()))),
    }
}

/// Seconds after which a caller can repeat a command that failed and that Argus does not repeat.
const RETRY_AFTER: u64 = 10;

/// Adds identity, time, controller and request to an error of this process, and the time of a retry by the caller. An error of a status is
/// complete already, except for the request as its outermost call.
pub(crate) fn add_context(mut error: StructuredError) -> StructuredError {
    let now = clock::now();
    let request = correlation::current();
    match request.call {
        None => error.debug.clear(),
        // An error can pass twice.
        Some(call) if error.debug.first() != Some(&call) => error = error.with_call(call),
        Some(_) => {}
    }
    let at = error.timestamp.clone().unwrap_or_else(|| now.to_string());
    if error.error_id.is_some() {
        return error.timestamp(at);
    }
    let env = error.environment.as_deref().unwrap_or_default();
    let id = error_id(env, error.service.as_deref(), error.code, &error.message, now);
    let is_silent = error.retryable && error.retry_after.is_none();
    let error = if is_silent {
        error.retry_after(RETRY_AFTER)
    } else {
        error
    };
    StructuredError {
        controller: error.controller.clone().or(request.controller),
        correlation_id: Some(error.correlation_id.clone().unwrap_or(request.id)),
        ..error.error_id(id).timestamp(at)
    }
}

/// Converts an unusable state directory into the failure of a command.
pub(crate) fn state_failure(error: &StateError) -> Failure {
    match error {
        StateError::Held(LockError::Held { holder, .. }) => {
            let details = serde_json::json!({
                "pid": holder.pid, "host": holder.host, "since": holder.since, "run": holder.run,
            });
            Failure::new(StructuredError::new(Code::LeaseHeld, format_chain(error)).details(details))
        }
        StateError::ContainsSpecs { .. } => Failure::with_reason(Reason::NotPossible, format_chain(error))
            .with_exit(Exit::Usage)
            .with_hint("choose another folder with `--state`"),
        StateError::Untrusted { is_given, source, .. } => {
            Failure::with_reason(Reason::Unreadable, format_chain(error))
                .with_exit(Exit::Unexpected)
                .with_hint(remedy(*is_given, source))
        }
        StateError::Group { .. } => Failure::with_reason(Reason::Settings, format_chain(error))
            .with_exit(Exit::Usage)
            .with_hint(
                "pass a group of this user with `--status-group`, or become a member and log in again",
            ),
        StateError::Held(LockError::Io { source, .. }) | StateError::Io { source, .. } => {
            let hint = if source.kind() == ErrorKind::NotADirectory {
                "remove the link or the file, or choose another folder with `--state`"
            } else {
                "make the folder writable for this user, or choose another one with `--state`"
            };
            Failure::with_reason(Reason::Unreadable, format_chain(error))
                .with_exit(Exit::Unexpected)
                .with_hint(hint)
        }
    }
}

/// Returns the remedy for a folder that another user or the author of a repository could have made.
fn remedy(is_given: bool, refused: &FolderError) -> String {
    match (is_given, refused) {
        (_, FolderError::Tracked(_)) => "choose a folder with `--state` that git does not track".to_owned(),
        (true, _) => "choose a folder with `--state` that only this user and root can change".to_owned(),
        (
            false,
            FolderError::Untrusted {
                folder, is_own: true, ..
            },
        ) => {
            let folder = folder.shown();
            format!("remove `{folder}`, or set `XDG_STATE_HOME` to a folder of this user")
        }
        (false, FolderError::Untrusted { .. } | FolderError::Io(_)) => {
            "set `XDG_STATE_HOME` to a folder that only this user and root can change".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_map_to_their_exit_codes() {
        for (code, exit) in [
            (Code::SpecInvalid, 3),
            (Code::SpecConflict, 3),
            (Code::PolicyViolation, 3),
            (Code::DockerUnavailable, 4),
            (Code::DockerPermissionDenied, 4),
            (Code::CircuitOpen, 4),
            (Code::Timeout, 5),
            (Code::ContainerRestartExhausted, 6),
            (Code::LeaseHeld, 7),
            (Code::Internal, 1),
        ] {
            assert_eq!(Exit::from_code(code).number(), exit, "{code}");
        }
    }

    #[test]
    fn retryable_error_of_a_command_has_a_time() {
        let of = |error: StructuredError| Failure::new(error).into_error().retry_after;
        let away = || StructuredError::new(Code::DockerUnavailable, "it is away");
        assert_eq!(of(away()), Some(RETRY_AFTER));
        assert_eq!(of(away().retry_after(3)), Some(3));
        assert_eq!(of(away().error_id("1")), None, "an error of a status is complete");
        assert_eq!(of(StructuredError::new(Code::SpecInvalid, "it is wrong")), None);
    }
}
