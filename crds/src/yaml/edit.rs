//! Change of one value in the text of a spec file. Everything else keeps its bytes: comments, layout, quotes.
//!
//! A change is written in the notation of its place, then read again. It counts only if the new text has exactly the changed value, so an
//! unusual notation is refused, never damaged.

use std::ops::Range;

use granit_parser::{ScalarStyle, StructureStyle};
use serde_json::{Value, json};

mod text_tree;

use super::document;
use crate::error::SpecEdit;
use text_tree::{Found, Kind, Part, Step};

/// Replacement of bytes of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextEdit {
    /// Bytes of the text.
    pub range: Range<usize>,
    /// Their new text.
    pub text: String,
}

impl TextEdit {
    /// Returns the whole text after the change.
    #[must_use]
    pub fn apply(&self, text: &str) -> String {
        let (start, end) = (&text[..self.range.start], &text[self.range.end..]);
        format!("{start}{}{end}", self.text)
    }

    /// Returns the change without the bytes that stay at its start and at its end.
    #[must_use]
    pub fn shortened(self, text: &str) -> Self {
        let same = |pair: &(char, char)| pair.0 == pair.1;
        let old = &text[self.range.clone()];
        let start: usize = old
            .chars()
            .zip(self.text.chars())
            .take_while(same)
            .map(|(c, _)| c.len_utf8())
            .sum();
        let rest = old[start..].chars().rev().zip(self.text[start..].chars().rev());
        let end: usize = rest.take_while(same).map(|(c, _)| c.len_utf8()).sum();
        Self {
            range: self.range.start + start..self.range.end - end,
            text: self.text[start..self.text.len() - end].to_owned(),
        }
    }
}

/// Returns the bytes to replace for a change of a key. Returns `None` without a value to write, or if the text is not the one that the
/// change describes, or if its notation permits no safe change.
///
/// ```rust
/// use argus_crds::{SpecEdit, yaml};
///
/// let text = "services:\n  web:\n    image: a:1 # pinned\n    memory: 64m\n";
/// let edit = SpecEdit::new("e2e.yaml", "services.web.memory", "it used 64MiB").now("64m").suggest("128m");
/// let change = yaml::text_edit(text, &edit).unwrap();
/// assert_eq!(change.apply(text), text.replace("64m", "128m"));
/// ```
pub fn text_edit(text: &str, edit: &SpecEdit) -> Option<TextEdit> {
    let value = edit.suggest.as_deref()?;
    let bom = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let body = &text[bom..];
    let old = document("", body.as_bytes()).ok()?.value;
    let root = Part::read(body)?;
    let changes = match root.find(&edit.key) {
        Found::Value(path, key, part) => changed(body, &path, key, part, edit.now.as_deref(), value),
        Found::Parent(path, part, rest) if edit.now.is_none() => added(body, &path, part, rest, value),
        Found::Parent(..) | Found::Nothing => Vec::new(),
    };
    let mut changes = changes.into_iter().filter(|change| {
        let read = document("", change.edit.apply(body).as_bytes());
        let wanted = change.effect.apply(old.clone());
        read.is_ok_and(|read| read.diagnostics.is_empty() && Some(read.value) == wanted)
    });
    let mut edit = changes.next()?.edit;
    edit.range = edit.range.start + bom..edit.range.end + bom;
    Some(edit)
}

/// Change of the text with its effect on the value of the file.
struct Change {
    edit: TextEdit,
    effect: Effect,
}

enum Effect {
    Set(Vec<Step>, Value),
    Rename(Vec<Step>, String),
}

impl Effect {
    /// Returns the value of the file after the change.
    fn apply(&self, mut file: Value) -> Option<Value> {
        let (Self::Set(path, _) | Self::Rename(path, _)) = self;
        let (last, parents) = path.split_last()?;
        let mut parent = &mut file;
        for step in parents {
            parent = match step {
                Step::Key(key) => parent.get_mut(key),
                Step::Index(index) => parent.get_mut(index),
            }?;
        }
        match (self, last) {
            (Self::Set(_, value), Step::Key(key)) => {
                parent.as_object_mut()?.insert(key.clone(), value.clone());
            }
            (Self::Set(_, value), Step::Index(index)) => *parent.get_mut(index)? = value.clone(),
            (Self::Rename(_, name), Step::Key(key)) => {
                let parent = parent.as_object_mut()?;
                let value = parent.remove(key)?;
                parent.insert(name.clone(), value);
            }
            (Self::Rename(..), Step::Index(_)) => return None,
        }
        Some(file)
    }
}

