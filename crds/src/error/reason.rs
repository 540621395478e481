//! Machine-readable reasons for rejected requests.

use serde::Serialize;

use super::{ActionId, Code, StructuredError};

listed! {
    /// Value of `details.reason` in a `PREREQ_MISSING` error, and in an error about a wrong command line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    #[serde(rename_all = "camelCase")]
    pub enum Reason {
        /// No object has this name.
        NotFound,
        /// The request or its arguments are invalid.
        BadRequest,
        /// The command line is invalid.
        Usage,
        /// The request has no token, or a wrong one.
        Unauthorized,
        /// The client may not access the resource.
        Forbidden,
        /// The `Host` header names another host.
        Misdirected,
        /// The resource does not support this method.
        MethodNotAllowed,
        /// The request body is larger than its limit.
        TooLarge,
        /// The request body did not arrive in time.
        Timeout,
        /// The controller is stopping, or has too many requests.
        Unavailable,
        /// No controller runs on the state directory.
        NotRunning,
        /// A file with this name exists already.
        Exists,
        /// The object exists, but is not ready yet.
        NotReady,
        /// The current state does not permit the request.
        NotPossible,
        /// A file or folder cannot be read or written.
        Unreadable,
        /// The settings file is invalid.
        Settings,
        /// The machine or the engine lacks a prerequisite.
        MissingPrerequisite,
    }
}

impl Reason {
    /// Suggested actions. Their remedies name the environment as soon as the error has one.
    const fn actions(self) -> &'static [ActionId] {
        match self {
            Self::NotReady => &[ActionId::Wait],
            Self::MissingPrerequisite => &[ActionId::InstallPrerequisite, ActionId::RunPreflight],
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
    /// Creates a `PREREQ_MISSING` error with a reason and the actions of that reason.
    ///
    /// ```rust
    /// use argus_crds::error::{Reason, StructuredError};
    ///
    /// let error = StructuredError::missing(Reason::NotFound, "no environment `shop`");
    /// assert_eq!(error.to_string(), "PREREQ_MISSING: no environment `shop`");
    /// assert_eq!(error.details["reason"], "notFound");
    /// ```
    pub fn missing(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Code::PrereqMissing, message)
            .reason(reason)
            .suggest(reason.actions())
    }

    /// Sets `details.reason`.
    #[must_use]
    pub fn reason(self, reason: Reason) -> Self {
        self.details(serde_json::json!({ "reason": reason }))
    }
}
