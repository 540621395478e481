//! Values of a text with their bytes, notation and paths.

use std::ops::Range;

use granit_parser::{self as granit, Event, Parser, ScalarStyle, StructureStyle};

use super::super::{MAX_DEPTH, source};

/// Step from a list or a map to one of its values.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// Value in the text.
pub(super) struct Part {
    pub(super) range: Range<usize>,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Scalar { text: String, style: ScalarStyle },
    List(Vec<Part>),
    Map(Vec<(Part, Part)>, StructureStyle),
    Alias,
}

/// Place of a key.
pub(super) enum Found<'a> {
    /// The path of the value, its key and the value.
    Value(Vec<Step>, Option<&'a Part>, &'a Part),
    /// The path of the nearest existing map, and the rest of the key.
    Parent(Vec<Step>, &'a Part, &'a str),
    Nothing,
}

impl Part {
    /// Reads the only document of a text.
    pub(super) fn read(text: &str) -> Option<Self> {
        let options = granit::options! {
            emit_comments: false,
            flow_nesting_limit: MAX_DEPTH + 1,
            block_nesting_limit: MAX_DEPTH + 1,
        };
        let mut parser = Parser::new_from_str_with_options(text, options);
        loop {
            match parser.next()?.ok()? {
                (Event::StreamStart | Event::DocumentStart(..), _) => {}
                (event, span) => return Self::of(event, span.byte_range()?, &mut parser),
            }
        }
    }

    /// Reads the value that begins with an event. The parser bounds the depth.
    fn of<'a>(
        event: Event<'a>,
        range: Range<usize>,
        parser: &mut impl Iterator<Item = Result<(Event<'a>, granit::Span), granit::ScanError>>,
    ) -> Option<Self> {
        let mut end = range.end;
        let mut next = || {
            let (event, span) = parser.next()?.ok()?;
            let range = span.byte_range()?;
            match event {
                Event::SequenceEnd | Event::MappingEnd => Some(Err(range)),
                event => Self::of(event, range, &mut *parser).map(Ok),
            }
        };
        let kind = match event {
            Event::Scalar(text, style, ..) => Kind::Scalar {
                text: text.into_owned(),
                style,
            },
            Event::Alias(_) => Kind::Alias,
            Event::SequenceStart(style, ..) => {
                let mut items: Vec<Self> = Vec::new();
                let close = loop {
                    match next()? {
                        Ok(item) => items.push(item),
                        Err(close) => break close,
                    }
                };
                end = match (style, items.last()) {
                    (StructureStyle::Block, Some(last)) => last.range.end,
                    (StructureStyle::Block, None) | (StructureStyle::Flow, _) => close.end,
                };
                Kind::List(items)
            }
            Event::MappingStart(style, ..) => {
                let mut entries: Vec<(Self, Self)> = Vec::new();
                let close = loop {
                    match next()? {
                        Ok(key) => entries.push((key, next()?.ok()?)),
                        Err(close) => break close,
                    }
                };
                end = match (style, entries.last()) {
                    (StructureStyle::Block, Some((_, last))) => last.range.end,
                    (StructureStyle::Block, None) | (StructureStyle::Flow, _) => close.end,
                };
                Kind::Map(entries, style)
            }
            _ => return None,
        };
        Some(Self {
            range: range.start..end,
            kind,
        })
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, .. } => Some(text),
            Kind::List(..) | Kind::Map(..) | Kind::Alias => None,
        }
    }

    /// Follows the path of a key, as [`source::SourceMap::locate`] does.
    pub(super) fn find<'a>(&'a self, key: &'a str) -> Found<'a> {
        let (mut part, mut written, mut path, mut rest) = (self, None, Vec::new(), key);
        while !rest.is_empty() {
            let (step, key, value, used) = match &part.kind {
                Kind::Map(entries, _) => {
                    let named = entries.iter().filter_map(|(key, value)| {
                        let text = key.text()?;
                        source::is_next_key(text, rest).then_some((text, key, value))
                    });
                    match named.max_by_key(|(text, ..)| text.len()) {
                        Some((text, key, value)) => {
                            (Step::Key(text.to_owned()), Some(key), value, text.len())
                        }
                        None => return Found::Parent(path, part, rest),
                    }
                }
                Kind::List(items) => {
                    let named = || items.iter().position(|item| item.is_named(rest));
                    let at = source::index_of(rest).or_else(|| {
                        let at = named()?;
                        Some((at, items[at].name()?.len()))
                    });
                    match at.and_then(|(at, used)| Some((at, used, items.get(at)?))) {
                        Some((at, used, item)) => (Step::Index(at), None, item, used),
                        None => return Found::Nothing,
                    }
                }
                Kind::Scalar { .. } | Kind::Alias => return Found::Nothing,
            };
            path.push(step);
            (part, written) = (value, key);
            rest = rest.get(used..).unwrap_or_default().trim_start_matches('.');
        }
        Found::Value(path, written, part)
    }

    /// Name of an item of a list.
    fn name(&self) -> Option<&str> {
        let Kind::Map(entries, _) = &self.kind else {
            return None;
        };
        let name = entries.iter().find(|(key, _)| key.text() == Some("name"));
        name.and_then(|(_, value)| value.text())
    }

    fn is_named(&self, rest: &str) -> bool {
        self.name().is_some_and(|name| source::is_next_key(name, rest))
    }
}