/// Value of a YAML text without other lines.
fn value_of(text: &str) -> Option<Value> {
    document("", text.as_bytes()).ok().map(|read| read.value)
}

/// Returns a proposed value as YAML, with its meaning. Lists, maps and quoted texts are YAML already. A text that YAML would read in another
/// way, such as one with ` #`, gets quotes. Variables and labels are always texts.
fn yaml_of(value: &str, is_text: bool) -> (String, Value) {
    let read = value_of(value);
    let is_quoted = value.starts_with(['\'', '"']);
    match read {
        Some(Value::String(text)) if is_quoted || text == value => (value.to_owned(), Value::String(text)),
        Some(read @ (Value::Array(_) | Value::Object(_))) if !is_text => (value.to_owned(), read),
        Some(read @ (Value::Bool(_) | Value::Number(_))) if format!("{read}") == value => {
            (value.to_owned(), read)
        }
        _ => (Value::from(value).to_string(), Value::from(value)),
    }
}

/// Returns whether a key holds a variable or a label, whose name can contain dots.
fn is_free(path: &[Step], at: usize) -> bool {
    let parent = at.checked_sub(1).and_then(|at| path.get(at));
    matches!(parent, Some(Step::Key(key)) if matches!(key.as_str(), "environment" | "labels"))
}

/// Changes of an existing value.
fn changed(
    text: &str,
    path: &[Step],
    key: Option<&Part>,
    part: &Part,
    now: Option<&str>,
    value: &str,
) -> Vec<Change> {
    let is_variable = is_free(path, path.len().saturating_sub(1));
    let change = |range: Range<usize>, text: String, effect: Effect| Change {
        edit: TextEdit { range, text },
        effect,
    };
    if let (Some(key), Some(now)) = (key, now)
        && key.text() == Some(now)
        && part.text() != Some(now)
    {
        let effect = Effect::Rename(path.to_vec(), value.to_owned());
        return vec![change(key.range.clone(), value.to_owned(), effect)];
    }
    let (written, new) = yaml_of(value, is_variable);
    let is_collection = matches!(new, Value::Array(_) | Value::Object(_));
    let whole = || {
        // A block begins on a line of its own. Its comments and anchors would be lost.
        let from = key?.range.end;
        let has_more = text.get(from..part.range.end)?.contains(['#', '&']);
        let effect = Effect::Set(path.to_vec(), new.clone());
        (!has_more).then(|| change(from..part.range.end, format!(": {written}"), effect))
    };
    match (&part.kind, now) {
        (Kind::Scalar { text: current, .. }, Some(now)) if now != current => {
            replaced(text, path, part, now, value).into_iter().collect()
        }
        // Only variables have a value that the change does not name.
        (Kind::Scalar { .. }, None) if !is_variable => Vec::new(),
        (Kind::Scalar { style, .. }, _) => {
            let is_kept = !is_collection && !value.starts_with(['\'', '"']);
            let (written, new) = match style {
                ScalarStyle::SingleQuoted if is_kept => {
                    (format!("'{}'", value.replace('\'', "''")), Value::from(value))
                }
                ScalarStyle::DoubleQuoted if is_kept => (Value::from(value).to_string(), Value::from(value)),
                _ => (written, new),
            };
            vec![change(
                part.range.clone(),
                written,
                Effect::Set(path.to_vec(), new),
            )]
        }
        // A new list replaces the one with this item.
        (Kind::List(items), Some(now)) if is_collection => {
            let has_item = items
                .iter()
                .any(|item| item.text().is_some_and(|text| text.contains(now)));
            whole().filter(|_| has_item).into_iter().collect()
        }
        // One item changes.
        (Kind::List(items), Some(now)) => {
            let mut matching = items.iter().enumerate().filter_map(|(at, item)| {
                let path = [path, &[Step::Index(at)]].concat();
                if item.text() == Some(now) {
                    return changed(text, &path, None, item, Some(now), value).pop();
                }
                replaced(text, &path, item, now, value)
            });
            match (matching.next(), matching.next()) {
                (Some(only), None) => vec![only],
                _ => Vec::new(),
            }
        }
        (Kind::List(..) | Kind::Map(..), None) => whole().into_iter().collect(),
        (Kind::Map(..), Some(_)) | (Kind::Alias, _) => Vec::new(),
    }
}

