//! Settings of a container's process that have the same meaning in a spec file.

use serde_json::{Map, Value, json};

use super::{Note, Service, parts};

/// Commands around the start of a container.
const HOOKS: [&str; 2] = ["pre_start", "post_start"];
/// Namespaces that a container can share with the host.
const NAMESPACES: [&str; 6] = ["network_mode", "pid", "ipc", "uts", "userns_mode", "cgroup"];

impl Service<'_> {
    /// Returns the network of another service. A file that `argus init` writes has none of a service that is left out.
    pub(super) fn translate_network_mode(&mut self, value: &Value) -> Option<Value> {
        let owner = value.as_str().and_then(|mode| mode.strip_prefix("service:"));
        match owner {
            Some(owner) if self.project.is_inlined && self.omitted.contains(owner) => {
                self.add_note(
                    "network_mode",
                    &format!("`network_mode`: that of `{owner}`, which is left out"),
                );
                None
            }
            Some(_) => Some(value.clone()),
            None => {
                self.note_process_key("network_mode", value);
                None
            }
        }
    }

    /// Notes a key without a counterpart. A service without a namespace that it shares, or without its hooks, would be another one.
    pub(super) fn note_process_key(&mut self, key: &str, value: &Value) {
        let kind = value.as_str().and_then(|mode| mode.split(':').next());
        let why = match kind {
            _ if self.project.is_inlined => None,
            _ if HOOKS.contains(&key) => {
                Some("only an entry point or a service that completes first runs commands")
            }
            _ if !NAMESPACES.contains(&key) => None,
            Some("host") => Some("no flag gives a container a namespace of the host"),
            Some("service" | "container") if key != "network_mode" => Some("containers share only networks"),
            Some("container") => Some("only a container of this environment can share its network"),
            _ => None,
        };
        let Some(why) = why else {
            return self.add_note(key, &format!("`{key}`"));
        };
        let written = value
            .as_str()
            .map_or_else(|| key.to_owned(), |mode| format!("{key}: {mode}"));
        let what = format!(
            "`{written}` of `{}` is not allowed: remove it, because {why}",
            self.name
        );
        let place = self.document.place(self.name, key);
        self.notes.push(Note::error(what, place));
    }
}

/// Translates the setting of a key; `None` for another key, or without a value. The text of a spec file is `is_inlined`, and does not
/// request privileges, because admission would refuse it.
pub(super) fn translate(key: &str, value: &Value, is_inlined: bool) -> Option<(&'static str, Value)> {
    Some(match key {
        "stop_signal" => ("stopSignal", json!(parts::scalar_to_text(value)?)),
        "hostname" => ("hostname", json!(parts::scalar_to_text(value)?)),
        "read_only" => ("readOnly", to_bool(value)?),
        "stdin_open" => ("stdinOpen", to_bool(value)?),
        "cap_drop" => ("capDrop", value.as_array()?.clone().into()),
        "cap_add" if !is_inlined => ("capAdd", value.as_array()?.clone().into()),
        "privileged" if !is_inlined => ("privileged", to_bool(value)?),
        "devices" if !is_inlined => ("devices", value.as_array()?.iter().map(to_device).collect()),
        "ulimits" => ("ulimits", value.as_object()?.iter().map(to_ulimit).collect()),
        "sysctls" => ("sysctls", to_map(value)?.into()),
        _ => return None,
    })
}

impl Service<'_> {
    /// Translates the security option about new privileges, and notes the others.
    pub(super) fn translate_security_options(&mut self, value: &Value) -> Option<Value> {
        let mut translated = None;
        for (index, option) in value.as_array()?.iter().enumerate() {
            let text = option.as_str().unwrap_or_default();
            let setting = text.strip_prefix("no-new-privileges");
            let setting = setting.map(|rest| rest.trim_start_matches([':', '=']));
            match setting {
                Some("" | "true") => translated = Some(true),
                Some("false") => translated = Some(false),
                Some(_) | None => {
                    let what = format!("the security option `{text}`");
                    self.add_note(&format!("security_opt[{index}]"), &what);
                }
            }
        }
        translated.map(Value::Bool)
    }
}

/// The value can come from a variable.
pub(super) fn to_bool(value: &Value) -> Option<Value> {
    let is_true = value.as_bool().or_else(|| value.as_str()?.parse().ok())?;
    Some(is_true.into())
}

fn to_device(device: &Value) -> Value {
    let part = |key: &str| parts::scalar_to_text(&device[key]);
    let Some(source) = part("source") else {
        return device.clone();
    };
    let target = part("target").unwrap_or_else(|| source.clone());
    let permissions = part("permissions").unwrap_or_else(|| "rwm".to_owned());
    format!("{source}:{target}:{permissions}").into()
}

fn to_ulimit((name, value): (&String, &Value)) -> (String, Value) {
    let text = |value: &Value| parts::scalar_to_text(value).unwrap_or_default();
    let limit = match value {
        Value::Object(_) => format!("{}:{}", text(&value["soft"]), text(&value["hard"])),
        single => text(single),
    };
    (name.clone(), limit.into())
}

fn to_map(value: &Value) -> Option<Map<String, Value>> {
    let pair = |item: &Value| {
        let (name, value) = item.as_str()?.split_once('=')?;
        Some((name.to_owned(), json!(value)))
    };
    match value {
        Value::Array(items) => Some(items.iter().filter_map(pair).collect()),
        Value::Object(_) => parts::translate_labels(value).as_object().cloned(),
        _ => None,
    }
}
