//! Suggested actions for errors, and remedies: actions as complete calls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use template::Arguments;

use super::StructuredError;
use crate::quantity::ByteSize;

mod edit;
mod template;

pub use edit::{Confidence, SpecEdit};
pub use template::ActionId;

/// Suggested action with complete calls, ready to run.
///
/// ```rust
/// use argus_crds::ActionId;
///
/// let remedy = ActionId::InspectLogs.remedy(Some("shop"), Some("api"));
/// assert_eq!(remedy.command.as_deref(), Some("argus logs shop api"));
/// assert_eq!(remedy.mcp.unwrap().tool, "argus_logs");
///
/// // Without an environment, the command lists the environments.
/// let remedy = ActionId::Retry.remedy(None, None);
/// assert_eq!(remedy.command.as_deref(), Some("argus get"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remedy {
    /// Identifier of the action.
    pub action: ActionId,
    /// Description of the action.
    pub summary: String,
    /// Purpose of the command, if it does not perform the action but follows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<String>,
    /// Change of the spec file; only of the action `fix_spec`.
    #[serde(flatten)]
    pub edit: Option<SpecEdit>,
    /// Shell command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// MCP call with the same purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<ToolCall>,
}

/// Call of a tool of the MCP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Name of the tool.
    pub tool: String,
    /// Arguments of the call.
    pub arguments: Map<String, Value>,
    /// Purpose of the call, if it does not perform the action but follows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<String>,
}

impl Remedy {
    /// Creates the remedy of a change. A check of the spec file does not read other files, so a retry of the service follows their change.
    pub(super) fn of_edit(edit: SpecEdit, error: &StructuredError) -> Self {
        let (environment, service, message) = (
            error.environment.as_deref(),
            error.service_at_fault(),
            &error.message,
        );
        let check = ActionId::FixSpec.remedy(environment, service);
        // An unreadable spec file has no key.
        if !edit.key.is_empty() || error.code.stage() == "read-spec" {
            return check.with_edit(edit, message);
        }
        let target = environment.map(|environment| match service {
            Some(service) => format!("{environment}/{service}"),
            None => environment.to_owned(),
        });
        let retry = ActionId::Retry.remedy(target.as_deref(), None);
        let verify = retry.verify.or_else(|| Some("retry".to_owned()));
        let call = retry.mcp.map(|call| ToolCall {
            verify: verify.clone(),
            ..call
        });
        let fix = Self {
            verify,
            command: retry.command,
            mcp: call,
            ..check
        };
        fix.with_edit(edit, message)
    }

    /// Replaces the description with that of a change of the spec file, without a reason that the message of the error contains.
    #[must_use]
    pub(super) fn with_edit(self, edit: SpecEdit, message: &str) -> Self {
        let summary = if message.contains(&edit.reason) {
            edit.change()
        } else {
            edit.to_string()
        };
        Self {
            summary,
            edit: Some(edit),
            ..self
        }
    }

    /// Completes the remedy with the registry of a login, with the group that has access to the engine, with the Dockerfile
    /// of a build, with the name of a volume or network, with the command that stops a controller, or with the way to allow a setting.
    #[must_use]
    pub(super) fn completed(mut self, details: &Map<String, Value>) -> Self {
        let detail = |key: &str| details.get(key).and_then(Value::as_str).map(shell_quote);
        match self.action {
            ActionId::LogIn => {
                if let (Some(command), Some(registry)) = (&mut self.command, detail("registry")) {
                    command.push(' ');
                    command.push_str(&registry);
                }
            }
            ActionId::CreateVolume | ActionId::CreateNetwork => {
                let name = detail("volume").or_else(|| detail("network"));
                if let (Some(command), Some(name)) = (&mut self.command, name) {
                    command.push(' ');
                    command.push_str(&name);
                }
            }
            ActionId::JoinGroup => {
                if let Some(group) = detail("group") {
                    self.command = Some(format!("sudo usermod -aG {group} \"$USER\""));
                    self.summary = format!("become a member of the group `{group}`, then log in again");
                    self.verify = None;
                }
            }
            ActionId::FreeDiskSpace => self = self.of_disk(details),
            ActionId::FixBuild => {
                if let Some(dockerfile) = details.get("dockerfile").and_then(Value::as_str) {
                    let line = details.get("line").map(|line| format!(":{line}"));
                    let line = line.unwrap_or_default();
                    self.summary = format!("fix `{dockerfile}{line}`, its context or its target");
                }
            }
            ActionId::SetNamespace if details.get("ofCompose") == Some(&Value::Bool(true)) => {
                "set another `name` in this file, or pass `-p NAME`, because another project has the same name"
                    .clone_into(&mut self.summary);
            }
            ActionId::StopOtherController => {
                let holder = details.get("holder").and_then(|holder| holder.get("stop"));
                if let Some(stop) = holder.and_then(Value::as_str) {
                    self.command = Some(stop.to_owned());
                    self.verify = None;
                }
            }
            ActionId::AllowInPolicy => {
                if let Some(fix) = details.get("fix").and_then(Value::as_str) {
                    fix.clone_into(&mut self.summary);
                }
                if let Some(command) = details.get("fixCommand").and_then(Value::as_str) {
                    self.command = Some(command.to_owned());
                    self.verify = None;
                }
            }
            _ => {}
        }
        self
    }
}

