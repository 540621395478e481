//! Why what was asked for cannot be had, for programs that must not read words.

use serde::Serialize;

use super::{ActionId, Code, StructuredError};

/// What `details.reason` of `PREREQ_MISSING` says, and of what a command line gets wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// Nothing has this name.
    NotFound,
    /// The request or the arguments are not understood.
    BadRequest,
    /// The command line is not understood.
    Usage,
    /// It needs a token, and there is none or another one.
    Unauthorized,
    /// Who asks may not have it.
    Forbidden,
    /// The host that is asked is not this one.
    Misdirected,
    /// What is there does not take this method.
    MethodNotAllowed,
    /// The body is longer than is taken.
    TooLarge,
    /// The body did not come in time.
    Timeout,
    /// Too many ask at once, or the controller is stopping.
    Unavailable,
    /// No controller is at work on the state directory.
    NotRunning,
    /// A file of this name is there already.
    Exists,
    /// It is there, and not so far yet.
    NotReady,
    /// It makes no sense as things are.
    NotPossible,
    /// A file or folder cannot be read or written.
    Unreadable,
    /// The settings file is wrong.
    Settings,
    /// The machine or the engine lacks what is needed.
    Unfit,
}

impl Reason {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::NotFound,
        Self::BadRequest,
        Self::Usage,
        Self::Unauthorized,
        Self::Forbidden,
        Self::Misdirected,
        Self::MethodNotAllowed,
        Self::TooLarge,
        Self::Timeout,
        Self::Unavailable,
        Self::NotRunning,
        Self::Exists,
        Self::NotReady,
        Self::NotPossible,
        Self::Unreadable,
        Self::Settings,
        Self::Unfit,
    ];

    /// What can be done about it, where an environment is known.
    const fn actions(self) -> &'static [ActionId] {
        match self {
            Self::NotReady => &[ActionId::Wait],
            Self::Unfit => &[ActionId::InstallPrerequisite, ActionId::RunPreflight],
            Self::NotFound
            | Self::BadRequest
            | Self::Usage
            | Self::Unauthorized
            | Self::Forbidden
            | Self::Misdirected
            | Self::MethodNotAllowed
            | Self::TooLarge
            | Self::Timeout
            | Self::Unavailable
            | Self::NotRunning
            | Self::Exists
            | Self::NotPossible
            | Self::Unreadable
            | Self::Settings => &[],
        }
    }
}

impl StructuredError {
    /// What was asked for cannot be had, for this reason.
    pub fn missing(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Code::PrereqMissing, message)
            .reason(reason)
            .suggest(reason.actions())
    }

    /// The same error with the word for why.
    #[must_use]
    pub fn reason(self, reason: Reason) -> Self {
        self.details(serde_json::json!({ "reason": reason }))
    }
}
