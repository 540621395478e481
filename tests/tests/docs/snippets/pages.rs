//! Pages that run exactly as written, each in its own directory and on its own engine.

use std::collections::BTreeSet;
use std::fs;

use argus_tests::fixture::LIMIT;
use argus_tests::{PrivateEngine, wait};
use serde_json::Value;

use super::fence::{self, root, typed};
use super::shell::Shell;
use super::tour;

/// Commands with a test elsewhere: each takes long, serves until it is stopped, or needs a registry.
const ELSEWHERE: &[&str] = &["mock serve", "pull", "selftest"];

/// An engine with the images of the pages.
pub(crate) fn engine() -> PrivateEngine {
    let engine = PrivateEngine::start();
    engine.make_busybox_image("busybox:1", &[]);
    engine
}

#[test]
fn tutorial_runs_as_written() {
    let engine = engine();
    tour::go(&Shell::at(&engine, "tutorial"), "docs/tutorial.md", &mut |_| {
        false
    });
    let left = engine.containers_with("argusai.managed=true");
    assert!(left.is_empty(), "everything is removed: {left:?}");
}

#[test]
fn suites_page_runs_as_written() {
    let engine = engine();
    // `argus ci` has tests of its own.
    tour::go(&Shell::at(&engine, "tests"), "docs/tests.md", &mut |line| {
        line == "argus ci e2e.yaml"
    });
}

#[test]
fn agent_recovery_runs_as_written() {
    let engine = engine();
    tour::go(&Shell::at(&engine, "agents"), "docs/agents.md", &mut |_| false);
}

/// The initial files of the tutorial.
fn files_of_the_tutorial(shell: &Shell<'_>) {
    for fence in fence::of("docs/tutorial.md")
        .iter()
        .filter(|it| it.language == "yaml")
    {
        tour::save(shell, fence);
    }
}

#[test]
fn command_walkthrough_runs_as_written() {
    let engine = engine();
    let shell = Shell::at(&engine, "cli");
    files_of_the_tutorial(&shell);
    let private = shell.private();
    tour::go(&shell, "docs/cli.md", &mut |line| {
        // In practice, some seconds pass between the two lines.
        if line == "argus test end hello --case smoke" {
            let kept = private.join("evidence/hello/web/1/evidence.json");
            wait::until(LIMIT, "the failure is reported", || kept.is_file().then_some(()));
        } else if line.starts_with("sed ") {
            wait::until(LIMIT, "a rollback to the revision is possible", || {
                let kept = fs::read(private.join("state.json")).ok()?;
                let kept: Value = serde_json::from_slice(&kept).ok()?;
                (!kept["knownGood"]["hello"].as_array()?.is_empty()).then_some(())
            });
        }
        false
    });
    let left = engine.containers_with("argusai.managed=true");
    assert!(left.is_empty(), "everything is removed: {left:?}");
}

#[test]
fn command_walkthrough_has_every_command() {
    let page = fs::read_to_string(root().join("docs/cli.md")).expect("a page");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `argus "));
    // Words of a command start in lower case; placeholders do not.
    let verb = |line: &str| {
        let words = line.split([' ', '`']);
        let verb: Vec<&str> = words
            .take_while(|word| word.starts_with(|letter: char| letter.is_ascii_lowercase()))
            .collect();
        verb.join(" ")
    };
    let output: BTreeSet<String> = rows.map(verb).collect();
    assert!(output.len() > 30, "{output:?}");
    let lines = fence::of("docs/cli.md")
        .iter()
        .flat_map(typed)
        .collect::<Vec<_>>();
    let is_typed = |verb: &String| {
        let begins = format!("argus {verb}");
        lines
            .iter()
            .any(|(line, _)| *line == begins || line.starts_with(&format!("{begins} ")))
    };
    let missing: Vec<_> = output.iter().filter(|verb| !is_typed(verb)).collect();
    assert_eq!(missing, ELSEWHERE, "every command has a line");
}
