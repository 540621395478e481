//! Warnings about parts of a suite that have no effect, or that fail in every run.

mod condition;

use argus_core::desired::template::has_placeholders;
use argus_crds::diagnostic::Diagnostic;
use argus_crds::suggestion::nearest;
use argus_crds::yaml::SourceMap;
use serde_json::{Map, Value};

use self::condition::{content, fields};
use crate::check::join;
use crate::comparison::is_comparison;
use crate::step::{KINDS, SETUP_KEYS, STEP_KEYS, StepKind};
use crate::value::{is_truthy, list_of, shown};

/// Place of a step in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Setup,
    Case,
    Teardown,
}

/// Keys of a suite.
pub(crate) const FILE_KEYS: [&str; 7] = [
    "name",
    "description",
    "sequential",
    "variables",
    "setup",
    "cases",
    "teardown",
];

/// Diagnostics about a file, with the locations of its parts.
#[derive(Debug)]
pub(crate) struct Notes {
    pub(crate) source: SourceMap,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

fn warn(notes: &mut Notes, path: impl Into<String>, message: impl Into<String>, hint: Option<&str>) {
    let diagnostic = Diagnostic::warning(path, message);
    notes.diagnostics.push(match hint {
        Some(hint) => diagnostic.hint(hint),
        None => diagnostic,
    });
}

/// Adds a warning about a key, at the key.
fn warn_key(notes: &mut Notes, path: &str, message: impl Into<String>, hint: Option<&str>) {
    let location = notes.source.locate_key(path);
    warn(notes, path, message, hint);
    if let Some(diagnostic) = notes.diagnostics.last_mut() {
        diagnostic.location = location;
    }
}

/// Adds a warning for each unknown key of a map.
fn unknown_keys(map: &Map<String, Value>, known: &[&str], path: &str, notes: &mut Notes) {
    let is_known = |key: &str| known.contains(&key) || key.starts_with("x-") || key == "$schema";
    for key in map.keys().filter(|key| !is_known(key)) {
        let similar = nearest(key, known.iter().copied());
        let hint = match similar {
            Some(similar) => format!("did you mean `{similar}`?"),
            None => format!("known keys: `{}`", known.join("`, `")),
        };
        let message = format!("the key `{key}` has no effect");
        warn_key(notes, &join(path, key), message, Some(&hint));
    }
}

/// Returns the key that only a spec file has, if there is one. A suite can have a `service` by name, which has no effect.
pub(crate) fn spec_key(file: &Map<String, Value>) -> Option<&'static str> {
    let is_nested = |value: &Value| value.is_array() || value.is_object();
    let mut keys = ["project", "services", "service", "mocks"].into_iter();
    keys.find(|key| file.get(*key).is_some_and(is_nested))
}

/// Checks the keys of a file.
pub(crate) fn file(file: &Map<String, Value>, notes: &mut Notes) {
    if file.contains_key("service") {
        let hint = "set `service` of the suite in `e2e.yaml`";
        let message = "the key `service` has no effect in a suite file";
        warn_key(notes, "service", message, Some(hint));
    }
    let known = FILE_KEYS.into_iter().chain(["service"]).collect::<Vec<_>>();
    unknown_keys(file, &known, "", notes);
    if file
        .get("sequential")
        .is_some_and(|value| !value.is_boolean() && !value.is_null())
    {
        let message = "`sequential` has an effect only as `true`";
        warn(notes, "sequential", message, Some("write `sequential: true`"));
    }
    if file
        .get("cases")
        .and_then(Value::as_array)
        .is_some_and(Vec::is_empty)
    {
        warn(
            notes,
            "cases",
            "the suite has no cases, so it passes always",
            Some("add a case"),
        );
    }
}

/// Checks the keys of a wait in `setup`.
pub(crate) fn wait(item: &Map<String, Value>, wait: &Value, key: &str, path: &str, notes: &mut Notes) {
    unknown_keys(item, &["name", "description", "ignoreError", key], path, notes);
    let known: &[&str] = if key == SETUP_KEYS[0] {
        &["timeout"]
    } else {
        &["host", "port", "timeout"]
    };
    if let Value::Object(wait) = wait {
        unknown_keys(wait, known, &format!("{path}.{key}"), notes);
        number_as_time(wait, "timeout", &format!("{path}.{key}.timeout"), notes);
    }
}

/// Checks the keys of a pause in `setup`.
pub(crate) fn lone_delay(item: &Map<String, Value>, path: &str, notes: &mut Notes) {
    unknown_keys(item, &["name", "description", "delay"], path, notes);
    number_as_time(item, "delay", &format!("{path}.delay"), notes);
}

fn number_as_time(map: &Map<String, Value>, key: &str, path: &str, notes: &mut Notes) {
    if let Some(number @ Value::Number(_)) = map.get(key) {
        let message = format!("`{key}: {number}` is read as milliseconds");
        warn(notes, path, message, Some(&format!("write `{key}: {number}ms`")));
    }
}

