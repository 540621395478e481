//! What can be done about an error.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Something that can be done about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(
    missing_docs,
    reason = "`summary` tells what each one means, and a comment would split the schema's enum"
)]
pub enum ActionId {
    StartEngine,
    FreeDiskSpace,
    FreePort,
    UseAutoPorts,
    WidenPortRange,
    RaiseMemoryLimit,
    InspectLogs,
    FixContainer,
    FixHealthcheck,
    RaiseTimeout,
    Retry,
    Wait,
    ResetCircuit,
    RunPreflight,
    CleanOrphans,
    VerifyNetwork,
    FixSpec,
    AllowInPolicy,
    InstallPrerequisite,
    UpgradeEngine,
    FixImage,
    PullImage,
    LogIn,
    FixBuild,
    RemoveRival,
    Rollback,
    Fork,
    Resume,
    StopOtherController,
    FixStateDirectory,
    ResumeController,
    InspectTests,
    ReportBug,
}

/// Something that can be done, callable as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remedy {
    /// Which action it is.
    pub action: ActionId,
    /// What it does, in words.
    pub summary: String,
    /// The command that does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The same over MCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<ToolCall>,
}

/// A call of a tool of the MCP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Name of the tool.
    pub tool: String,
    /// What it is called with.
    pub arguments: Map<String, Value>,
}

/// What an action is called with; `{env}` and `{service}` are filled in.
struct Template {
    summary: &'static str,
    command: Option<&'static str>,
    tool: Option<(&'static str, Arguments)>,
}

/// Names of arguments and what they are.
type Arguments = &'static [(&'static str, &'static str)];

const ENV: Arguments = &[("environment", "{env}")];
const SERVICE: Arguments = &[("environment", "{env}"), ("service", "{service}")];

const fn told(summary: &'static str) -> Template {
    Template {
        summary,
        command: None,
        tool: None,
    }
}

const fn shell(summary: &'static str, command: &'static str) -> Template {
    Template {
        summary,
        command: Some(command),
        tool: None,
    }
}

impl Template {
    const fn or(self, tool: &'static str, arguments: Arguments) -> Self {
        Self {
            tool: Some((tool, arguments)),
            ..self
        }
    }
}

impl ActionId {
    /// All actions.
    pub const ALL: &[Self] = &[
        Self::StartEngine,
        Self::FreeDiskSpace,
        Self::FreePort,
        Self::UseAutoPorts,
        Self::WidenPortRange,
        Self::RaiseMemoryLimit,
        Self::InspectLogs,
        Self::FixContainer,
        Self::FixHealthcheck,
        Self::RaiseTimeout,
        Self::Retry,
        Self::Wait,
        Self::ResetCircuit,
        Self::RunPreflight,
        Self::CleanOrphans,
        Self::VerifyNetwork,
        Self::FixSpec,
        Self::AllowInPolicy,
        Self::InstallPrerequisite,
        Self::UpgradeEngine,
        Self::FixImage,
        Self::PullImage,
        Self::LogIn,
        Self::FixBuild,
        Self::RemoveRival,
        Self::Rollback,
        Self::Fork,
        Self::Resume,
        Self::StopOtherController,
        Self::FixStateDirectory,
        Self::ResumeController,
        Self::InspectTests,
        Self::ReportBug,
    ];

    /// What it does, in words.
    pub fn summary(self) -> &'static str {
        self.template().summary
    }

    /// The action for an environment and a service, callable as it stands.
    ///
    /// A command or call that needs an environment which is not known is left out, never shown with a hole in it.
    pub fn remedy(self, environment: Option<&str>, service: Option<&str>) -> Remedy {
        let template = self.template();
        Remedy {
            action: self,
            summary: template.summary.to_owned(),
            command: template
                .command
                .and_then(|command| fill(command, environment, service)),
            mcp: template.tool.and_then(|(tool, arguments)| {
                Some(ToolCall {
                    tool: tool.to_owned(),
                    arguments: filled(arguments, environment, service)?,
                })
            }),
        }
    }

