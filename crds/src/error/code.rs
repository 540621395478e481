//! Error codes.

use std::fmt;
use std::str::FromStr;

use crate::suggestion::nearest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($name:ident $text:literal)+) => {
        /// Identifier of the kind of an error. `argus explain CODE` describes it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[allow(missing_docs, reason = "the table describes each code, and a comment would split the schema's enum")]
        pub enum Code {
            $(#[serde(rename = $text)] $name,)+
        }

        impl Code {
            /// All codes in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the serialized name, such as `PORT_CONFLICT`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// Returns the name in the form of a condition's reason, such as `PortConflict`.
            pub const fn reason(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }
        }
    };
}

codes! {
    DockerUnavailable "DOCKER_UNAVAILABLE"
    DockerPermissionDenied "DOCKER_PERMISSION_DENIED"
    EventsUnavailable "EVENTS_UNAVAILABLE"
    DiskSpaceLow "DISK_SPACE_LOW"
    PortConflict "PORT_CONFLICT"
    PortExhaustion "PORT_EXHAUSTION"
    ContainerOom "CONTAINER_OOM"
    ContainerCrash "CONTAINER_CRASH"
    ContainerRestartExhausted "CONTAINER_RESTART_EXHAUSTED"
    HealthCheckTimeout "HEALTH_CHECK_TIMEOUT"
    NetworkUnreachable "NETWORK_UNREACHABLE"
    DnsResolutionFailed "DNS_RESOLUTION_FAILED"
    CircuitOpen "CIRCUIT_OPEN"
    OrphanDetected "ORPHAN_DETECTED"
    CleanupFailed "CLEANUP_FAILED"
    Timeout "TIMEOUT"
    ConnectionLost "CONNECTION_LOST"
    RetryExhausted "RETRY_EXHAUSTED"
    SpecInvalid "SPEC_INVALID"
    SpecConflict "SPEC_CONFLICT"
    PolicyViolation "POLICY_VIOLATION"
    PrereqMissing "PREREQ_MISSING"
    ApiTooOld "API_TOO_OLD"
    ImageNotFound "IMAGE_NOT_FOUND"
    ImagePullFailed "IMAGE_PULL_FAILED"
    RegistryRateLimited "REGISTRY_RATE_LIMITED"
    AuthRequired "AUTH_REQUIRED"
    BuildFailed "BUILD_FAILED"
    ContainerStartFailed "CONTAINER_START_FAILED"
    EntrypointNotFound "ENTRYPOINT_NOT_FOUND"
    BadMount "BAD_MOUNT"
    VolumeNotFound "VOLUME_NOT_FOUND"
    NameConflict "NAME_CONFLICT"
    LoopHalted "LOOP_HALTED"
    FlakySuspected "FLAKY_SUSPECTED"
    PortStaleAllocation "PORT_STALE_ALLOCATION"
    NetworkPoolExhausted "NETWORK_POOL_EXHAUSTED"
    NetworkStuck "NETWORK_STUCK"
    TestsFailed "TESTS_FAILED"
    Held "HELD"
    LeaseHeld "LEASE_HELD"
    JournalUnwritable "JOURNAL_UNWRITABLE"
    MockNoRoute "MOCK_NO_ROUTE"
    MockRequestInvalid "MOCK_REQUEST_INVALID"
    MockNoAnswer "MOCK_NO_ANSWER"
    Internal "INTERNAL"
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Parse error of [`Code`], with the most similar code.
///
/// ```rust
/// use argus_crds::Code;
///
/// assert_eq!("port-conflict".parse(), Ok(Code::PortConflict));
/// let error = "PORT_CONFLCT".parse::<Code>().unwrap_err();
/// assert_eq!(error.nearest, Some(Code::PortConflict));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid error code{}", suggestion(*nearest))]
pub struct UnknownCode {
    text: String,
    /// The most similar code, if one is similar.
    pub nearest: Option<Code>,
}

fn suggestion(nearest: Option<Code>) -> String {
    nearest.map_or_else(String::new, |code| format!("; the nearest is `{code}`"))
}

impl FromStr for Code {
    type Err = UnknownCode;

    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        let name = text.trim().replace('-', "_").to_ascii_uppercase();
        let find = |name: &str| Self::ALL.iter().copied().find(|code| code.as_str() == name);
        find(&name).ok_or_else(|| UnknownCode {
            text: text.to_owned(),
            nearest: nearest(&name, Self::ALL.iter().map(|code| code.as_str())).and_then(find),
        })
    }
}