/// Checks the keys of a step.
pub(crate) fn step(
    step: &Map<String, Value>,
    kind: Option<&StepKind>,
    path: &str,
    place: Place,
    notes: &mut Notes,
) {
    if let Some(StepKind::Unsupported(key)) = kind {
        let message = format!("steps with `{key}` are not supported");
        let hint = if key == "browser" {
            "use a suite with `runner: playwright`"
        } else {
            "Argus skips the step and reports it"
        };
        return warn(notes, format!("{path}.{key}"), message, Some(hint));
    }
    let key = match kind {
        Some(StepKind::Request) => "request",
        Some(StepKind::Exec) => "exec",
        Some(StepKind::File) => "file",
        Some(StepKind::Process) => "process",
        Some(StepKind::Port) => "port",
        Some(StepKind::Unsupported(_)) | None => "",
    };
    let known: Vec<&str> = STEP_KEYS.into_iter().chain(KINDS).collect();
    unknown_keys(step, &known, path, notes);
    for other in KINDS.into_iter().filter(|other| *other != key) {
        if !key.is_empty() && step.contains_key(other) {
            let message = format!("`{other}` has no effect, because the step has `{key}`");
            warn(notes, format!("{path}.{other}"), message, Some("write two steps"));
        }
    }
    if place != Place::Case {
        for ignored in ["delay", "retry"] {
            if step.contains_key(ignored) {
                let message = format!("`{ignored}` has an effect in cases only");
                warn(notes, format!("{path}.{ignored}"), message, None);
            }
        }
    }
    number_as_time(step, "delay", &format!("{path}.delay"), notes);
    if let Some(Value::Object(policy)) = step.get("retry") {
        let keys = ["maxAttempts", "delay", "backoff", "backoffMultiplier"];
        unknown_keys(policy, &keys, &format!("{path}.retry"), notes);
        number_as_time(policy, "delay", &format!("{path}.retry.delay"), notes);
    }
    save(step, key, path, notes);
    let Some(Value::Object(fields)) = step.get(key) else {
        return;
    };
    let at = format!("{path}.{key}");
    unknown_keys(fields, keys_of(key), &at, notes);
    number_as_time(fields, "timeout", &format!("{at}.timeout"), notes);
    if ["file", "process"].contains(&key) {
        counts(fields, &["size", "count"], &at, notes);
    }
    content(fields, &at, notes);
    expect(step, key, path, notes);
}

/// Keys of a kind of step.
pub(crate) fn keys_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "request" => &["method", "url", "path", "headers", "body", "timeout"],
        "exec" => &["command", "container"],
        "file" => &[
            "path",
            "container",
            "exists",
            "permissions",
            "owner",
            "size",
            "contains",
            "notContains",
            "matches",
            "json",
        ],
        "process" => &["name", "container", "running", "count", "user"],
        "port" => &["port", "host", "container", "listening", "timeout"],
        _ => &[],
    }
}

fn save(step: &Map<String, Value>, key: &str, path: &str, notes: &mut Notes) {
    let Some(save) = step.get("save").filter(|save| is_truthy(save)) else {
        return;
    };
    let at = format!("{path}.save");
    if key != "request" {
        let hint = "write the output to a file, and read it in a later step";
        return warn(notes, at, "`save` has an effect in requests only", Some(hint));
    }
    let Value::Object(save) = save else {
        let hint = "write `save: { name: path.of.the.value }`";
        return warn(
            notes,
            at,
            format!("`save` is a map, not {}", shown(Some(save))),
            Some(hint),
        );
    };
    for (name, from) in save {
        let from = from.as_str().unwrap_or_default();
        let prefix = ["$.", "$", "body.", "headers.", "response."];
        if let Some(prefix) = prefix.iter().find(|prefix| from.starts_with(**prefix)) {
            let rest = from.trim_start_matches(prefix);
            let message = format!("the path `{from}` begins at the body of the response");
            let hint = format!("write `{name}: {rest}`");
            warn(notes, format!("{at}.{name}"), message, Some(&hint));
        }
    }
}

fn expect(step: &Map<String, Value>, key: &str, path: &str, notes: &mut Notes) {
    let Some(expect) = step.get("expect").filter(|expect| !expect.is_null()) else {
        return;
    };
    let at = format!("{path}.expect");
    let known: &[&str] = match key {
        "request" => &["status", "headers", "body", "responseTime", "expr", "all", "any"],
        "exec" => &["exitCode", "output"],
        _ => {
            let message = format!("`expect` has no effect in a step with `{key}`");
            let hint = format!("write its keys below `{key}`");
            return warn(notes, at, message, Some(&hint));
        }
    };
    let Value::Object(expect) = expect else {
        return warn(
            notes,
            at,
            format!("`expect` is a map, not {}", shown(Some(expect))),
            None,
        );
    };
    unknown_keys(expect, known, &at, notes);
    if let Some(status) = expect.get("status")
        && !matches!(status, Value::Number(_) | Value::Array(_))
    {
        let message = format!("`status: {status}` fails always");
        let hint = "write a number, or a list such as `[200, 201]`";
        warn(notes, format!("{at}.status"), message, Some(hint));
    }
    if let Some(Value::String(text)) = expect.get("output")
        && !text.is_empty()
    {
        let hint = "write `output: { contains: … }`";
        warn(
            notes,
            format!("{at}.output"),
            "a text as `output` fails always",
            Some(hint),
        );
    }
    if let Some(Value::Object(output)) = expect.get("output") {
        let at = format!("{at}.output");
        let known = ["contains", "notContains", "matches", "json", "length"];
        unknown_keys(output, &known, &at, notes);
        counts(output, &["length"], &at, notes);
        content(output, &at, notes);
    }
    for key in ["body", "headers"] {
        fields(expect.get(key), &format!("{at}.{key}"), notes);
    }
    for key in ["all", "any"] {
        for (index, part) in expect.get(key).into_iter().flat_map(list_of).enumerate() {
            fields(Some(part), &format!("{at}.{key}[{index}]"), notes);
        }
    }
}

/// Checks comparisons written as text.
fn counts(map: &Map<String, Value>, keys: &[&str], path: &str, notes: &mut Notes) {
    for key in keys {
        if let Some(Value::String(text)) = map.get(*key)
            && !is_comparison(text)
            && !has_placeholders(text)
        {
            let message = format!("`{text}` is not a comparison");
            let hint = "write an operator and a number without blanks, such as `\">=1\"`";
            warn(notes, format!("{path}.{key}"), message, Some(hint));
        }
    }
}
