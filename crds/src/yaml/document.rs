//! Any document that is YAML or JSON: its value, with the place of everything in it.

use serde::Deserialize;
use serde_json::Value;

use super::deserialize::Reader;
use super::{SourceMap, text_of, tree_of};
use crate::diagnostic::Diagnostic;

/// A document that was read.
#[derive(Clone, Debug)]
pub struct Document {
    /// What it holds.
    pub value: Value,
    /// Where things stand in it.
    pub source: SourceMap,
    /// What is wrong with its form: keys that stand twice, and the like.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a document within the bounds of an environment's file; the complaint is about what makes reading on impossible.
pub fn document(file_name: &str, bytes: &[u8]) -> Result<Document, Box<Diagnostic>> {
    let ours = |mut diagnostic: Box<Diagnostic>| {
        // What to do about an environment does not help here.
        diagnostic.hint.take_if(|hint| hint.contains("environment"));
        diagnostic
    };
    let mut text = text_of(bytes).map_err(ours)?.to_owned();
    if text.trim_start().starts_with(['{', '[']) {
        // Between the values of JSON a tab is a blank, and inside of its texts none may stand.
        text = text.replace('\t', " ");
    }
    let tree = tree_of(&text).map_err(ours)?;
    let source = SourceMap::new(file_name, Some(tree.node));
    let value = source.root().map(|root| Value::deserialize(Reader::new(root)));
    match value {
        Some(Ok(value)) => Ok(Document {
            value,
            source,
            diagnostics: tree.broken,
        }),
        Some(Err(why)) => Err(Box::new(Diagnostic::error(
            "",
            format!("the document cannot be taken: {why}"),
        ))),
        None => Err(Box::new(Diagnostic::error("", "the document is empty"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_and_json_are_read_with_their_places() {
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
    fn what_cannot_be_read_has_one_complaint_with_a_place_and_no_word_of_environments() {
        for text in ["", "a: [", "a: 1\n---\nb: 2\n", "{\"a\": 1"] {
            let diagnostic = document("d", text.as_bytes()).unwrap_err();
            assert!(
                diagnostic.is_error() && diagnostic.hint.is_none_or(|hint| !hint.contains("environment")),
                "{text}"
            );
        }
        let twice = document("d", b"a: 1\na: 2\n").unwrap();
        assert_eq!(twice.diagnostics[0].location.unwrap().line, 2);
    }
}
