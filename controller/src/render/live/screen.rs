//! A block of lines at the bottom of the terminal that is redrawn in place. Logs appear above it.

use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use console::Term;

use crate::render::ci_system::CiSystem;
use crate::render::foreign_text;
use crate::render::output;

/// Handle of the block. Clones share the same block.
#[derive(Debug, Clone)]
pub(crate) struct LiveBlock {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    term: Term,
    coloured: bool,
    /// Currently drawn lines.
    lines: Vec<String>,
}

impl LiveBlock {
    /// Block on the terminal of this process. `None` if stdout or stderr is not a terminal, and in a CI system, which reads lines.
    pub(crate) fn for_terminal() -> Option<Self> {
        let term = Term::stderr();
        let both = term.is_term() && Term::stdout().is_term() && *output::ci_system() == CiSystem::Other;
        both.then(|| Self {
            inner: Arc::new(Mutex::new(Inner {
                coloured: anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never,
                term,
                lines: Vec::new(),
            })),
        })
    }

    /// Columns of the terminal.
    pub(crate) fn width(&self) -> usize {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        usize::from(inner.term.size().1)
    }

    /// Replaces the drawn lines.
    pub(crate) fn draw(&self, lines: Vec<String>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.lines == lines {
            return;
        }
        inner.clear();
        inner.lines = lines;
        inner.show();
    }

    /// Writes text above the block.
    pub(crate) fn print_above(&self, bytes: &[u8]) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clear();
        // Errors of a closed terminal are ignored.
        drop((&inner.term).write_all(bytes));
        inner.show();
    }
}

impl Inner {
    fn clear(&mut self) {
        drop(self.term.clear_last_lines(self.visible().len()));
    }

    fn show(&mut self) {
        let text = foreign_text::escape_for_terminal(&output::join_lines(self.visible()));
        let text = if self.coloured {
            text.into()
        } else {
            console::strip_ansi_codes(&text)
        };
        drop((&self.term).write_all(text.as_bytes()));
        drop(self.term.flush());
    }

    /// Lines that fit into the window. Lines that scrolled out cannot be redrawn.
    fn visible(&self) -> &[String] {
        let rows = usize::from(self.term.size().0).saturating_sub(1).max(1);
        &self.lines[..self.lines.len().min(rows)]
    }
}
