//! Error codes: [`Code`] and its table, the source for errors, `argus explain` and `docs/reference/errors.md`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::ActionId as Act;
use super::kind::{Category, Class, Severity};
use crate::suggestion::nearest;

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
    /// Exit code of a command that ends with the error.
    pub exit_code: u8,
    /// HTTP status of a response with the error; 409 for errors that describe the state of an environment.
    pub http_status: u16,
    /// True if its text can contain text of a container, a build, a suite, a client of a mock or a rejected file.
    pub quotes_text: bool,
}

/// Defines the codes: name, text, usual stage, category, severity, class, suggested actions, exit code, HTTP status, foreign text, summary
/// and explanation.
macro_rules! codes {
    ($($code:ident $text:literal: $stage:literal, $category:ident, $severity:ident, $class:ident, [$($action:ident),*],
        exit $exit:literal, http $http:literal, quotes $quotes:literal, $summary:literal, $explanation:literal;)+) => {
        /// Identifier of the kind of an error. `argus explain CODE` describes it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[allow(missing_docs, reason = "the table describes each code, and a comment would split the schema's enum")]
        pub enum Code {
            $(#[serde(rename = $text)] $code,)+
        }

        impl Code {
            /// All codes in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$code),+];

            /// Returns the serialized name, such as `PORT_CONFLICT`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$code => $text,)+ }
            }

            /// Returns the name in the form of a condition's reason, such as `PortConflict`.
            pub const fn reason(self) -> &'static str {
                match self { $(Self::$code => stringify!($code),)+ }
            }

            /// Returns the usual stage of the code: the operation that fails. A failed action of the controller names its own kind instead.
            pub const fn stage(self) -> &'static str {
                match self { $(Self::$code => $stage,)+ }
            }

            /// Returns the table entry of this code.
            ///
            /// ```rust
            /// use argus_crds::{ActionId, Code};
            ///
            /// let entry = Code::PortConflict.explanation();
            /// assert!(!entry.class.is_retried());
            /// assert_eq!(entry.actions.first(), Some(&ActionId::UseAutoPorts));
            /// ```
            pub const fn explanation(self) -> Explanation {
                match self {
                    $(Self::$code => Explanation {
                        category: Category::$category,
                        severity: Severity::$severity,
                        class: Class::$class,
                        summary: $summary,
                        explanation: $explanation,
                        actions: &[$(Act::$action),*],
                        exit_code: $exit,
                        http_status: $http,
                        quotes_text: $quotes,
                    },)+
                }
            }
        }
    };
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

