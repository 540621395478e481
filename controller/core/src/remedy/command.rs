//! Commands that the container cannot run: one element with shell syntax, and scripts from a mount.

use argus_crds::error::SpecEdit;

use super::EditContext;
use super::case::{Case, contains, host_file, is_plain, paths, quoted_after, shell_quoted};
use super::program::{blamed, is_place, program_in};
use crate::desired::Image;
use crate::desired::suggest::closest;
use crate::failed_run::{FailureKind, kind};

/// Parts of a message about a program that is not there, in lower case.
const ABSENT: [&str; 3] = ["no such file", "not found", "cannot run"];

/// Bytes of a command that an edit repeats.
const LONGEST: usize = 200;

/// Programs that interpret operators and variables.
const SHELLS: [&str; 7] = ["sh", "bash", "ash", "dash", "zsh", "ksh", "busybox"];

/// Elements of a command that only a shell understands.
const OPERATORS: [&str; 9] = ["&&", "||", "|", ";", ">", ">>", "2>&1", "<", "&"];

/// Parts of a message about an option that the program does not know, in lower case.
const UNKNOWN_OPTION: [&str; 19] = [
    "unknown option",
    "unrecognized option",
    "unrecognised option",
    "unrecognized argument",
    "unrecognized vm option",
    "unrecognized flag",
    "invalid option",
    "invalid flag",
    "illegal option",
    "flag provided but not defined",
    "unknown flag",
    "unknown long flag",
    "unknown shorthand flag",
    "unknown argument",
    "unexpected argument",
    "bad option",
    "no such option",
    "unknown variable '",
    "not allowed in node_options",
];

/// Parts of a message about an option that the command does not have, in lower case.
const REQUIRED_OPTION: [&str; 9] = [
    "arguments are required:",
    "required flag",
    "required arguments were not provided",
    "missing required option",
    "missing required argument",
    "missing required flag",
    "missing option",
    "missing argument",
    "requires an argument",
];

/// Parts of a message about a subcommand that the program does not know, in lower case.
const UNKNOWN_COMMAND: [&str; 8] = [
    "unknown command",
    "unknown subcommand",
    "unrecognized subcommand",
    "unrecognized command",
    "invalid choice:",
    "no such command",
    "missing script:",
    "is not a valid command",
];

/// A command that is one text with arguments or shell syntax.
pub(super) fn one_element(case: &Case<'_>) -> Option<SpecEdit> {
    (kind(case.run) == FailureKind::NotRunnable)
        .then(|| shell_text(&case.context))
        .flatten()
}

