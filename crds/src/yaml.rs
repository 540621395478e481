//! YAML reader with diagnostics and source locations, and YAML writer.
//!
//! Only this file and `edit/text_tree.rs` name the YAML crate. No function here opens a file.
//!
//! Invariants of [`read`]:
//!
//! - It returns quickly and without a panic for every input. Size, depth, number of nodes and aliases are bounded.
//! - It finds all errors of a file in one pass.
//! - A scalar keeps the spelling of the file in a string field: `1.10` stays `1.10`.
//!
//! The bytes become a tree of nodes with locations. Two checks on this tree produce the diagnostics: one against the JSON
//! Schema of [`E2eSpec`], one for rules that a schema cannot express. If no check finds an error, the tree becomes an
//! [`E2eSpec`].

mod check;
mod deserialize;
mod document;
mod edit;
mod entry_map;
mod original;
mod repeated;
mod rules;
mod source;
mod tags;
mod tree;

use std::collections::HashMap;
use std::sync::Arc;

use granit_parser::{self as granit, Event, Parser, ScalarStyle, ScanError};
use serde::{Deserialize, Serialize};

use crate::diagnostic::{Diagnostic, Location, lines_of};
use crate::environment::E2eSpec;
use crate::number::Keep;
use check::Collector;
use tree::{Broken, Builder, Node};

pub use document::{Document, document, exact_document};
pub use edit::{TextEdit, text_edit};
pub use original::Original;
pub use source::{Scalar, SourceMap};
pub use tags::Tag;

/// Maximum size of a file, in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// Maximum nesting depth of lists and maps.
pub const MAX_DEPTH: usize = 32;
/// Maximum number of lists, maps and scalars in a file after expansion of its aliases.
pub const MAX_NODES: usize = 50_000;
/// Maximum number of anchors, and of aliases, in a file.
pub const MAX_ALIASES: usize = 256;
/// Maximum number of services in an environment.
pub const MAX_SERVICES: usize = 500;

/// Bodies of mocks keep the spelling of their numbers.
const KEEP: Option<Keep> = Some(Keep::Spelling);

/// Result of [`read`].
#[derive(Clone, Debug)]
pub struct ParsedSpec {
    /// Content of the file; `None` exactly if a diagnostic is an error.
    pub spec: Option<E2eSpec>,
    /// Content of a rejected file without its invalid parts. Admission checks it for further errors, but never runs it.
    pub rest: Option<E2eSpec>,
    /// All diagnostics in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
    /// Locations of all paths in the file.
    pub source: SourceMap,
}

/// Reads an environment from the bytes of a file and collects all diagnostics.
///
/// The result has a spec exactly if no diagnostic is an error.
///
/// ```rust
/// use argus_crds::yaml;
///
/// let parsed = yaml::read("shop.e2e.yaml", b"project: { name: shop }\nservcies: []\n");
/// assert_eq!(parsed.spec.unwrap().project.name, "shop");
///
/// // An unknown key is a warning with a suggestion.
/// let warning = &parsed.diagnostics[0];
/// assert_eq!(warning.hint.as_deref(), Some("did you mean `services`?"));
/// assert_eq!(warning.location.unwrap().line, 2);
///
/// let parsed = yaml::read("bad.e2e.yaml", b"project: { name: [] }\n");
/// assert!(parsed.spec.is_none() && parsed.diagnostics[0].is_error());
/// ```
pub fn read(file_name: &str, bytes: &[u8]) -> ParsedSpec {
    let root = match text_of(bytes).and_then(tree_of) {
        Ok(root) => root,
        Err(diagnostic) => return rejected(file_name, *diagnostic),
    };
    read_tree(file_name, root, false)
}

/// Reads the translation of a Compose file. `text` is the text of a spec file. All locations of the result are those of the Compose file.
pub fn read_translated(file_name: &str, text: &str, original: &dyn Original) -> ParsedSpec {
    match tree_of(text) {
        Ok(mut root) => {
            let start = point(1, 1);
            root.node = Arc::new(tree::relocate(&root.node, "", start, original));
            read_tree(file_name, root, true)
        }
        Err(diagnostic) => rejected(file_name, *diagnostic),
    }
}

/// Result for a file that is not a spec file.
fn rejected(file_name: &str, diagnostic: Diagnostic) -> ParsedSpec {
    ParsedSpec {
        spec: None,
        rest: None,
        diagnostics: vec![diagnostic],
        source: SourceMap::new(file_name, None),
    }
}

