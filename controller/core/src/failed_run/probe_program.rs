//! Messages of the engine and of shells about a program that a health check names and the image does not have.

/// Shells whose message names the program that they did not find.
const SHELLS: [&str; 6] = ["sh", "bash", "ash", "dash", "ksh", "zsh"];

/// Maximum length of the name of a program, in bytes.
const LONGEST: usize = 200;

/// Returns the programs that the output of a probe reports as missing, and true if the output contains nothing else.
pub(crate) fn missing_programs(output: &str) -> (Vec<&str>, bool) {
    let mut programs = Vec::new();
    let mut is_only = true;
    for line in result_of(output).lines().filter(|line| !line.trim().is_empty()) {
        match missing_in(line.trim()) {
            Some(program) => programs.push(program),
            None => is_only = false,
        }
    }
    (programs, is_only)
}

/// Returns whether an output is only about missing programs, so that no restart can help. A path may appear later, for example in a
/// volume, so only names that were searched in `PATH` count.
pub(super) fn is_missing(output: &str) -> bool {
    let (programs, is_only) = missing_programs(output);
    is_only && !programs.is_empty() && programs.iter().all(|name| !name.contains('/'))
}

/// The result of a command without the request of the probe, such as `exec sh: exit code 127: `.
fn result_of(output: &str) -> &str {
    let Some((request, result)) = output.split_once(": exit code ") else {
        return output;
    };
    if !request.starts_with("exec ") || request.contains('\n') {
        return output;
    }
    result.split_once(": ").map_or("", |(_, rest)| rest)
}

fn missing_in(line: &str) -> Option<&str> {
    let of_engine = line
        .split_once("exec: \"")
        .filter(|(_, rest)| rest.contains("executable file not found") || rest.contains("no such file"))
        .and_then(|(_, rest)| rest.split('"').next());
    of_engine
        .or_else(|| of_shell(line))
        .filter(|name| is_program(name))
}

/// Name in a message such as `/bin/sh: 1: curl: not found`, `bash: line 3: curl: command not found` and `zsh:1: command not found: curl`.
fn of_shell(line: &str) -> Option<&str> {
    let (shell, message) = line.split_once(':')?;
    if !SHELLS.contains(&shell.rsplit('/').next()?) {
        return None;
    }
    if let Some((_, name)) = message.rsplit_once("command not found: ") {
        return Some(name);
    }
    let before = [
        ": command not found",
        ": not found",
        ": inaccessible or not found",
    ]
    .iter()
    .find_map(|end| message.strip_suffix(end))?;
    Some(before.rsplit(':').next()?.trim())
}

fn is_program(name: &str) -> bool {
    let is_harmless = |c: char| c.is_alphanumeric() || "/._-+".contains(c);
    !name.is_empty() && name.len() <= LONGEST && !name.starts_with('-') && name.chars().all(is_harmless)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_programs_are_read_from_messages() {
        const ENGINE: &str = "OCI runtime exec failed: exec failed: unable to start container process: exec: \"curl\": executable file \
not found in $PATH: unknown";
        let engine = format!("exec curl: exit code 127: {ENGINE}");
        for (output, programs, is_permanent) in [
            (engine.as_str(), &["curl"][..], true),
            (ENGINE, &["curl"], true),
            ("exec sh: exit code 127: sh: curl: not found\n", &["curl"], true),
            (
                "exec /bin/sh: exit code 127: /bin/sh: 1: curl: not found",
                &["curl"],
                true,
            ),
            (
                "exec sh: exit code 1: sh: line 1: curl: command not found",
                &["curl"],
                true,
            ),
            (
                "exec sh: exit code 1: sh: curl: not found\nsh: wget: not found\n",
                &["curl", "wget"],
                true,
            ),
            (
                "exec zsh: exit code 127: zsh:1: command not found: curl",
                &["curl"],
                true,
            ),
            // The rest of the command decided.
            (
                "exec sh: exit code 1: sh: curl: not found\nwget: can't connect",
                &["curl"],
                false,
            ),
            // The path may be part of a volume that is filled later.
            (
                "exec sh: exit code 127: sh: /app/check: not found",
                &["/app/check"],
                false,
            ),
            ("exec sh: exit code 127: ", &[], false),
            ("exec sh: exit code 1: not found", &[], false),
            ("exec sh: exit code 1: user: not found", &[], false),
            ("exec sh: exit code 1: sh: a;b: not found", &[], false),
            ("GET /x on :80: 404 Not Found", &[], false),
        ] {
            assert_eq!(missing_programs(output).0, programs, "{output}");
            assert_eq!(is_missing(output), is_permanent, "{output}");
        }
    }
}
