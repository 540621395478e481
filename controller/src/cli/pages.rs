//! Every `argus …` of the pages is a command line that is understood.

use std::path::Path;

use clap::{CommandFactory as _, Parser as _};

use super::Cli;

mod commands;

/// The pages, each with its name.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let docs = std::fs::read_dir(root.join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let above = [
        "README.md",
        "CONTRIBUTING.md",
        "examples/README.md",
        "charts/README.md",
    ];
    let all = docs.chain(above.iter().map(|name| root.join(name)));
    let pages = all.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    pages
        .map(|path| (path.display().to_string(), std::fs::read_to_string(path).unwrap()))
        .collect()
}

/// The command lines of shell blocks, and apart from them what stands between backticks.
fn called(page: &str) -> (Vec<String>, Vec<String>) {
    let (mut lines, mut words) = (Vec::new(), Vec::new());
    let mut block = None;
    for line in page.lines() {
        if let Some(head) = line.strip_prefix("```") {
            block = if block.is_some() {
                None
            } else {
                Some(head.to_owned())
            };
            continue;
        }
        match block.as_deref() {
            Some("sh" | "console") => {
                let line = line
                    .split(" #")
                    .next()
                    .unwrap_or_default()
                    .trim_start_matches("$ ");
                let calls = line
                    .split([';', '|'])
                    .flat_map(|part| part.split("&&"))
                    .map(str::trim);
                lines.extend(calls.filter(|call| call.starts_with("argus ")).map(str::to_owned));
            }
            Some(_) => {}
            None => {
                let between = line.split('`').skip(1).step_by(2);
                words.extend(
                    between
                        .filter(|call| call.starts_with("argus "))
                        .map(str::to_owned),
                );
            }
        }
    }
    (lines, words)
}

#[test]
fn every_command_line_of_a_block_is_understood() {
    let mut understood = 0;
    for (page, text) in pages() {
        for line in called(&text).0 {
            if let Err(error) = Cli::try_parse_from(line.split_whitespace()) {
                panic!("{page}: `{line}`: {error}");
            }
            understood += 1;
        }
    }
    assert!(understood >= 15, "{understood} command lines");
}

/// `[--flag X]` and `ENV[/SERVICE]` are how pages say that something may be left out.
#[test]
fn every_command_that_a_sentence_names_is_there_with_its_flags() {
    let (mut named, command) = (0, Cli::command());
    for (page, text) in pages() {
        for call in called(&text).1 {
            let mut at = &command;
            for word in call.replace(['[', ']', '(', ')'], " ").split_whitespace().skip(1) {
                if let Some(below) = at.find_subcommand(word) {
                    at = below;
                } else if let Some(flag) = word.strip_prefix("--") {
                    let flag = flag.split(['=', ',', '…']).next().unwrap_or_default();
                    let all = at.get_arguments().chain(command.get_arguments());
                    let known = all.filter_map(clap::Arg::get_long).any(|long| long == flag);
                    assert!(
                        known || flag == "help" || flag == "version",
                        "{page}: `{call}`: no `--{flag}`"
                    );
                } else {
                    let verb = at.has_subcommands() && word.chars().all(|letter| letter.is_ascii_lowercase());
                    assert!(!verb || word == "help", "{page}: `{call}`: no command `{word}`");
                }
            }
            named += 1;
        }
    }
    assert!(named >= 100, "{named} commands in sentences");
}
