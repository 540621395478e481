//! The pages that are gone through as they stand, each in a folder of its own beside an engine of its own.

use std::collections::BTreeSet;
use std::fs;

use argus_tests::fixture::LIMIT;
use argus_tests::{PrivateEngine, wait};
use serde_json::Value;

use crate::fence::{self, root, typed};
use crate::shell::Shell;
use crate::tour;

/// Commands that are gone through elsewhere: each takes its time, or serves until it is stopped.
const ELSEWHERE: &[&str] = &["mock serve", "selftest"];

/// An engine with what the pages run.
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
    assert!(left.is_empty(), "all is taken down: {left:?}");
}

#[test]
fn suites_page_runs_as_written() {
    let engine = engine();
    tour::go(&Shell::at(&engine, "tests"), "docs/tests.md", &mut |_| false);
}

#[test]
fn agent_recovery_runs_as_written() {
    let engine = engine();
    tour::go(&Shell::at(&engine, "agents"), "docs/agents.md", &mut |_| false);
}

/// The files of the tutorial, as it first has them.
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
    let private = shell.home.join(".argus/private");
    tour::go(&shell, "docs/cli.md", &mut |line| {
        // On a day, some seconds go by between two lines.
        if line == "argus test end hello --case smoke" {
            let kept = private.join("evidence/hello/web/1/evidence.json");
            wait::until(LIMIT, "the failure is seen", || kept.is_file().then_some(()));
        } else if line.starts_with("sed ") {
            wait::until(LIMIT, "the revision is one to go back to", || {
                let kept = fs::read(private.join("state.json")).ok()?;
                let kept: Value = serde_json::from_slice(&kept).ok()?;
                (!kept["goods"]["hello"].as_array()?.is_empty()).then_some(())
            });
        }
        false
    });
    let left = engine.containers_with("argusai.managed=true");
    assert!(left.is_empty(), "all is taken down: {left:?}");
}

#[test]
fn command_walkthrough_has_every_command() {
    let page = fs::read_to_string(root().join("docs/cli.md")).expect("a page");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `argus "));
    // Words of a command begin with a small letter; what is filled in does not.
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
    assert_eq!(missing, ELSEWHERE, "every command has its line");
}
