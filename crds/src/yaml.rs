//! YAML: the only file that names the YAML crate.
//!
//! Invariants: `read` returns for every input, quickly, without a panic; it finds all complaints of a file at once; a
//! scalar reaches a text field with the spelling that stands in the file. Nothing here opens a file.

mod check;
mod deserialize;
mod document;
mod rules;
mod source;
mod tree;

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_yaml::granit_parser::{self as granit, Event, Parser, ScalarStyle, ScanError};

use crate::diagnostic::{Diagnostic, Location};
use crate::environment::E2eSpec;
use check::Collector;
use tree::{Broken, Builder, Node};

pub use document::{Document, document};
pub use source::SourceMap;

/// The largest file that is read, in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// How deep lists and maps nest.
pub const MAX_DEPTH: usize = 32;
/// How many lists, maps and scalars a file holds, with its aliases followed.
pub const MAX_NODES: usize = 50_000;
/// How many anchors, and how many aliases, a file holds.
pub const MAX_ALIASES: usize = 256;
/// How many services an environment holds.
pub const MAX_SERVICES: usize = 500;

/// A place in a file.
pub type Span = Location;

/// What reading a file brought.
#[derive(Clone, Debug)]
pub struct ParsedSpec {
    /// The file's content, unless a complaint refuses it.
    pub spec: Option<E2eSpec>,
    /// What is left of a refused file without what is refused: nothing to run, but there may be more to complain about.
    pub rest: Option<E2eSpec>,
    /// All complaints, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
    /// Where things stand in the file.
    pub source: SourceMap,
}

/// Reads an environment from the bytes of a file; complains about everything that is wrong with them.
///
/// The spec is there exactly when no complaint is an error.
pub fn read(file_name: &str, bytes: &[u8]) -> ParsedSpec {
    let root = match text_of(bytes).and_then(tree_of) {
        Ok(root) => root,
        Err(diagnostic) => {
            let source = SourceMap::new(file_name, None);
            return ParsedSpec {
                spec: None,
                rest: None,
                diagnostics: vec![*diagnostic],
                source,
            };
        }
    };
    let mut collector = Collector::default();
    check::tags(&root.ignored_tags, &mut collector);
    for broken in root.broken {
        collector.add(broken);
    }
    check::against_schema(&root.node, &mut collector);
    rules::check(&root.node, &mut collector);
    let source = SourceMap::new(file_name, Some(root.node));
    let mut spec = None;
    if !collector.refused()
        && let Some(node) = source.root()
    {
        match E2eSpec::deserialize(deserialize::Reader::new(node)) {
            Ok(read) => spec = Some(read),
            Err(why) => collector.add(Diagnostic::error("", format!("the file cannot be taken: {why}"))),
        }
    }
    let diagnostics = collector.finish();
    let refused: Vec<&Diagnostic> = diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .collect();
    let rest = match refused.as_slice() {
        [] => None,
        refused => source
            .without(refused)
            .and_then(|node| E2eSpec::deserialize(deserialize::Reader::new(&node)).ok()),
    };
    ParsedSpec {
        spec,
        rest,
        diagnostics,
        source,
    }
}

impl ParsedSpec {
    /// Of the complaints about [`Reading::rest`], those that what was left out cannot have caused.
    pub fn further(&self, diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
        let refused: Vec<Option<Location>> = self.diagnostics.iter().map(|c| self.scope(&c.path)).collect();
        diagnostics
            .into_iter()
            .filter(|diagnostic| !refused.contains(&self.scope(&diagnostic.path)))
            // Whom it names may be what was left out.
            .filter(|diagnostic| !diagnostic.path.contains("dependsOn"))
            .collect()
    }

