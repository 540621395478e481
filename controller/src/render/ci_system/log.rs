//! Text in the log of GitHub, without workflow commands.
//!
//! The runner splits the log at line feeds and carriage returns. A line is a command if it begins with `::` after white space, or if it
//! contains `##[` anywhere.

use crate::render::foreign_text::{MARK, split_marks, to_plain};

/// Returns plain text in which no line is a workflow command. A line that looks like one has the mark of foreign text.
pub(super) fn without_commands(text: &str) -> String {
    let mark = |line: &str| {
        let is_command = line.trim_start().starts_with("::");
        [if is_command { MARK } else { "" }, line].concat()
    };
    let plain = without_old_commands(text);
    plain.split_inclusive('\n').map(mark).collect()
}

/// Returns plain text without the beginning of a command that is anywhere in a line: of a workflow command of the old form, and of the
/// commands of Azure Pipelines and `TeamCity`.
pub(super) fn without_old_commands(text: &str) -> String {
    split_marks(&to_plain(text), "# ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::render::foreign_text::is_deceptive;

    /// Lines that the runner takes for a command.
    fn commands(log: &str) -> Vec<&str> {
        let is_command = |line: &&str| line.trim_start().starts_with("::") || line.contains("##[");
        log.split(['\n', '\r']).filter(is_command).collect()
    }

    #[test]
    fn forged_commands_have_the_mark() {
        for (text, expected) in [
            ("::error::x\n", "  | ::error::x\n"),
            ("a\n \t\u{3000}::add-mask::x", "a\n  |  \t\u{3000}::add-mask::x"),
            ("50 %\r::error::x\r\n", "50 %\n  | ::error::x\n"),
            ("\u{1b}[31m::error::x\u{1b}[0m\n", "  | ::error::x\n"),
            (":\u{1b}[0m:error::x", "  | ::error::x"),
            ("a ##[error]x ###[b", "a ## [error]x ### [b"),
            ("## T ##vso[a] ##teamcity[b", "## T ## vso[a] ## teamcity[b"),
            ("\u{85}::error::x", "\\u{85}::error::x"),
            ("\u{2028}::error::x\u{feff}", "\\u{2028}::error::x\\u{feff}"),
            ("a::b\n# [x]\n", "a::b\n# [x]\n"),
        ] {
            let log = without_commands(text);
            assert_eq!(log, expected, "{text:?}");
            assert_eq!(commands(&log), [""; 0], "{text:?}");
        }
    }

    /// Bytes with many parts of commands.
    fn log_bytes() -> impl Strategy<Value = Vec<u8>> {
        let parts = [
            ":",
            "::",
            "::error::",
            "#",
            "##",
            "##[",
            "[",
            "error]",
            "\n",
            "\r",
            "\r\n",
            " ",
            "\t",
            "\u{b}",
            "\u{1b}",
            "\u{1b}[0m",
            "\u{1b}[0K",
            "\u{85}",
            "\u{a0}",
            "\u{2028}",
            "\u{3000}",
            "\u{feff}",
            "\u{ad}",
            "\u{0}",
            "section_start:0:a\r\u{1b}[0K",
        ];
        let part = prop_oneof![
            any::<char>().prop_map(|c| c.to_string().into_bytes()),
            any::<u8>().prop_map(|byte| vec![byte]),
            prop::sample::select(parts.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
        ];
        prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn bytes_never_become_a_command(bytes in log_bytes()) {
            let text = String::from_utf8_lossy(&bytes);
            let log = without_commands(&text);
            assert_eq!(commands(&log), [""; 0], "{text:?}");
            // Sections of GitLab need a carriage return and an escape character.
            for log in [log, to_plain(&text)] {
                let is_wrong = |c: char| c != '\n' && c != '\t' && is_deceptive(c);
                assert!(!log.contains(is_wrong), "{text:?}: {log:?}");
            }
        }
    }
}