/// An operator of a shell as an element of a command whose program is no shell.
pub(super) fn shell_words(case: &Case<'_>) -> Option<SpecEdit> {
    let mut words = case.words();
    // The end of an action of `find`.
    let has_action = case.words().any(|word| word.starts_with("-exec"));
    let is_operator = |word: &str| OPERATORS.contains(&word) && !(has_action && word == ";");
    let operator = words.find(|word| is_operator(word))?;
    // A shell would change these words.
    let mut others = case.words().filter(|word| !is_operator(word));
    if others.any(|word| word.contains(['&', '*', '$', '#', '~', '?', '<', '>'])) {
        return None;
    }
    let reason = format!("without a shell, `{operator}` is an argument of the program");
    in_shell(case, reason)
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

/// Image of another platform than that of the engine.
pub(super) fn platform(case: &Case<'_>) -> Option<SpecEdit> {
    let difference = case.run.evidence.as_ref()?.wrong_platform.as_ref()?;
    if matches!(case.context.service.image, Image::Built(_)) {
        return None;
    }
    let edit = case.context.edit("image", difference.clone());
    Some(edit.hint("use an image for the platform of the engine"))
}

/// Option of the command, or of a variable with options, that the program does not know.
pub(super) fn unknown_option(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&UNKNOWN_OPTION)?;
    let lower = line.to_lowercase();
    let part = UNKNOWN_OPTION.iter().find(|part| lower.contains(**part))?;
    let rest = line.get(lower.find(part)? + part.len().min(part.trim_end_matches('\'').len())..)?;
    // Some programs name the option before these words.
    let before = line.split_whitespace().filter(|word| word.starts_with('-'));
    let candidates: Vec<&str> = rest
        .split(|c: char| c.is_whitespace() || "\"'`:,;()[]".contains(c))
        .map(|word| word.trim_end_matches('.'))
        .chain(before)
        .filter(|word| !word.trim_start_matches('-').is_empty())
        .collect();
    let service = case.context.service;
    let is_of_options = |name: &str| {
        ["OPTIONS", "OPTS", "ARGS", "FLAGS"]
            .iter()
            .any(|end| name.ends_with(end))
    };
    let variables = service.env_vars.iter().filter(|(name, _)| is_of_options(name));
    let in_variables = variables.flat_map(|(name, value)| {
        let key = format!("container.environment.{name}");
        value.split_whitespace().map(move |word| (key.clone(), word))
    });
    let in_command = case.words().flat_map(|word| word.split_whitespace());
    let in_command = in_command.map(|word| (case.command_key(word).to_owned(), word));
    let all: Vec<(String, &str)> = in_command.chain(in_variables).collect();
    // The nearest word to the message is meant, and not a suggestion after it.
    let (key, word) = candidates
        .iter()
        .find_map(|candidate| all.iter().find(|(_, word)| is_option(word, candidate)))?;
    let reason = format!("the program does not know the option `{word}`");
    let edit = case.context.edit(key, reason).now(*word);
    Some(edit.hint("remove it, or write an option that this version knows"))
}

/// Returns whether a word of a command is the option that a message names, often without its dashes.
fn is_option(word: &str, named: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    let bare = name
        .trim_start_matches('-')
        .trim_start_matches("XX:")
        .trim_start_matches(['+', '-']);
    let other = named.split('=').next().unwrap_or_default();
    name.starts_with('-') && !bare.is_empty() && (name == other || bare == other.trim_start_matches('-'))
}

/// Option that the program requires.
pub(super) fn required_option(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&REQUIRED_OPTION)?;
    // An argument of a function.
    if contains(line, &["typeerror", "(pos "]) {
        return None;
    }
    let lower = line.to_lowercase();
    let part = REQUIRED_OPTION.iter().find(|part| lower.contains(**part))?;
    let rest = line.get(lower.find(part)? + part.len()..)?;
    let lines = case.lines();
    // Some parsers list the options in the next lines.
    let next = lines.skip_while(|other| *other != line).skip(1).take(3);
    let mut texts = std::iter::once(rest).chain(next);
    let option = texts.find_map(|text| {
        let words = text.split(|c: char| c.is_whitespace() || "\"'`,;()[]".contains(c));
        let mut words = words.map(|word| word.trim_matches(['<', '>', '.', ':']));
        words.find(|word| word.starts_with("--") && word.len() > 3 && is_plain(&word[2..]))
    });
    let argument = || {
        quoted_after(rest, "")
            .filter(|name| is_plain(name))
            .map(str::to_owned)
    };
    let option = match option {
        Some(option) => option.split('=').next().unwrap_or(option).to_owned(),
        None if contains(rest, &["flag"]) || part.contains("flag") => format!("--{}", argument()?),
        None => argument()?,
    };
    if case
        .words()
        .any(|word| word.split(['=', ' ']).any(|word| word == option))
    {
        return None;
    }
    let reason = format!("the program requires `{option}`");
    let edit = case.context.edit("command", reason);
    Some(edit.hint(format!("add `{option}` with its value")))
}

