//! What can be done about an error.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use template::Arguments;

mod template;

/// Something that can be done about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(
    missing_docs,
    reason = "the templates tell what each one means, and a comment would split the schema's enum"
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
    /// What is to be done, and what the calls show where they are not the whole of it.
    pub summary: String,
    /// The command for it.
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

    /// The action for an environment and a service, callable as it stands.
    ///
    /// Where a call needs an environment and none is known, the call that names them all takes its place: none has a hole in it.
    pub fn remedy(self, environment: Option<&str>, service: Option<&str>) -> Remedy {
        let template = self.template();
        let command = fill(template.command, environment, service);
        let arguments = filled(template.arguments, environment, service);
        let shows = if command.is_some() {
            template.then_verify
        } else {
            "which environments there are"
        };
        let (tool, arguments) = match arguments {
            Some(arguments) => (template.tool, arguments),
            None => ("argus_status", Map::new()),
        };
        Remedy {
            action: self,
            summary: [template.action, shows]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join("; "),
            command: Some(command.unwrap_or_else(|| "argus get".to_owned())),
            mcp: Some(ToolCall {
                tool: tool.to_owned(),
                arguments,
            }),
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