/// Change of the only occurrence of `now` in a scalar.
fn replaced(text: &str, path: &[Step], part: &Part, now: &str, value: &str) -> Option<Change> {
    let current = part.text()?;
    let raw = text.get(part.range.clone())?;
    let is_only = !now.is_empty() && raw.matches(now).count() == 1 && current.matches(now).count() == 1;
    // The only occurrence is a part of the new value, so an earlier change has written it.
    let is_written = value.contains(now) && current.contains(value);
    (is_only && !is_written).then(|| Change {
        edit: TextEdit {
            range: part.range.clone(),
            text: raw.replacen(now, value, 1),
        },
        effect: Effect::Set(path.to_vec(), Value::from(current.replacen(now, value, 1))),
    })
}

/// Changes that add the rest of a key to a map.
fn added(text: &str, path: &[Step], part: &Part, rest: &str, value: &str) -> Vec<Change> {
    let Kind::Map(entries, style) = &part.kind else {
        return Vec::new();
    };
    // Names of variables and labels contain dots.
    let mut keys = Vec::new();
    let mut left = rest;
    while !left.is_empty() {
        let free = match keys.last() {
            Some(parent) => matches!(*parent, "environment" | "labels"),
            None => is_free(path, path.len()),
        };
        let (key, after) = if free {
            (left, "")
        } else {
            left.split_once('.').unwrap_or((left, ""))
        };
        keys.push(key);
        left = after;
    }
    let Some((first, inner)) = keys.split_first().filter(|_| !rest.contains('[')) else {
        return Vec::new();
    };
    let is_variable = matches!(keys.iter().rev().nth(1), Some(&"environment" | &"labels"))
        || inner.is_empty() && is_free(path, path.len());
    let nested = |(written, new): (String, Value), key: &&str| {
        (format!("{{ {key}: {written} }}"), json!({ (*key): new }))
    };
    let (written, new) = inner.iter().rev().fold(yaml_of(value, is_variable), nested);
    let effect = || Effect::Set([path, &[Step::Key((*first).to_owned())]].concat(), new.clone());
    let change = |at: usize, text: String| Change {
        edit: TextEdit { range: at..at, text },
        effect: effect(),
    };
    let (Some((head, _)), Some((tail, last))) = (entries.first(), entries.last()) else {
        let empty = matches!(style, StructureStyle::Flow).then(|| Change {
            edit: TextEdit {
                range: part.range.clone(),
                text: format!("{{ {first}: {written} }}"),
            },
            effect: effect(),
        });
        return empty.into_iter().collect();
    };
    if matches!(style, StructureStyle::Flow) {
        return vec![change(last.range.end, format!(", {first}: {written}"))];
    }
    let start_of_line = |at: usize| text[..at].rfind('\n').map_or(0, |at| at + 1);
    let column = tail.range.start - start_of_line(tail.range.start);
    let line = format!("{:column$}{first}: {written}", "");
    let end = last.range.end;
    let after = if text[..end].ends_with('\n') {
        change(end, format!("{line}\n"))
    } else {
        let end = text[end..].find('\n').map_or(text.len(), |at| end + at);
        // The line ends of the file.
        let end_of_line = if text[..end].ends_with('\r') { "\r\n" } else { "\n" };
        let end = end - (end_of_line.len() - 1);
        change(end, format!("{end_of_line}{line}"))
    };
    let before = change(start_of_line(head.range.start), format!("{line}\n"));
    vec![after, before]
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
