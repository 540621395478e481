//! Subcommands and scripts that the program of a command does not know.

use argus_crds::error::SpecEdit;
use argus_crds::suggestion::nearest;

use super::case::{Case, contains, is_plain, quoted};
use super::classes::UNKNOWN_COMMAND;

/// Subcommand that the program does not know.
pub(super) fn unknown_command(case: &Case<'_>) -> Option<SpecEdit> {
    const SCRIPTS: [&str; 6] = ["start", "dev", "serve", "build", "test", "preview"];
    let line = case.line_with(&UNKNOWN_COMMAND)?;
    let words = || case.words().flat_map(|word| word.split_whitespace());
    // Each line of npm begins with its name. The only word of a command can be an argument of the program of the image, which quotes it.
    let is_only = words().nth(1).is_none();
    let is_quoted = |word: &str| quoted(line).any(|text| text.split(' ').nth(1) == Some(word));
    let is_argument = |word: &str| is_only && is_quoted(word);
    let is_program = |word: &str| (Some(word) == case.program() && !is_argument(word)) || word == "npm";
    let wrong = names_in(line)
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| word.len() > 1)
        .find(|word| !is_program(word) && words().any(|other| other == *word))?;
    let known: Vec<&str> = case
        .lines()
        .flat_map(names_in)
        .filter(|word| *word != wrong && is_plain(word) && word.len() > 2)
        .collect();
    let reason = format!("the program does not know the command `{wrong}`");
    let edit = case.context.edit(case.command_key(wrong), reason).now(wrong);
    let script = || nearest(wrong, SCRIPTS).filter(|_| contains(line, &["script"]));
    let meant = nearest(wrong, known).or_else(|| proposed(case, wrong));
    Some(match meant.or_else(script) {
        Some(meant) => edit.suggest(meant),
        None => edit.hint("write a command that the program knows"),
    })
}

/// Words of a line, and the parts between their colons: the name of a script can contain one.
fn names_in(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| c.is_whitespace() || "\"'`,;()[]?{}".contains(c));
    words.flat_map(|word| std::iter::once(word.trim_matches(':')).chain(word.split(':')))
}

/// Command that the program proposes: after `did you mean`, the last word of the quoted text or of the line.
fn proposed<'a>(case: &Case<'a>, wrong: &str) -> Option<&'a str> {
    const STARTS: [&str; 2] = ["did you mean", "has been removed. please use"];
    const FILLERS: [&str; 4] = ["this", "these", "those", "perhaps"];
    let mut lines = case.lines().skip_while(|line| !contains(line, &STARTS));
    let first = lines.next()?;
    let end = |start: &&str| Some(first.to_lowercase().find(*start)? + start.len());
    let at = STARTS.iter().find_map(end)?;
    let mut texts = first.get(at..).into_iter().chain(lines.take(4));
    texts.find_map(|text| {
        let text = text.split('?').next().unwrap_or(text);
        let text = quoted(text).next().unwrap_or(text);
        let last = text.split_whitespace().next_back()?;
        let last = last.trim_matches(['?', '.', ':', ',', ')']);
        let is_meant = last.len() > 1 && last != wrong && is_plain(last) && !FILLERS.contains(&last);
        is_meant.then_some(last)
    })
}
