//! The command line of this process as a [`Call`], for call traces.

use std::collections::BTreeSet;

use argus_crds::error::Call;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use serde_json::{Map, Value};

use crate::local_state::call_trace;

/// The invoked subcommands with the arguments that came from flags, positionals or variables.
pub(super) fn describe_command(matches: &ArgMatches, all: &Command) -> Call {
    let groups = list_groups(all);
    let (mut verbs, mut arguments) = ("argus".to_owned(), given_arguments(matches, &groups));
    let mut inside = matches.subcommand();
    while let Some((verb, matches)) = inside {
        verbs = format!("{verbs} {verb}");
        arguments.extend(given_arguments(matches, &groups));
        inside = matches.subcommand();
    }
    Call::new(verbs, call_trace::sanitize(arguments))
}

fn given_arguments(matches: &ArgMatches, groups: &BTreeSet<String>) -> Map<String, Value> {
    let is_given = |id: &&clap::Id| {
        let source = matches.value_source(id.as_str());
        matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
            && !groups.contains(id.as_str())
    };
    let given = |id: &clap::Id| {
        let raw = matches.get_raw(id.as_str()).into_iter().flatten();
        let mut words = raw.map(|word| word_to_json(&word.to_string_lossy()));
        match (words.next(), words.next()) {
            (None, _) => Value::from(true),
            (Some(one), None) => one,
            (Some(one), Some(two)) => [one, two].into_iter().chain(words).collect(),
        }
    };
    let ids = matches.ids().filter(is_given);
    ids.map(|id| (id.to_string(), given(id))).collect()
}

/// Parses numbers and booleans; other words are texts.
fn word_to_json(word: &str) -> Value {
    match serde_json::from_str(word) {
        Ok(plain @ (Value::Number(_) | Value::Bool(_))) => plain,
        Ok(_) | Err(_) => Value::from(word),
    }
}

/// Ids of argument groups. `ArgMatches` lists them although they are not arguments.
fn list_groups(command: &Command) -> BTreeSet<String> {
    let own = command.get_groups().map(|group| group.get_id().to_string());
    let inside = command.get_subcommands().flat_map(list_groups);
    own.chain(inside).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::CommandFactory as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn call_contains_given_arguments_without_defaults() {
        let command_line = ["argus", "logs", "shop", "api", "--tail", "3", "--debug"];
        let all = crate::cli::Cli::command();
        let matches = all.clone().try_get_matches_from(command_line).unwrap();
        let call = describe_command(&matches, &all);
        assert_eq!(call.operation, "argus logs");
        let given: BTreeMap<String, Value> = call.arguments.into_iter().collect();
        let wanted = json!({ "target": "shop", "services": "api", "tail": 3, "debug": true });
        let wanted: BTreeMap<String, Value> = serde_json::from_value(wanted).unwrap();
        assert_eq!(given, wanted);
    }
}
