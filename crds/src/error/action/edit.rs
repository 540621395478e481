//! Change of a spec file that fixes an error.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Change of one key of a spec file.
///
/// ```rust
/// use argus_crds::SpecEdit;
///
/// let edit = SpecEdit::new("shop.e2e.yaml", "services.web.container.healthcheck.port", "no process listens on port 80")
///     .line(9)
///     .now("80")
///     .suggest("8080");
/// assert_eq!(
///     edit.to_string(),
///     "change `port` from `80` to `8080` in shop.e2e.yaml:9 (no process listens on port 80)"
/// );
///
/// let key = "services.web.container.environment.API_KEY";
/// let edit = SpecEdit::new("shop.e2e.yaml", key, "the program needs it").line(8);
/// assert_eq!(
///     edit.to_string(),
///     "add `API_KEY` to `container.environment` in shop.e2e.yaml:8 (the program needs it)"
/// );
///
/// let edit = SpecEdit::new("compose.yaml", "services.web.environment.API_KEY", "the program needs it");
/// assert_eq!(edit.to_string(), "add `API_KEY` to `environment` in compose.yaml (the program needs it)");
///
/// let key = "services.web.container.environment.discovery.typ";
/// let edit = SpecEdit::new("shop.e2e.yaml", key, "it is unknown").now("discovery.typ").suggest("discovery.type");
/// assert!(edit.to_string().starts_with("rename `discovery.typ` to `discovery.type` in"));
///
/// let edit = |key| SpecEdit::new("shop.e2e.yaml", key, "none is free").suggest("8").to_string();
/// assert!(edit("argus.policy.pidsLimit").starts_with("set `argus.policy.pidsLimit: 8` in"));
/// assert!(edit("services.web.container.healthcheck.retries").starts_with("set `container.healthcheck.retries: 8` in"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpecEdit {
    /// Path of the spec file.
    pub file: String,
    /// Line of the key, or of its nearest existing parent, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Path of the key, such as `services.web.container.healthcheck.port`; empty for the whole file.
    pub key: String,
    /// Value in the file, or `[redacted]` for a secret; absent if the key is missing, or if its value is a list or a map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// Value to write, as YAML; absent if Argus cannot propose one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggest: Option<String>,
    /// Description of the new value, if Argus cannot propose one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Observation that makes the change necessary.
    pub reason: String,
    /// Strength of the evidence; `argus fix` writes a likely change with `--likely`.
    #[serde(default)]
    #[schemars(!default)]
    pub confidence: Confidence,
}

/// Strength of the evidence behind a change: it excludes other causes (`certain`), or another cause is possible (`likely`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum Confidence {
    Certain,
    // A document of an earlier version does not contain the strength.
    #[default]
    Likely,
}

impl Confidence {
    /// Name of the strength in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Certain => "certain",
            Self::Likely => "likely",
        }
    }
}

impl SpecEdit {
    /// Creates a certain change without a line and without values.
    pub fn new(file: impl Into<String>, key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line: None,
            key: key.into(),
            now: None,
            suggest: None,
            hint: None,
            reason: reason.into(),
            confidence: Confidence::Certain,
        }
    }

    /// Reports that another cause is possible.
    #[must_use]
    pub fn likely(self) -> Self {
        Self {
            confidence: Confidence::Likely,
            ..self
        }
    }

    /// Sets the line, if it is known.
    #[must_use]
    pub fn line(self, line: impl Into<Option<usize>>) -> Self {
        Self {
            line: line.into(),
            ..self
        }
    }

    /// Sets the value in the file.
    #[must_use]
    pub fn now(self, now: impl Into<String>) -> Self {
        Self {
            now: Some(now.into()),
            ..self
        }
    }

    /// Sets the value to write.
    #[must_use]
    pub fn suggest(self, value: impl Into<String>) -> Self {
        Self {
            suggest: Some(value.into()),
            ..self
        }
    }

    /// Describes the new value, if there is no exact one.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Key without the name of its service, as a missing key is found in the file.
    fn path(&self) -> &str {
        let rest = self
            .key
            .strip_prefix("services.")
            .or(self.key.strip_prefix("mocks."));
        let inner = rest.and_then(|rest| Some(rest.split_once('.')?.1));
        inner.or(self.key.strip_prefix("service.")).unwrap_or(&self.key)
    }

    /// Last part of the key; empty for the whole file. The name of a variable can contain dots.
    fn name(&self) -> &str {
        let path = self.path();
        let variable = path.strip_prefix("container.environment.");
        let variable = variable.or(path.strip_prefix("environment."));
        variable.or(path.rsplit('.').next()).unwrap_or_default()
    }
}

impl SpecEdit {
    /// Describes the change without its reason.
    pub fn change(&self) -> String {
        let name = self.name();
        let change = match (&self.now, &self.suggest) {
            (Some(now), Some(value)) if now == name => format!("rename `{name}` to `{value}` in "),
            (Some(now), Some(value)) => format!("change `{name}` from `{now}` to `{value}` in "),
            (None, Some(value)) => format!("set `{}: {value}` in ", self.path()),
            (Some(now), None) => format!("change `{name}` (now `{now}`) in "),
            (None, None) if name.is_empty() => "fix ".to_owned(),
            // A variable has a value, so this one is missing.
            (None, None) if self.key.ends_with(&format!(".environment.{name}")) => {
                let variables = self.path().strip_suffix(name).unwrap_or_default();
                format!("add `{name}` to `{}` in ", variables.trim_end_matches('.'))
            }
            (None, None) => format!("change `{name}` in "),
        };
        let change = match self.line {
            Some(line) => format!("{change}{}:{line}", self.file),
            None => change + &self.file,
        };
        match &self.hint {
            Some(hint) => format!("{change}: {hint}"),
            None => change,
        }
    }
}

impl fmt::Display for SpecEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.change(), self.reason)
    }
}
