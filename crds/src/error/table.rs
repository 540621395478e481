//! Table of all error codes: the source for errors, `argus explain` and `docs/errors.md`.

use super::action::ActionId as Act;
use super::code::Code;
use super::engine;
use super::kind::{Category, Class, Severity};
use super::mocks;

/// Table entry of a [`Code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Area that the error belongs to.
    pub category: Category,
    /// Default effect on the environment.
    pub severity: Severity,
    /// Default party that acts next.
    pub class: Class,
    /// Event in one line: lower case, no full stop.
    pub summary: &'static str,
    /// Causes, and the reaction of Argus, in a few sentences.
    pub explanation: &'static str,
    /// Suggested actions, most likely first.
    pub actions: &'static [Act],
}

impl Code {
    /// Returns the table entry of this code.
    ///
    /// ```rust
    /// use argus_crds::{ActionId, Code};
    ///
    /// let entry = Code::PortConflict.explanation();
    /// assert!(!entry.class.is_retried());
    /// assert_eq!(entry.actions.first(), Some(&ActionId::UseAutoPorts));
    /// ```
    #[allow(clippy::too_many_lines, reason = "one table shows that no code is missing")]
    pub const fn explanation(self) -> Explanation {
        match self {
            Self::DockerUnavailable => engine::UNAVAILABLE,
            Self::DockerPermissionDenied => engine::PERMISSION_DENIED,
            Self::EventsUnavailable => engine::EVENTS_UNAVAILABLE,
            Self::DiskSpaceLow => Explanation {
                category: Category::Infrastructure,
                severity: Severity::Fatal,
                class: Class::Human,
                summary: "the engine's disk is nearly full",
                explanation: "The engine's data root (usually `/var/lib/docker`) has less free space than `resilience.preflight.diskSpaceThreshold`, or the engine rejected a call because its disk is full. Until space is available, Argus pulls, builds and creates nothing, and replaces no container. Running containers keep running, and Argus still starts stopped containers. Argus checks the disk every 10 s and continues automatically. The details contain the free and the reclaimable space. Between the threshold and twice the threshold, the severity is `warning`, and creation continues.",
                actions: &[Act::FreeDiskSpace, Act::CleanOrphans, Act::RunPreflight],
            },
            Self::PortConflict => Explanation {
                category: Category::Network,
                severity: Severity::Recoverable,
                class: Class::Human,
                summary: "a host port is taken",
                explanation: "Another process or container listens on the requested host port. With `resilience.network.portConflictStrategy: auto`, Argus moves the service to a free port of `isolation.portRange`. With `fail`, it starts the container when the port is free. The details name the owner of the port, if known. An error without an environment is about the HTTP address of the controller: Argus has removed the token, and tries to bind the address again every 5 s.",
                actions: &[Act::UseAutoPorts, Act::FreePort, Act::Retry],
            },
            Self::PortExhaustion => Explanation {
                category: Category::Network,
                severity: Severity::Fatal,
                class: Class::Permanent,
                summary: "the port range has no free port",
                explanation: "Every port of `isolation.portRange` is taken. The details contain the number of tried ports and the owners of the first 20.",
                actions: &[Act::WidenPortRange, Act::FreePort, Act::CleanOrphans],
            },
            Self::ContainerOom => Explanation {
                category: Category::Container,
                severity: Severity::Recoverable,
                class: Class::Permanent,
                summary: "a container ran out of memory",
                explanation: "The kernel killed the container because it exceeded its memory limit. Argus reports this code only with proof: the engine's out-of-memory flag, or an out-of-memory event of the kernel since the last start. The details contain the proof, the memory limit and the memory peak.",
                actions: &[Act::RaiseMemoryLimit, Act::InspectLogs],
            },
            Self::ContainerCrash => Explanation {
                category: Category::Container,
                severity: Severity::Recoverable,
                class: Class::Transient,
                summary: "the main process of a container ended with an error",
                explanation: "The main process ended with a non-zero exit code or by a signal. Argus saved its last log lines, exit code and timestamps before it changed the container. Argus restarts the container within its restart budget.",
                actions: &[Act::InspectLogs, Act::FixContainer],
            },
            Self::ContainerRestartExhausted => Explanation {
                category: Category::Container,
                severity: Severity::Fatal,
                class: Class::Permanent,
                summary: "a container exhausted its restart budget",
                explanation: "The container failed more often than its restart budget permits. The details list every attempt. `pattern` is set if all attempts failed in the same way. `crashLoop` is true if all attempts had the same exit code. With `argus.restart.mode: giveUp` (the default), Argus waits for an edit of the file, a changed image or `argus retry`. With `slowRetry`, it tries once per `slow-retry-interval` (default 60 s).",
                actions: &[Act::InspectLogs, Act::FixContainer, Act::Retry, Act::Rollback],
            },
            Self::HealthCheckTimeout => Explanation {
                category: Category::Container,
                severity: Severity::Recoverable,
                class: Class::Transient,
                summary: "a container did not become healthy in time",
                explanation: "The container runs, but its health check failed `retries` times in a row. The details contain the output of the probes and the container's log of that time. They also contain the results of a name lookup and of a connection to the container's port.",
                actions: &[Act::InspectLogs, Act::FixHealthcheck, Act::RaiseTimeout],
            },
            Self::NetworkUnreachable => Explanation {
                category: Category::Network,
                severity: Severity::Recoverable,
                class: Class::Transient,
                summary: "a service cannot connect to another service",
                explanation: "A connection between two containers failed, although the name resolves. The details contain the networks with their members and addresses. If the connection was refused, the network works, but no process listens on the port. If it timed out, Argus finds the most likely cause. It disconnects this container from the network and reconnects it, at most once.",
                actions: &[Act::VerifyNetwork, Act::InspectLogs, Act::Retry],
            },
            Self::DnsResolutionFailed => Explanation {
                category: Category::Network,
                severity: Severity::Recoverable,
                class: Class::Transient,
                summary: "a service cannot resolve the name of another service",
                explanation: "The name of a service does not resolve inside another container. The details contain the host name, the network, its members and the lookup error. Argus finds the most likely cause. It disconnects this container from the network and reconnects it, at most once.",
                actions: &[Act::VerifyNetwork, Act::Retry],
            },
            Self::CircuitOpen => Explanation {
                category: Category::System,
                severity: Severity::Recoverable,
                class: Class::Transient,
                summary: "the circuit breaker of the engine is open",
                explanation: "Engine calls failed repeatedly, so Argus sends no further calls to the engine. After a cooldown, it lists all objects of the engine and sends one test call. If the test call succeeds, Argus continues. Otherwise the cooldown doubles, up to five minutes. While the breaker is open, Argus shows the last known state, marked `stale`.",
                actions: &[Act::StartEngine, Act::ResetCircuit, Act::RunPreflight],
            },
            Self::OrphanDetected => Explanation {
                category: Category::System,
                severity: Severity::Warning,
                class: Class::Human,
                summary: "orphans of a dead controller exist",
                explanation: "An orphan is a container, network or volume with labels of Argus that no environment declares. The lease of its controller has expired. If this controller has a spec file of the orphan's project, Argus removes the orphan after 30 s. To prevent this, set `resilience.preflight.cleanOrphans: false` in such a file. Argus does not remove orphans of other projects, or volumes created without `argus.deletion.volumes: Delete`. For each orphan, the details contain the project, the controller and the reason why Argus has not removed it. `argus orphans --clean` removes the orphans of this controller's projects; `--project NAME` selects another project.",
                actions: &[Act::CleanOrphans],
            },
            Self::CleanupFailed => Explanation {
                category: Category::System,
                severity: Severity::Warning,
                class: Class::Transient,
                summary: "a resource could not be removed",
                explanation: "The removal of a container, network or volume failed. The message contains the resource and the cause. Argus retries with increasing delays. Other removals continue, and Argus waits for removals already in progress.",
                actions: &[Act::CleanOrphans, Act::Retry],
            },
            Self::Timeout => Explanation {
                category: Category::Infrastructure,
                severity: Severity::Recoverable,
                class: Class::Transient,
                summary: "a call took too long",
                explanation: "A call to the engine did not return before its deadline. The outcome of the call is unknown. Argus therefore inspects the current state first, and repeats the call only if it is still needed.",
                actions: &[Act::RunPreflight, Act::Retry],
            },
            Self::ConnectionLost => Explanation {
                category: Category::Infrastructure,
                severity: Severity::Recoverable,
                class: Class::Transient,
                summary: "the connection to the engine broke",
                explanation: "The engine closed or reset the connection without a response. The outcome of the call is unknown. Argus lists the current state and continues from there.",
                actions: &[Act::StartEngine, Act::RunPreflight],
            },
            Self::RetryExhausted => Explanation {
                category: Category::Infrastructure,
                severity: Severity::Fatal,
                class: Class::Human,
                summary: "ten attempts to reconnect to the engine failed",
                explanation: "Argus reports this error after ten failed attempts in a row, so that a person starts the engine. Until the engine answers, its environments are `Blocked`. Argus continues to retry: every second on a local socket, otherwise at most once per minute.",
                actions: &[Act::StartEngine, Act::ResetCircuit],
            },
            Self::SpecInvalid => Explanation {
                category: Category::System,
                severity: Severity::Fatal,
                class: Class::Permanent,
                summary: "a spec file is invalid",
                explanation: "The file cannot be read, or its content is not a valid environment. Argus reports all errors with line and column. If `healthcheck.type` is `docker` and the image has no HEALTHCHECK, Argus reports the error at the service. Containers of the last valid revision keep running unchanged.",
                actions: &[Act::FixSpec],
            },
            Self::SpecConflict => Explanation {
                category: Category::System,
                severity: Severity::Fatal,
                class: Class::Permanent,
                summary: "two spec files claim the same name",
                explanation: "Another file already uses the name of this environment, the name of one of its containers, or the name of its network. The file that Argus accepted first keeps the name. The details name that file.",
                actions: &[Act::FixSpec, Act::SetNamespace, Act::Fork],
            },
            Self::PolicyViolation => Explanation {
                category: Category::System,
                severity: Severity::Fatal,
                class: Class::Human,
                summary: "a spec file requests a denied setting",
                explanation: "Argus always denies privileged mode, added capabilities, devices, namespaces of the host or of other containers, and the engine's socket. A path outside the project needs `argus run --allow-mount DIR`. Argus runs no container with the denied setting.",
                actions: &[Act::AllowInPolicy, Act::FixSpec],
            },
            Self::PrereqMissing => Explanation {
                category: Category::System,
                severity: Severity::Fatal,
                class: Class::Human,
                summary: "a prerequisite is missing",
                explanation: "A program, a file or an engine feature is missing, such as a network driver or Linux containers. Argus also uses this code for rejected requests. `details.reason` then contains the cause. The message names the problem. `argus preflight` checks the prerequisites again.",
                actions: &[Act::InstallPrerequisite],
            },
            Self::ApiTooOld => Explanation {
                category: Category::Infrastructure,
                severity: Severity::Fatal,
                class: Class::Human,
                summary: "the engine is too old",
                explanation: "The engine supports only API versions before 1.41 (Docker 20.10). Argus creates nothing on it. The details contain the API version of the engine and the version that Argus needs.",
                actions: &[Act::UpgradeEngine],
            },
            Self::ImageNotFound => Explanation {
                category: Category::Container,
                severity: Severity::Fatal,
                class: Class::Permanent,
                summary: "an image does not exist",
                explanation: "Neither the engine nor the registry has the image. This failure costs no restart budget. Argus continues automatically when the file changes or the image becomes available.",
                actions: &[Act::FixImage, Act::LogIn, Act::PullImage],
            },
            Self::ImagePullFailed => Explanation {
                category: Category::Container,
                severity: Severity::Recoverable,
                class: Class::Transient,
                summary: "an image could not be pulled",
                explanation: "The registry, or the connection to it, failed during the pull. Argus retries with increasing delays. Until the pull succeeds, the old container keeps running.",
                actions: &[Act::Wait, Act::RunPreflight, Act::PullImage],
            },
            Self::RegistryRateLimited => Explanation {
                category: Category::Infrastructure,
                severity: Severity::Recoverable,
                class: Class::Transient,
                summary: "the registry limits the rate of pulls",
                explanation: "The registry rejected the pull because of too many earlier pulls. Argus pulls no image from this registry until the time in its `Retry-After` header.",
                actions: &[Act::Wait, Act::LogIn],
            },
            Self::AuthRequired => Explanation {
                category: Category::Infrastructure,
                severity: Severity::Fatal,
                class: Class::Human,
                summary: "the registry requires a login",
                explanation: "The registry rejected the pull because the credentials are missing or invalid. Some registries send the same response for an image that does not exist.",
                actions: &[Act::LogIn, Act::FixImage],
            },
            Self::BuildFailed => Explanation {
                category: Category::Container,
                severity: Severity::Fatal,
                class: Class::Permanent,
                summary: "an image could not be built",
                explanation: "A step of the Dockerfile failed, or the build context could not be read. The message names the step, and the details contain the end of the build output. Argus builds again when the file, the Dockerfile or the context changes. If the cause is the network, a rate limit of a registry or 120 s without progress, the class is `transient`: Argus builds again three times with increasing delays, then once per minute.",
                actions: &[Act::FixBuild, Act::Retry],
            },
            Self::ContainerStartFailed => Explanation {
                category: Category::Container,
                severity: Severity::Recoverable,
                class: Class::Permanent,
                summary: "a container could not be started",
                explanation: "The engine created the container but rejected its start, for example because of an invalid option. The details contain the engine's message. A refused start uses no restart budget. After two refusals, Argus replaces the container.",
                actions: &[Act::InspectLogs, Act::FixSpec, Act::Retry],
            },
            Self::EntrypointNotFound => Explanation {
                category: Category::Container,
                severity: Severity::Fatal,
                class: Class::Permanent,
                summary: "the command of a container does not exist in its image",
                explanation: "The container's command does not exist in the image or is not executable (exit code 126 or 127), or the image is built for another architecture. A retry cannot help, so the failure costs no restart budget.",
                actions: &[Act::FixSpec, Act::FixImage],
            },
            Self::BadMount => Explanation {
                category: Category::Container,
                severity: Severity::Fatal,
                class: Class::Permanent,
                summary: "a mount of a container does not work",
                explanation: "The source of a mount does not exist or cannot be mounted at its path in the container. The message contains the source. Argus checks once per minute if the source exists, and continues automatically.",
                actions: &[Act::FixSpec, Act::Retry],
            },
            Self::VolumeNotFound => Explanation {
                category: Category::Container,
                severity: Severity::Fatal,
                class: Class::Permanent,
                summary: "an external volume does not exist",
                explanation: "The file declares a volume as `external`, and the engine has no volume with this name. Argus does not create external volumes, because an empty one would replace the data. Argus checks once per minute if the volume exists, and continues automatically.",
                actions: &[Act::CreateVolume, Act::FixSpec, Act::Retry],
            },
            Self::NameConflict => Explanation {
                category: Category::Container,
                severity: Severity::Fatal,
                class: Class::Human,
                summary: "a container name is taken",
                explanation: "A container that Argus does not manage already has this name. Argus never changes that container. The details describe it.",
                actions: &[Act::FixSpec, Act::Fork, Act::ResolveNameConflict],
            },
            Self::LoopHalted => Explanation {
                category: Category::Container,
                severity: Severity::Fatal,
                class: Class::Permanent,
                summary: "restarts did not change a failure",
                explanation: "The container failed with the same exit code, the same last line on stderr and about the same uptime in three restart budgets in a row. A new budget follows a reset of the budget, a slow retry, or `argus retry` without a change. `argus.restart.haltAfterSame` sets another number, or `off`. Argus waits for an edit of the file, a changed image or `argus retry`.",
                actions: &[Act::InspectLogs, Act::FixContainer, Act::Retry],
            },
            Self::FlakySuspected => Explanation {
                category: Category::Container,
                severity: Severity::Warning,
                class: Class::Permanent,
                summary: "a health check is flapping, or a test is flaky",
                explanation: "The result of the health check changed more than three times in ten minutes. Another case: it recovered repeatedly, but more than half of its last 20 probes failed. Flapping causes no restart. Frequent changes lengthen the delays of later restarts. For a test: a case passed and failed in the last runs of `argus test run`, without a change of the revision and of the suite file.",
                actions: &[Act::FixHealthcheck, Act::RaiseTimeout, Act::StabilizeTest, Act::InspectLogs],
            },
            Self::PortStaleAllocation => Explanation {
                category: Category::Network,
                severity: Severity::Recoverable,
                class: Class::Transient,
                summary: "the engine reserves a port without an owner",
                explanation: "The engine reports that a port is taken, but Argus finds no process or container that uses it. The usual cause is a leftover `docker-proxy` process. A restart of the engine frees the port. With `resilience.network.portConflictStrategy: auto`, Argus moves the service to another port.",
                actions: &[Act::UseAutoPorts, Act::StartEngine, Act::Retry],
            },
            Self::NetworkPoolExhausted => Explanation {
                category: Category::Network,
                severity: Severity::Fatal,
                class: Class::Human,
                summary: "the engine has no free address range",
                explanation: "The engine has no free address range (subnet) for the network of the environment. Argus already removed its own networks that nothing needs, including those of dead runs of the project, but this freed no range. It continues automatically after another network is removed.",
                actions: &[Act::CleanOrphans, Act::RunPreflight, Act::Retry],
            },
            Self::NetworkStuck => Explanation {
                category: Category::Network,
                severity: Severity::Recoverable,
                class: Class::Transient,
                summary: "a network cannot be removed",
                explanation: "The engine refuses to remove the network because it still has members. Argus tried to disconnect the members by name, without success. It retries in its next reconcile pass.",
                actions: &[Act::CleanOrphans, Act::StartEngine],
            },
            Self::TestsFailed => Explanation {
                category: Category::System,
                severity: Severity::Recoverable,
                class: Class::Permanent,
                summary: "tests failed",
                explanation: "The environment was ready, and at least one suite of `argus test run` failed in all its attempts, or was skipped. The details list all suites with their attempts. For each attempt, they list the restarts and failures of services during it, with their causes. `stdoutTail` and `stderrTail` contain the last output of the last failed suite.",
                actions: &[Act::InspectTests, Act::InspectLogs],
            },
            Self::Held => Explanation {
                category: Category::System,
                severity: Severity::Warning,
                class: Class::Human,
                summary: "the environment is on hold",
                explanation: "A person or an agent put the environment on hold. Argus observes it and changes nothing until the hold ends.",
                actions: &[Act::ContactHolder, Act::Resume, Act::Wait],
            },
            Self::LeaseHeld => Explanation {
                category: Category::System,
                severity: Severity::Fatal,
                class: Class::Human,
                summary: "another controller owns the environment",
                explanation: "Another live controller uses this state directory, or claimed this environment first. Two controllers would undo each other's changes, so this controller only observes. The details name the owner. Each controller proves that it is alive by its lease, a volume on the engine that it renews. After a clean stop of the owner, this controller takes over within 10 s. If the owner does not renew its lease for 90 s, this controller takes over within the next 10 s. A takeover does not restart containers that match the file.",
                actions: &[Act::Fork, Act::StopOtherController],
            },
            Self::JournalUnwritable => Explanation {
                category: Category::System,
                severity: Severity::Fatal,
                class: Class::Human,
                summary: "the journal cannot be written",
                explanation: "Argus records every action in the journal before it performs the action. While the journal is not writable, Argus changes nothing, and containers keep running. The controller stays in mode `Safe` until a person fixes the cause and runs `argus resume`.",
                actions: &[Act::FixStateDirectory, Act::FreeDiskSpace, Act::ResumeController],
            },
            Self::MockNoRoute => mocks::NO_ROUTE,
            Self::MockRequestInvalid => mocks::REQUEST_INVALID,
            Self::MockNoAnswer => mocks::NO_ANSWER,
            Self::Internal => Explanation {
                category: Category::System,
                severity: Severity::Fatal,
                class: Class::Permanent,
                summary: "internal error of Argus",
                explanation: "A bug in Argus caused the error. Argus stopped or restarted the affected task. The journal contains the events before the error.",
                actions: &[Act::ReportBug, Act::Retry],
            },
        }
    }
}
