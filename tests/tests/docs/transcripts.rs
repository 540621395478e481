//! Transcripts: the output of each command on a narrow and on a wide terminal, and in a pipe.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step ends the test with a message"
)]

mod fixture;
mod normal;

use std::path::Path;
use std::process::Output;

use argus_tests::Terminal;
use argus_tests::fixture::LIMIT;
use argus_tests::terminal::plain;
use fixture::TranscriptFixture;
use normal::settings;

const NARROW: u16 = 80;
const WIDE: u16 = 200;

/// A name for each transcript, and its arguments.
const TRANSCRIPTS: &[(&str, &[&str])] = &[
    ("help", &["--help"]),
    ("get", &["get"]),
    ("get_env", &["get", "shop"]),
    ("get_env_broken", &["get", "broken"]),
    ("get_wide", &["get", "shop", "-o", "wide"]),
    ("describe", &["describe", "shop"]),
    ("describe_broken", &["describe", "broken"]),
    ("plan", &["plan"]),
    ("validate_good", &["validate", "environments/shop.e2e.yaml"]),
    ("validate_bad", &["validate", "environments/bad.e2e.yaml"]),
    ("events", &["events", "shop", "--type", "phase", "--tail", "1"]),
    (
        "events_broken",
        &["events", "broken", "--type", "error,restart_exhausted"],
    ),
    (
        "events_all",
        &["events", "--type", "port_reassigned,restart_exhausted"],
    ),
    ("breaker_status", &["breaker", "status"]),
    // Disk sizes and process numbers have any length.
    ("preflight", &["preflight", "--skip", "disk,ports"]),
    ("orphans", &["orphans"]),
    ("explain", &["explain", "PORT_CONFLICT"]),
    ("explain_all", &["explain"]),
    ("why", &["why", "shop"]),
    ("why_broken", &["why", "broken"]),
    (
        "wait_late",
        &["wait", "shop", "--for", "gone", "--timeout", "200ms"],
    ),
    ("wait_lost", &["wait", "broken", "--timeout", "200ms"]),
    ("get_all_services", &["get", "--all-services"]),
    ("unknown_verb", &["gte", "shop"]),
    ("unknown_environment", &["get", "shpo"]),
    ("unknown_service", &["why", "shop/apii"]),
    ("unknown_code", &["explain", "PORT_CONFLICTS"]),
    ("usage_get", &["get", "--outptu", "json"]),
    ("usage_get_two", &["get", "shop", "broken"]),
    ("usage_describe", &["describe"]),
    ("usage_plan", &["plan", "--specs"]),
    ("usage_validate", &["validate", "--strct"]),
    ("usage_events", &["events", "--type", "restart"]),
    ("usage_breaker", &["breaker", "stauts"]),
    ("usage_preflight", &["preflight", "--skip", "disks"]),
    ("usage_orphans", &["orphans", "--timeout", "soon"]),
    ("usage_why", &["why", "shop/api/1"]),
    ("usage_wait", &["wait"]),
    ("logs", &["logs", "shop/db", "--tail", "1"]),
    ("logs_previous", &["logs", "shop/db", "--previous"]),
    ("evidence", &["evidence", "shop"]),
    ("incidents", &["incidents"]),
    ("network", &["network", "shop"]),
    ("init_there", &["init", ".", "--specs", "made"]),
    ("retry", &["retry", "shop"]),
    ("down_unknown", &["down", "shpo"]),
    ("hold_unknown", &["hold", "shpo", "--for", "10m"]),
    ("resume_not_held", &["resume", "shop"]),
    ("cancel_unknown", &["cancel", "shpo"]),
    ("rollback_nothing", &["rollback", "shop"]),
    ("fork_taken", &["fork", "shop", "broken"]),
    ("test_unknown", &["test", "end", "shop", "--case", "smoke"]),
    ("prune", &["prune", "--images-only", "--dry-run"]),
    ("mock_none", &["mock", "requests", "shop", "payments"]),
    ("usage_doctor", &["doctor", "--out"]),
];

/// Prefixes of lines that may exceed the terminal's width: text to copy, and messages on stderr.
const WHOLE: &[&str] = &["hint:", "error:", "warning:", "note:"];

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("all output is UTF-8")
}

/// The output to a pipe, each stream under its name.
fn streams(output: &Output) -> String {
    let (out, err) = (utf8(&output.stdout), utf8(&output.stderr));
    let part = |name: &str, text: &str| {
        if text.is_empty() {
            String::new()
        } else {
            format!("--- {name}\n{text}")
        }
    };
    let code = output.status.code().expect("argus exits normally");
    format!(
        "{}{}--- exit {code}\n",
        part("stdout", &out),
        part("stderr", &err)
    )
}

#[test]
fn every_command_prints_its_transcript() {
    let fixture = TranscriptFixture::set();
    let mut all = Vec::new();
    for (name, words) in TRANSCRIPTS {
        let piped = streams(&fixture.piped(words));
        let (narrow, code) = fixture.on_terminal(words, NARROW);
        let (wide, _) = fixture.on_terminal(words, WIDE);
        let shown = format!(
            "$ argus {}\n{}--- exit {code}\n\n=== {WIDE} columns\n{}\n=== a pipe\n{piped}",
            words.join(" "),
            plain(&narrow),
            plain(&wide),
        );
        all.push((*name, shown));
    }
    // Compares all of them, not only up to the first difference: a style change affects many.
    let mut differ = Vec::new();
    for (name, shown) in all {
        let same = || settings().bind(|| insta::assert_snapshot!(name, shown));
        if std::panic::catch_unwind(same).is_err() {
            differ.push(name);
        }
    }
    assert!(differ.is_empty(), "transcripts differ: {differ:?}");
}