const MEGABYTE: u64 = 1_000_000;

impl Remedy {
    /// Names the disk, and replaces the command if it cannot free enough.
    fn of_disk(self, details: &Map<String, Value>) -> Self {
        let Some(root) = details.get("dataRoot").and_then(Value::as_str) else {
            return self;
        };
        let bytes = |value: &Value, key: &str| value.get(key).and_then(Value::as_u64);
        let reclaimable = details
            .get("reclaimable")
            .and_then(|found| Some(bytes(found, "imagesBytes")? + bytes(found, "buildCacheBytes")?));
        let free = details.get("freeBytes").and_then(Value::as_u64);
        let threshold = details.get("thresholdBytes").and_then(Value::as_u64);
        let (Some(reclaimable), Some(free), Some(threshold)) = (reclaimable, free, threshold) else {
            return Self {
                summary: format!("{}, or other files on the disk of `{root}`", self.summary),
                ..self
            };
        };
        if free.saturating_add(reclaimable) >= threshold {
            return self;
        }
        let missing = ByteSize::from_bytes(threshold.saturating_sub(free).div_ceil(MEGABYTE) * MEGABYTE);
        let reclaimable = ByteSize::from_bytes(reclaimable / MEGABYTE * MEGABYTE);
        Self {
            summary: format!(
                "remove {missing} of files from the disk of `{root}` (`argus prune` can free only {reclaimable})"
            ),
            verify: self.mcp.as_ref().and_then(|call| call.verify.clone()),
            command: Some("argus preflight".to_owned()),
            ..self
        }
    }
}

impl ActionId {
    /// Returns true for an action that only describes a change of the spec file in general.
    pub(super) const fn is_general_edit(self) -> bool {
        matches!(
            self,
            Self::UseAutoPorts
                | Self::WidenPortRange
                | Self::FixHealthcheck
                | Self::RaiseTimeout
                | Self::FixSpec
                | Self::FixImage
        )
    }

    /// Creates the remedy of the action for an environment and a service.
    ///
    /// If a call needs an environment and `environment` is `None`, a call that lists all environments replaces it. So no
    /// call contains a placeholder.
    pub fn remedy(self, environment: Option<&str>, service: Option<&str>) -> Remedy {
        let template = self.template();
        let command = fill_command(template.command, environment, service);
        let arguments = fill_arguments(template.arguments, environment, service);
        let verify = if command.is_some() {
            template.then_verify
        } else {
            "list the environments"
        };
        let (tool, arguments) = match arguments {
            Some(arguments) => (template.tool, arguments),
            None => ("argus_status", Map::new()),
        };
        let verify = (!verify.is_empty()).then(|| verify.to_owned());
        Remedy {
            action: self,
            edit: None,
            summary: template.action.to_owned(),
            verify: verify.clone().filter(|_| !template.is_done_by_command),
            command: Some(command.unwrap_or_else(|| "argus get".to_owned())),
            mcp: Some(ToolCall {
                tool: tool.to_owned(),
                arguments,
                verify,
            }),
        }
    }
}

/// Replaces the placeholders of a command; `None` if it needs an unknown environment.
fn fill_command(command: &str, environment: Option<&str>, service: Option<&str>) -> Option<String> {
    let mut words = Vec::new();
    for word in command.split(' ') {
        match word {
            "{env}" => words.push(shell_quote(environment?)),
            "{service}" => words.extend(service.map(shell_quote)),
            word => words.push(word.to_owned()),
        }
    }
    Some(words.join(" "))
}

/// Replaces the placeholders of arguments; `None` if they need an unknown environment.
fn fill_arguments(
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

/// Quotes a word for a POSIX shell, if necessary.
fn shell_quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