codes! {
    DockerUnavailable "DOCKER_UNAVAILABLE": "connect-engine", Infrastructure, Fatal, Transient, [StartEngine, RunPreflight], exit 4, http 503, quotes false,
        "the Docker engine does not respond",
        "Argus cannot connect to the engine at its address, or the engine reports that it is unavailable. Running containers keep running. Argus changes nothing until the engine responds. It retries with increasing delays, and lists all objects of the engine again when the engine is back.";
    DockerPermissionDenied "DOCKER_PERMISSION_DENIED": "connect-engine", Infrastructure, Fatal, Human, [JoinGroup, RunPreflight], exit 4, http 503, quotes false,
        "the user has no access to the Docker engine",
        "The permissions of the engine's socket do not admit the user of Argus (EACCES). Commands end immediately with this error. A new member of a group needs a new login, and a running controller a restart. A running controller tries again once per minute, and immediately after a change of the socket. The details contain the socket and the group that has access.";
    EventsUnavailable "EVENTS_UNAVAILABLE": "connect-engine", Infrastructure, Warning, Transient, [StartEngine, RunPreflight], exit 1, http 409, quotes false,
        "the engine delivers no events",
        "The engine answers, but its event stream fails, for example because a proxy in front of it forbids `GET /events`. Argus continues with full lists every 2 to 10 s and opens the stream again with increasing delays. Until then, Argus notices changes up to 10 s later. It cannot distinguish a container that a person stopped from one that exited, and it does not see out-of-memory events of the kernel. The details contain the reason.";
    DiskSpaceLow "DISK_SPACE_LOW": "check-disk", Infrastructure, Fatal, Human, [FreeDiskSpace, CleanOrphans, RunPreflight], exit 1, http 409, quotes false,
        "the engine's disk is nearly full",
        "The engine's data root (usually `/var/lib/docker`) has less free space than `resilience.preflight.diskSpaceThreshold`, or the engine rejected a call because its disk is full. Until space is available, Argus pulls, builds and creates nothing, and replaces no container. Running containers keep running, and Argus still starts stopped containers. Argus checks the disk every 10 s and continues automatically. The details contain the free and the reclaimable space. Between the threshold and twice the threshold, the severity is `warning`, and creation continues.";
    PortConflict "PORT_CONFLICT": "assign-port", Network, Recoverable, Human, [UseAutoPorts, FreePort, Retry], exit 1, http 409, quotes false,
        "a host port is taken",
        "Another process or container listens on the requested host port. With `resilience.network.portConflictStrategy: auto`, Argus moves the service to a free port of `isolation.portRange`. With `fail`, it starts the container when the port is free. The details name the owner of the port, if known. An error without an environment is about the HTTP address of the controller: Argus has removed the token, and tries to bind the address again every 5 s.";
    PortExhaustion "PORT_EXHAUSTION": "assign-port", Network, Fatal, Permanent, [WidenPortRange, FreePort, CleanOrphans], exit 1, http 409, quotes false,
        "the port range has no free port",
        "Every port of `isolation.portRange` is taken. The details contain the number of tried ports and the owners of the first 20.";
    ContainerOom "CONTAINER_OOM": "run-container", Container, Recoverable, Permanent, [RaiseMemoryLimit, InspectLogs], exit 1, http 409, quotes true,
        "a container ran out of memory",
        "The kernel killed the container because it exceeded its memory limit. Argus reports this code only with proof: the engine's out-of-memory flag, an out-of-memory event of the kernel, or a kill that its control group counts, since the last start. The details contain the proof, its confidence, the memory limit and the memory peak.";
    ContainerCrash "CONTAINER_CRASH": "run-container", Container, Recoverable, Transient, [InspectLogs, FixContainer], exit 1, http 409, quotes true,
        "the main process of a container ended with an error",
        "The main process ended with a non-zero exit code or by a signal. Argus saved its last log lines, exit code and timestamps before it changed the container. Argus restarts the container within its restart budget.";
    ContainerRestartExhausted "CONTAINER_RESTART_EXHAUSTED": "run-container", Container, Fatal, Permanent, [InspectLogs, FixContainer, Retry, Rollback], exit 6, http 409, quotes true,
        "a container exhausted its restart budget",
        "The container failed more often than its restart budget permits. The details list every attempt. `pattern` is set if all attempts failed in the same way. `crashLoop` is true if all attempts had the same exit code. With `argus.restart.mode: giveUp` (the default), Argus waits for an edit of the file, a changed image or `argus retry`. With `slowRetry`, it tries once per `slow-retry-interval` (default 60 s).";
    HealthCheckTimeout "HEALTH_CHECK_TIMEOUT": "check-health", Container, Recoverable, Transient, [InspectLogs, FixHealthcheck, RaiseTimeout], exit 1, http 409, quotes true,
        "a container did not become healthy in time",
        "The container runs, but its health check failed `retries` times in a row, or it uses more memory than `argus.restart.memoryAbove` allows. The details contain the output of the probes and the container's log of that time. They also contain the results of a name lookup and of a connection to the container's port.";
    NetworkUnreachable "NETWORK_UNREACHABLE": "check-connectivity", Network, Recoverable, Transient, [VerifyNetwork, InspectLogs, Retry], exit 1, http 409, quotes false,
        "a service cannot connect to another service",
        "A connection between two containers failed, although the name resolves. The details contain the networks with their members and addresses. If the connection was refused, the network works, but no process listens on the port. If it timed out, Argus finds the most likely cause. It disconnects this container from the network and reconnects it, at most once.";
    DnsResolutionFailed "DNS_RESOLUTION_FAILED": "check-connectivity", Network, Recoverable, Transient, [VerifyNetwork, Retry], exit 1, http 409, quotes false,
        "a service cannot resolve the name of another service",
        "The name of a service does not resolve inside another container. The details contain the host name, the network, its members and the lookup error. Argus finds the most likely cause. It disconnects this container from the network and reconnects it, at most once.";
    CircuitOpen "CIRCUIT_OPEN": "call-engine", System, Recoverable, Transient, [StartEngine, ResetCircuit, RunPreflight], exit 4, http 503, quotes false,
        "the circuit breaker of the engine is open",
        "Engine calls failed repeatedly, so Argus sends no further calls to the engine. After a cooldown, it lists all objects of the engine and sends one test call. If the test call succeeds, Argus continues. Otherwise the cooldown doubles, up to five minutes. While the breaker is open, Argus shows the last known state, marked `stale`.";
    OrphanDetected "ORPHAN_DETECTED": "remove-orphan", System, Warning, Human, [CleanOrphans], exit 1, http 409, quotes false,
        "orphans of a dead controller exist",
        "An orphan is a container, network or volume with labels of Argus that no environment declares. The lease of its controller has expired. If this controller has a spec file of the orphan's project, Argus removes the orphan after 30 s. To prevent this, set `resilience.preflight.cleanOrphans: false` in such a file. Argus does not remove orphans of other projects, or volumes created without `argus.deletion.volumes: Delete`. For each orphan, the details contain the project, the controller and the reason why Argus has not removed it. `argus orphans --clean` removes the orphans of this controller's projects; `--project NAME` selects another project.";
    CleanupFailed "CLEANUP_FAILED": "remove-orphan", System, Warning, Transient, [CleanOrphans, Retry], exit 1, http 409, quotes false,
        "a resource could not be removed",
        "The removal of a container, network or volume failed. The message contains the resource and the cause. Argus retries with increasing delays. Other removals continue, and Argus waits for removals already in progress. If a container that Argus does not remove uses the resource, the class is `human`: Argus removes the resource when that container is gone.";
    Timeout "TIMEOUT": "run-command", Infrastructure, Recoverable, Transient, [RunPreflight, Retry], exit 5, http 503, quotes false,
        "a call took too long",
        "A call to the engine did not return before its deadline. The outcome of the call is unknown. Argus therefore inspects the current state first, and repeats the call only if it is still needed.";
    ConnectionLost "CONNECTION_LOST": "connect-engine", Infrastructure, Recoverable, Transient, [StartEngine, RunPreflight], exit 4, http 503, quotes false,
        "the connection to the engine broke",
        "The engine closed or reset the connection without a response. The outcome of the call is unknown. Argus lists the current state and continues from there.";
    RetryExhausted "RETRY_EXHAUSTED": "call-engine", Infrastructure, Fatal, Human, [StartEngine, ResetCircuit], exit 6, http 503, quotes true,
        "ten attempts to reconnect to the engine failed",
        "Argus reports this error after ten failed attempts in a row, so that a person starts the engine. Until the engine answers, its environments are `Blocked`. Argus continues to retry: every second on a local socket, otherwise at most once per minute.";
    SpecInvalid "SPEC_INVALID": "read-spec", System, Fatal, Permanent, [FixSpec], exit 3, http 422, quotes true,
        "a spec file is invalid",
        "The file cannot be read, or its content is not a valid environment. Argus reports all errors with line and column. If `healthcheck.type` is `docker` and the image has no HEALTHCHECK, Argus reports the error at the service. Containers of the last valid revision keep running unchanged.";
    SpecConflict "SPEC_CONFLICT": "read-spec", System, Fatal, Permanent, [FixSpec, SetNamespace, Fork], exit 3, http 422, quotes true,
        "two spec files claim the same name",
        "Another file already uses the name of this environment, the name of one of its containers, or the name of its network. The file that Argus accepted first keeps the name. The details name that file.";
    PolicyViolation "POLICY_VIOLATION": "read-spec", System, Fatal, Human, [AllowInPolicy, FixSpec], exit 3, http 422, quotes true,
        "a spec file requests a denied setting",
        "Argus always denies namespaces of the host or of other containers, and the engine's socket. Privileged mode, added capabilities and devices need `argus allow` and `argus run --allow-privileged`. A path outside the project needs `argus run --allow-mount DIR`. Argus runs no container with the denied setting.";
    PrereqMissing "PREREQ_MISSING": "run-command", System, Fatal, Human, [InstallPrerequisite], exit 1, http 409, quotes false,
        "a prerequisite is missing",
        "A program, a file or an engine feature is missing, such as a network driver or Linux containers. Argus also uses this code for rejected requests. `details.reason` then contains the cause. The message names the problem. `argus preflight` checks the prerequisites again.";
    ApiTooOld "API_TOO_OLD": "connect-engine", Infrastructure, Fatal, Human, [UpgradeEngine], exit 4, http 409, quotes false,
        "the engine is too old",
        "The engine supports only API versions before 1.41 (Docker 20.10). Argus creates nothing on it. The details contain the API version of the engine and the version that Argus needs.";
    ImageNotFound "IMAGE_NOT_FOUND": "pull-image", Container, Fatal, Permanent, [FixImage, LogIn, PullImage], exit 1, http 409, quotes false,
        "an image does not exist",
        "Neither the engine nor the registry has the image. This failure costs no restart budget. Argus continues automatically when the file changes or the image becomes available.";
    ImagePullFailed "IMAGE_PULL_FAILED": "pull-image", Container, Recoverable, Transient, [RunPreflight, PullImage, Wait], exit 1, http 409, quotes false,
        "an image could not be pulled",
        "The registry, or the connection to it, failed during the pull. Argus retries with increasing delays. Until the pull succeeds, the old container keeps running.";
    RegistryRateLimited "REGISTRY_RATE_LIMITED": "pull-image", Infrastructure, Recoverable, Transient, [Wait, LogIn], exit 1, http 409, quotes false,
        "the registry limits the rate of pulls",
        "The registry rejected the pull because of too many earlier pulls. Argus pulls no image from this registry until the time in its `Retry-After` header.";
    AuthRequired "AUTH_REQUIRED": "pull-image", Infrastructure, Fatal, Human, [LogIn, FixImage], exit 1, http 409, quotes false,
        "the registry requires a login",
        "The registry rejected the pull because the credentials are missing or invalid. Some registries send the same response for an image that does not exist.";
    BuildFailed "BUILD_FAILED": "build-image", Container, Fatal, Permanent, [FixBuild, Retry], exit 1, http 409, quotes true,
        "an image could not be built",
        "A step of the Dockerfile failed, or the build context could not be read. The message names the step, and the details contain the end of the build output. Argus builds again when the file, the Dockerfile or the context changes. If the cause is the network, a rate limit of a registry or 120 s without progress, the class is `transient`: Argus builds again three times with increasing delays, then once per minute.";
    ContainerStartFailed "CONTAINER_START_FAILED": "start-container", Container, Recoverable, Permanent, [InspectLogs, FixSpec, Retry], exit 1, http 409, quotes true,
        "a container could not be started",
        "The engine created the container but rejected its start, for example because of an invalid option. The details contain the engine's message. A refused start uses no restart budget. After two refusals, Argus replaces the container.";
    EntrypointNotFound "ENTRYPOINT_NOT_FOUND": "run-container", Container, Fatal, Permanent, [FixSpec, FixImage], exit 1, http 409, quotes true,
        "the command of a container does not exist in its image",
        "The container's command does not exist in the image or is not executable (exit code 126 or 127), or the image is built for another architecture. A retry cannot help, so the failure costs no restart budget.";
    BadMount "BAD_MOUNT": "create-container", Container, Fatal, Permanent, [FixSpec, Retry], exit 1, http 409, quotes false,
        "a mount of a container does not work",
        "The source of a mount does not exist or cannot be mounted at its path in the container. The message contains the source. Argus checks once per minute if the source exists, and continues automatically.";
    VolumeNotFound "VOLUME_NOT_FOUND": "create-volume", Container, Fatal, Permanent, [CreateVolume, FixSpec, Retry], exit 1, http 409, quotes false,
        "an external volume does not exist",
        "The file declares a volume as `external`, and the engine has no volume with this name. Argus does not create external volumes, because an empty one would replace the data. Argus checks once per minute if the volume exists, and continues automatically.";
    NetworkNotFound "NETWORK_NOT_FOUND": "create-network", Network, Fatal, Permanent, [CreateNetwork, FixSpec, Retry], exit 1, http 409, quotes false,
        "an external network does not exist",
        "The file declares a network as `external`, and the engine has no network with this name. Argus does not create external networks. Argus checks once per minute if the network exists, and continues automatically.";
    NameConflict "NAME_CONFLICT": "create-container", Container, Fatal, Human, [FixSpec, Fork, ResolveNameConflict], exit 1, http 409, quotes false,
        "a container name is taken",
        "A container that Argus does not manage already has this name. Argus never changes that container. The details describe it.";
    LoopHalted "LOOP_HALTED": "run-container", Container, Fatal, Permanent, [InspectLogs, FixContainer, Retry], exit 6, http 409, quotes true,
        "restarts did not change a failure",
        "The container failed with the same exit code, the same last line on stderr and about the same uptime in three restart budgets in a row. A new budget follows a reset of the budget, a slow retry, or `argus retry` without a change. `argus.restart.haltAfterSame` sets another number, or `off`. Argus waits for an edit of the file, a changed image or `argus retry`.";
    FlakySuspected "FLAKY_SUSPECTED": "run-container", Container, Warning, Permanent, [FixHealthcheck, RaiseTimeout, StabilizeTest, InspectLogs], exit 1, http 409, quotes true,
        "a health check is flapping, or a test is flaky",
        "The result of the health check changed more than three times in ten minutes. Another case: it recovered repeatedly, but more than half of its last 20 probes failed. Flapping causes no restart. Frequent changes lengthen the delays of later restarts. For a test: a case passed and failed in the last runs of `argus test run`, without a change of the revision and of the suite file.";
    PortStaleAllocation "PORT_STALE_ALLOCATION": "assign-port", Network, Recoverable, Transient, [UseAutoPorts, StartEngine, Retry], exit 1, http 409, quotes false,
        "the engine reserves a port without an owner",
        "The engine reports that a port is taken, but Argus finds no process or container that uses it. The usual cause is a leftover `docker-proxy` process. A restart of the engine frees the port. With `resilience.network.portConflictStrategy: auto`, Argus moves the service to another port.";
    NetworkPoolExhausted "NETWORK_POOL_EXHAUSTED": "create-network", Network, Fatal, Human, [CleanOrphans, FreeNetworks], exit 1, http 409, quotes false,
        "the engine has no free address range",
        "The engine has no free address range (subnet) for the network of the environment. Argus already removed its own networks that nothing needs, including those of dead runs of the project, but this freed no range. It continues automatically after another network is removed.";
    NetworkStuck "NETWORK_STUCK": "remove-network", Network, Recoverable, Transient, [CleanOrphans, StartEngine], exit 1, http 409, quotes false,
        "a network cannot be removed",
        "The engine refuses to remove the network because it still has members. Argus tried to disconnect the members by name, without success. It retries in its next reconcile pass.";
    TestsFailed "TESTS_FAILED": "run-tests", System, Recoverable, Permanent, [InspectTests, InspectLogs], exit 1, http 409, quotes true,
        "tests failed",
        "The environment was ready, and at least one suite of `argus test run` failed in all its attempts, or was skipped. The details list all suites with their attempts. For each attempt, they list the restarts and failures of services during it, with their causes. `stdoutTail` and `stderrTail` contain the last output of the last failed suite.";
    Held "HELD": "hold", System, Warning, Human, [ContactHolder, Resume, Wait], exit 1, http 409, quotes false,
        "the environment is on hold",
        "A person or an agent put the environment on hold. Argus observes it and changes nothing until the hold ends.";
    LeaseHeld "LEASE_HELD": "claim-environment", System, Fatal, Human, [Fork, StopOtherController], exit 7, http 409, quotes false,
        "another controller owns the environment",
        "Another live controller uses this state directory, or claimed this environment first. Two controllers would undo each other's changes, so this controller only observes. The details name the owner. Each controller proves that it is alive by its lease, a volume on the engine that it renews. After a clean stop of the owner, this controller takes over within 10 s. If the owner does not renew its lease for 90 s, this controller takes over within the next 10 s. A takeover does not restart containers that match the file.";
    JournalUnwritable "JOURNAL_UNWRITABLE": "write-journal", System, Fatal, Human, [FixStateDirectory, ResumeController], exit 1, http 503, quotes false,
        "the journal cannot be written",
        "Argus records every action in the journal before it performs the action. While the journal is not writable, Argus changes nothing, and containers keep running. The controller stays in mode `Safe` until a person fixes the cause and runs `argus resume`.";
    MockNoRoute "MOCK_NO_ROUTE": "serve-mock", Container, Warning, Permanent, [FixSpec, InspectLogs], exit 1, http 409, quotes true,
        "a mock has no response for a request",
        "The request matches no route, no operation of the OpenAPI document and no recording of the mock. The mock responded with 404. The details name the most similar route and the difference. `argus mock requests ENV MOCK` lists the request.";
    MockRequestInvalid "MOCK_REQUEST_INVALID": "serve-mock", Container, Warning, Permanent, [FixSpec, InspectLogs], exit 1, http 409, quotes true,
        "a request violates the OpenAPI document of a mock",
        "The mock has `validate: true`. A parameter, the body or the media type of the request does not match the OpenAPI document. The mock responded with 422. The details list every violation with its location: a JSON pointer into the body, or the name of a parameter.";
    MockNoAnswer "MOCK_NO_ANSWER": "serve-mock", Container, Warning, Permanent, [FixSpec, InspectLogs], exit 1, http 409, quotes true,
        "a mock cannot create a response",
        "The request is valid, but the mock cannot respond to it. The message names the cause. Either the mock finds no valid value for a schema, or the request is larger than 10 MiB, or the recording target does not respond. To define the response yourself, add an `example` to the OpenAPI document or a route under `overrides`.";
    Internal "INTERNAL": "run-command", System, Fatal, Permanent, [ReportBug, Retry], exit 1, http 500, quotes true,
        "internal error of Argus",
        "A bug in Argus caused the error. Argus stopped or restarted the affected task. The journal contains the events before the error.";
}
