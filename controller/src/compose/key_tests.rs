//! All keys of the Compose specification, and the page with the effect of each one.

use std::fmt::Write as _;
use std::path::Path;

use argus_crds::yaml;
use argus_reconciler::specs::parsed_file::ComposeSource;
use serde_json::{Value, json};

use super::translate;
use super::unknown_keys::KEYS;

const PAGE: &str = "../docs/reference/compose.md";
const BEGIN: &str =
    "<!-- begin: all keys; `UPDATE=1 cargo test --bins keys_are_documented` writes this -->\n";
const END: &str = "<!-- end -->";

/// Keys without an effect on the file of the test, with the reason.
const SAME: &[(&str, &str, &str)] = &[
    ("version", "not needed", "Compose ignores it too"),
    (
        "services.*.attach",
        "not needed",
        "only `docker compose up` reads it",
    ),
    (
        "services.*.expose",
        "not needed",
        "services reach all ports of each other",
    ),
    (
        "services.*.ports.[].app_protocol",
        "not needed",
        "Compose passes it to no container",
    ),
    (
        "services.*.ports.[].mode",
        "not needed",
        "one engine has one mode",
    ),
    (
        "services.*.ports.[].name",
        "not needed",
        "Compose passes it to no container",
    ),
    (
        "services.*.profiles",
        "supported",
        "`COMPOSE_PROFILES` selects them; other services are left out with a note",
    ),
    (
        "services.*.volumes.[].consistency",
        "not needed",
        "engines on Linux ignore it",
    ),
];

