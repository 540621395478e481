//! Tests that every `argus …` command line in the docs is valid.

use std::path::Path;

use clap::{CommandFactory as _, Parser as _};

use super::Cli;

mod commands_tests;

/// Markdown pages with their paths.
fn read_pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = ["docs", "docs/contributors", "docs/reference"];
    let entries = folders.map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let docs = entries.into_iter().flatten().map(|entry| entry.unwrap().path());
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

/// Command lines in shell blocks, and commands between backticks in sentences.
fn parse_command_lines(page: &str) -> (Vec<String>, Vec<String>) {
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
fn command_lines_in_shell_blocks_are_valid() {
    let mut valid = 0;
    for (page, text) in read_pages() {
        for line in parse_command_lines(&text).0 {
            if let Err(error) = Cli::try_parse_from(line.split_whitespace()) {
                panic!("{page}: `{line}`: {error}");
            }
            valid += 1;
        }
    }
    assert!(valid >= 15, "{valid} command lines");
}

/// Pages write optional parts as `[--flag X]` and `ENV[/SERVICE]`.
#[test]
fn commands_named_in_sentences_exist_with_their_flags() {
    let (mut named, command) = (0, Cli::command());
    for (page, text) in read_pages() {
        for call in parse_command_lines(&text).1 {
            let mut at = &command;
            let call = call.replace(['[', ']', '(', ')'], " ");
            // Words after `--` belong to another program.
            let words = call.split_whitespace().skip(1).take_while(|word| *word != "--");
            for word in words {
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
