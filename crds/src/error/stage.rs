//! Stages: the operation that fails with each error code, unless the error names a more precise one.

use super::Code;

impl Code {
    /// Returns the usual stage of the code. A failed action of the controller names its own kind instead.
    pub const fn stage(self) -> &'static str {
        match self {
            Self::SpecInvalid | Self::SpecConflict | Self::PolicyViolation => "read-spec",
            Self::DockerUnavailable
            | Self::DockerPermissionDenied
            | Self::ConnectionLost
            | Self::ApiTooOld
            | Self::EventsUnavailable => "connect-engine",
            Self::CircuitOpen | Self::RetryExhausted => "call-engine",
            Self::DiskSpaceLow => "check-disk",
            Self::PortConflict | Self::PortExhaustion | Self::PortStaleAllocation => "assign-port",
            Self::ContainerOom
            | Self::ContainerCrash
            | Self::ContainerRestartExhausted
            | Self::LoopHalted
            | Self::FlakySuspected
            | Self::EntrypointNotFound => "run-container",
            Self::HealthCheckTimeout => "check-health",
            Self::NetworkUnreachable | Self::DnsResolutionFailed => "check-connectivity",
            Self::OrphanDetected | Self::CleanupFailed => "remove-orphan",
            Self::ImageNotFound | Self::ImagePullFailed | Self::RegistryRateLimited | Self::AuthRequired => {
                "pull-image"
            }
            Self::BuildFailed => "build-image",
            Self::NameConflict | Self::BadMount => "create-container",
            Self::VolumeNotFound => "create-volume",
            Self::ContainerStartFailed => "start-container",
            Self::NetworkPoolExhausted => "create-network",
            Self::NetworkStuck => "remove-network",
            Self::TestsFailed => "run-tests",
            Self::Held => "hold",
            Self::LeaseHeld => "claim-environment",
            Self::JournalUnwritable => "write-journal",
            Self::MockNoRoute | Self::MockRequestInvalid | Self::MockNoAnswer => "serve-mock",
            Self::Timeout | Self::PrereqMissing | Self::Internal => "run-command",
        }
    }
}
