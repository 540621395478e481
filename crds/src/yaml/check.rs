//! The check of a file's tree against the shape of the types.

use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::tree::{Entry, Kind, Node, shown};
use crate::complaint::{Complaint, Place};
use crate::environment::E2eSpec;
use crate::quantity::{ByteSize, CpuCount, HumanDuration};

mod unknown;

/// The most complaints that are kept about one file.
const MOST: usize = 100;

/// Collects the complaints about a file.
#[derive(Default)]
pub(super) struct Collector {
    complaints: Vec<Complaint>,
    more: usize,
    refused: bool,
}

impl Collector {
    pub(super) fn add(&mut self, complaint: Complaint) {
        self.refused |= complaint.is_error();
        if self.complaints.len() < MOST {
            self.complaints.push(complaint);
        } else {
            self.more += 1;
        }
    }

    /// Whether an error was found.
    pub(super) fn refused(&self) -> bool {
        self.refused
    }

    /// The complaints in the order of the file.
    pub(super) fn finish(mut self) -> Vec<Complaint> {
        self.complaints.sort_by_key(|complaint| complaint.place);
        if self.more > 0 {
            let message = format!("{} more complaints are left out", self.more);
            let rest = if self.refused {
                Complaint::error("", message)
            } else {
                Complaint::warning("", message)
            };
            self.complaints.push(rest);
        }
        self.complaints
    }
}

/// Complains about tags that have no meaning here.
pub(super) fn tags(tags: &[(String, Place)], to: &mut Collector) {
    for (tag, place) in tags {
        let message = format!("the tag `{}` has no meaning here and is ignored", shown(tag));
        to.add(Complaint::warning("", message).at(*place));
    }
}

/// Complains about everything in a file that does not fit the shape of [`E2eSpec`].
pub(super) fn against_schema(root: &Node, to: &mut Collector) {
    static SHAPE: OnceLock<Value> = OnceLock::new();
    let shape = SHAPE.get_or_init(|| schemars::schema_for!(E2eSpec).to_value());
    let mut check = Check {
        shape,
        to,
        parents: Vec::new(),
    };
    check.value(shape, root, "", root.place);
}

struct Check<'a> {
    shape: &'a Value,
    to: &'a mut Collector,
    /// The known keys of the maps that are being looked at, outermost first, with the key that leads on.
    parents: Vec<(&'a Map<String, Value>, String)>,
}

impl<'a> Check<'a> {
    /// The shape behind a reference.
    fn resolve(&self, mut schema: &'a Value) -> &'a Value {
        while let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            match self.shape.pointer(reference.trim_start_matches('#')) {
                Some(next) => schema = next,
                None => break,
            }
        }
        schema
    }