/// Subcommand that the program does not know.
pub(super) fn unknown_command(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&UNKNOWN_COMMAND)?;
    let words = || case.words().flat_map(|word| word.split_whitespace());
    let named = line.split(|c: char| c.is_whitespace() || "\"'`:,;()[]".contains(c));
    let wrong = named
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| word.len() > 1)
        .find(|word| Some(*word) != case.program() && words().any(|other| other == *word))?;
    let known: Vec<&str> = case
        .lines()
        .flat_map(|line| line.split(|c: char| c.is_whitespace() || "\"'`:,;()[]?{}".contains(c)))
        .filter(|word| *word != wrong && is_plain(word) && word.len() > 2)
        .collect();
    let reason = format!("the program does not know the command `{wrong}`");
    let edit = case.context.edit(case.command_key(wrong), reason).now(wrong);
    Some(match closest(wrong, known) {
        Some(meant) => edit.suggest(meant),
        None => edit.hint("write a command that the program knows"),
    })
}

/// A script from a bind mount that is not executable, or names a missing interpreter.
pub(super) fn mounted_script(case: &Case<'_>) -> Option<SpecEdit> {
    if kind(case.run) != FailureKind::NotRunnable {
        return None;
    }
    let code = case.run.exit_code;
    // With facts of the host, another rule names the fault.
    let is_decided = script_path(case)
        .and_then(|path| case.host_facts(path))
        .is_some_and(|facts| {
            facts.has_crlf
                || facts.interpreter.is_some()
                || facts.file_mode().is_some_and(|mode| mode & 0o111 == 0)
        });
    if is_decided {
        return None;
    }
    case.lines()
        .find_map(|line| script_in(&case.context, line))
        .or_else(|| Some(script(host_file(&case.context, script_path(case)?)?, code == 126)))
}

/// Path of the mounted script that could not run: named in a message, or the program of the command.
pub(super) fn script_path<'a>(case: &Case<'a>) -> Option<&'a str> {
    if kind(case.run) != FailureKind::NotRunnable {
        return None;
    }
    let in_lines = case.lines().find_map(|line| {
        let is_named = contains(line, &["permission denied", "bad interpreter", "exec format"])
            || contains(line, &ABSENT);
        blamed(&case.context, line).filter(|_| is_named)
    });
    let service = case.context.service;
    let words = [&service.entrypoint, &service.command];
    let program = words.into_iter().flatten().find_map(|words| words.first());
    let of_command = || {
        let program = program.map(String::as_str)?;
        let has_run = |line: &str| line.split_once(program).is_some_and(|(_, rest)| is_place(rest));
        (!case.lines().any(has_run)).then_some(program)
    };
    in_lines.or_else(of_command)
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
        "convert CRLF line ends of `{name}` with `sed -i 's/\\r$//' {}`, or name an interpreter of the image in its line 1",
        shell_quoted(name)
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
    Some(edit.now(text.as_str()).suggest(shell_list(text)?))
}

/// List of a shell that runs a text.
fn shell_list(text: &str) -> Option<String> {
    let written = serde_json::to_string(&["sh", "-c", text]).ok()?;
    Some(written.replace("\",\"", "\", \""))
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
    let file = host_file(context, blamed(context, line)?)?;
    if contains(line, &["exec format"]) {
        let reason = "the kernel does not know its format";
        let hint =
            "begin it with `#!` and an interpreter, or use a program for this platform; then `argus_retry`";
        return Some(Case::host_edit(file, reason, hint));
    }
    Some(script(file, is_denied))
}

fn script(file: String, is_denied: bool) -> SpecEdit {
    if is_denied {
        let hint = format!("run `chmod +x {}`, then `argus_retry`", shell_quoted(&file));
        return Case::host_edit(file, "the mounted file is not executable", hint);
    }
    let hint = format!(
        "convert CRLF line ends with `sed -i 's/\\r$//' {}`, or name an interpreter of the image in line 1; then `argus_retry`",
        shell_quoted(&file)
    );
    let reason = "the container cannot find the mounted file or the interpreter in its line 1";
    Case::host_edit(file, reason, hint)
}