fn read_tree(file_name: &str, root: Tree, is_translated: bool) -> ParsedSpec {
    if !check::is_spec(&root.node) {
        let diagnostic = Diagnostic::error("", "the file has no key of a spec file")
            .hint("begin with `project:`, or rename the file if it is not for Argus");
        return rejected(file_name, diagnostic);
    }
    let mut collector = Collector::default();
    check::tags(&tags::find(&root.node), &mut collector);
    for broken in root.broken {
        collector.add(broken);
    }
    check::against_schema(&root.node, &mut collector);
    rules::check(&root.node, &mut collector);
    let source = SourceMap::of(file_name, root.node, is_translated);
    let mut spec = None;
    if !collector.has_error()
        && let Some(node) = source.root()
    {
        match E2eSpec::deserialize(deserialize::Reader::new(node).keep(KEEP)) {
            Ok(parsed) => spec = Some(parsed),
            Err(error) => collector.add(Diagnostic::error("", format!("cannot read the file: {error}"))),
        }
    }
    let diagnostics = collector.finish();
    let errors: Vec<&Diagnostic> = diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .collect();
    let rest = match errors.as_slice() {
        [] => None,
        errors => source
            .without(errors)
            .and_then(|node| E2eSpec::deserialize(deserialize::Reader::new(&node).keep(KEEP)).ok()),
    };
    ParsedSpec {
        spec,
        rest,
        diagnostics: repeated::merge(diagnostics, &source),
        source,
    }
}

impl ParsedSpec {
    /// Returns the diagnostics about [`ParsedSpec::rest`] that its omitted parts cannot have caused.
    pub fn further(&self, diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
        let related = |d: &Diagnostic| -> Vec<String> {
            let places = d.correction.iter().flat_map(|it| &it.related);
            places.map(|place| place.path.clone()).collect()
        };
        let of = |d: &Diagnostic| {
            let own = std::iter::once(self.scope(&d.path));
            own.chain(related(d).iter().map(|path| self.scope(path)))
                .collect::<Vec<_>>()
        };
        let rejected: Vec<Option<Location>> = self.diagnostics.iter().flat_map(of).collect();
        diagnostics
            .into_iter()
            .filter(|diagnostic| !rejected.contains(&self.scope(&diagnostic.path)))
            // The named dependency may be an omitted part.
            .filter(|diagnostic| !diagnostic.path.contains("dependsOn"))
            .collect()
    }

    /// Returns the location of the service or top-level block of a path.
    fn scope(&self, path: &str) -> Option<Location> {
        let ends = path
            .match_indices(['.', '['])
            .map(|(at, _)| at)
            .filter(|at| *at > 0);
        let depth = usize::from(path.starts_with("services") || path.starts_with("mocks"));
        let end = ends.clone().nth(depth).unwrap_or(path.len());
        self.source.locate(&path[..end])
    }
}

/// Serializes a value to YAML.
pub fn to_yaml<T: Serialize>(value: &T) -> Result<String, YamlError> {
    serde_yaml::to_string(value).map_err(|error| YamlError {
        reason: error.to_string(),
    })
}

/// Error of [`to_yaml`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot write YAML: {reason}")]
pub struct YamlError {
    reason: String,
}

