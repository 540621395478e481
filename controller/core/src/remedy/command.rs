//! Commands that the container cannot run, and options that the program does not know.

use argus_crds::error::SpecEdit;
use argus_crds::suggestion::nearest;

use super::EditContext;
use super::case::{Case, contains, host_file, is_plain, quoted, quoted_after};
use super::classes::{REQUIRED_OPTION, UNKNOWN_OPTION};
use super::cures::cure_of;
use super::network::ports;
use super::program::{blamed, is_place};
use super::shell::{SHELLS, list, shell_text};
use super::signals::loader;
use super::unread::renamed;
use crate::desired::Image;
use crate::failed_run::{FailureKind, kind};
use crate::quoting::shell_path;

/// Parts of a message about a program that is not there, in lower case.
const ABSENT: [&str; 3] = ["no such file", "not found", "cannot run"];

/// Start of a line with an option that Redis reads as one of its configuration.
const CONFIGURED: &str = ">>> '";

/// Parts of a message about a file that the program cannot open, in lower case.
const UNREADABLE: [&str; 4] = ["can't open", "cannot open", "could not open", "no such file"];

/// Image of another platform than that of the engine.
pub(super) fn platform(case: &Case<'_>) -> Option<SpecEdit> {
    let difference = case.run.evidence.as_ref()?.wrong_platform.as_ref()?;
    if let Image::Built(build) = &case.context.service.image {
        let platform = build.options.platform.as_ref()?;
        let edit = case
            .context
            .edit("build.platform", difference.clone())
            .now(platform);
        return Some(match difference.split_once("the engine for ") {
            Some((_, engine)) => edit.suggest(engine),
            None => edit.hint("remove it, or write the platform of the engine"),
        });
    }
    let edit = case.context.edit("image", difference.clone());
    // Images of one platform have its name in front of that for all platforms.
    let of_all = ["amd64/", "arm64v8/", "arm32v7/", "arm32v6/", "i386/"]
        .iter()
        .find_map(|platform| edit.now.as_ref()?.strip_prefix(platform).map(str::to_owned));
    Some(match of_all {
        Some(image) => edit.suggest(image),
        None => edit.hint("use an image for the platform of the engine"),
    })
}

/// Option of the command, or of a variable with options, that the program does not know.
pub(super) fn unknown_option(case: &Case<'_>) -> Option<SpecEdit> {
    if let Some(edit) = joined_option(case) {
        return Some(edit);
    }
    let (line, rest) = unknown_in(case)?;
    if let Some(edit) = cure_of(case, line) {
        return Some(edit);
    }
    // Some programs name the option before these words.
    let before = line.split_whitespace().filter(|word| word.starts_with('-'));
    let candidates: Vec<&str> = words_of(rest)
        .chain(before)
        .chain(quoted(line))
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
    let mut places = candidates.iter().filter_map(|candidate| {
        let mut words = all.iter();
        words.position(|(_, word)| is_option(word, candidate))
    });
    let place = places.next()?;
    let (key, word) = &all[place];
    // Redis reports a wrong value in the same way.
    let verb = if line.starts_with(CONFIGURED) {
        "accept"
    } else {
        "know"
    };
    let reason = format!("the program does not {verb} the option `{word}`");
    let edit = case.context.edit(key, reason).now(*word);
    let name = word.split('=').next().unwrap_or(word);
    let is_other = |other: &&str| {
        let bare = other.trim_start_matches('-');
        other.starts_with('-')
            && bare.len() > 1
            && is_plain(bare)
            && all.iter().all(|(_, word)| word.split('=').next() != Some(*other))
    };
    let present = renamed(service).map(|[_, new]| new.split('=').next().unwrap_or(new));
    let known = case.lines().flat_map(words_of).chain(present).filter(is_other);
    if let Some(meant) = nearest(name, known).filter(|_| name.len() > 3) {
        return Some(edit.now(name).suggest(meant));
    }
    let next = all.get(place + 1).map(|(_, next)| *next);
    let port = next.and_then(|next| next.parse().ok());
    if port.is_some_and(|port| ports(service).contains(&port)) {
        return Some(edit.suggest("--port").likely());
    }
    let has_value = !word.contains('=') && next.is_some_and(|next| !next.starts_with('-'));
    let rest = without(case, key, word).filter(|_| !has_value);
    Some(rest.unwrap_or_else(|| edit.hint("remove it, or write an option that this version knows")))
}

