//! Files that a service of a compose file names: variables, secrets and configs.

use std::collections::BTreeMap;

use argus_core::budget::{Budget, Exceeded};
use argus_core::dotenv::{self, Dotenv};
use serde_json::{Map, Value, json};

use super::{Note, Service, parts};

/// Format of a file under `env_file` without quotes and variables.
const RAW: &str = "raw";

/// Variables and bytes of the files under `env_file` of a project, with the bytes that variables insert. A step is a variable.
pub(super) const ENV_FILES: Budget = Budget::new(20_000, 16 << 20);

/// Counts a file under `env_file`. Returns the first excess of [`ENV_FILES`] in words.
pub(super) fn count_env_file(budget: &mut Budget, variables: usize, bytes: usize) -> Option<String> {
    let counted = budget.steps(variables as u64);
    let exceeded = counted.and_then(|()| budget.bytes(bytes as u64)).err()?;
    let what = match exceeded {
        Exceeded::Steps(most) => format!("more than {most} variables"),
        Exceeded::Bytes(_) => format!("{exceeded} with the values of their variables"),
    };
    Some(format!("the files under `env_file` of this project have {what}"))
}

impl Service<'_> {
    /// Variables of the files under `env_file`; later files win. Their values can contain variables of the project, and the service's
    /// `own` ones.
    pub(super) fn read_env_files(
        &mut self,
        value: &Value,
        own: &Map<String, Value>,
    ) -> BTreeMap<String, String> {
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        for file in value.as_array().into_iter().flatten() {
            // The first excess is an error.
            if self.env_files.exceeded().is_some() {
                break;
            }
            let path = file
                .as_str()
                .or_else(|| file["path"].as_str())
                .unwrap_or_default();
            let (mut problems, mut hint) = (Vec::new(), None);
            let format = file["format"].as_str();
            if let Some(format) = format.filter(|format| *format != RAW) {
                problems.push(format!("the format `{format}` of `{path}` has no counterpart"));
            }
            match (self.project.read)(&self.project.dir.join(path)) {
                Ok(bytes) => {
                    let outside = |name: &str| {
                        let own = || own.get(name)?.as_str().map(str::to_owned);
                        let found = self.project_value(name).or_else(own);
                        found.or_else(|| all.get(name).cloned())
                    };
                    let found = match format {
                        Some(RAW) => read_raw(&bytes),
                        _ => dotenv::read(&bytes, &outside),
                    };
                    problems.extend(
                        found
                            .problems
                            .iter()
                            .map(|problem| problem.describe(path.as_ref())),
                    );
                    let bytes = bytes.len() + found.inserted;
                    problems.extend(count_env_file(self.env_files, found.variables.len(), bytes));
                    all.extend(found.variables);
                }
                Err(_) if file["required"] == false => {}
                Err(why) => {
                    problems.push(format!("cannot read `{path}`: {why}"));
                    let optional = format!("{{ path: {path}, required: false }}");
                    hint = Some(format!(
                        "create `{path}`, or write `{optional}` for a file that can be absent"
                    ));
                }
            }
            let place = self.document.place(self.name, "env_file");
            let note = |problem| {
                let what = format!("`{}`: `env_file`: {problem}", self.name);
                Note::error(what, place.clone()).hint(hint.clone())
            };
            self.notes.extend(problems.into_iter().map(note));
        }
        all
    }

    /// Value of a variable of the project: a template if the spec file contains only its name.
    fn project_value(&self, name: &str) -> Option<String> {
        let value = self.project.variables.get(name)?;
        Some(if value.is_empty() || self.project.is_inlined {
            value.clone()
        } else {
            format!("{{{{env.{name}}}}}")
        })
    }

    /// Mounts of the files under `secrets` and `configs`, and the files with a text or the value of a variable.
    pub(super) fn translate_files(&mut self, written: &Value) -> (Vec<Value>, Vec<Value>) {
        let (mut mounts, mut files) = (Vec::new(), Vec::new());
        let top = self.top;
        for (section, folder) in [("secrets", "/run/secrets/"), ("configs", "/")] {
            for one in written[section].as_array().into_iter().flatten() {
                let source = one
                    .as_str()
                    .or_else(|| one["source"].as_str())
                    .unwrap_or_default();
                let target = one["target"].as_str().unwrap_or(source);
                let target = if target.starts_with('/') {
                    target.to_owned()
                } else {
                    format!("{folder}{target}")
                };
                let entry = &top[section][source];
                if let Some(content) = self.content_of(entry, section, source) {
                    let mut file = json!({ "path": target, "content": content });
                    for key in ["uid", "gid"] {
                        let text = parts::scalar_to_text(&one[key]);
                        match text.and_then(|text| text.parse::<u32>().ok()) {
                            Some(number) => file[key] = json!(number),
                            None if one[key].is_null() => {}
                            None => self.add_note(section, &format!("`{section}`: `{key}` of `{source}`")),
                        }
                    }
                    if let Some(mode) = translate_mode(&one["mode"]) {
                        file["mode"] = json!(mode);
                    }
                    files.push(file);
                    continue;
                }
                for key in ["uid", "gid", "mode"]
                    .into_iter()
                    .filter(|key| one.get(key).is_some())
                {
                    self.add_note(section, &format!("`{section}`: `{key}` of `{source}`"));
                }
                let Some(file) = entry["file"].as_str() else {
                    self.add_note(section, &format!("`{section}`: `{source}` is not a file"));
                    continue;
                };
                let lead = if file.starts_with(['.', '/', '~']) {
                    ""
                } else {
                    "./"
                };
                let mount = json!(format!("{lead}{file}:{target}:ro"));
                match parts::translate_volume(&mount, &self.project.back, self.name) {
                    Ok(mount) => mounts.push(json!(mount)),
                    Err(reason) => self.add_note(section, &reason),
                }
            }
        }
        (mounts, files)
    }

    /// Text of a secret or config: its own, or a reference to a variable, so that no value is in the spec file. `None` for a file.
    fn content_of(&mut self, entry: &Value, section: &str, name: &str) -> Option<String> {
        let Some(variable) = entry["environment"].as_str() else {
            return parts::scalar_to_text(&entry["content"]);
        };
        let is_set = self.project.variables.contains_key(variable);
        if self.project.is_inlined && !is_set {
            // A file that `argus init` writes is accepted.
            return None;
        }
        if !is_set {
            let what = format!(
                "`{section}.{name}` needs the variable `{variable}`, which is not set: add it to the `.env` file next to this file, or run \
`argus allow`, after which variables of the shell count"
            );
            let place = self.document.place(self.name, section);
            self.notes.push(Note::error(what, place));
        }
        self.variables.read.insert(variable.to_owned());
        Some(format!("{{{{env.{variable}}}}}"))
    }
}

/// Variables of a file whose values are the rest of their lines, with all quotes and `$`.
fn read_raw(bytes: &[u8]) -> Dotenv {
    let text = String::from_utf8_lossy(bytes);
    let lines = text
        .lines()
        .map(str::trim_start)
        .filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once('='));
    let variables = pairs.map(|(name, value)| (name.trim().to_owned(), value.to_owned()));
    Dotenv {
        variables: variables.collect(),
        ..Dotenv::default()
    }
}

/// Octal digits of a file mode. YAML reads `0440` as the number 440, and `0o440` as 288.
fn translate_mode(value: &Value) -> Option<String> {
    let text = parts::scalar_to_text(value)?;
    let decimal = || Some(format!("{:o}", value.as_u64()?));
    if value.is_string() || is_usual(&text) {
        Some(text)
    } else {
        decimal()
    }
}

/// Returns whether octal digits are a mode that people write: the owner can read, the group has no more rights, and others no more than it.
fn is_usual(digits: &str) -> bool {
    let Ok(mode) = u32::from_str_radix(digits, 8) else {
        return false;
    };
    let (owner, group, others) = (mode >> 6, mode >> 3 & 7, mode & 7);
    owner & 4 != 0 && group & !owner == 0 && others & !group == 0
}