fn text_of(bytes: &[u8]) -> Result<&str, Box<Diagnostic>> {
    if bytes.len() > MAX_BYTES {
        let message = format!(
            "the file has {} bytes, more than the limit of {MAX_BYTES}",
            bytes.len()
        );
        return Err(Box::new(
            Diagnostic::error("", message).hint("split it into several environments"),
        ));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let line = lines_of(&format!("{valid}.")).len();
        let column = valid
            .rsplit(['\n', '\r'])
            .next()
            .map_or(0, |last| last.chars().count())
            + 1;
        let diagnostic = Diagnostic::error("", "the file is not valid UTF-8").hint("save the file as UTF-8");
        Box::new(diagnostic.at(point(line, column)))
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

struct Tree {
    node: Arc<Node>,
    broken: Vec<Diagnostic>,
}

/// Builds the tree of a text, or returns the first diagnostic that makes further parsing impossible.
fn tree_of(text: &str) -> Result<Tree, Box<Diagnostic>> {
    let options = granit::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH + 1,
        block_nesting_limit: MAX_DEPTH + 1,
    };
    let lines = lines_of(text);
    let mut builder = Builder::default();
    let mut anchors: HashMap<usize, Arc<Node>> = HashMap::new();
    let mut documents = 0;
    let mut aliases = 0;
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| Box::new(syntax_diagnostic(&lines, &error)))?;
        let location = location_of(&lines, &span);
        let reject = |broken: Broken| Box::new(broken.diagnostic().at(location));
        let custom = event.tag().filter(|tag| !tag.is_yaml_core_schema());
        let custom = custom.map(granit::Tag::original).filter(|tag| tag != "!");
        builder.tag = custom.map(Arc::from);
        let anchored = event.anchor_id().filter(|id| *id != 0);
        if anchored.is_some_and(|_| anchors.len() >= MAX_ALIASES) {
            return Err(reject(Broken::Anchors));
        }
        let finished = match event {
            Event::DocumentStart(..) => {
                documents += 1;
                if documents > 1 {
                    return Err(reject(Broken::Documents));
                }
                None
            }
            Event::Alias(id) => {
                aliases += 1;
                if aliases > MAX_ALIASES {
                    return Err(reject(Broken::Aliases));
                }
                let target = anchors.get(&id).ok_or_else(|| reject(Broken::Recursion))?;
                builder.alias(Arc::clone(target), location).map_err(reject)?
            }
            Event::Scalar(text, style, anchor, tag) => {
                let text_tag = tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
                let plain = style == ScalarStyle::Plain && !text_tag;
                builder
                    .scalar(text.into_owned(), plain, location, anchor)
                    .map_err(reject)?
            }
            Event::SequenceStart(_, anchor, _) => builder.open_list(location, anchor).map_err(reject)?,
            Event::MappingStart(_, anchor, _) => builder.open_map(location, anchor).map_err(reject)?,
            Event::SequenceEnd | Event::MappingEnd => builder.close(),
            _ => None,
        };
        if let Some((anchor, node)) = finished {
            anchors.insert(anchor, node);
        }
    }
    let (node, broken) = builder.finish();
    match node {
        Some(node) if !node.is_null() => Ok(Tree { node, broken }),
        _ => Err(Box::new(
            Diagnostic::error("", "the file is empty")
                .hint("declare an environment with at least `project.name`"),
        )),
    }
}

/// Location of one character.
fn point(line: usize, column: usize) -> Location {
    let length = 1;
    Location { line, column, length }
}

/// Returns the location of an event, limited to its first line.
fn location_of(lines: &[&str], span: &granit::Span) -> Location {
    let (line, column) = (span.start.line().max(1), span.start.col() + 1);
    let rest = || {
        lines
            .get(line - 1)
            .map_or(0, |text| text.chars().count())
            .saturating_sub(span.start.col())
    };
    let len = if span.end.line() == span.start.line() {
        span.end.col().saturating_sub(span.start.col())
    } else {
        rest()
    };
    Location {
        line,
        column,
        length: len.max(1),
    }
}

/// Converts a parser error to a diagnostic for the author of the file.
fn syntax_diagnostic(lines: &[&str], error: &ScanError) -> Diagnostic {
    let line = error.marker().line().clamp(1, lines.len().max(1));
    let column = error.marker().col() + 1;
    let info = error.info();
    let tab = |number: usize| {
        let text = lines.get(number.checked_sub(1)?)?;
        let indent = text.len() - text.trim_start().len();
        text[..indent].find('\t').map(|column| point(number, column + 1))
    };
    // The parser reports the beginning of a value that the tab follows, possibly after several lines.
    let after = || {
        (line..=lines.len())
            .find_map(tab)
            .filter(|_| info.contains("tab"))
    };
    if let Some(location) = tab(line).or_else(|| tab(line - 1)).or_else(after) {
        return Diagnostic::error("", "the indentation contains a tab")
            .hint("use spaces for indentation")
            .at(location);
    }
    let too_deep = ["nest", "recursion", "depth"]
        .iter()
        .any(|word| info.contains(word));
    let diagnostic = if too_deep {
        Broken::Depth.diagnostic()
    } else {
        let message = format!(
            "this is not valid YAML: {}",
            info.lines().next().unwrap_or_default()
        );
        match lines.get(line - 1).and_then(|text| syntax_hint(text)) {
            Some(hint) => Diagnostic::error("", message).hint(hint),
            None => Diagnostic::error("", message),
        }
    };
    diagnostic.at(point(line, column))
}

/// Suggests a fix for the most common syntax errors in a line.
fn syntax_hint(line: &str) -> Option<&'static str> {
    let value = line.split_once(": ").map_or("", |(_, value)| value.trim());
    if value.starts_with(['@', '`', '%']) {
        Some("put the value in quotes")
    } else if value.starts_with("{{") {
        Some("put a value that starts with `{{` in quotes")
    } else if value.starts_with('*') || value.starts_with('&') {
        Some("put the value in quotes, because `*` and `&` start an alias or an anchor")
    } else if value.contains(": ") && !value.starts_with(['{', '[', '"', '\'']) {
        Some("put a value that contains `: ` in quotes")
    } else {
        None
    }
}

#[cfg(test)]
#[path = "yaml/reports_tests.rs"]
mod reports_tests;
