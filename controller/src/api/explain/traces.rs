//! Traces of failures: the events in the journal, and the parts of the status and files that remain.

use argus_crds::error::Code;

/// Evidence of a failed run.
const EVIDENCE: &str = "`evidence/ENV/SERVICE/N/` in the private folder";
/// Calls behind an error.
const CALLS: &str = "call trace in `environments/ENV.debug`";
const DIAGNOSTICS: &str = "`diagnostics[]` of the status";
const PREFLIGHT: &str = "`preflight` of `controller.json`";
const BREAKER: &str = "`breaker` of the status, with its history";
const MAPPINGS: &str = "`portMappings[]` of the status";
const MOCK: &str = "requests of the mock: `argus mock requests ENV MOCK`";
const LOG: &str = "log of the controller";

/// Events and remains of a failure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Traces {
    /// Names of journal records, as in `argus events --type`.
    pub(super) events: &'static [&'static str],
    pub(super) artifacts: &'static [&'static str],
}

/// Returns the traces of a failure with this code. Each error of a status also is a record when it appears.
pub(super) fn traces_of(code: Code) -> Traces {
    let (events, artifacts): (&'static [&'static str], &'static [&'static str]) = match code {
        Code::DockerUnavailable | Code::ConnectionLost | Code::RetryExhausted => {
            (&["error", "mode", "circuit_open", "circuit_closed"], &[BREAKER])
        }
        Code::CircuitOpen => (
            &["error", "circuit_open", "circuit_half_open", "circuit_closed"],
            &[BREAKER],
        ),
        Code::DockerPermissionDenied | Code::ApiTooOld | Code::DiskSpaceLow | Code::PrereqMissing => {
            (&["error", "preflight_check"], &[PREFLIGHT])
        }
        Code::EventsUnavailable | Code::Held | Code::LeaseHeld => (&["error"], &[]),
        Code::PortConflict => (&["port_conflict", "port_reassigned"], &[MAPPINGS]),
        Code::PortExhaustion | Code::PortStaleAllocation => (&["error", "port_reassigned"], &[MAPPINGS]),
        Code::ContainerOom => (
            &["error", "memory_high", "restart_attempt", "restart_success"],
            &[EVIDENCE],
        ),
        Code::ContainerCrash | Code::HealthCheckTimeout => {
            (&["error", "restart_attempt", "restart_success"], &[EVIDENCE])
        }
        Code::ContainerRestartExhausted | Code::LoopHalted => {
            (&["error", "restart_attempt", "restart_exhausted"], &[EVIDENCE])
        }
        Code::EntrypointNotFound => (&["error"], &[EVIDENCE]),
        Code::FlakySuspected => (&["error"], &["`testResults[]` of the status"]),
        Code::NetworkUnreachable | Code::DnsResolutionFailed => (
            &["error", "network_check", "network_verified"],
            &["`connectivity` of the status", CALLS],
        ),
        Code::OrphanDetected => (
            &[
                "error",
                "orphan_found",
                "cleanup_start",
                "cleanup_resource",
                "cleanup_end",
            ],
            &["`orphans[]` of `controller.json`"],
        ),
        Code::SpecInvalid | Code::SpecConflict | Code::PolicyViolation => (&["error"], &[DIAGNOSTICS]),
        Code::Timeout
        | Code::CleanupFailed
        | Code::NetworkStuck
        | Code::NetworkPoolExhausted
        | Code::ImageNotFound
        | Code::ImagePullFailed
        | Code::RegistryRateLimited
        | Code::AuthRequired
        | Code::BuildFailed
        | Code::ContainerStartFailed
        | Code::BadMount
        | Code::VolumeNotFound
        | Code::NetworkNotFound
        | Code::NameConflict => (&["intent", "result", "error"], &[CALLS]),
        Code::TestsFailed => (&["command"], &["report of `argus test run --out DIR`"]),
        Code::JournalUnwritable => (&["mode", "writable", "resumed"], &[LOG]),
        Code::MockNoRoute | Code::MockRequestInvalid | Code::MockNoAnswer => (&[], &[MOCK]),
        Code::Internal => (&["task_end"], &[LOG]),
    };
    Traces { events, artifacts }
}
