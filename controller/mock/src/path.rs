//! Request paths and path patterns.
//!
//! A path is split at its slashes before it is decoded, so `%2F` is a slash within one segment. `.` and `..` are resolved
//! by RFC 3986, never above the root. One slash at the end is ignored; every other empty segment counts.

use std::fmt;

use argus_crds::mock::config::RESERVED_PATH;
use percent_encoding::percent_decode_str;

/// Path pattern of a file. It has literals, `:name` or `{name}`, and `*`. At its end, `*` or `*name` matches the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    text: String,
    segments: Vec<Segment>,
    /// Name of the parameter for the rest of the path; `None` if the pattern has a fixed length.
    rest: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(String),
    /// Alternating literals and parameters, such as `{name}.json`.
    Mixed(Vec<Part>),
    Param(String),
    Any,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Param(String),
}

/// Path parameters in their order.
pub(crate) type Params = Vec<(String, String)>;

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Pattern {
    /// Parses a pattern, without its query and fragment.
    pub(crate) fn new(text: &str) -> Self {
        let path = text.split(['?', '#']).next().unwrap_or_default();
        let mut pieces: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
        if pieces.last() == Some(&"") {
            pieces.pop();
        }
        let is_rest = |piece: &&str| piece.starts_with('*');
        let rest = pieces
            .last()
            .filter(|piece| is_rest(piece))
            .map(|piece| match &piece[1..] {
                "" => "0".to_owned(),
                name => name.to_owned(),
            });
        if rest.is_some() {
            pieces.pop();
        }
        Self {
            text: if path.starts_with('/') {
                path.to_owned()
            } else {
                format!("/{path}")
            },
            segments: pieces.into_iter().map(parse_segment).collect(),
            rest,
        }
    }

    /// Returns the parameters of a matching path.
    pub(crate) fn matches(&self, path: &[String]) -> Option<Params> {
        let is_long_enough = path.len() >= self.segments.len();
        if !is_long_enough || (self.rest.is_none() && path.len() > self.segments.len()) {
            return None;
        }
        let mut params = Params::new();
        for (segment, found) in self.segments.iter().zip(path) {
            if !segment.matches(found, &mut params) {
                return None;
            }
        }
        if let Some(name) = &self.rest {
            params.push((name.clone(), path[self.segments.len()..].join("/")));
        }
        Some(params)
    }

    /// Returns the sort key of the pattern; the most specific pattern is first.
    ///
    /// Per segment, a literal precedes a mixture, then a parameter, then `*`. A pattern of fixed length precedes one that
    /// matches the rest.
    pub(crate) fn rank(&self) -> Vec<u8> {
        let mut rank: Vec<u8> = self.segments.iter().map(Segment::rank).collect();
        rank.push(if self.rest.is_some() { 5 } else { 0 });
        rank
    }

    /// Returns a key that is equal for patterns that differ only in the names of their parameters.
    pub(crate) fn shape(&self) -> Vec<String> {
        let segment = |segment: &Segment| match segment {
            Segment::Literal(text) => format!("={text}"),
            Segment::Mixed(parts) => {
                let part = |part: &Part| match part {
                    Part::Literal(text) => text.replace('/', "//"),
                    Part::Param(_) => "/".to_owned(),
                };
                format!("~{}", parts.iter().map(part).collect::<String>())
            }
            Segment::Param(_) => ":".to_owned(),
            Segment::Any => "*".to_owned(),
        };
        let mut shape: Vec<String> = self.segments.iter().map(segment).collect();
        shape.extend(self.rest.as_ref().map(|_| "**".to_owned()));
        shape
    }

    /// Returns the names of all parameters.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for segment in &self.segments {
            match segment {
                Segment::Param(name) => names.push(name.as_str()),
                Segment::Mixed(parts) => names.extend(parts.iter().filter_map(|part| match part {
                    Part::Param(name) => Some(name.as_str()),
                    Part::Literal(_) => None,
                })),
                Segment::Literal(_) | Segment::Any => {}
            }
        }
        names.extend(self.rest.as_deref());
        names
    }

    /// Returns the distance of a path from the pattern, and a description of the first difference.
    pub(crate) fn distance(&self, path: &[String]) -> (f64, String) {
        let mut far = 0.0;
        let mut why = None;
        for (number, segment) in self.segments.iter().enumerate() {
            let Some(found) = path.get(number) else { break };
            if let Segment::Literal(wanted) = segment
                && wanted != found
            {
                let short = |text: &str| text.chars().take(60).collect::<String>();
                far += 1.0 - strsim::normalized_damerau_levenshtein(&short(wanted), &short(found));
                why.get_or_insert_with(|| {
                    format!("segment {} is `{}`, not `{wanted}`", number + 1, short(found))
                });
            } else if !segment.matches(found, &mut Params::new()) {
                far += 1.0;
                why.get_or_insert_with(|| format!("segment {} does not match", number + 1));
            }
        }
        let (has, wants) = (path.len(), self.segments.len());
        if has < wants || (has > wants && self.rest.is_none()) {
            far += u32::try_from(has.abs_diff(wants)).map_or(f64::MAX, f64::from);
            let at_least = if self.rest.is_some() { "at least " } else { "" };
            why.get_or_insert_with(|| format!("the path has {has} segments, not {at_least}{wants}"));
        }
        (far, why.unwrap_or_else(|| "the path matches".to_owned()))
    }
}

