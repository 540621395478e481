//! Failed actions with and without preflight: each round creates an environment on an engine with one problem.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;

use argus_tests::fixture::LIMIT;
use argus_tests::{Controller, PrivateEngine, RunOptions, wait};
use serde_json::Value;

/// Name of this part on the command line.
pub(crate) const NAME: &str = "preflight";
/// Goal of the first specification: the share of failures that preflight prevents, in percent.
const GOAL: usize = 70;
/// Free space on the full disk, in bytes; less than the context of the build.
const LEFT: u64 = 4_000_000;
const CONTEXT: u64 = 24_000_000;
const ENV: &str = "st-preflight";
const WITH: &str = "resilience: { preflight: { diskSpaceThreshold: 40MB } }";
const WITHOUT: &str = "resilience: { preflight: { enabled: false, cleanOrphans: false } }";

/// One problem of an engine that preflight can detect.
struct Problem {
    name: &'static str,
    /// Causes the problem before the environment exists.
    cause: fn(&PrivateEngine),
    /// Removes what is left of the problem. With preflight, the environment becomes Ready after this at the latest.
    end: fn(&PrivateEngine),
    /// Argus itself removes the cause, so that the environment becomes Ready without the end.
    is_fixed: bool,
    image: &'static str,
}

const PROBLEMS: &[Problem] = &[
    Problem {
        name: "orphan-container",
        cause: |engine| {
            let name = format!("{ENV}-web");
            let labels = labels();
            let mut words = vec!["run", "-d", "--name", &name];
            words.extend(labels.iter().map(String::as_str));
            words.extend(["busybox:local", "sleep", "3600"]);
            engine.docker_ok(&words);
        },
        end: |engine| drop(engine.docker(&["rm", "-f", &format!("{ENV}-web")])),
        is_fixed: true,
        image: "image: \"busybox:local\"",
    },
    Problem {
        name: "disk",
        cause: |engine| {
            let found = rustix::fs::statvfs(engine.data_root()).expect("the data root exists");
            let free = found.f_bavail * found.f_frsize;
            allocate(&engine.data_root().join("ballast"), free.saturating_sub(LEFT));
        },
        end: |engine| drop(fs::remove_file(engine.data_root().join("ballast"))),
        is_fixed: false,
        image: "build: { context: ./image, dockerfile: ./image/Dockerfile }",
    },
];

/// Number of rounds with a failed action, of all rounds of a problem.
pub(crate) struct Row {
    name: &'static str,
    rounds: u32,
    with: usize,
    without: usize,
}

pub(crate) fn rounds(engine: &PrivateEngine, rounds: u32) -> Vec<Row> {
    let count =
        |problem: &Problem, settings: &str| (0..rounds).filter(|_| fails(engine, problem, settings)).count();
    PROBLEMS
        .iter()
        .map(|problem| Row {
            name: problem.name,
            rounds,
            with: count(problem, WITH),
            without: count(problem, WITHOUT),
        })
        .collect()
}

/// True if an action failed while the environment was created.
fn fails(engine: &PrivateEngine, problem: &Problem, settings: &str) -> bool {
    let argus = Controller::prepare(engine, RunOptions::default());
    let image = argus.specs.join("image");
    fs::create_dir_all(&image).expect("a folder");
    allocate(&image.join("data"), CONTEXT);
    fs::write(image.join("Dockerfile"), "FROM busybox:local\nCOPY data /data\n").expect("a file");
    (problem.cause)(engine);
    argus.start_again();
    let text = format!(
        "version: \"1\"\nproject: {{ name: {ENV} }}\n{settings}\nservices:\n  web:\n    {}\n    command: [sleep, \"3600\"]\n    \
         container: {{ name: {ENV}-web }}\n",
        problem.image
    );
    argus.write_spec("e2e.yaml", &text);
    let is_ready = || argus.status(ENV)["phase"] == "Ready";
    let has_preflight = settings == WITH;
    // Until the first failed action, or the end of the creation. On a full disk, preflight lets Argus wait.
    wait::poll(LIMIT, || {
        let waits = has_preflight && !problem.is_fixed && has_error(&argus);
        (waits || has_failed(&argus) || is_ready()).then_some(())
    });
    (problem.end)(engine);
    // With preflight, an environment that does not become Ready has failed, too.
    let is_created = !has_preflight || wait::poll(LIMIT, || is_ready().then_some(())).is_some();
    let failed = has_failed(&argus) || !is_created;
    argus.remove_spec("e2e.yaml");
    // A container can be missing for a moment because Argus is about to create it again. Without a status, the environment is gone.
    let is_gone = wait::poll(LIMIT, || argus.status(ENV).is_null().then_some(()));
    assert!(is_gone.is_some(), "{ENV} was not removed:\n{}", argus.logs());
    argus.stop();
    failed
}

fn has_error(argus: &Controller<'_>) -> bool {
    let errors = argus.status(ENV)["errors"].clone();
    errors.as_array().is_some_and(|errors| !errors.is_empty())
}

fn has_failed(argus: &Controller<'_>) -> bool {
    let output = argus.cli(&["events", "--type", "result", "--tail", "1000", "-o", "json"]);
    let events: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let items = events["items"].as_array().cloned().unwrap_or_default();
    items.iter().any(|result| result["outcome"] == "failed")
}

/// Labels of a container that a dead controller left in the project.
fn labels() -> Vec<String> {
    [
        ("managed", "true"),
        ("project", ENV),
        ("environment", ENV),
        ("service", "web"),
        ("controller", "dead"),
        ("run-id", "r"),
        ("created-at", "2026-01-01T00:00:00Z"),
    ]
    .map(|(key, value)| format!("--label=argusai.{key}={value}"))
    .to_vec()
}

fn allocate(path: &Path, size: u64) {
    let file = File::create(path).expect("a file");
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size).expect("it fits");
    file.sync_all().expect("it is on disk");
}

/// Share of failures that preflight prevents, in percent; `None` without a failure.
fn prevented(rows: &[Row]) -> Option<usize> {
    let (with, without) = totals(rows);
    (without > 0).then(|| without.saturating_sub(with) * 100 / without)
}

fn totals(rows: &[Row]) -> (usize, usize) {
    let sum = |of: fn(&Row) -> usize| rows.iter().map(of).sum();
    (sum(|row| row.with), sum(|row| row.without))
}

/// True if preflight prevents the required share of failures.
pub(crate) fn is_met(rows: &[Row]) -> bool {
    rows.is_empty() || prevented(rows).is_some_and(|percent| percent >= GOAL)
}

/// Table of the failed rounds, in Markdown.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = "| problem | with preflight | without |\n|---|---|---|\n".to_owned();
    for row in rows {
        let Row {
            name,
            rounds,
            with,
            without,
        } = row;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{name}` | {with}/{rounds} | {without}/{rounds} |");
    }
    let (with, without) = totals(rows);
    let fewer = prevented(rows).map_or_else(
        || "nothing failed".to_owned(),
        |percent| format!("{percent} % fewer"),
    );
    let _ = writeln!(text, "| all | {with} ({fewer}; goal: {GOAL} %) | {without} |");
    text
}
