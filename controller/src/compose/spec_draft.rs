//! Content of a spec file before it is written or read: from a Compose file, a Dockerfile or an example.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::process::exit::Failure;

pub(crate) mod note;
pub(crate) mod project;

use note::Note;

/// Function that reads a file of a project. The error is a reason for people.
pub(crate) type ReadFile<'a> = &'a dyn Fn(&Path) -> Result<Vec<u8>, String>;

/// Facts about a project that the translators need.
pub(crate) struct ProjectInfo<'a> {
    /// Folder of the project.
    pub(crate) dir: &'a Path,
    /// Relative path from the folder of the spec file to the folder of the project.
    pub(crate) back: PathBuf,
    /// Prefix of container names.
    pub(crate) slug: &'a str,
    /// Reads the files that a Compose file names.
    pub(crate) read: ReadFile<'a>,
    /// Values of variables.
    pub(crate) variables: &'a BTreeMap<String, String>,
    /// True if the spec file contains the values of variables without a secret name; false if it contains only their names.
    pub(crate) is_inlined: bool,
}

/// Content of the spec file before it is written.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) services: Vec<Value>,
    /// Settings of the default network.
    pub(crate) network: Map<String, Value>,
    /// Settings of further networks.
    pub(crate) networks: Map<String, Value>,
    /// Settings of named volumes.
    pub(crate) volumes: Map<String, Value>,
    /// Name of the translated file.
    pub(crate) from: Option<String>,
    /// Comments at the top of the file, such as keys without a translation.
    pub(crate) notes: Vec<Note>,
    /// Variables without a value, except those of errors.
    pub(crate) missing: BTreeSet<String>,
    /// Secret values of the project that the spec file reads from the `.env` next to it.
    pub(crate) secrets: BTreeMap<String, String>,
}

/// Formats a draft as the text of a spec file.
pub(crate) fn format_file(name: &str, draft: &Draft) -> Result<String, Failure> {
    let mut value = json!({ "version": "1", "project": { "name": name } });
    let sections = [
        ("network", &draft.network),
        ("networks", &draft.networks),
        ("volumes", &draft.volumes),
    ];
    for (key, settings) in sections.into_iter().filter(|(_, settings)| !settings.is_empty()) {
        value[key] = json!(settings);
    }
    value["services"] = json!(draft.services);
    let yaml = argus_crds::yaml::to_yaml(&value)
        .map_err(|error| Failure::operation_failed("cannot write YAML", &error))?;
    let from = draft
        .from
        .as_ref()
        .map(|from| format!(" from {from}"))
        .unwrap_or_default();
    let mut text = format!("# Written by `argus init`{from}. All keys: `argus schema`.\n");
    for note in &draft.notes {
        // Control characters are replaced, so that a note stays a comment of one line.
        text.extend(["# ", &note.to_string().replace(char::is_control, " "), "\n"]);
    }
    Ok(text + &yaml)
}