/// Collects every command that the help of `words` names, with its subcommands.
fn below(fixture: &TranscriptFixture, words: &[&str], all: &mut Vec<Vec<String>>) {
    let request: Vec<&str> = words.iter().copied().chain(["--help"]).collect();
    let help = utf8(&fixture.piped(&request).stdout);
    let Some((_, commands)) = help.split_once("\nCommands:\n") else {
        return;
    };
    let commands = commands.lines().take_while(|line| !line.is_empty());
    for verb in commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()) {
        // Continued lines have a deeper indent; `help` covers all commands.
        if verb.is_empty() || verb == "help" {
            continue;
        }
        let words: Vec<&str> = words.iter().copied().chain([verb]).collect();
        all.push(words.iter().map(|word| (*word).to_owned()).collect());
        below(fixture, &words, all);
    }
}

#[test]
fn help_fits_a_narrow_terminal() {
    let fixture = TranscriptFixture::set();
    let mut all = Vec::new();
    below(fixture, &[], &mut all);
    assert!(all.len() > 35, "{all:?}");
    let mut shown = String::new();
    for words in &all {
        let request: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let (text, code) = fixture.on_terminal(&request, NARROW);
        assert_eq!(code, 0, "{request:?}");
        let text = plain(&text);
        let wide: Vec<&str> = text
            .lines()
            .filter(|line| line.chars().count() > usize::from(NARROW))
            .collect();
        assert!(wide.is_empty(), "{request:?}: {wide:?}");
        shown.extend(["$ argus ", &request.join(" "), "\n", &text, "\n"]);
    }
    settings().bind(|| insta::assert_snapshot!("help_of_every_command", shown));
}

#[test]
fn lines_fit_the_terminal_unless_copied() {
    let fixture = TranscriptFixture::set();
    let mut wide = Vec::new();
    // Wide output is requested explicitly.
    let fitted = TRANSCRIPTS.iter().filter(|(_, words)| !words.contains(&"wide"));
    for (name, words) in fitted {
        let (text, _) = fixture.on_terminal(words, NARROW);
        let too_wide = plain(&text)
            .lines()
            .filter(|line| line.chars().count() > usize::from(NARROW))
            .filter(|line| !WHOLE.iter().any(|whole| line.trim_start().starts_with(whole)))
            .map(|line| format!("{name}: {line}"))
            .collect::<Vec<_>>();
        wide.extend(too_wide);
    }
    assert!(
        wide.is_empty(),
        "wider than {NARROW} columns:\n{}",
        wide.join("\n")
    );
}

#[test]
fn colour_adds_no_information() {
    let fixture = TranscriptFixture::set();
    let coloured: &[&[&str]] = &[
        &["get"],
        &["get", "shop"],
        &["describe", "broken"],
        &["preflight"],
        &["gte"],
    ];
    for words in coloured {
        let (terminal, _) = fixture.on_terminal(words, WIDE);
        assert!(
            terminal.contains("\u{1b}["),
            "{words:?} has no colour: {terminal}"
        );
        let piped = fixture.piped(words);
        let piped = utf8(&piped.stdout) + &utf8(&piped.stderr);
        assert!(!piped.contains('\u{1b}'), "{words:?} to a pipe: {piped}");
        for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb"), ("ARGUS_COLOR", "never")] {
            let mut command = fixture.command(words);
            command.env(name, value);
            let (text, _) = Terminal::start(command, WIDE, 50).end(LIMIT);
            assert!(!text.contains('\u{1b}'), "{words:?} with {name}={value}: {text}");
        }
        let mut command = fixture.command(words);
        let forced = command.env("ARGUS_COLOR", "always").output().expect("argus runs");
        let forced = utf8(&forced.stdout) + &utf8(&forced.stderr);
        assert!(
            forced.contains("\u{1b}["),
            "{words:?} with forced colour: {forced}"
        );
    }
}

#[test]
fn transcripts_have_one_exit_code_everywhere() {
    let fixture = TranscriptFixture::set();
    for (name, words) in TRANSCRIPTS {
        let (_, on_terminal) = fixture.on_terminal(words, NARROW);
        let in_pipe = fixture.piped(words).status.code();
        assert_eq!(Some(on_terminal), in_pipe, "{name}");
    }
}

#[test]
fn readme_output_is_recorded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("../README.md")).expect("the README");
    let blocks: Vec<&str> = readme
        .split("```console\n")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once("\n```")?.0))
        .collect();
    assert!(!blocks.is_empty(), "the README shows a run");
    let shown = blocks.iter().flat_map(|block| block.split("\n\n$ "));
    for shown in shown.map(|shown| shown.trim_start_matches("$ ")) {
        let (command, _) = shown.split_once('\n').expect("a command and its output");
        let recorded = TRANSCRIPTS.iter().find_map(|(name, words)| {
            let is_it = format!("argus {}", words.join(" ")) == command;
            is_it.then(|| std::fs::read_to_string(root.join(format!("tests/docs/snapshots/{name}.snap"))))
        });
        let recorded = recorded
            .unwrap_or_else(|| panic!("`{command}` has no transcript"))
            .expect("a snapshot");
        assert!(
            recorded.contains(&format!("$ {shown}\n--- exit")),
            "the transcript differs:\n{recorded}"
        );
    }
}
