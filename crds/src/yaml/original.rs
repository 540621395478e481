//! Places and texts of a translation in its file.

use crate::diagnostic::Location;

/// File behind the translation that [`read_translated`](super::read_translated) reads.
pub trait Original {
    /// Returns the location of a path of the translation.
    fn locate(&self, path: &str) -> Option<Location>;

    /// Returns the text of a value of the translation as the file writes it; `None` for the same text, and if it is unknown.
    fn written(&self, _path: &str, _text: &str) -> Option<String> {
        None
    }
}

impl<F: Fn(&str) -> Option<Location>> Original for F {
    fn locate(&self, path: &str) -> Option<Location> {
        self(path)
    }
}