/// Option and its value in one element of the command, which the program reads as one word.
fn joined_option(case: &Case<'_>) -> Option<SpecEdit> {
    case.line_with(&["wrong number of arguments"])
        .or_else(|| case.line_with(&UNKNOWN_OPTION))?;
    let all = case.command_words();
    let halves = |word: &&'_ str| -> bool {
        let parts = word.split_once(' ').filter(|_| word.starts_with('-'));
        parts.is_some_and(|(option, value)| !option.contains('=') && !value.contains(' '))
    };
    let is_repeated = |word: &&&str| case.lines().any(|line| line.contains(**word));
    let joined = all.iter().filter(|word| halves(word)).find(is_repeated)?;
    let is_shell = case.program().is_some_and(|program| SHELLS.contains(&program));
    let reason = format!("without a shell, `{joined}` is one argument");
    let apart = all.iter().flat_map(|word| match word.split_once(' ') {
        Some((option, value)) if halves(word) => vec![option, value],
        _ => vec![*word],
    });
    let edit = case.context.edit("command", reason);
    (!is_shell).then(|| Some(edit.suggest(list(&apart.collect::<Vec<_>>())?)))?
}

/// The command or variable without an option that this version does not know.
fn without(case: &Case<'_>, key: &str, word: &str) -> Option<SpecEdit> {
    let edit = case
        .context
        .edit(key, format!("the program does not know the option `{word}`"));
    let rest = |text: &str| {
        let words: Vec<&str> = text.split(' ').filter(|other| *other != word).collect();
        words.join(" ")
    };
    if let Some(name) = key.strip_prefix("container.environment.") {
        let value = case.context.service.env_vars.get(name)?;
        return Some(edit.now(value.as_str()).suggest(rest(value)));
    }
    if let Some(text) = edit.now.clone() {
        return Some(edit.suggest(rest(&text)));
    }
    let service = case.context.service;
    let all = if key == "entrypoint" {
        &service.entrypoint
    } else {
        &service.command
    };
    let all: Vec<&str> = all.iter().flatten().map(String::as_str).collect();
    let kept: Vec<&str> = all.iter().copied().filter(|other| *other != word).collect();
    (kept.len() < all.len()).then(|| Some(edit.suggest(list(&kept)?)))?
}

/// Line about an unknown option, and its text that begins with the option. A program without options reads it as the name of a file.
fn unknown_in<'a>(case: &Case<'a>) -> Option<(&'a str, &'a str)> {
    if let Some(line) = case.line_with(&UNKNOWN_OPTION) {
        let lower = line.to_lowercase();
        let part = UNKNOWN_OPTION.iter().find(|part| lower.contains(**part))?;
        let rest = line.get(lower.find(part)? + part.trim_end_matches('\'').len()..)?;
        return Some((line, rest));
    }
    let configured = case
        .line_with(&["bad directive"])
        .and(case.line_with(&[CONFIGURED]));
    if let Some((line, rest)) = configured.and_then(|line| Some((line, line.strip_prefix(CONFIGURED)?))) {
        return Some((line, rest));
    }
    let mut lines = case.lines().filter(|line| contains(line, &UNREADABLE));
    lines.find_map(|line| {
        let mut quoted = line.split(['"', '\'', '`']).skip(1);
        let option = quoted.find(|text| text.starts_with('-') && text.len() > 1 && !text.contains(' '))?;
        Some((line, option))
    })
}

/// Words of a message without its punctuation.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| c.is_whitespace() || "\"'`:,;()[]?".contains(c));
    words.map(|word| word.trim_end_matches('.'))
}

