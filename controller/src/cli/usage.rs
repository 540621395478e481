//! Errors of the command line itself, in the form of all other errors.

use argus_crds::suggestion::nearest;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error, ValueEnum as _};

use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::settings::Colour;

mod compose_flags;

pub(super) use compose_flags::ONE_OFF;

/// Commands of `docker compose` that Argus does not have, each with its counterpart; empty without one.
const OF_COMPOSE: [(&str, &str); 18] = [
    ("attach", "docker attach"),
    ("commit", "docker commit"),
    ("cp", "docker cp"),
    ("create", ""),
    ("export", "docker export"),
    ("images", "docker image ls"),
    ("kill", ""),
    ("ls", "argus get"),
    ("pause", ""),
    ("push", "docker push"),
    ("rm", ""),
    ("scale", ""),
    ("stats", "docker stats"),
    ("top", "docker top"),
    ("unpause", ""),
    ("version", "argus --version"),
    ("volumes", "docker volume ls"),
    ("watch", "argus up"),
];

/// Prints the error, or the requested help or version, and returns the exit code.
pub(crate) fn print_error(error: &Error, command: &Command) -> Exit {
    let words: Vec<String> = std::env::args().skip(1).collect();
    select_colour(&words);
    if let Some(failure) = convert_error(error, command, &words) {
        return output::print_failure(failure, wants_json(&words));
    }
    // Help and version go to stdout. A closed pipe is ignored.
    drop(error.print());
    if error.use_stderr() {
        Exit::Usage
    } else {
        Exit::Done
    }
}

/// Returns true if the arguments request JSON. They could not be parsed, so the raw words are searched.
fn wants_json(words: &[String]) -> bool {
    let two = |pair: &[String]| matches!(pair[0].as_str(), "-o" | "--output") && pair[1] == "json";
    let one = |word: &String| matches!(word.as_str(), "-ojson" | "-o=json" | "--output=json");
    words.windows(2).any(two) || words.iter().any(one)
}

/// Sets the use of colour from the raw arguments, or from its variable.
fn select_colour(words: &[String]) {
    let flag = words
        .iter()
        .position(|word| word == "--color" || word.starts_with("--color="));
    let given = flag.and_then(|at| match words[at].split_once('=') {
        Some((_, value)) => Some(value.to_owned()),
        None => words.get(at + 1).cloned(),
    });
    let given = given.or_else(|| std::env::var("ARGUS_COLOR").ok());
    if let Some(choice) = given.and_then(|given| Colour::from_str(&given, true).ok()) {
        choice.apply();
    }
}

fn convert_error(error: &Error, command: &Command, words: &[String]) -> Option<Failure> {
    let mut usage = context_text(error, ContextKind::Usage);
    let path = command_path(command, words);
    let of = |kind| context_text(error, kind).unwrap_or_default();
    let (arg, value) = (of(ContextKind::InvalidArg), of(ContextKind::InvalidValue));
    let flag = arg.split([' ', '[', '=']).next().unwrap_or_default();
    let message = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = of(ContextKind::InvalidSubcommand);
            let of_compose = OF_COMPOSE.iter().find(|(name, _)| *name == word);
            let suggestion = match of_compose.filter(|_| path == command.get_name()) {
                Some((_, "")) => format!(", and no counterpart of `docker compose {word}`"),
                Some((_, counterpart)) => format!("; its counterpart is `{counterpart}`"),
                None => format_suggestion(find_nearest(&word, command, &path).as_deref()),
            };
            format!("`{path}` has no command `{word}`{suggestion}")
        }
        ErrorKind::UnknownArgument if arg.starts_with('-') => {
            let suggested = context_text(error, ContextKind::SuggestedArg);
            let name = |flag: &str| flag.trim_start_matches('-').to_owned();
            let is_near = |other: &&str| nearest(&name(flag), [name(other).as_str()]).is_some();
            let nearest = suggested.as_deref().filter(is_near);
            let of_compose = compose_flags::describe(&path, flag);
            if suggested.is_some() && (nearest.is_none() || of_compose.is_some()) {
                // It shows the flag.
                usage = None;
            }
            let suggestion = of_compose.unwrap_or_else(|| format_suggestion(nearest));
            format!("`{path}` has no flag `{arg}`{suggestion}")
        }
        ErrorKind::UnknownArgument => {
            let one_off = if path == "argus run" {
                format!("; {ONE_OFF}")
            } else {
                String::new()
            };
            format!("unexpected argument `{arg}` for `{path}`{one_off}")
        }
        ErrorKind::InvalidValue if value.is_empty() => format!("`{flag}` has no value"),
        ErrorKind::InvalidValue => {
            let valid = context_list(error, ContextKind::ValidValue).join(", ");
            format!("`{value}` is not a valid value for `{flag}`; expected one of {valid}")
        }
        ErrorKind::ValueValidation => {
            let cause = std::error::Error::source(error).map_or_else(String::new, ToString::to_string);
            format!("`{value}` is not a valid value for `{flag}`: {cause}")
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = context_list(error, ContextKind::InvalidArg).join(" ");
            format!("`{path}` needs {missing}")
        }
        ErrorKind::ArgumentConflict => {
            let other = context_list(error, ContextKind::PriorArg).join(", ");
            format!("`{arg}` cannot be used with `{other}`")
        }
        _ => return None,
    };
    let usage = usage.map(|usage| usage.trim_start_matches("Usage:").trim().to_owned());
    let usage = usage.map_or_else(String::new, |usage| format!("usage is `{usage}`; "));
    Some(Failure::usage(message).with_hint(format!("{usage}see all options with `{path} --help`")))
}

