//! Collapsible sections of GitLab. Escape sequences hide their markers in the log.

use argus_core::time::Timestamp;

use super::Section;

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
