//! What a command was asked for, for whoever wants to know what was called.

use argus_crds::error::Call;
use clap::ArgMatches;
use clap::parser::ValueSource;
use serde_json::{Map, Value};

use crate::debug;

/// The command as it was understood: its verbs, and what was given by flag, word or variable.
pub(super) fn command(matches: &ArgMatches) -> Call {
    let (mut verbs, mut arguments) = ("argus".to_owned(), given(matches));
    let mut inside = matches.subcommand();
    while let Some((verb, matches)) = inside {
        verbs = format!("{verbs} {verb}");
        arguments.extend(given(matches));
        inside = matches.subcommand();
    }
    Call::new(verbs, debug::tame(arguments))
}

fn given(matches: &ArgMatches) -> Map<String, Value> {
    let told = |id: &&clap::Id| {
        let source = matches.value_source(id.as_str());
        // Groups are no arguments of their own.
        let is_group = matches.try_get_raw(id.as_str()).is_err();
        !is_group && matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
    };
    let value = |id: &clap::Id| {
        let raw = matches.get_raw(id.as_str()).into_iter().flatten();
        let mut words = raw.map(|word| Value::from(word.to_string_lossy()));
        match (words.next(), words.next()) {
            (None, _) => Value::from(true),
            (Some(one), None) => one,
            (Some(one), Some(two)) => [one, two].into_iter().chain(words).collect(),
        }
    };
    let ids = matches.ids().filter(told);
    ids.map(|id| (id.to_string(), value(id))).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_is_told_with_what_was_given_and_not_with_what_holds_anyway() {
        let command_line = ["argus", "logs", "shop", "api", "--tail", "3", "--debug"];
        let matches = crate::cli::Cli::command()
            .try_get_matches_from(command_line)
            .unwrap();
        let call = command(&matches);
        assert_eq!(call.operation, "argus logs");
        let told = Value::Object(call.arguments);
        assert_eq!(
            (&told["tail"], &told["debug"]),
            (&json!("3"), &json!("true")),
            "{told}"
        );
        assert!(told.get("color").is_none(), "{told}");
    }
}
