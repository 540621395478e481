//! Check of a file's tree against the JSON Schema of [`E2eSpec`](crate::E2eSpec).

use serde_json::{Map, Value};

use super::entry_map::Entry;
use super::tags::Tag;
use super::tree::{Kind, Node, shown};
use crate::diagnostic::{Diagnostic, Location};
use crate::key_schema::{self, join};

mod scalar;
mod unknown;

/// Maximum number of diagnostics per file.
const MAX_DIAGNOSTICS: usize = 100;

/// Collector of the diagnostics about a file.
#[derive(Default)]
pub(super) struct Collector {
    diagnostics: Vec<Diagnostic>,
    /// Number of diagnostics beyond the maximum.
    omitted: usize,
    has_error: bool,
}

impl Collector {
    pub(super) fn add(&mut self, diagnostic: Diagnostic) {
        self.has_error |= diagnostic.is_error();
        if self.diagnostics.len() < MAX_DIAGNOSTICS {
            self.diagnostics.push(diagnostic);
        } else {
            self.omitted += 1;
        }
    }

    /// Returns true if a diagnostic is an error.
    pub(super) fn has_error(&self) -> bool {
        self.has_error
    }

    /// Returns the diagnostics in the order of the file.
    pub(super) fn finish(mut self) -> Vec<Diagnostic> {
        self.diagnostics.sort_by_key(|diagnostic| diagnostic.location);
        if self.omitted > 0 {
            let message = format!("{} more diagnostics are not shown", self.omitted);
            let rest = if self.has_error {
                Diagnostic::error("", message)
            } else {
                Diagnostic::warning("", message)
            };
            self.diagnostics.push(rest);
        }
        self.diagnostics
    }
}

/// Adds a warning for each unsupported tag.
pub(super) fn tags(tags: &[Tag], collector: &mut Collector) {
    for tag in tags {
        let message = format!("the tag `{}` is not supported and is ignored", tag.name);
        collector.add(Diagnostic::warning("", message).at(tag.location));
    }
}

/// Adds a diagnostic for each difference between a file and the schema of [`E2eSpec`](crate::E2eSpec).
pub(super) fn against_schema(root: &Node, collector: &mut Collector) {
    let schema = key_schema::root();
    let mut check = Check {
        root: schema,
        collector,
        parents: Vec::new(),
    };
    check.value(schema, root, "", root.location);
}

/// Returns true if a map has a key of a spec file, or a similar one. Diagnostics quote no text of another file, because its
/// author may not know that Argus reads it.
pub(super) fn is_spec(root: &Node) -> bool {
    let Kind::Map(entries) = &root.kind else {
        // A diagnostic reports the kind of the node only.
        return true;
    };
    let known = key_schema::root().get("properties").and_then(Value::as_object);
    let is_known = |entry: &Entry| known.is_some_and(|known| unknown::is_similar(&entry.key, known));
    entries.is_empty() || entries.iter().any(is_known)
}

struct Check<'a> {
    /// Root of the schema; references lead to its definitions.
    root: &'a Value,
    collector: &'a mut Collector,
    /// Known keys of the maps on the current path, outermost first, each with the key of the next step.
    parents: Vec<(&'a Map<String, Value>, String)>,
}

impl<'a> Check<'a> {
    /// Follows the references of a schema.
    fn resolve(&self, schema: &'a Value) -> &'a Value {
        key_schema::follow(self.root, schema)
    }

    fn value(&mut self, schema: &'a Value, node: &Node, path: &str, location: Location) {
        let schema = self.resolve(schema);
        if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
            return self.one_of(branches, node, path, location);
        }
        let types = types(schema);
        if types.is_empty() {
            return;
        }
        match &node.kind {
            Kind::Map(entries) if types.contains(&"object") => self.map(schema, entries, path, location),
            Kind::List(items) if types.contains(&"array") => self.list(schema, items, path, location),
            Kind::Scalar { text, plain } if !types.iter().all(|kind| ["object", "array"].contains(kind)) => {
                self.scalar(schema, &types, (text, *plain), path, location);
            }
            _ => self.mismatch(&types, node, path, location),
        }
    }

