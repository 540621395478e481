//! Notes about a translation: parts without a counterpart, and remarks.

use std::fmt;
use std::path::PathBuf;

use argus_core::quoting::PathText as _;
use argus_crds::diagnostic::{Diagnostic, Location};

/// Place of a note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// File that the Compose file names; `None` for the Compose file itself.
    pub(crate) file: Option<PathBuf>,
    pub(crate) location: Location,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.location.line;
        match &self.file {
            None => write!(f, " (line {line})"),
            Some(file) => write!(f, " (`{}`, line {line})", file.shown()),
        }
    }
}

/// A note. Its text has the place in it, and may continue after it.
#[derive(Debug, Clone)]
pub(crate) struct Note {
    text: String,
    /// Services of an omission; empty for another part of the file.
    services: Vec<String>,
    place: Option<Place>,
    rest: String,
    kind: Kind,
    hint: Option<String>,
}

/// Effect of a note on a file that Argus reads in place of a spec file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Remark,
    /// A part without a counterpart is left out.
    Omission,
    /// The file, or one that it names, is not what its author meant. A translation without it would remove containers.
    Error,
}

impl Note {
    /// Creates a note about a part that is left out.
    pub(crate) fn omission(text: impl Into<String>, place: Option<Place>) -> Self {
        Self {
            text: one_line(&text.into()),
            services: Vec::new(),
            place,
            rest: String::new(),
            kind: Kind::Omission,
            hint: None,
        }
    }

    /// Creates a note about a part of a service that is left out.
    pub(crate) fn omission_of(service: &str, what: &str, place: Option<Place>) -> Self {
        Self {
            services: vec![one_line(service)],
            ..Self::omission(what, place)
        }
    }

    /// Adds the services of a note about the same part, which an alias repeats. Returns false for another part.
    pub(crate) fn absorb(&mut self, other: &Self) -> bool {
        let is_same = self.text == other.text && self.place == other.place;
        let is_repeated = is_same && self.place.is_some() && !self.services.is_empty();
        if is_repeated {
            self.services.extend(other.services.iter().cloned());
        }
        is_repeated
    }

    /// Creates a note about an invalid part, or about a file that cannot be read.
    pub(crate) fn error(text: impl Into<String>, place: Option<Place>) -> Self {
        Self {
            kind: Kind::Error,
            ..Self::omission(text, place)
        }
    }

    /// Creates a remark.
    pub(crate) fn remark(text: impl Into<String>) -> Self {
        Self {
            kind: Kind::Remark,
            ..Self::omission(text, None)
        }
    }

    /// Adds text after the place.
    pub(crate) fn then(self, rest: String) -> Self {
        Self { rest, ..self }
    }

    /// Begin of the text of an omission of services.
    fn subject(&self) -> String {
        if self.services.is_empty() {
            return String::new();
        }
        let names: Vec<String> = self.services.iter().map(|name| format!("`{name}`")).collect();
        format!("left out of {}: ", names.join(", "))
    }

    /// Adds the way to correct the file.
    pub(crate) fn hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    /// Diagnostic about a part that is left out or invalid; `None` for a remark.
    pub(crate) fn diagnostic(&self) -> Option<Diagnostic> {
        let own = self.place.as_ref().filter(|place| place.file.is_none());
        let message = match own {
            Some(_) => format!("{}{}{}", self.subject(), self.text, self.rest),
            None => self.to_string(),
        };
        let diagnostic = match self.kind {
            Kind::Remark => return None,
            Kind::Omission => Diagnostic::warning("", message),
            Kind::Error => Diagnostic::error("", message),
        };
        let diagnostic = match &self.hint {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        };
        Some(match own {
            Some(place) => diagnostic.at(place.location),
            None => diagnostic,
        })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.subject(), self.text)?;
        if let Some(place) = &self.place {
            write!(f, "{place}")?;
        }
        f.write_str(&self.rest)
    }
}

/// A key of the file can have line breaks, and the text after one would look like a line of Argus.
fn one_line(text: &str) -> String {
    let is_break = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    text.replace(is_break, "\u{fffd}")
}
