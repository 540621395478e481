//! Files that a service of a compose file names: variables, secrets and configs.

use std::collections::BTreeMap;

use argus_reconciler::specs::env_vars;
use serde_json::{Value, json};

use super::{Note, Service, parts};

impl Service<'_> {
    /// Variables of the files under `env_file`; later files win.
    pub(super) fn read_env_files(&mut self, value: &Value) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        let files = match value {
            Value::Null => return all,
            Value::Array(files) => files.clone(),
            one => vec![one.clone()],
        };
        for file in &files {
            let path = file
                .as_str()
                .or_else(|| file["path"].as_str())
                .unwrap_or_default();
            match (self.project.read)(&self.project.dir.join(path)) {
                Ok(bytes) => all.extend(env_vars::parse(&String::from_utf8_lossy(&bytes))),
                Err(_) if file["required"] == false => {}
                Err(why) => {
                    let what = format!(
                        "left out of `{}`: `env_file`: cannot read `{path}`: {why}",
                        self.name
                    );
                    let place = self.document.place(self.name, "env_file");
                    self.notes.push(Note::error(what, place));
                }
            }
        }
        all
    }

    /// Mounts of the files under `secrets` and `configs`.
    pub(super) fn mount_files(&mut self, written: &Value) -> Vec<Value> {
        let mut mounts = Vec::new();
        for (section, folder) in [("secrets", "/run/secrets/"), ("configs", "/")] {
            for one in written[section].as_array().into_iter().flatten() {
                let source = one
                    .as_str()
                    .or_else(|| one["source"].as_str())
                    .unwrap_or_default();
                let target = one["target"].as_str().unwrap_or(source);
                let Some(file) = self.top[section][source]["file"].as_str() else {
                    self.add_note(section, &format!("`{section}`: `{source}` is not a file"));
                    continue;
                };
                let target = if target.starts_with('/') {
                    target.to_owned()
                } else {
                    format!("{folder}{target}")
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
        mounts
    }
}