impl Segment {
    fn matches(&self, found: &str, params: &mut Params) -> bool {
        match self {
            Self::Literal(text) => text == found,
            Self::Any => !found.is_empty(),
            Self::Param(name) => {
                params.push((name.clone(), found.to_owned()));
                !found.is_empty()
            }
            Self::Mixed(parts) => matches_mixed(parts, found, params),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Literal(_) => 1,
            Self::Mixed(_) => 2,
            Self::Param(_) => 3,
            Self::Any => 4,
        }
    }
}

/// Matches a mixed segment. Each parameter takes the text before the next literal, the last one takes the rest.
fn matches_mixed(parts: &[Part], found: &str, params: &mut Params) -> bool {
    let mut rest = found;
    for (index, part) in parts.iter().enumerate() {
        match part {
            Part::Literal(text) => match rest.strip_prefix(text.as_str()) {
                Some(after) => rest = after,
                None => return false,
            },
            Part::Param(name) => {
                let end = match parts.get(index + 1) {
                    Some(Part::Literal(next)) if index + 2 == parts.len() => {
                        rest.strip_suffix(next.as_str()).map(str::len)
                    }
                    Some(Part::Literal(next)) => rest.find(next.as_str()),
                    Some(Part::Param(_)) => rest.chars().next().map(char::len_utf8),
                    None => Some(rest.len()),
                };
                let Some(end) = end.filter(|end| *end > 0) else {
                    return false;
                };
                params.push((name.clone(), rest[..end].to_owned()));
                rest = &rest[end..];
            }
        }
    }
    rest.is_empty()
}

fn parse_segment(text: &str) -> Segment {
    if text == "*" {
        return Segment::Any;
    }
    if let Some(after) = text.strip_prefix(':') {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
        let (name, suffix) = after.split_at(end);
        // Some routers accept an expression in parentheses after the name. It is ignored here.
        return match suffix {
            _ if name.is_empty() => Segment::Literal(decode(text)),
            "" => Segment::Param(name.to_owned()),
            suffix if suffix.starts_with('(') => Segment::Param(name.to_owned()),
            suffix => Segment::Mixed(vec![Part::Param(name.to_owned()), Part::Literal(decode(suffix))]),
        };
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, name, after)) = braced(rest) {
        if !before.is_empty() {
            parts.push(Part::Literal(decode(before)));
        }
        parts.push(Part::Param(name.to_owned()));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Literal(decode(rest)));
    }
    match parts.as_slice() {
        [] => Segment::Literal(String::new()),
        [Part::Literal(text)] => Segment::Literal(text.clone()),
        [Part::Param(name)] => Segment::Param(name.clone()),
        _ => Segment::Mixed(parts),
    }
}

fn braced(text: &str) -> Option<(&str, &str, &str)> {
    let (before, inner) = text.split_once('{')?;
    let (name, after) = inner.split_once('}')?;
    (!name.is_empty()).then_some((before, name, after))
}

/// Returns the decoded segments of a received path.
pub(crate) fn segments(path: &str) -> Vec<String> {
    let mut segments: Vec<String> = Vec::new();
    let mut pieces: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    if pieces.last() == Some(&"") {
        pieces.pop();
    }
    for piece in pieces {
        let undotted = piece.replace("%2e", ".").replace("%2E", ".");
        match undotted.as_str() {
            "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(decode(piece)),
        }
    }
    segments
}

/// Returns true for a path that is reserved for the mock server itself.
pub(crate) fn is_reserved(path: &str) -> bool {
    let segments = segments(path);
    segments.first().map(String::as_str) == RESERVED_PATH.strip_prefix('/')
}

/// Message about a reserved path in a file.
pub(crate) fn reserved(path: &str) -> String {
    format!("the path `{path}` is below `{RESERVED_PATH}`, which is reserved for the mock server")
}

/// Decodes `%XX` in a text. Invalid escapes stay unchanged; bytes that are not valid UTF-8 become U+FFFD.
pub(crate) fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