fn format_suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; the nearest is `{name}`"))
}

/// The recognized subcommands, such as `argus breaker`.
fn command_path(command: &Command, words: &[String]) -> String {
    let (mut at, mut path) = (command, vec![command.get_name()]);
    for word in words {
        if let Some(below) = at.find_subcommand(word) {
            at = below;
            path.push(below.get_name());
        }
    }
    path.join(" ")
}

/// The most similar subcommand.
fn find_nearest(word: &str, command: &Command, path: &str) -> Option<String> {
    let mut names = path.split(' ').skip(1);
    let at = names.try_fold(command, |at, name| at.find_subcommand(name))?;
    let visible = at.get_subcommands().filter(|command| !command.is_hide_set());
    nearest(word, visible.map(Command::get_name)).map(str::to_owned)
}

fn context_text(error: &Error, kind: ContextKind) -> Option<String> {
    context_list(error, kind).into_iter().next()
}

fn context_list(error: &Error, kind: ContextKind) -> Vec<String> {
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

    fn message(words: &[&str]) -> String {
        let error = Cli::try_parse_from(std::iter::once(&"argus").chain(words)).unwrap_err();
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let failure = convert_error(&error, &Cli::command(), &words).expect("a failure");
        failure.message().to_owned()
    }

    #[test]
    fn usage_errors_suggest_the_nearest_word() {
        assert_eq!(
            message(&["gte"]),
            "`argus` has no command `gte`; the nearest is `get`"
        );
        assert_eq!(
            message(&["breaker", "stauts"]),
            "`argus breaker` has no command `stauts`; the nearest is `status`"
        );
        assert_eq!(message(&["kubernetes"]), "`argus` has no command `kubernetes`");
        assert_eq!(
            message(&["breaker", "top"]),
            "`argus breaker` has no command `top`"
        );
        assert_eq!(
            message(&["get", "--outptu", "json"]),
            "`argus get` has no flag `--outptu`; the nearest is `--output`"
        );
        assert_eq!(
            message(&["up", "--scale", "web=3"]),
            "`argus up` has no flag `--scale`; its counterpart is `scale` of the service in the file"
        );
        assert_eq!(
            message(&["plan", "--scale"]),
            "`argus plan` has no flag `--scale`"
        );
        assert_eq!(
            message(&["wait", "x", "--timeout", "60"]),
            "`60` is not a valid value for `--timeout`: add a unit, such as `60s`"
        );
        let one_off = message(&["run", "--rm", "api", "./x.sh"]);
        assert!(one_off.contains("`argus exec SERVICE -- COMMAND`"), "{one_off}");
        assert!(message(&["run", "api", "./x.sh"]).ends_with(ONE_OFF));
        assert_eq!(
            message(&["get", "a", "b"]),
            "unexpected argument `b` for `argus get`"
        );
        assert_eq!(message(&["plan", "--specs"]), "`--specs` has no value");
        assert_eq!(
            message(&["get", "-o", "xml"]),
            "`xml` is not a valid value for `--output`; expected one of table, wide, json, yaml, name"
        );
        assert_eq!(message(&["rollback"]), "`argus rollback` needs <ENVIRONMENT>");
    }

    #[test]
    fn command_of_compose_has_its_counterpart_or_none() {
        for (command, counterpart) in OF_COMPOSE {
            let expected = match counterpart {
                "" => format!(", and no counterpart of `docker compose {command}`"),
                other => format!("; its counterpart is `{other}`"),
            };
            let expected = format!("`argus` has no command `{command}`{expected}");
            assert_eq!(message(&[command, "web"]), expected);
            if let Some(words) = counterpart.strip_prefix("argus ").filter(|it| *it != "--version") {
                assert!(Cli::command().find_subcommand(words).is_some(), "{words}");
            }
        }
    }

    #[test]
    fn json_is_detected_in_raw_arguments() {
        let json = |words: &str| wants_json(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(json("get --x -o json") && json("get -ojson") && json("get --output=json --x"));
        assert!(!json("get --x -o yaml") && !json("get json"));
    }
}
