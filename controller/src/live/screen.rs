//! A block of lines at the end of a terminal that is drawn over itself, with logs above it.

use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use console::Term;

/// The block; its copies are one.
#[derive(Debug, Clone)]
pub(crate) struct Screen {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    term: Term,
    coloured: bool,
    /// The lines that stand there now.
    shown: Vec<String>,
}

impl Screen {
    /// The block of this process's terminal; `None` where stdout or stderr is none.
    pub(crate) fn of_terminal() -> Option<Self> {
        let term = Term::stderr();
        let both = term.is_term() && Term::stdout().is_term();
        both.then(|| Self {
            inner: Arc::new(Mutex::new(Inner {
                coloured: anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never,
                term,
                shown: Vec::new(),
            })),
        })
    }

    /// Columns of the terminal.
    pub(crate) fn width(&self) -> usize {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        usize::from(inner.term.size().1)
    }

    /// Draws these lines in place of those that stand there.
    pub(crate) fn draw(&self, lines: Vec<String>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.shown == lines {
            return;
        }
        inner.clear();
        inner.shown = lines;
        inner.show();
    }

    /// Writes text above the block.
    pub(crate) fn above(&self, bytes: &[u8]) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clear();
        // A terminal that went away takes no more, and needs no more.
        drop((&inner.term).write_all(bytes));
        inner.show();
    }
}

impl Inner {
    fn clear(&mut self) {
        drop(self.term.clear_last_lines(self.visible().len()));
    }

    fn show(&mut self) {
        let text = crate::cli::output::lines(self.visible());
        let text = if self.coloured {
            text.into()
        } else {
            console::strip_ansi_codes(&text)
        };
        drop((&self.term).write_all(text.as_bytes()));
        drop(self.term.flush());
    }

    /// As much as the window takes: what has scrolled out cannot be drawn over.
    fn visible(&self) -> &[String] {
        let rows = usize::from(self.term.size().0).saturating_sub(1).max(1);
        &self.shown[..self.shown.len().min(rows)]
    }
}