    const fn template(self) -> Template {
        match self {
            Self::StartEngine => shell("start the Docker engine", "docker info"),
            Self::FreeDiskSpace => shell("give back what Argus built and nothing needs", "argus reclaim"),
            Self::FreePort => {
                shell("end what holds the port, then retry", "argus retry {env}").or("argus_retry", ENV)
            }
            Self::UseAutoPorts => {
                told("set `resilience.network.portConflictStrategy: auto`, so that the port moves")
            }
            Self::WidenPortRange => told("widen `isolation.portRange`"),
            Self::RaiseMemoryLimit => told("raise `memory` of the service, or let the process use less"),
            Self::InspectLogs => shell("read what the container wrote", "argus logs {env} {service}")
                .or("argus_logs", SERVICE),
            Self::FixContainer => {
                told("mend what the container runs; a new image or revision is taken up by itself")
            }
            Self::FixHealthcheck => told("check path, port and type under `container.healthcheck`"),
            Self::RaiseTimeout => told("allow more time: `startPeriod`, `retries`, or `ARGUS_TIMEOUT_HEAVY`"),
            Self::Retry => {
                shell("try again with the same inputs", "argus retry {env}").or("argus_retry", ENV)
            }
            Self::Wait => shell("wait until it is ready", "argus wait {env}").or("argus_wait", ENV),
            Self::ResetCircuit => shell(
                "try the engine at once; by itself that is done after `retryAfter`",
                "argus breaker reset",
            )
            .or("argus_reset_circuit", &[]),
            Self::RunPreflight => {
                shell("check engine, disk and the rest", "argus preflight").or("argus_preflight_check", &[])
            }
            Self::CleanOrphans => shell(
                "list what dead controllers left; `--clean` removes it",
                "argus orphans",
            )
            .or("argus_orphans", &[]),
            Self::VerifyNetwork => shell(
                "look who reaches whom inside the environment",
                "argus network {env} --verify",
            )
            .or(
                "argus_network",
                &[("environment", "{env}"), ("verify", "true")],
            ),
            Self::FixSpec => told(
                "mend the file; it is read again by itself, and `argus validate FILE` says the same beforehand",
            )
            .or("argus_validate", &[]),
            Self::AllowInPolicy => {
                told("take it out of the file, or start the controller with the flag that allows it")
            }
            Self::InstallPrerequisite => told("install what is missing"),
            Self::UpgradeEngine => shell("upgrade the Docker engine", "docker version"),
            Self::FixImage => told("check the name and the tag of the image"),
            Self::PullImage => shell("try to pull again", "argus retry {env}").or("argus_retry", ENV),
            Self::LogIn => shell("log in at the registry", "docker login"),
            Self::FixBuild => {
                told("mend the Dockerfile or its context; the end of the build's output is in `details`")
            }
            Self::RemoveRival => told("remove or rename what holds the name"),
            Self::Rollback => shell(
                "go back to the last revision that was ready",
                "argus rollback {env}",
            )
            .or("argus_rollback", ENV),
            Self::Fork => {
                shell("run it beside itself under another name", "argus fork {env}").or("argus_fork", ENV)
            }
            Self::Resume => shell("let it go on", "argus resume {env}").or("argus_resume", ENV),
            Self::StopOtherController => told(
                "stop the other controller, or give this one a state directory or a namespace of its own",
            ),
            Self::FixStateDirectory => told("make the state directory writable and give it space"),
            Self::ResumeController => {
                shell("go on, once that is mended", "argus resume").or("argus_resume", &[])
            }
            Self::InspectTests => shell("look at what happened during the run", "argus describe {env}")
                .or("argus_events", ENV),
            Self::ReportBug => told("report it, with the state directory's journal"),
        }
    }
}

/// A command with its words filled in; nothing where it needs an environment that is not known.
fn fill(command: &str, environment: Option<&str>, service: Option<&str>) -> Option<String> {
    let mut words = Vec::new();
    for word in command.split(' ') {
        match word {
            "{env}" => words.push(quoted(environment?)),
            "{service}" => words.extend(service.map(quoted)),
            word => words.push(word.to_owned()),
        }
    }
    Some(words.join(" "))
}

/// Arguments filled in; nothing where they need an environment that is not known.
fn filled(
    arguments: Arguments,
    environment: Option<&str>,
    service: Option<&str>,
) -> Option<Map<String, Value>> {
    let mut all = Map::new();
    for (name, value) in arguments {
        let value = match *value {
            "{env}" => Some(Value::from(environment?)),
            "{service}" => service.map(Value::from),
            "true" => Some(Value::Bool(true)),
            value => Some(Value::from(value)),
        };
        all.extend(value.map(|value| ((*name).to_owned(), value)));
    }
    Some(all)
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
