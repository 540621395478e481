//! Tests that the tables in `docs/cli.md` list all commands and flags.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::{Arg, Command, CommandFactory as _};

use super::Cli;
use crate::operations;

const BEGIN: &str = "<!-- begin: all flags; `UPDATE=1 cargo test -p argus pages` writes this -->\n";
const END: &str = "<!-- end -->\n";

/// Path of the page.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");

/// Commands whose name is not that of their operation: of its tool, or else of its first route.
const OTHER_NAMES: [(&str, &str); 13] = [
    ("status", "get"),
    ("apply", "up"),
    ("preflight check", "preflight"),
    ("reset circuit", "breaker reset"),
    ("test", "test begin"),
    ("controller", "doctor"),
    ("environments", "get"),
    ("environments/{environment}", "get"),
    ("environments/{environment}/services/{service}", "describe"),
    ("breaker", "breaker status"),
    ("repairs", "incidents"),
    // Each wait begins with a scan of the specs folder.
    ("commands/sync", "wait"),
    ("commands/cleanOrphans", "orphans"),
];

/// Visible commands without subcommands, by their words.
fn list_commands() -> Vec<(String, Command)> {
    fn add_commands(command: &Command, words: &str, all: &mut Vec<(String, Command)>) {
        let below = command.get_subcommands().filter(|it| !it.is_hide_set());
        let below: Vec<_> = below.filter(|it| it.get_name() != "help").collect();
        if below.is_empty() {
            all.push((words.to_owned(), command.clone()));
        }
        for command in below {
            add_commands(
                command,
                format!("{words} {}", command.get_name()).trim_start(),
                all,
            );
        }
    }
    let mut all = Vec::new();
    add_commands(&Cli::command(), "", &mut all);
    all
}

/// Visible flags of a command, without `--help` and `--version`.
fn list_flags(command: &Command) -> Vec<&Arg> {
    let visible = command.get_arguments().filter(|it| !it.is_hide_set());
    visible
        .filter(|it| {
            it.get_long()
                .is_some_and(|long| !["help", "version"].contains(&long))
        })
        .collect()
}

/// Flag as typed on the command line, with the name of its value.
fn format_flag(flag: &Arg) -> String {
    let long = flag.get_long().unwrap_or_default();
    let short = flag
        .get_short()
        .map(|short| format!("-{short}, "))
        .unwrap_or_default();
    // Optional values are omitted.
    let needed = flag.get_num_args().is_none_or(|many| many.min_values() > 0);
    let value = flag
        .get_value_names()
        .filter(|_| needed && flag.get_action().takes_values());
    let value = value
        .and_then(|names| names.first())
        .map(|name| format!(" {name}"));
    format!("`{short}--{long}{}`", value.unwrap_or_default())
}

/// Rows of the table of commands, by the command at their beginning.
fn parse_rows(page: &str) -> BTreeMap<String, String> {
    let (_, table) = page.split_once("| command | does |\n|---|---|\n").unwrap();
    let rows = table.lines().map_while(|line| line.strip_prefix("| `argus "));
    let is_verb = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_lowercase());
    rows.map(|row| {
        let (call, _) = row.split_once('`').unwrap();
        let verb: Vec<&str> = call.split(' ').take_while(is_verb).collect();
        (verb.join(" "), row.to_owned())
    })
    .collect()
}

#[test]
fn page_has_one_row_per_command() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let documented: BTreeSet<String> = parse_rows(&page).into_keys().collect();
    let ours: BTreeSet<String> = list_commands().into_iter().map(|(words, _)| words).collect();
    assert_eq!(documented, ours);
}

#[test]
fn every_operation_has_a_command() {
    let commands: BTreeSet<String> = list_commands().into_iter().map(|(words, _)| words).collect();
    let mut others: BTreeMap<&str, &str> = OTHER_NAMES.into();
    for entry in operations::all() {
        let name = match &entry.tool {
            Some(tool) => tool.name.strip_prefix("argus_").unwrap().replace('_', " "),
            None => entry.routes[0].path.strip_prefix("/api/v1/").unwrap().to_owned(),
        };
        let command = others.remove(name.as_str()).unwrap_or(&name);
        assert!(commands.contains(command), "`{name}` has no command `{command}`");
    }
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn flags_named_in_rows_exist() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let ours: BTreeMap<String, Command> = list_commands().into_iter().collect();
    let (mut named, whole) = (0, Cli::command());
    for (verb, row) in parse_rows(&page) {
        let all = list_flags(&ours[&verb]).into_iter().chain(list_flags(&whole));
        let known: Vec<_> = all.filter_map(Arg::get_long).collect();
        for call in row.split('`').step_by(2) {
            let Some(flag) = call.strip_prefix("--") else {
                continue;
            };
            let flag = flag.split([' ', '=']).next().unwrap_or_default();
            assert!(
                known.contains(&flag),
                "`argus {verb}` has no `--{flag}`: {known:?}"
            );
            named += 1;
        }
    }
    assert!(named >= 20, "{named} flags in rows");
}

#[test]
fn page_lists_all_flags_of_every_command() {
    let row = |words: &str, flags: Vec<&Arg>| {
        let typed: Vec<_> = flags.into_iter().map(format_flag).collect();
        (!typed.is_empty()).then(|| format!("| {words} | {} |\n", typed.join(", ")))
    };
    let whole = Cli::command();
    let mut wanted = "\n| command | flags |\n|---|---|\n".to_owned();
    wanted.extend(row("all", list_flags(&whole)));
    for (words, command) in list_commands() {
        wanted.extend(row(&format!("`argus {words}`"), list_flags(&command)));
    }
    wanted.push('\n');
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (head, rest) = page.split_once(BEGIN).unwrap();
    let (found, tail) = rest.split_once(END).unwrap();
    if found == wanted {
        return;
    }
    assert!(
        std::env::var_os("UPDATE").is_some(),
        "the flags in docs/cli.md are out of date; hint: UPDATE=1 cargo test -p argus pages"
    );
    std::fs::write(Path::new(PAGE), format!("{head}{BEGIN}{wanted}{END}{tail}")).unwrap();
}
