//! Machine-readable reasons for rejected requests.

use serde::Serialize;

use super::{ActionId, Code, StructuredError};

/// Defines the reasons: description, name, HTTP status (`None` if the error code decides) and suggested actions.
macro_rules! reasons {
    ($($(#[$about:meta])+ $reason:ident: $status:expr, [$($action:ident),*];)+) => {
        listed! {
            /// Value of `details.reason` in a `PREREQ_MISSING` error, and in an error about a wrong command line.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
            #[serde(rename_all = "camelCase")]
            pub enum Reason { $($(#[$about])+ $reason,)+ }
        }

        impl Reason {
            /// Suggested actions. Their remedies name the environment as soon as the error has one.
            const fn actions(self) -> &'static [ActionId] {
                match self { $(Self::$reason => &[$(ActionId::$action),*],)+ }
            }

            /// HTTP status of a response with this reason; `None` if the code of the error decides.
            pub const fn http_status(self) -> Option<u16> {
                match self { $(Self::$reason => $status,)+ }
            }
        }
    };
}

reasons! {
    /// No object has this name.
    NotFound: Some(404), [];
    /// The request or its arguments are invalid.
    BadRequest: Some(400), [];
    /// The command line is invalid.
    Usage: Some(400), [];
    /// The request has no token, or a wrong one.
    Unauthorized: Some(401), [];
    /// The client may not access the resource.
    Forbidden: Some(403), [];
    /// The `Host` header names another host.
    Misdirected: Some(421), [];
    /// The resource does not support this method.
    MethodNotAllowed: Some(405), [];
    /// The request body is larger than its limit.
    TooLarge: Some(413), [];
    /// The request body did not arrive in time.
    Timeout: Some(408), [];
    /// The controller is stopping, or has too many requests.
    Unavailable: Some(503), [];
    /// No controller runs on the state directory.
    NotRunning: Some(503), [];
    /// A file with this name exists already.
    Exists: None, [];
    /// The object exists, but is not ready yet.
    NotReady: None, [Wait];
    /// The current state does not permit the request.
    NotPossible: None, [];
    /// A file or folder cannot be read or written.
    Unreadable: Some(500), [];
    /// The settings file is invalid.
    Settings: Some(500), [];
    /// The machine or the engine lacks a prerequisite.
    MissingPrerequisite: None, [InstallPrerequisite, RunPreflight];
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