    /// Checks a node against the alternative of its own kind.
    fn one_of(&mut self, branches: &'a [Value], node: &Node, path: &str, location: Location) {
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
                return self.value(branch, node, path, location);
            }
            all.extend(kinds.into_iter().filter(|kind| *kind != "null"));
        }
        self.mismatch(&all, node, path, location);
    }

    fn map(&mut self, schema: &'a Value, entries: &[Entry], path: &str, location: Location) {
        let Some(known) = schema.get("properties").and_then(Value::as_object) else {
            let Some(each) = schema.get("additionalProperties").filter(|each| each.is_object()) else {
                return;
            };
            self.bounds(schema, entries.len(), "maxProperties", path, location);
            for entry in entries {
                self.value(each, &entry.value, &join(path, &entry.key), entry.location());
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
                self.collector.add(
                    Diagnostic::error(join(path, name), message)
                        .hint(missing_key_hint(name, known))
                        .at(location),
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
            self.value(schema, &entry.value, &inner, entry.location());
            self.parents.pop();
        }
    }

    fn absent(&mut self, entry: &Entry, required: bool, path: &str) {
        let name = shown(&entry.key);
        let diagnostic = if required {
            Diagnostic::error(path, format!("`{name}` has no value")).hint("give it a value")
        } else {
            Diagnostic::warning(path, format!("`{name}` has no value and is ignored"))
                .hint("give it a value or remove the line")
        };
        self.collector.add(diagnostic.at(entry.key_location));
    }

    fn list(&mut self, schema: &'a Value, items: &[std::sync::Arc<Node>], path: &str, location: Location) {
        self.bounds(schema, items.len(), "maxItems", path, location);
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        if (items.len() as u64) < least {
            let message = format!(
                "`{}` needs at least {least} values, not {}",
                name(path),
                items.len()
            );
            self.collector.add(Diagnostic::error(path, message).at(location));
        }
        let Some(each) = schema.get("items") else { return };
        for (index, item) in items.iter().enumerate() {
            self.value(each, item, &format!("{path}[{index}]"), item.location);
        }
    }

    fn bounds(&mut self, schema: &Value, count: usize, bound: &str, path: &str, location: Location) {
        let most = schema.get(bound).and_then(Value::as_u64).unwrap_or(u64::MAX);
        if count as u64 > most {
            let message = format!("`{}` accepts at most {most} values, not {count}", name(path));
            self.collector.add(Diagnostic::error(path, message).at(location));
        }
    }

    fn mismatch(&mut self, types: &[&str], node: &Node, path: &str, location: Location) {
        let mut wanted: Vec<&str> = Vec::new();
        for kind in types {
            let word = match *kind {
                "object" => "a map",
                "array" => "a list",
                "boolean" | "integer" | "number" if types.contains(&"string") => continue,
                "boolean" => "`true` or `false`",
                "integer" | "number" => "a number",
                "null" => continue,
                _ => "a string",
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
            Kind::Map(_) if wanted == ["a list"] => {
                ("a map".to_owned(), Some("start each item with `- `".to_owned()))
            }
            Kind::Map(_) => ("a map".to_owned(), None),
            Kind::List(_) if wanted == ["a map"] => (
                "a list".to_owned(),
                Some("write `key: value` without `- `".to_owned()),
            ),
            Kind::List(_) => ("a list".to_owned(), None),
            Kind::Scalar { .. } if node.is_null() => ("empty".to_owned(), None),
            Kind::Scalar { text, .. } => ("a single value".to_owned(), replacement(&wanted, text)),
        };
        let message = format!("{subject} must be {wanted_words}, not {found}");
        let diagnostic = Diagnostic {
            hint,
            ..Diagnostic::error(path, message).at(location)
        };
        self.collector.add(diagnostic);
    }

    fn unknown(&mut self, known: &'a Map<String, Value>, entry: &Entry, path: &str) {
        let message = format!("`{}` is not a known key and is ignored", shown(&entry.key));
        let diagnostic = unknown::key(Diagnostic::warning(path, message), self, known, entry);
        self.collector.add(diagnostic.at(entry.key_location));
    }
}

/// Suggests a replacement for a single value in place of a list or a map.
fn replacement(wanted: &[&str], text: &str) -> Option<String> {
    if wanted == ["a list"] {
        Some("write it as a list, such as `[\"value\"]`".to_owned())
    } else if wanted == ["a map"]
        && text
            .split_once(':')
            .is_some_and(|(_, value)| !value.starts_with(['/', ' ']))
    {
        Some("put a space after the colon".to_owned())
    } else {
        None
    }
}

/// Returns the JSON types that a schema permits; empty if it permits all.
fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the last part of a path, with its index.
fn name(path: &str) -> String {
    shown(path.rsplit('.').next().unwrap_or(path))
}

fn missing_key_hint(name: &str, known: &Map<String, Value>) -> String {
    let map = known.get(name).is_some_and(|schema| schema.get("$ref").is_some());
    if map {
        format!("add `{name}:` with its keys")
    } else {
        format!("add `{name}: …`")
    }
}
