//! A page gone through from its first block to its last: files are written, commands typed, and what comes is what the page shows.
//!
//! - `yaml NAME` (or any other language with a name that has a dot): the file is saved under that name.
//! - `sh`: each line is typed and has to end with 0, or as its comment says (`# exit code 5: …`); `argus run` goes on in a second
//!   terminal until the end of the page.
//! - `console`: what is typed stands behind `$ `, and below it what a terminal of [`COLUMNS`] shows of it. `…` stands for anything
//!   within a line, and on a line of its own for any lines. What only looks is typed until that comes.
//!
//! With `UPDATE=1` a console block that shows something else is written anew; put the `…` back where a run differs from the next.

use std::fs;
use std::time::Duration;

use argus_tests::fixture::LIMIT;
use argus_tests::terminal::plain;
use argus_tests::{Terminal, wait};

use crate::fence::{self, Fence, root, typed};
use crate::shell::{Beside, Shell};

/// How wide the terminal of who reads a page is.
const COLUMNS: u16 = 100;
/// When a page is written anew, what it shows comes within this time or not at all.
const SETTLED: Duration = Duration::from_secs(15);

/// Goes through a page. What it does in another place (systemd, for one) `instead` does, and says so by its answer; it may
/// also wait for what a reader sees before going on.
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
            // The settings as they are by default: their own test reads them.
            "toml" => {}
            _ if fence.of.contains('.') => save(shell, fence),
            other => panic!("{}: what is done with a block of `{other}`?", fence.place),
        }
    }
    assert!(steps > 0, "{page} has no steps");
    if let Some(running) = second {
        running.stop();
    }
}

fn type_in(shell: &Shell<'_>, line: &str, code: i32, second: &mut Option<Beside>) {
    if code == 0 && (line == "argus run" || line.starts_with("argus run ")) {
        if let Some(before) = second.take() {
            before.stop();
        }
        *second = Some(shell.beside(line));
    } else {
        shell.run_to(line, code);
    }
}

/// As a careful editor does it: beside, then renamed over.
pub(crate) fn save(shell: &Shell<'_>, fence: &Fence) {
    let path = shell.home.join(&fence.of);
    fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a folder");
    let beside = path.with_extension("new");
    fs::write(&beside, &fence.body).expect("a file");
    fs::rename(beside, path).expect("a file can be renamed");
}

/// What is typed in a block, each with what the page shows below.
fn shown(fence: &Fence) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for line in fence.body.lines() {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(line), _) => all.push((line.to_owned(), String::new())),
            (None, Some((_, text))) => text.extend([line, "\n"]),
            (None, None) => panic!("{}: nothing is typed before `{line}`", fence.place),
        }
    }
    // The empty line before the next prompt is the page's.
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
            "{}: `{line}` shows\n{last}\nand the page\n{text}\nhint: UPDATE=1 writes the page anew",
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
        assert!(whole.contains(&before), "{}: it is still there", fence.place);
        fs::write(path, whole.replacen(&before, &after, 1)).expect("a page can be written");
    }
}

/// All that a terminal shows of a line.
fn on_terminal(shell: &Shell<'_>, line: &str) -> String {
    let (text, _) = Terminal::start(shell.command(line), COLUMNS, 50).end(LIMIT);
    let text = plain(&text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_end().to_owned()
}

/// Whether a line changes nothing, so that it can be typed again.
fn checks(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["argus", verb, rest @ ..] => match *verb {
            "mock" => rest.first() == Some(&"requests"),
            "breaker" => rest.first() == Some(&"status"),
            verb => [
                "get", "why", "describe", "events", "evidence", "logs", "top", "network", "plan", "validate",
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

/// Whether what came is what is shown.
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
