//! Texts, commands and MCP calls of the actions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Text and calls of an action. [`ActionId::remedy`] replaces `{env}` and `{service}`.
pub(super) struct Template {
    /// Imperative clause that describes the action.
    pub(super) action: &'static str,
    /// Imperative clause for the calls, if they only inspect the problem; otherwise empty.
    pub(super) then_verify: &'static str,
    pub(super) command: &'static str,
    /// True if the command performs the action although the MCP call only inspects the problem.
    pub(super) is_done_by_command: bool,
    pub(super) tool: &'static str,
    pub(super) arguments: Arguments,
}

/// Names and values of tool arguments.
pub(super) type Arguments = &'static [(&'static str, &'static str)];

const ENV: Arguments = &[("environment", "{env}")];
const SERVICE: Arguments = &[("environment", "{env}"), ("service", "{service}")];
/// Arguments that request the complete status with call traces, for a bug report.
const EVERYTHING: Arguments = &[("detail", "full"), ("debug", "true")];

/// Creates the template of an action that the calls perform.
const fn call(
    action: &'static str,
    command: &'static str,
    tool: &'static str,
    arguments: Arguments,
) -> Template {
    manual(action, "", command, tool, arguments)
}

/// Creates the template of manual work outside of Argus; the calls inspect the problem.
const fn manual(
    action: &'static str,
    then_verify: &'static str,
    command: &'static str,
    tool: &'static str,
    arguments: Arguments,
) -> Template {
    Template {
        action,
        then_verify,
        command,
        is_done_by_command: false,
        tool,
        arguments,
    }
}

/// Creates the template of an action that only the command performs.
const fn by_command(
    action: &'static str,
    command: &'static str,
    then: &'static str,
    tool: &'static str,
    arguments: Arguments,
) -> Template {
    Template {
        is_done_by_command: true,
        ..manual(action, then, command, tool, arguments)
    }
}

/// Creates the template of a change of the spec file.
const fn edit(action: &'static str) -> Template {
    manual(action, "check the file", "argus validate", "argus_validate", &[])
}

/// Creates the template of a change of the host.
const fn host_fix(action: &'static str, then_verify: &'static str) -> Template {
    manual(
        action,
        then_verify,
        "argus preflight",
        "argus_preflight_check",
        &[],
    )
}

/// Table of the actions: name, kind, description and calls.
macro_rules! actions {
    ($($action:ident: $template:expr;)+) => {
        listed! {
            /// Identifier of a suggested action.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
            #[serde(rename_all = "snake_case")]
            #[allow(
                missing_docs,
                reason = "the table describes each action, and a comment would split the schema's enum"
            )]
            pub enum ActionId { $($action,)+ }
        }

        impl ActionId {
            pub(super) const fn template(self) -> Template {
                match self { $(Self::$action => $template,)+ }
            }
        }
    };
}

actions! {
    StartEngine: host_fix("start or restart the Docker engine, for example with `systemctl restart docker`",
        "check the engine");
    JoinGroup: host_fix("get access to the engine's socket, usually as a member of its group, and log in again",
        "check the access");
    FreeDiskSpace: by_command("remove replaced images and the build cache",
        "argus prune", "check the disk", "argus_preflight_check", &[]);
    FreePort: manual("free the port", "retry", "argus retry {env}", "argus_retry", ENV);
    FreeNetworks: host_fix("remove unused networks (without a running container: `docker network ls --filter dangling=true`), or give the engine more `default-address-pools`",
        "check the networks");
    UseAutoPorts: edit("set `resilience.network.portConflictStrategy: auto` to move the port");
    WidenPortRange: edit("widen `isolation.portRange`");
    RaiseMemoryLimit: edit("raise the memory limit of the service, or reduce the memory use of its process");
    InspectLogs: call("read the container's log", "argus logs {env} {service}", "argus_logs", SERVICE);
    FixContainer: manual("fix the program or its image",
        "see the last failure", "argus evidence {env} {service}", "argus_evidence", SERVICE);
    FixHealthcheck: edit("fix path, port and type of the health check");
    RaiseTimeout: edit("raise the start period or the retries of the health check");
    Retry: call("retry with the same inputs", "argus retry {env}", "argus_retry", ENV);
    Wait: call("wait for the environment to become ready", "argus wait {env}", "argus_wait", ENV);
    ResetCircuit: call("test the engine immediately instead of after the cooldown",
        "argus breaker reset", "argus_reset_circuit", &[]);
    RunPreflight: call("check the engine, the disk and other prerequisites",
        "argus preflight", "argus_preflight_check", &[]);
    CleanOrphans: call("list the orphans of dead controllers", "argus orphans", "argus_orphans", &[]);
    VerifyNetwork: call("check the connections inside the environment",
        "argus network {env} --verify", "argus_network", &[("environment", "{env}"), ("verify", "true")]);
    FixSpec: edit("fix the file");
    AllowInPolicy: edit("remove the denied setting");
    InstallPrerequisite: host_fix("install the missing prerequisite", "check the prerequisites");
    UpgradeEngine: host_fix("upgrade the Docker engine", "check its API version");
    FixImage: edit("fix the name or tag of the image");
    PullImage: call("retry the pull", "argus retry {env}", "argus_retry", ENV);
    LogIn: by_command("log in to the registry as the controller's user",
        "docker login", "retry", "argus_retry", ENV);
    FixBuild: edit("fix the Dockerfile, its context or its target");
    CreateVolume: by_command("create the volume", "docker volume create", "retry", "argus_retry", ENV);
    CreateNetwork: by_command("create the network", "docker network create", "retry", "argus_retry", ENV);
    ResolveNameConflict: manual("remove or rename the conflicting resource",
        "show the conflict", "argus describe {env}", "argus_status", ENV);
    Rollback: call("roll back to the last good revision", "argus rollback {env}", "argus_rollback", ENV);
    Fork: call("fork the environment under another name", "argus fork {env}", "argus_fork", ENV);
    ContactHolder: manual("ask the holder to end the hold",
        "show the holder", "argus describe {env}", "argus_status", ENV);
    Resume: call("end all holds of the environment, if their holders agree",
        "argus resume {env}", "argus_resume", ENV);
    SetNamespace: manual("set another `isolation.namespace` in this file, because another one has the same name",
        "show the owner", "argus describe {env}", "argus_status", ENV);
    StopOtherController: manual("stop the other controller",
        "show the owner", "argus describe {env}", "argus_status", ENV);
    FixStateDirectory: host_fix("make the state directory writable: free space on its disk, or correct its permissions", "check the state directory");
    ResumeController: call("resume the controller after the fix", "argus resume", "argus_resume", &[]);
    InspectTests: call("list the events of the environment", "argus events {env}", "argus_events", ENV);
    StabilizeTest: manual("isolate the data of the case, set a fixed seed, or reduce `tests.parallel.concurrency`",
        "repeat the suites", "argus test run {env} --workers 1", "argus_test_run", ENV);
    ReportBug: call("report the bug with a support bundle",
        "argus doctor --out argus-report.tar", "argus_status", EVERYTHING);
}
