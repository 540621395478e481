//! Commands that the container cannot run: one element with shell syntax, and scripts from a mount.

use argus_crds::error::SpecEdit;

use super::EditContext;
use super::case::{Case, contains, host_file, paths};
use super::program::program_in;
use crate::desired::Image;
use crate::failed_run::{FailureKind, kind};

/// Parts of a message about a program that is not there, in lower case.
const ABSENT: [&str; 3] = ["no such file", "not found", "cannot run"];

/// Bytes of a command that an edit repeats.
const LONGEST: usize = 200;

/// A command that is one text with arguments or shell syntax.
pub(super) fn one_element(case: &Case<'_>) -> Option<SpecEdit> {
    (kind(case.run) == FailureKind::NotRunnable)
        .then(|| shell_text(&case.context))
        .flatten()
}

/// A script from a bind mount that is not executable, or names a missing interpreter.
pub(super) fn mounted_script(case: &Case<'_>) -> Option<SpecEdit> {
    if kind(case.run) != FailureKind::NotRunnable {
        return None;
    }
    let code = case.run.exit_code;
    case.lines()
        .find_map(|line| script_in(&case.context, line))
        .or_else(|| of_command(&case.context, code == 126))
}

/// A script of an image that Argus builds, if the image contains neither it nor the interpreter in its first line. The kernel reports both in
/// the same way. The line ends of Windows add a carriage return to the name of the interpreter.
pub(super) fn built_script(case: &Case<'_>) -> Option<SpecEdit> {
    let Image::Built(build) = &case.context.service.image else {
        return None;
    };
    if kind(case.run) != FailureKind::NotRunnable {
        return None;
    }
    let path = case.lines().find_map(|line| {
        if contains(line, &["bad interpreter"]) {
            return paths(line).next();
        }
        program_in(line).filter(|program| program.starts_with('/'))
    })?;
    if host_file(&case.context, path).is_some() {
        return None;
    }
    let name = path.rsplit('/').next()?;
    let reason = format!("the image does not contain `{path}`, or not the interpreter in its line 1");
    let hint = format!(
        "convert CRLF line ends of `{name}` with `sed -i 's/\\r$//' {name}`, or name an interpreter of the image in its line 1"
    );
    Some(Case::host_edit(build.context.clone(), reason, hint))
}

/// Change for a container that the engine could not start, from the reason of the engine.
pub(super) fn of_reason(context: &EditContext<'_>, reason: &str) -> Option<SpecEdit> {
    shell_text(context)
        .filter(|_| contains(reason, &ABSENT))
        .or_else(|| script_in(context, reason))
}

fn shell_text(context: &EditContext<'_>) -> Option<SpecEdit> {
    let (key, [text]) = [
        ("entrypoint", &context.service.entrypoint),
        ("command", &context.service.command),
    ]
    .into_iter()
    .find_map(|(key, words)| Some((key, words.as_deref().filter(|words| !words.is_empty())?)))?
    else {
        return None;
    };
    if !text.contains(char::is_whitespace) {
        return None;
    }
    let reason = "the engine runs one element as the name of a program, without a shell";
    let edit = context.edit(key, reason.to_owned());
    if text.len() > LONGEST {
        return Some(edit.hint("write `[\"sh\", \"-c\", …]` with this text as its last element"));
    }
    let written = serde_json::to_string(&["sh", "-c", text]).ok()?;
    Some(
        edit.now(text.as_str())
            .suggest(written.replace("\",\"", "\", \"")),
    )
}

fn script_in(context: &EditContext<'_>, line: &str) -> Option<SpecEdit> {
    let is_denied = contains(line, &["permission denied"]);
    if !is_denied
        && !contains(
            line,
            &["no such file", "not found", "bad interpreter", "exec format"],
        )
    {
        return None;
    }
    let file = paths(line).find_map(|path| host_file(context, path))?;
    if contains(line, &["exec format"]) {
        let reason = "the kernel does not know its format";
        let hint =
            "begin it with `#!` and an interpreter, or use a program for this platform; then `argus_retry`";
        return Some(Case::host_edit(file, reason, hint));
    }
    Some(script(file, is_denied))
}

fn of_command(context: &EditContext<'_>, is_denied: bool) -> Option<SpecEdit> {
    let words = [&context.service.entrypoint, &context.service.command];
    let program = words.into_iter().flatten().find_map(|words| words.first())?;
    Some(script(host_file(context, program)?, is_denied))
}

fn script(file: String, is_denied: bool) -> SpecEdit {
    if is_denied {
        let hint = format!("run `chmod +x {file}`, then `argus_retry`");
        return Case::host_edit(file, "the mounted file is not executable", hint);
    }
    let hint = format!(
        "convert CRLF line ends with `sed -i 's/\\r$//' {file}`, or name an interpreter of the image in line 1; then `argus_retry`"
    );
    let reason = "the container cannot find the mounted file or the interpreter in its line 1";
    Case::host_edit(file, reason, hint)
}
