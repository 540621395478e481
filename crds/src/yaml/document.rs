//! Generic YAML and JSON documents: their value, with the locations of all paths.

use serde::Deserialize;
use serde_json::Value;

use super::deserialize::Reader;
use super::{SourceMap, Tag, tags, text_of, tree_of};
use crate::diagnostic::Diagnostic;
use crate::number::Keep;

/// Result of [`document`].
#[derive(Clone, Debug)]
pub struct Document {
    /// Content of the document.
    pub value: Value,
    /// Locations of all paths in the document.
    pub source: SourceMap,
    /// Errors that do not prevent parsing, such as duplicate keys.
    pub diagnostics: Vec<Diagnostic>,
    /// Tags that YAML does not define. The value does not show them.
    pub tags: Vec<Tag>,
}

/// Reads a document within the bounds of a spec file, or returns the diagnostic that makes parsing impossible.
///
/// ```rust
/// use argus_crds::yaml;
///
/// let document = yaml::document("api.yaml", b"paths:\n  /users: {}\n").unwrap();
/// assert!(document.value["paths"]["/users"].is_object());
/// assert_eq!(document.source.locate("paths").unwrap().line, 1);
/// ```
pub fn document(file_name: &str, bytes: &[u8]) -> Result<Document, Box<Diagnostic>> {
    read(file_name, bytes, None)
}

/// Reads a document as [`document`] does, and keeps the digits of numbers that a double cannot hold, as [`crate::number`] describes.
pub fn exact_document(file_name: &str, bytes: &[u8], keep: Keep) -> Result<Document, Box<Diagnostic>> {
    read(file_name, bytes, Some(keep))
}

fn read(file_name: &str, bytes: &[u8], keep: Option<Keep>) -> Result<Document, Box<Diagnostic>> {
    let without_spec_hint = |mut diagnostic: Box<Diagnostic>| {
        // Hints about environments do not apply to other documents.
        diagnostic.hint.take_if(|hint| hint.contains("environment"));
        diagnostic
    };
    let mut text = text_of(bytes).map_err(without_spec_hint)?.to_owned();
    if text.trim_start().starts_with(['{', '[']) {
        // JSON allows tabs between values and forbids them inside strings.
        text = text.replace('\t', " ");
    }
    let tree = tree_of(&text).map_err(without_spec_hint)?;
    let tags = tags::find(&tree.node);
    let source = SourceMap::new(file_name, Some(tree.node));
    let value = source
        .root()
        .map(|root| Value::deserialize(Reader::new(root).keep(keep)));
    match value {
        Some(Ok(value)) => Ok(Document {
            value,
            source,
            diagnostics: tree.broken,
            tags,
        }),
        Some(Err(error)) => Err(Box::new(Diagnostic::error(
            "",
            format!("cannot read the document: {error}"),
        ))),
        None => Err(Box::new(Diagnostic::error("", "the document is empty"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_and_json_are_read_with_locations() {
        for text in [
            "a:\n  - b: 1\n  - c: 2024-01-01\n",
            "{\n\t\"a\": [{\"b\": 1},\n\t\t{\"c\": \"2024-01-01\"}]}",
        ] {
            let document = document("d", text.as_bytes()).unwrap();
            assert_eq!(
                document.value,
                json!({ "a": [{ "b": 1 }, { "c": "2024-01-01" }] })
            );
            assert_eq!(document.source.locate("a[1].c").unwrap().line, 3);
        }
    }

    #[test]
    fn unreadable_document_has_no_hint_about_environments() {
        for text in ["", "a: [", "a: 1\n---\nb: 2\n", "{\"a\": 1"] {
            let diagnostic = document("d", text.as_bytes()).unwrap_err();
            assert!(
                diagnostic.is_error() && diagnostic.hint.is_none_or(|hint| !hint.contains("environment")),
                "{text}"
            );
        }
        let duplicate = document("d", b"a: 1\na: 2\n").unwrap();
        assert_eq!(duplicate.diagnostics[0].location.unwrap().line, 2);
    }

    #[test]
    fn tags_have_their_keys_and_lines() {
        let text = b"x: &x { b.c: !reset null }\na:\n  <<: *x\n  d: !override [!e 1, !!str 2]\n";
        let tags = document("d", text).unwrap().tags.into_iter();
        let tags: Vec<_> = tags
            .map(|tag| (tag.name, tag.keys.map(|keys| keys.join("/")), tag.location.line))
            .collect();
        let tag = |name: &str, keys: Option<&str>, line| (name.to_owned(), keys.map(str::to_owned), line);
        let expected = [
            tag("!reset", Some("x/b.c"), 1),
            tag("!override", Some("a/d"), 4),
            tag("!e", None, 4),
            tag("!reset", Some("a/b.c"), 1),
        ];
        assert_eq!(tags, expected);
    }

    #[test]
    fn key_and_value_have_their_own_locations() {
        let document = document("d", b"a:\n  - { b.c: 1, d: {} }\n").unwrap();
        let column = |location: Option<crate::diagnostic::Location>| location.map(|it| it.column);
        assert_eq!(column(document.source.locate("a[0].b.c")), Some(12));
        assert_eq!(column(document.source.locate_key("a[0].b.c")), Some(7));
        assert_eq!(column(document.source.locate_key("a[0].d")), Some(15));
        assert_eq!(column(document.source.locate_key("a[0].none")), Some(5));
    }
}
