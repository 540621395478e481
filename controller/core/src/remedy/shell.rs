//! Commands with the syntax of a shell, which only a shell interprets.

use argus_crds::error::SpecEdit;

use super::EditContext;
use super::case::Case;
use crate::failed_run::{FailureKind, kind};
use crate::quoting::shell_word;

parts! {
    /// Parts of a message of a shell about its text, in lower case.
    SYNTAX: "unterminated quoted string" "unexpected eof while looking for" "syntax error near unexpected"
        "syntax error: unexpected";
}

/// Bytes of a command that an edit repeats.
const LONGEST: usize = 200;

/// Programs that interpret operators and variables.
pub(super) const SHELLS: [&str; 7] = ["sh", "bash", "ash", "dash", "zsh", "ksh", "busybox"];

/// Elements of a command that only a shell understands.
pub(super) const OPERATORS: [&str; 9] = ["&&", "||", "|", ";", ">", ">>", "2>&1", "<", "&"];

/// A command that is one text with arguments or shell syntax.
pub(super) fn one_element(case: &Case<'_>) -> Option<SpecEdit> {
    (kind(case.run) == FailureKind::NotRunnable)
        .then(|| shell_text(&case.context))
        .flatten()
}

/// An operator of a shell as an element of a command whose program is no shell, or a variable before its program.
pub(super) fn shell_words(case: &Case<'_>) -> Option<SpecEdit> {
    let mut words = case.words();
    // The end of an action of `find`.
    let has_action = case.words().any(|word| word.starts_with("-exec"));
    let is_operator = |word: &str| OPERATORS.contains(&word) && !(has_action && word == ";");
    let of_operator = || {
        let operator = words.find(|word| is_operator(word))?;
        Some(format!(
            "without a shell, `{operator}` is an argument of the program"
        ))
    };
    let of_variable = || {
        let (name, _) = case.words().next()?.split_once('=')?;
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        is_name.then(|| format!("without a shell, the value of `{name}` is the name of a program"))
    };
    let reason = of_variable().or_else(of_operator)?;
    // A shell would change these words.
    let mut others = case.words().filter(|word| !is_operator(word));
    if others.any(|word| word.contains(['&', '*', '$', '#', '~', '?', '<', '>'])) {
        return None;
    }
    in_shell(case, reason)
}

/// Text of a shell with an error in its syntax.
pub(super) fn shell_syntax(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(SYNTAX)?;
    // Before an error in a script is the name of the script.
    let program = line.split(':').next()?.rsplit('/').next()?;
    let is_text = |word: &String| word.starts_with('-') && word.ends_with('c') && word.len() <= 4;
    let option = case.words().find(|word| is_text(word))?;
    if !SHELLS.contains(&program) || !SHELLS.contains(&case.program()?) {
        return None;
    }
    let reason = "the shell cannot read the text of the command".to_owned();
    let edit = case.context.edit(case.command_key(option), reason);
    Some(edit.hint("correct its quotes and operators, such as `\"it's\"` for a word with a quote"))
}

/// A variable in a command whose program is no shell, if the cause repeats it.
pub(super) fn shell_variable(case: &Case<'_>) -> Option<SpecEdit> {
    let is_repeated = |text: &str| case.lines().any(|line| line.contains(text));
    let variable = case.words().find_map(|word| {
        let rest = &word[word.find('$')?..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_${}".contains(c)));
        let variable = &rest[..end.unwrap_or(rest.len())];
        (variable.len() > 1 && is_repeated(variable)).then_some(variable)
    })?;
    let reason = format!("without a shell, the program receives the text `{variable}`");
    in_shell(case, reason)
}

/// The command as one text of a shell; `None` if its program is a shell.
fn in_shell(case: &Case<'_>, reason: String) -> Option<SpecEdit> {
    if SHELLS.contains(&case.program()?) {
        return None;
    }
    let key = case.command_key(case.words().next()?);
    let edit = case.context.edit(key, reason);
    let text = case.words().map(String::as_str).collect::<Vec<_>>().join(" ");
    let is_one_list = case.context.service.entrypoint.as_ref().is_none_or(Vec::is_empty);
    // A word with other characters would need quotes.
    let is_simple = !case
        .words()
        .any(|word| word.contains([' ', '"', '\'', '\\', '(']));
    if !is_one_list || !is_simple || text.len() > LONGEST {
        return Some(edit.hint("write `[\"sh\", \"-c\", …]` with the whole command as its last element"));
    }
    Some(edit.suggest(shell_list(&text)?))
}

/// A command that is one text, as a list of a shell.
pub(super) fn shell_text(context: &EditContext<'_>) -> Option<SpecEdit> {
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
    Some(edit.now(text.as_str()).suggest(shell_list(text)?))
}

/// List of a shell that runs a text.
fn shell_list(text: &str) -> Option<String> {
    list(&["sh", "-c", text])
}

/// The command after another one, in one shell. `usual` is the command of the image.
pub(super) fn after(context: &EditContext<'_>, first: &str, usual: &str, reason: &str) -> Option<SpecEdit> {
    let service = context.service;
    let words = service.command.as_deref().unwrap_or_default();
    let is_wrapper = usual.contains("WORDS");
    if is_wrapper && (service.entrypoint.is_some() || service.user.is_some()) {
        return None;
    }
    let text = match words {
        [shell, ..] if is_wrapper && SHELLS.contains(&shell.rsplit('/').next()?) => return None,
        [] => usual.replace("WORDS ", ""),
        [shell, .., text] if SHELLS.contains(&shell.rsplit('/').next()?) => text.clone(),
        all => {
            let all: Vec<_> = all.iter().map(|word| shell_word(word)).collect();
            let all = all.join(" ");
            if is_wrapper {
                usual.replace("WORDS", &all)
            } else {
                all
            }
        }
    };
    // A job of the environment does it.
    let mut services = context.accepted.desired.services.values();
    let is_done = !is_wrapper && services.any(|service| service.one_shot);
    let is_run = text.is_empty() || text.contains(first) || is_done;
    let edit = context.edit("command", reason.to_owned());
    (!is_run).then(|| Some(edit.suggest(list(&["sh", "-c", &format!("{first} && {text}")])?)))?
}

/// The command with more words at its end.
pub(super) fn with_words(context: &EditContext<'_>, added: &str, reason: String) -> SpecEdit {
    let edit = context.edit("command", reason);
    let all = context.service.command.as_deref().unwrap_or_default();
    let is_shell = all.iter().any(|word| word.contains(['&', '|', ';', ' ']));
    let words = all.iter().map(String::as_str).chain(added.split(' '));
    let text = edit.now.as_ref().map(|now| format!("{now} {added}"));
    let meant = text.or_else(|| list(&words.collect::<Vec<_>>()));
    match meant.filter(|_| !is_shell) {
        Some(meant) => edit.suggest(meant),
        None => edit.hint(format!("add `{added}`")),
    }
}

/// Words as a list in the file.
pub(super) fn list(words: &[&str]) -> Option<String> {
    let written = serde_json::to_string(words).ok()?;
    Some(written.replace("\",\"", "\", \""))
}
