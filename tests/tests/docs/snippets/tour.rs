//! Runs a page from its first block to its last: it writes files, runs commands, and compares their output with the
//! page.
//!
//! - `yaml NAME` (or any other language with a name that has a dot): the file is saved under that name.
//! - `sh`: each line must end with 0, or with the code in its comment (`# exit code 5: …`). `argus run` continues in a
//!   second terminal until the end of the page.
//! - `console`: a command follows `$ `, and the output on a terminal of [`COLUMNS`] follows below. `…` matches any text
//!   within a line, and any lines on a line of its own. A read-only command is repeated until its output matches.
//!
//! With `UPDATE=1` a console block that differs is written again; restore the `…` where runs differ.

use std::fs;
use std::time::Duration;

use argus_tests::fixture::LIMIT;
use argus_tests::terminal::plain;
use argus_tests::{Terminal, wait};

use super::fence::{self, Fence, root, typed};
use super::shell::{Background, Shell};

/// Width of the reader's terminal.
const COLUMNS: u16 = 100;
/// Time limit for the output of a console block while the page is updated.
const SETTLED: Duration = Duration::from_secs(15);

/// Runs a page. `instead` replaces a line that cannot run here (such as systemd) and returns true; it may also wait for
/// a state that the reader would see.
pub(crate) fn go(shell: &Shell<'_>, page: &str, instead: &mut dyn FnMut(&str) -> bool) {
    let (mut second, mut steps) = (None, 0);
    for fence in fence::of(page).iter().filter(|fence| fence.unchecked.is_none()) {
        steps += 1;
        match fence.language.as_str() {
            "sh" => {
                for (line, code) in typed(fence) {
                    if !instead(&line) {
                        type_in(shell, &line, code, &mut second);
                    }
                }
            }
            "console" => show(shell, page, fence),
            // The default settings: a separate test reads them.
            "toml" => {}
            // A part of a file, such as of the configuration of a CI system.
            "yaml" if fence.of.is_empty() => {}
            _ if fence.of.contains('.') => save(shell, fence),
            other => panic!("{}: no rule for a block of `{other}`", fence.place),
        }
    }
    assert!(steps > 0, "{page} has no steps");
    if let Some(running) = second {
        running.stop();
    }
}

fn type_in(shell: &Shell<'_>, line: &str, code: i32, second: &mut Option<Background>) {
    if code == 0 && (line == "argus run" || line.starts_with("argus run ")) {
        if let Some(before) = second.take() {
            before.stop();
        }
        *second = Some(shell.start_in_background(line));
    } else {
        shell.run_to(line, code);
    }
}

/// Writes a new file and renames it over the old one, as an editor does.
pub(crate) fn save(shell: &Shell<'_>, fence: &Fence) {
    let path = shell.home.join(&fence.of);
    fs::create_dir_all(path.parent().expect("a file has a directory")).expect("a directory");
    let temporary = path.with_extension("new");
    fs::write(&temporary, &fence.body).expect("a file");
    fs::rename(temporary, path).expect("a file can be renamed");
}

/// The commands of a block, each with the output shown below it.
fn shown(fence: &Fence) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for line in fence.body.lines() {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(line), _) => all.push((line.to_owned(), String::new())),
            (None, Some((_, text))) => text.extend([line, "\n"]),
            (None, None) => panic!("{}: no command before `{line}`", fence.place),
        }
    }
    // The empty line before the next prompt belongs to the page.
    let trimmed = |(line, text): (String, String)| (line, text.trim_end().to_owned());
    all.into_iter().map(trimmed).collect()
}

fn show(shell: &Shell<'_>, page: &str, fence: &Fence) {
    let updating = std::env::var_os("UPDATE").is_some();
    let limit = if updating { SETTLED } else { LIMIT };
    let mut again = Vec::new();
    for (line, text) in shown(fence) {
        let mut last = String::new();
        let received = wait::poll(if checks(&line) { limit } else { Duration::ZERO }, || {
            last = on_terminal(shell, &line);
            fits(&text, &last).then_some(())
        });
        assert!(
            received.is_some() || updating,
            "{}: `{line}` shows\n{last}\nand the page\n{text}\nhint: UPDATE=1 updates the page",
            fence.place
        );
        let now = if received.is_some() { &text } else { &last };
        again.push(format!("$ {line}\n{now}").trim_end().to_owned());
    }
    let again = again.join("\n\n") + "\n";
    if updating && again != fence.body {
        let path = root().join(page);
        let whole = fs::read_to_string(&path).expect("a page");
        let block = |body: &str| format!("```console\n{body}```");
        let (before, after) = (block(&fence.body), block(&again));
        assert!(
            whole.contains(&before),
            "{}: the page still has the block",
            fence.place
        );
        fs::write(path, whole.replacen(&before, &after, 1)).expect("a page can be written");
    }
}

/// The output of a line on a terminal.
fn on_terminal(shell: &Shell<'_>, line: &str) -> String {
    let (text, _) = Terminal::start(shell.command(line), COLUMNS, 50).end(LIMIT);
    let text = plain(&text);
    // A removal that takes more than a second is reported.
    let is_shown = |line: &&str| !line.starts_with("waiting for the removal of ");
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(is_shown).collect();
    lines.join("\n").trim_end().to_owned()
}

/// True if a line changes nothing, so that it can be repeated.
fn checks(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["argus", verb, rest @ ..] => match *verb {
            "mock" => rest.first() == Some(&"requests"),
            "breaker" => rest.first() == Some(&"status"),
            verb => [
                "get", "why", "describe", "events", "evidence", "logs", "network", "plan", "validate",
                "explain",
            ]
            .contains(&verb),
        },
        ["curl", rest @ ..] => !rest.iter().any(|word| ["-d", "-X"].contains(word)),
        ["docker", verb, ..] => ["ps", "inspect", "logs", "port"].contains(verb),
        [program, ..] => ["jq", "cat", "ls"].contains(program),
        [] => false,
    }
}

/// True if the output matches the page.
fn fits(shown: &str, received: &str) -> bool {
    let shown: Vec<&str> = shown.lines().map(str::trim_end).collect();
    let received: Vec<&str> = received.lines().collect();
    lines_fit(&shown, &received)
}

fn lines_fit(shown: &[&str], received: &[&str]) -> bool {
    match (shown.split_first(), received.split_first()) {
        (None, rest) => rest.is_none(),
        (Some((&"…", shown)), _) => (0..=received.len()).any(|left| lines_fit(shown, &received[left..])),
        (Some(_), None) => false,
        (Some((line, shown)), Some((output, received))) => {
            line_fits(line, output) && lines_fit(shown, received)
        }
    }
}

fn line_fits(shown: &str, received: &str) -> bool {
    let Some((begin, rest)) = shown.split_once('…') else {
        return shown == received;
    };
    let Some(received) = received.strip_prefix(begin) else {
        return false;
    };
    let ends = received.char_indices().map(|(at, _)| at).chain([received.len()]);
    ends.into_iter().any(|at| line_fits(rest, &received[at..]))
}

#[test]
fn ellipsis_matches_anything() {
    for (shown, received, fit) in [
        ("a b", "a b", true),
        ("a b", "a c", false),
        ("a … c", "a b b c", true),
        ("a … c", "a b b d", false),
        ("a…", "a", true),
        ("a\n…\nd", "a\nb\nc\nd", true),
        ("a\n…\nd", "a\nd", true),
        ("a\n…\nd", "a\nb\nc", false),
        ("a", "a\nb", false),
        ("", "a", false),
    ] {
        assert_eq!(fits(shown, received), fit, "`{shown}` and `{received}`");
    }
}