    fn value(&mut self, schema: &'a Value, node: &Node, path: &str, place: Place) {
        let schema = self.resolve(schema);
        if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
            return self.one_of(branches, node, path, place);
        }
        let types = types(schema);
        if types.is_empty() {
            return;
        }
        match &node.kind {
            Kind::Map(entries) if types.contains(&"object") => self.map(schema, entries, path, place),
            Kind::List(items) if types.contains(&"array") => self.list(schema, items, path, place),
            Kind::Scalar { text, plain } if !types.iter().all(|kind| ["object", "array"].contains(kind)) => {
                self.scalar(schema, &types, (text, *plain), path, place);
            }
            _ => self.mismatch(&types, node, path, place),
        }
    }

    /// Takes the branch whose kind is the node's.
    fn one_of(&mut self, branches: &'a [Value], node: &Node, path: &str, place: Place) {
        let fits = |kinds: &[&str]| match &node.kind {
            Kind::Map(_) => kinds.contains(&"object"),
            Kind::List(_) => kinds.contains(&"array"),
            Kind::Scalar { .. } => kinds
                .iter()
                .any(|kind| ["string", "number", "integer", "boolean"].contains(kind)),
        };
        let mut all = Vec::new();
        for branch in branches {
            let branch = self.resolve(branch);
            let kinds = match branch.get("anyOf").and_then(Value::as_array) {
                Some(inner) => inner
                    .iter()
                    .flat_map(|inner| types(self.resolve(inner)))
                    .collect(),
                None => types(branch),
            };
            if kinds.is_empty() || (fits(&kinds) && !node.is_null()) {
                return self.value(branch, node, path, place);
            }
            all.extend(kinds.into_iter().filter(|kind| *kind != "null"));
        }
        self.mismatch(&all, node, path, place);
    }

    fn map(&mut self, schema: &'a Value, entries: &[Entry], path: &str, place: Place) {
        let Some(known) = schema.get("properties").and_then(Value::as_object) else {
            let Some(each) = schema.get("additionalProperties").filter(|each| each.is_object()) else {
                return;
            };
            self.bounds(schema, entries.len(), "maxProperties", path, place);
            for entry in entries {
                self.value(each, &entry.value, &join(path, &entry.key), entry.place());
            }
            return;
        };
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for name in &required {
            if !entries.iter().any(|entry| entry.key == *name) {
                let message = match path {
                    "" => format!("`{name}` is missing"),
                    path => format!("`{}` has no `{name}`", shown(path)),
                };
                self.to.add(
                    Complaint::error(join(path, name), message)
                        .hint(add(name, known))
                        .at(place),
                );
            }
        }
        for entry in entries {
            let inner = join(path, &entry.key);
            let Some(schema) = known.get(&entry.key) else {
                if !entry.key.starts_with("x-") && entry.key != "$schema" {
                    self.unknown(known, entry, &inner);
                }
                continue;
            };
            let free = types(self.resolve(schema)).is_empty() && self.resolve(schema).get("anyOf").is_none();
            if entry.value.is_null() && !free {
                self.absent(entry, required.contains(&entry.key.as_str()), &inner);
                continue;
            }
            self.parents.push((known, entry.key.clone()));
            self.value(schema, &entry.value, &inner, entry.place());
            self.parents.pop();
        }
    }

    fn absent(&mut self, entry: &Entry, required: bool, path: &str) {
        let name = shown(&entry.key);
        let complaint = if required {
            Complaint::error(path, format!("`{name}` has no value")).hint("give it one")
        } else {
            Complaint::warning(path, format!("`{name}` has no value and counts as absent"))
                .hint("give it a value or remove the line")
        };
        self.to.add(complaint.at(entry.key_place));
    }

    fn list(&mut self, schema: &'a Value, items: &[std::sync::Arc<Node>], path: &str, place: Place) {
        self.bounds(schema, items.len(), "maxItems", path, place);
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        if (items.len() as u64) < least {
            let message = format!(
                "`{}` must have {least} values, and has {}",
                name(path),
                items.len()
            );
            self.to.add(Complaint::error(path, message).at(place));
        }
        let Some(each) = schema.get("items") else { return };
        for (index, item) in items.iter().enumerate() {
            self.value(each, item, &format!("{path}[{index}]"), item.place);
        }
    }

    fn bounds(&mut self, schema: &Value, count: usize, bound: &str, path: &str, place: Place) {
        let most = schema.get(bound).and_then(Value::as_u64).unwrap_or(u64::MAX);
        if count as u64 > most {
            let message = format!("`{}` may have {most} values, and has {count}", name(path));
            self.to.add(Complaint::error(path, message).at(place));
        }
    }

    fn scalar(&mut self, schema: &Value, types: &[&str], value: (&str, bool), path: &str, place: Place) {
        let (text, plain) = value;
        let refuse = |message: String, hint: Option<String>| Complaint {
            hint,
            ..Complaint::error(path, message).at(place)
        };
        let (name, quoted) = (name(path), shown(text));
        if plain && super::tree::is_null(text) {
            let complaint = if types.contains(&"null") {
                Complaint::warning(path, format!("`{name}` has no value and becomes the empty text"))
                    .hint("write `\"\"` for the empty text")
            } else {
                Complaint::error(path, format!("`{name}` has no value")).hint("give it one or remove it")
            };
            return self.to.add(complaint.at(place));
        }
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            if !words.contains(&text) {
                let message = format!("`{name}` cannot be `{quoted}`");
                self.to.add(refuse(message, Some(unknown::choice(text, &words))));
            }
            return;
        }
        if let Some((why, hint)) = schema
            .get("format")
            .and_then(Value::as_str)
            .and_then(|kind| quantity(kind, text))
        {
            return self.to.add(refuse(
                format!("`{name}` {why}: `{quoted}`"),
                Some(hint.to_owned()),
            ));
        }
        if types.contains(&"string") {
            if schema
                .get("minLength")
                .and_then(Value::as_u64)
                .is_some_and(|least| least > 0)
                && text.is_empty()
            {
                self.to.add(refuse(
                    format!("`{name}` is empty"),
                    Some("give it a value".to_owned()),
                ));
            }
            let most = schema
                .get("maxLength")
                .and_then(Value::as_u64)
                .unwrap_or(u64::MAX);
            if text.chars().count() as u64 > most {
                self.to
                    .add(refuse(format!("`{name}` is longer than {most} characters"), None));
            }
            return;
        }
        let unquote = (!plain).then(|| "remove the quotes".to_owned());
        if types.contains(&"boolean") {
            if !plain || !["true", "false"].contains(&text) {
                let hint = unquote
                    .filter(|_| ["true", "false"].contains(&text))
                    .or_else(|| unknown::truth(text));
                self.to.add(refuse(
                    format!("`{name}` must be `true` or `false`, not `{quoted}`"),
                    hint,
                ));
            }
        } else if let Some(message) = number(schema, types, text, plain) {
            let hint = unquote.filter(|_| number(schema, types, text, true).is_none());
            self.to.add(refuse(
                format!("`{name}` must be {message}, not `{quoted}`"),
                hint,
            ));
        }
    }

    fn mismatch(&mut self, types: &[&str], node: &Node, path: &str, place: Place) {
        let mut wanted: Vec<&str> = Vec::new();
        for kind in types {
            let word = match *kind {
                "object" => "a map",
                "array" => "a list",
                "boolean" => "`true` or `false`",
                "integer" | "number" if types.contains(&"string") => continue,
                "integer" | "number" => "a number",
                "null" => continue,
                _ => "a text",
            };
            if !wanted.contains(&word) {
                wanted.push(word);
            }
        }
        let subject = if path.is_empty() {
            "the file".to_owned()
        } else {
            format!("`{}`", name(path))
        };
        let wanted_words = wanted.join(" or ");
        let (found, hint) = match &node.kind {
            Kind::Map(_) if wanted == ["a list"] => ("a map", Some("start each value with `- `".to_owned())),
            Kind::Map(_) => ("a map", None),
            Kind::List(_) if wanted == ["a map"] => {
                ("a list", Some("write `key: value` without `- `".to_owned()))
            }
            Kind::List(_) => ("a list", None),
            Kind::Scalar { .. } if node.is_null() => ("empty", None),
            Kind::Scalar { text, .. } if wanted.contains(&"a list") => {
                ("a text", Some(format!("write a list: `[\"{}\"]`", shown(text))))
            }
            Kind::Scalar { .. } => ("a text", None),
        };
        let message = format!("{subject} must be {wanted_words}, and is {found}");
        let complaint = Complaint {
            hint,
            ..Complaint::error(path, message).at(place)
        };
        self.to.add(complaint);
    }

    fn unknown(&mut self, known: &'a Map<String, Value>, entry: &Entry, path: &str) {
        let message = format!("`{}` is not a known key and is ignored", shown(&entry.key));
        let hint = unknown::key(self, known, &entry.key);
        let complaint = Complaint {
            hint,
            ..Complaint::warning(path, message)
        };
        self.to.add(complaint.at(entry.key_place));
    }
}