/// Returns whether a word of a command is the option that a message names, often without its dashes.
fn is_option(word: &str, named: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    let bare = name
        .trim_start_matches('-')
        .trim_start_matches("XX:")
        .trim_start_matches(['+', '-']);
    let other = named.split('=').next().unwrap_or_default();
    let is_last = |other: &str| bare == other || bare.rsplit('.').next() == Some(other);
    name.starts_with('-') && !bare.is_empty() && (name == other || is_last(other.trim_start_matches('-')))
}

/// Option that the program requires.
pub(super) fn required_option(case: &Case<'_>) -> Option<SpecEdit> {
    let Some(line) = case.line_with(&REQUIRED_OPTION) else {
        return required_setting(case);
    };
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
    add_option(case, &option, part.contains("run again"))
}

fn add_option(case: &Case<'_>, option: &str, is_whole: bool) -> Option<SpecEdit> {
    let is_set = |word: &String| word.split(['=', ' ']).any(|word| word == option);
    if case.words().any(is_set) {
        return None;
    }
    let reason = format!("the program requires `{option}`");
    let edit = case.context.edit("command", reason);
    let all = case.command_words();
    // Options come after the subcommand. After another one, it could be the value of that one.
    let first = all.iter().position(|word| word.starts_with("--")).unwrap_or(1);
    if !is_whole || all.is_empty() {
        return Some(edit.hint(format!("add `{option}` with its value")));
    }
    Some(edit.suggest(list(&[&all[..first], &[option], &all[first..]].concat())?))
}

/// Place or address in lower case that the program reports as empty. The command has other options, so it has one for this setting too.
fn required_setting(case: &Case<'_>) -> Option<SpecEdit> {
    parts! {
        EMPTY: " cannot be empty" " must not be empty" " must be specified" " must be set";
    }
    parts! {
        ENDS: "dir" "directory" "file" "path" "addr" "address" "port" "url" "config";
    }
    let line = case.line_with(EMPTY)?;
    let lower = line.to_lowercase();
    let place = EMPTY.iter().find_map(|part| lower.find(part))?;
    let name = line.get(..place)?;
    let name = name.rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'));
    let name = name.map(|name| name.trim_start_matches('-')).next()?;
    let (_, end) = name.rsplit_once(['_', '-'])?;
    let option = case.words().find(|word| word.starts_with('-'))?;
    let dashes = &option[..option.len() - option.trim_start_matches('-').len()];
    let is_setting = name.chars().all(|c| !c.is_ascii_uppercase()) && ENDS.contains(&end);
    // A shell has no such option.
    let is_shell = case.program().is_some_and(|program| SHELLS.contains(&program));
    (is_setting && !is_shell)
        .then(|| add_option(case, &format!("{dashes}{}", name.replace('_', "-")), false))?
}

/// A script from a bind mount that is not executable, or names a missing interpreter.
pub(super) fn mounted_script(case: &Case<'_>) -> Option<SpecEdit> {
    if kind(case.run) != FailureKind::NotRunnable || loader(case).is_some() {
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

/// Change for a container that the engine could not start, from the reason of the engine.
pub(super) fn of_reason(context: &EditContext<'_>, reason: &str) -> Option<SpecEdit> {
    shell_text(context)
        .filter(|_| contains(reason, &ABSENT))
        .or_else(|| script_in(context, reason))
}

pub(super) fn script_in(context: &EditContext<'_>, line: &str) -> Option<SpecEdit> {
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
        let hint = "begin it with `#!` and an interpreter, or use a program for this platform";
        return Some(Case::host_edit(file, reason, hint));
    }
    Some(script(file, is_denied))
}

fn script(file: String, is_denied: bool) -> SpecEdit {
    if is_denied {
        let hint = format!("run `chmod +x {}`", shell_path(&file));
        return Case::host_edit(file, "the mounted file is not executable", hint);
    }
    let hint = format!(
        "convert CRLF line ends with `sed -i 's/\\r$//' {}`, or name an interpreter of the image in line 1",
        shell_path(&file)
    );
    let reason = "the container cannot find the mounted file or the interpreter in its line 1";
    Case::host_edit(file, reason, hint)
}