    /// The service, or else the block, that a path lies in.
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

/// Writes something as YAML.
pub fn to_yaml<T: Serialize>(value: &T) -> Result<String, YamlError> {
    serde_yaml::to_string(value).map_err(|error| YamlError {
        reason: error.to_string(),
    })
}

/// Why something could not be written as YAML.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("writing YAML: {reason}")]
pub struct YamlError {
    reason: String,
}

fn text_of(bytes: &[u8]) -> Result<&str, Box<Diagnostic>> {
    if bytes.len() > MAX_BYTES {
        let message = format!("the file has {} bytes, and the most is {MAX_BYTES}", bytes.len());
        return Err(Box::new(
            Diagnostic::error("", message).hint("split it into several environments"),
        ));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let line = valid.matches('\n').count() + 1;
        let column = valid.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
        let diagnostic =
            Diagnostic::error("", "the file is not UTF-8").hint("save it with the encoding UTF-8");
        Box::new(diagnostic.at(Location {
            line,
            column,
            length: 1,
        }))
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

struct Tree {
    node: Arc<Node>,
    broken: Vec<Diagnostic>,
    ignored_tags: Vec<(String, Location)>,
}

/// Builds the tree of a text; the one complaint is about what makes reading on impossible.
fn tree_of(text: &str) -> Result<Tree, Box<Diagnostic>> {
    let options = granit::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH + 1,
        block_nesting_limit: MAX_DEPTH + 1,
    };
    let lines: Vec<&str> = text.lines().collect();
    let mut builder = Builder::default();
    let mut anchors: HashMap<usize, Arc<Node>> = HashMap::new();
    let mut ignored_tags = Vec::new();
    let mut documents = 0;
    let mut aliases = 0;
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| Box::new(syntax(&lines, &error)))?;
        let place = place_of(&lines, &span);
        let refuse = |broken: Broken| Box::new(broken.diagnostic().at(place));
        if let Some(tag) = event.tag()
            && !tag.is_yaml_core_schema()
            && tag.original() != "!"
        {
            ignored_tags.push((tag.original(), place));
        }
        let anchored = event.anchor_id().filter(|id| *id != 0);
        if anchored.is_some_and(|_| anchors.len() >= MAX_ALIASES) {
            return Err(refuse(Broken::Anchors));
        }
        let finished = match event {
            Event::DocumentStart(..) => {
                documents += 1;
                if documents > 1 {
                    return Err(refuse(Broken::Documents));
                }
                None
            }
            Event::Alias(id) => {
                aliases += 1;
                if aliases > MAX_ALIASES {
                    return Err(refuse(Broken::Aliases));
                }
                let target = anchors.get(&id).ok_or_else(|| refuse(Broken::Recursion))?;
                builder.alias(Arc::clone(target), place).map_err(refuse)?
            }
            Event::Scalar(text, style, anchor, tag) => {
                let text_tag = tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
                let plain = style == ScalarStyle::Plain && !text_tag;
                builder
                    .scalar(text.into_owned(), plain, place, anchor)
                    .map_err(refuse)?
            }
            Event::SequenceStart(_, anchor, _) => builder.open_list(place, anchor).map_err(refuse)?,
            Event::MappingStart(_, anchor, _) => builder.open_map(place, anchor).map_err(refuse)?,
            Event::SequenceEnd | Event::MappingEnd => builder.close(),
            _ => None,
        };
        if let Some((anchor, node)) = finished {
            anchors.insert(anchor, node);
        }
    }
    let (node, broken) = builder.finish();
    match node {
        Some(node) if !node.is_null() => Ok(Tree {
            node,
            broken,
            ignored_tags,
        }),
        _ => Err(Box::new(
            Diagnostic::error("", "the file is empty").hint("an environment has at least `project.name`"),
        )),
    }
}

/// The place of an event, cut to its first line.
fn place_of(lines: &[&str], span: &granit::Span) -> Location {
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

/// What the parser could not read, in words for the author.
fn syntax(lines: &[&str], error: &ScanError) -> Diagnostic {
    let line = error.marker().line().clamp(1, lines.len().max(1));
    let column = error.marker().col() + 1;
    let info = error.info();
    let tab = |number: usize| {
        let text = lines.get(number.checked_sub(1)?)?;
        let indent = text.len() - text.trim_start().len();
        text[..indent].find('\t').map(|column| Location {
            line: number,
            column: column + 1,
            length: 1,
        })
    };
    if let Some(place) = tab(line).or_else(|| tab(line - 1)) {
        return Diagnostic::error("", "a tab is used for indentation")
            .hint("indent with spaces")
            .at(place);
    }
    let too_deep = ["nest", "recursion", "depth"]
        .iter()
        .any(|word| info.contains(word));
    let diagnostic = if too_deep {
        Broken::Depth.diagnostic()
    } else {
        let message = format!("this is not YAML: {}", info.lines().next().unwrap_or_default());
        match lines.get(line - 1).and_then(|text| syntax_hint(text)) {
            Some(hint) => Diagnostic::error("", message).hint(hint),
            None => Diagnostic::error("", message),
        }
    };
    diagnostic.at(Location {
        line,
        column,
        length: 1,
    })
}

/// What mostly is the matter with a line that is not YAML.
fn syntax_hint(line: &str) -> Option<&'static str> {
    let value = line.split_once(": ").map_or("", |(_, value)| value.trim());
    if value.starts_with(['@', '`', '%']) {
        Some("put the value in quotes")
    } else if value.starts_with("{{") {
        Some("a value that starts with `{{` needs quotes")
    } else if value.starts_with('*') || value.starts_with('&') {
        Some("`*` and `&` start an alias and an anchor; put the value in quotes if it is a text")
    } else if value.contains(": ") && !value.starts_with(['{', '[', '"', '\'']) {
        Some("a value that holds `: ` needs quotes")
    } else {
        None
    }
}