/// The JSON types that a shape admits; none when it admits everything.
fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// The last part of a path, with its index.
fn name(path: &str) -> String {
    shown(path.rsplit('.').next().unwrap_or(path))
}

fn add(name: &str, known: &Map<String, Value>) -> String {
    let map = known.get(name).is_some_and(|schema| schema.get("$ref").is_some());
    if map {
        format!("add `{name}:` with its keys")
    } else {
        format!("add `{name}: …`")
    }
}

/// Why a text is not the quantity that is asked for.
fn quantity(format: &str, text: &str) -> Option<(String, &'static str)> {
    let (result, hint) = match format {
        "argus-duration" => (
            text.parse::<HumanDuration>().err(),
            "write `100ms`, `5s`, `2m`, `1h` or `90d`",
        ),
        "argus-size" => (
            text.parse::<ByteSize>().err(),
            "write `500MB`, `2GB`, `512Mi` or `1TB`",
        ),
        "argus-cpus" => (text.parse::<CpuCount>().err(), "write a number as `0.5` or `2`"),
        _ => return None,
    };
    result.map(|why| (why.to_string(), hint))
}

/// What a text should be when it is not the number that is asked for.
fn number(schema: &Value, types: &[&str], text: &str, plain: bool) -> Option<String> {
    let whole = types.contains(&"integer");
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let low = bound("minimum");
    let high = bound("maximum").or_else(|| {
        (schema.get("format").and_then(Value::as_str) == Some("uint32")).then_some(f64::from(u32::MAX))
    });
    let value = match text.parse::<i64>() {
        #[allow(clippy::cast_precision_loss, reason = "the bounds are far below 2^53")]
        Ok(value) => Some(value as f64),
        Err(_) if whole => None,
        Err(_) => text.parse::<f64>().ok().filter(|value| value.is_finite()),
    };
    let within = |value: f64| low.is_none_or(|low| value >= low) && high.is_none_or(|high| value <= high);
    if plain && value.is_some_and(within) && !text.starts_with('+') {
        return None;
    }
    let kind = if whole { "a whole number" } else { "a number" };
    Some(match (low, high) {
        (Some(low), Some(high)) => format!("{kind} from {low} to {high}"),
        (Some(low), None) => format!("{kind} from {low} on"),
        (None, Some(high)) => format!("{kind} up to {high}"),
        (None, None) => kind.to_owned(),
    })
}