/// Translation of a file, and its diagnostics with their severity.
fn translation(document: &Value) -> (String, Vec<(bool, String)>) {
    let read = |path: &Path| match path.to_str() {
        // With quotes, so that the format matters.
        Some("/shop/a.env") => Ok(b"A=\"1\"\n".to_vec()),
        Some("/shop/b.yaml") => {
            Ok(b"services: { included: { image: \"x:${A:-0}\", volumes: [\"./d:/d\"] } }".to_vec())
        }
        Some("/shop/e.yaml") => Ok(b"services: { e: { user: e } }".to_vec()),
        _ => Err("no such file".to_owned()),
    };
    let text = document.to_string();
    let source = ComposeSource {
        name: "compose.yaml",
        file: Path::new("/shop/compose.yaml"),
        bytes: text.as_bytes(),
        read: &read,
        variables: &[("COMPOSE_PROFILES", "p"), ("B", "1")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    };
    let translation = translate(&source).unwrap();
    let diagnostics = translation.contents.diagnostics.into_iter();
    let messages = diagnostics.map(|diagnostic| (diagnostic.is_error(), diagnostic.message));
    (translation.text, messages.collect())
}

/// A file with two services, in which `map` is at `path`.
fn document(path: &[&str], map: &Value) -> Value {
    let mut document = json!({
        "services": {
            "a": { "image": "x", "networks": ["n"] },
            "b": { "image": "y", "networks": ["n"], "volumes": ["v:/v"], "secrets": ["s"], "configs": ["c"] }
        },
        "networks": { "n": {} },
        "volumes": { "v": {} },
        "secrets": { "s": { "file": "./s" } },
        "configs": { "c": { "file": "./c" } }
    });
    match path {
        [] => extend(&mut document, map),
        ["services", "*"] => extend(&mut document["services"]["a"], map),
        _ => put(&mut document, path, "", map),
    }
    document
}

fn extend(value: &mut Value, map: &Value) {
    for (key, inner) in map.as_object().unwrap() {
        value[key] = inner.clone();
    }
}

fn put(value: &mut Value, path: &[&str], above: &str, map: &Value) {
    let (first, rest) = match path {
        [] => {
            *value = map.clone();
            return;
        }
        ["[]", rest @ ..] => {
            let item = match rest {
                ["bind"] => json!({ "type": "bind", "source": "./x", "target": "/x" }),
                [kind] if above == "volumes" => json!({ "type": kind, "source": "v", "target": "/x" }),
                _ => json!({}),
            };
            *value = json!([item]);
            put(&mut value[0], rest, above, map);
            return;
        }
        ["*", rest @ ..] => {
            let name = match above {
                "services" => "a",
                "depends_on" => "b",
                other => &other[..1],
            };
            (name, rest)
        }
        [key, rest @ ..] => (*key, rest),
    };
    if !value.is_object() {
        *value = json!({});
    }
    put(&mut value[first], rest, first, map);
}

/// Effect of a key: supported, noted or refused, with a remark. `None` if the translation is the same without it.
fn effect(path: &[&str], map: &Value) -> Option<(&'static str, String)> {
    let (key, parent) = path.split_last().unwrap();
    let mut without = map.clone();
    assert!(
        without.as_object_mut().unwrap().shift_remove(*key).is_some(),
        "{path:?}"
    );
    let base = translation(&document(parent, &without));
    let found = translation(&document(parent, map));
    let new: Vec<_> = found
        .1
        .iter()
        .filter(|message| !base.1.contains(message))
        .collect();
    let first_of = |is_error: bool| {
        let message = new.iter().find(|message| message.0 == is_error)?;
        let text = message
            .1
            .split_once("left out of `a`: ")
            .map_or(message.1.as_str(), |(_, text)| text);
        let text = text.strip_prefix("left out: ").unwrap_or(text);
        let is_key = text.matches('`').count() == 2 && text.starts_with('`') && text.ends_with('`');
        Some(if is_key { String::new() } else { text.to_owned() })
    };
    if let Some(error) = first_of(true) {
        return Some(("refused", error));
    }
    if let Some(note) = first_of(false) {
        return Some(("noted", note));
    }
    (base != found).then(|| ("supported", String::new()))
}

#[test]
fn keys_are_documented() {
    let mut table = "\n| key | effect | remark |\n|---|---|---|\n".to_owned();
    let lines = || KEYS.lines().filter(|line| !line.starts_with('#'));
    let mut whole: Vec<&str> = Vec::new();
    let mut silent = Vec::new();
    for line in lines() {
        let Some((key, map)) = line.split_once(' ') else {
            let is_covered = whole.iter().any(|other| line.starts_with(&format!("{other}.")));
            let has_parts =
                lines().any(|other| other.starts_with(&format!("{line}.")) && other.contains(' '));
            assert!(is_covered || has_parts, "{line} has no map");
            continue;
        };
        let map = yaml::document("map", map.as_bytes()).unwrap().value;
        let path: Vec<&str> = key.split('.').collect();
        let same = SAME.iter().find(|(name, _, _)| *name == key);
        let (effect, remark) = match (effect(&path, &map), same) {
            (Some(found), None) => found,
            (None, Some((_, effect, remark))) => (*effect, (*remark).to_owned()),
            (Some(_), Some(_)) => panic!("{key} has an effect"),
            (None, None) => {
                silent.push(key);
                continue;
            }
        };
        let is_privilege = ["privileged", "cap_add", "devices"]
            .iter()
            .any(|name| key == format!("services.*.{name}"));
        let remark = if is_privilege {
            "in an allowed project with `--allow-privileged`, else refused".to_owned()
        } else if key == "services.*.network_mode" {
            "`service:NAME`; `host` and `container:NAME` are refused".to_owned()
        } else if key == "services.*.depends_on.*.required" {
            "`false` permits a service that is missing or left out".to_owned()
        } else {
            remark
        };
        if matches!(effect, "noted" | "refused") {
            whole.push(key);
        }
        let name = key.replace(".*", ".NAME").replace(".[]", "[]");
        writeln!(table, "| `{name}` | {effect} | {} |", remark.replace('|', "\\|")).unwrap();
    }
    assert_eq!(silent, [""; 0], "these keys are left out without a note");
    table.push('\n');
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(BEGIN).unwrap();
    let (found, tail) = rest.split_once(END).unwrap();
    if found != table {
        let is_update = std::env::var_os("UPDATE").is_some();
        assert!(
            is_update,
            "{PAGE} is out of date; hint: UPDATE=1 cargo test --bins keys_are_documented"
        );
        std::fs::write(&path, format!("{head}{BEGIN}{table}{END}{tail}")).unwrap();
    }
}
