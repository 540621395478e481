//! What is wrong with a command line, in the words of all other errors.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error, ValueEnum as _};

use super::output;
use crate::exit::{Exit, Failure};
use crate::settings::Colour;

/// A word this far from a command is another word.
const FAR: usize = 3;

/// Says what is wrong, or shows the help that was asked for.
pub(crate) fn end(error: &Error, command: &Command) -> Exit {
    let words: Vec<String> = std::env::args().skip(1).collect();
    colour(&words);
    if let Some(failure) = told(error, command, &words) {
        return output::fail(failure, wants_json(&words));
    }
    // Help and version go to stdout; whoever closed it has seen enough.
    drop(error.print());
    if error.use_stderr() {
        Exit::Usage
    } else {
        Exit::Done
    }
}

/// Errors are shown as JSON where data is asked for so; the words were not understood, so they are looked at as they are.
fn wants_json(words: &[String]) -> bool {
    let two = |pair: &[String]| matches!(pair[0].as_str(), "-o" | "--output") && pair[1] == "json";
    let one = |word: &String| matches!(word.as_str(), "-ojson" | "-o=json" | "--output=json");
    words.windows(2).any(two) || words.iter().any(one)
}

/// The choice of colour is told by the words that were understood, or by its variable.
fn colour(words: &[String]) {
    let flag = words
        .iter()
        .position(|word| word == "--color" || word.starts_with("--color="));
    let given = flag.and_then(|at| match words[at].split_once('=') {
        Some((_, value)) => Some(value.to_owned()),
        None => words.get(at + 1).cloned(),
    });
    let given = given.or_else(|| std::env::var("ARGUS_COLOR").ok());
    if let Some(choice) = given.and_then(|given| Colour::from_str(&given, true).ok()) {
        choice.choose();
    }
}

fn told(error: &Error, command: &Command, words: &[String]) -> Option<Failure> {
    let usage = text(error, ContextKind::Usage);
    let usage = usage.map(|usage| usage.trim_start_matches("Usage:").trim().to_owned());
    let path = path(command, words);
    let of = |kind| text(error, kind).unwrap_or_default();
    let (arg, value) = (of(ContextKind::InvalidArg), of(ContextKind::InvalidValue));
    let flag = arg.split([' ', '[', '=']).next().unwrap_or_default();
    let message = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = of(ContextKind::InvalidSubcommand);
            let nearest = nearest(&word, command, &path);
            format!("`{path}` has no command `{word}`{}", but(nearest.as_deref()))
        }
        ErrorKind::UnknownArgument if arg.starts_with('-') => {
            let nearest = text(error, ContextKind::SuggestedArg);
            format!("`{path}` has no flag `{arg}`{}", but(nearest.as_deref()))
        }
        ErrorKind::UnknownArgument => format!("`{path}` takes no further word: `{arg}`"),
        ErrorKind::InvalidValue if value.is_empty() => format!("`{flag}` has no value"),
        ErrorKind::InvalidValue => {
            let there = list(error, ContextKind::ValidValue).join(", ");
            format!("`{value}` is no value of `{flag}`; there are: {there}")
        }
        ErrorKind::ValueValidation => {
            let why = std::error::Error::source(error).map_or_else(String::new, ToString::to_string);
            format!("`{value}` is no value of `{flag}`: {why}")
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = list(error, ContextKind::InvalidArg).join(" ");
            format!("`{path}` needs {missing}")
        }
        ErrorKind::ArgumentConflict => {
            let other = list(error, ContextKind::PriorArg).join(", ");
            format!("`{arg}` cannot be used with `{other}`")
        }
        _ => return None,
    };
    let how = usage.map_or_else(String::new, |usage| format!("usage is `{usage}`; "));
    Some(Failure::usage(message).hint(format!("{how}`{path} --help` tells the rest")))
}

fn but(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; the nearest is `{name}`"))
}

/// The command that was understood, as in `argus breaker`.
fn path(command: &Command, words: &[String]) -> String {
    let (mut at, mut path) = (command, vec![command.get_name()]);
    for word in words {
        if let Some(below) = at.find_subcommand(word) {
            at = below;
            path.push(below.get_name());
        }
    }
    path.join(" ")
}

/// The command that was meant, most likely: letters in the wrong order are one slip.
fn nearest(word: &str, command: &Command, path: &str) -> Option<String> {
    let mut names = path.split(' ').skip(1);
    let at = names.try_fold(command, |at, name| at.find_subcommand(name))?;
    let visible = at.get_subcommands().filter(|command| !command.is_hide_set());
    visible
        .map(|command| {
            (
                strsim::damerau_levenshtein(word, command.get_name()),
                command.get_name().to_owned(),
            )
        })
        .filter(|(distance, name)| *distance < FAR.min(name.len()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

fn text(error: &Error, kind: ContextKind) -> Option<String> {
    list(error, kind).into_iter().next()
}

fn list(error: &Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        Some(ContextValue::StyledStr(text)) => vec![text.to_string()],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::cli::Cli;

    fn said(words: &[&str]) -> String {
        let error = Cli::try_parse_from(std::iter::once(&"argus").chain(words)).unwrap_err();
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let failure = told(&error, &Cli::command(), &words).expect("words of our own");
        failure.message().to_owned()
    }

    #[test]
    fn what_was_meant_is_said() {
        assert_eq!(
            said(&["gte"]),
            "`argus` has no command `gte`; the nearest is `get`"
        );
        assert_eq!(
            said(&["breaker", "stauts"]),
            "`argus breaker` has no command `stauts`; the nearest is `status`"
        );
        assert_eq!(said(&["kubernetes"]), "`argus` has no command `kubernetes`");
        assert_eq!(
            said(&["get", "--outptu", "json"]),
            "`argus get` has no flag `--outptu`; the nearest is `--output`"
        );
        assert_eq!(said(&["get", "a", "b"]), "`argus get` takes no further word: `b`");
        assert_eq!(said(&["plan", "--specs"]), "`--specs` has no value");
        assert_eq!(
            said(&["get", "-o", "xml"]),
            "`xml` is no value of `--output`; there are: table, wide, json, yaml, name"
        );
        assert_eq!(said(&["describe"]), "`argus describe` needs <ENVIRONMENT>");
    }

    #[test]
    fn programs_are_told_in_their_own_format() {
        let json = |words: &str| wants_json(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(json("get --x -o json") && json("get -ojson") && json("get --output=json --x"));
        assert!(!json("get --x -o yaml") && !json("get json"));
    }
}
