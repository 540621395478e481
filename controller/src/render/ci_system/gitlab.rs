//! Collapsible sections of GitLab, and links to lines in the repository. Escape sequences hide the markers of sections in the log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use argus_core::time::Timestamp;
use url::Url;

use super::{Annotation, Section};
use crate::render::foreign_text;

/// Place of the checkout in the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// Page of the commit, to which the path of a file is added; `None` if a variable is missing.
    page: Option<Url>,
    /// Root of the checkout.
    root: PathBuf,
}

impl Source {
    pub(super) fn new(variables: &BTreeMap<String, String>) -> Self {
        let value = |name: &str| variables.get(name).map_or("", String::as_str);
        let page = format!("{}/-/blob/{}", value("CI_PROJECT_URL"), value("CI_COMMIT_SHA"));
        Self {
            page: Url::parse(&page)
                .ok()
                .filter(|_| !value("CI_PROJECT_DIR").is_empty()),
            root: value("CI_PROJECT_DIR").into(),
        }
    }

    /// Message with a link to its line; `None` for a file outside the repository.
    pub(super) fn link(&self, annotation: &Annotation, current: &Path) -> Option<String> {
        let mut page = self.page.clone()?;
        let file = current.join(annotation.file.as_ref()?);
        let inside = file.strip_prefix(&self.root).ok()?;
        let parts = inside.components().map(|part| part.as_os_str().to_string_lossy());
        page.path_segments_mut().ok()?.extend(parts);
        let line = annotation.line.map(|line| format!("L{line}"));
        page.set_fragment(line.as_deref());
        let message = annotation.message.lines().next().unwrap_or_default();
        let text = foreign_text::to_plain(&format!("{}: {message}", annotation.title));
        Some(format!("{}  {page}\n", text.trim_end()))
    }
}

pub(super) fn begin(section: Section, now: Timestamp) -> String {
    let Section { id, title } = section;
    let at = seconds(now);
    format!("\u{1b}[0Ksection_start:{at}:argus_{id}[collapsed=true]\r\u{1b}[0K{title}\n")
}

pub(super) fn end(section: Section, now: Timestamp) -> String {
    format!(
        "\u{1b}[0Ksection_end:{}:argus_{}\r\u{1b}[0K\n",
        seconds(now),
        section.id
    )
}

/// Unix time in seconds.
fn seconds(at: Timestamp) -> i64 {
    at.0 / 1_000
}
