//! Found problems, and failed actions with and without preflight: each round creates an environment on an engine with one problem.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;

use argus_tests::fixture::LIMIT;
use argus_tests::{Controller, PrivateEngine, Proxy, RunOptions, wait};
use serde_json::Value;

/// Name of this part on the command line.
pub(crate) const NAME: &str = "preflight";
/// Goal of the first specification: the share of failures that preflight prevents, in percent.
const GOAL: usize = 70;
/// Free space on the full disk, in bytes; less than the context of the build.
const LEFT: u64 = 4_000_000;
const CONTEXT: u64 = 24_000_000;
const ENV: &str = "st-preflight";
const NAME_OF_CONTAINER: &str = "st-preflight-web";
const WITH: &str =
    "resilience: { preflight: { diskSpaceThreshold: 40MB }, network: { portConflictStrategy: fail } }";
const WITHOUT: &str = "resilience: { preflight: { enabled: false, cleanOrphans: false }, network: { portConflictStrategy: fail } }";
const BUSYBOX: &str = "image: \"busybox:local\"";
/// Container that holds the port of the environment.
const HOLDER: &str = "st-preflight-holder";

/// The engine, and the way to it.
struct World<'e> {
    engine: &'e PrivateEngine,
    proxy: Proxy,
}

/// One problem of an engine at the creation of an environment.
struct Problem {
    name: &'static str,
    /// Check that reports the problem; `None` without one.
    check: Option<&'static str>,
    /// The first specification names the problem as one that preflight detects.
    is_targeted: bool,
    /// Causes the problem before the environment exists.
    cause: fn(&World<'_>),
    /// Removes what is left of the problem. With preflight, the environment becomes Ready after this at the latest.
    end: fn(&World<'_>),
    /// Argus itself removes the cause, so that the environment becomes Ready without the end.
    is_fixed: bool,
    image: &'static str,
    /// Further keys of the container.
    container: &'static str,
}

const PROBLEMS: &[Problem] = &[
    Problem {
        name: "orphan-container",
        check: Some("orphans"),
        is_targeted: true,
        cause: |world| {
            let labels = labels();
            let mut words = vec!["--name", NAME_OF_CONTAINER];
            words.extend(labels.iter().map(String::as_str));
            run_container(world, &words);
        },
        end: |world| drop(world.engine.docker(&["rm", "-f", NAME_OF_CONTAINER])),
        is_fixed: true,
        image: BUSYBOX,
        container: "",
    },
    Problem {
        name: "engine",
        check: Some("engine"),
        is_targeted: true,
        cause: |world| world.proxy.refuse(),
        end: |world| world.proxy.heal(),
        is_fixed: false,
        image: BUSYBOX,
        container: "",
    },
    Problem {
        name: "disk",
        check: Some("disk"),
        is_targeted: true,
        cause: |world| {
            let root = world.engine.data_root();
            let found = rustix::fs::statvfs(&root).expect("the data root exists");
            let free = found.f_bavail * found.f_frsize;
            allocate(&root.join("ballast"), free.saturating_sub(LEFT));
        },
        end: |world| drop(fs::remove_file(world.engine.data_root().join("ballast"))),
        is_fixed: false,
        image: "build: { context: ./image, dockerfile: ./image/Dockerfile }",
        container: "",
    },
    Problem {
        name: "taken-port",
        check: Some("ports"),
        is_targeted: false,
        cause: |world| {
            run_container(world, &["--name", HOLDER, "-p", "127.0.0.1:18890:8080"]);
        },
        end: |world| drop(world.engine.docker(&["rm", "-f", HOLDER])),
        is_fixed: false,
        image: BUSYBOX,
        container: ", ports: [\"18890:8080\"]",
    },
    Problem {
        name: "missing-image",
        check: Some("images"),
        is_targeted: false,
        cause: |_| {},
        end: |_| {},
        is_fixed: false,
        // No registry listens there.
        image: "image: \"127.0.0.1:1/absent:1\"",
        container: "",
    },
    Problem {
        name: "foreign-name",
        check: None,
        is_targeted: false,
        cause: |world| run_container(world, &["--name", NAME_OF_CONTAINER]),
        end: |world| drop(world.engine.docker(&["rm", "-f", NAME_OF_CONTAINER])),
        is_fixed: false,
        image: BUSYBOX,
        container: "",
    },
];

/// Numbers of rounds, of all rounds of a problem.
pub(crate) struct Row {
    name: &'static str,
    is_targeted: bool,
    rounds: u32,
    /// Rounds in which `argus preflight` reported the problem.
    found: usize,
    /// Rounds with a failed action, with preflight.
    with: usize,
    /// Rounds with a failed action, without preflight.
    without: usize,
}

/// Result of one round.
struct Round {
    is_found: bool,
    has_failed: bool,
}

pub(crate) fn rounds(engine: &PrivateEngine, rounds: u32) -> Vec<Row> {
    let proxy = Proxy::start(&engine.scratch(NAME).join("p.sock"), &engine.socket());
    let world = World { engine, proxy };
    let run = |problem: &Problem, settings: &str| -> Vec<Round> {
        (0..rounds).map(|_| round(&world, problem, settings)).collect()
    };
    let failed = |rounds: &[Round]| rounds.iter().filter(|round| round.has_failed).count();
    let row = |problem: &Problem| {
        let (with, without) = (run(problem, WITH), run(problem, WITHOUT));
        Row {
            name: problem.name,
            is_targeted: problem.is_targeted,
            rounds,
            found: with.iter().filter(|round| round.is_found).count(),
            with: failed(&with),
            without: failed(&without),
        }
    };
    PROBLEMS.iter().map(row).collect()
}

/// Creates an environment on an engine with the problem, after a preflight on request.
fn round(world: &World<'_>, problem: &Problem, settings: &str) -> Round {
    let options = RunOptions {
        host: Some(world.proxy.host()),
        env: vec![("ARGUS_WAITS".to_owned(), "orphanAge=2s".to_owned())],
        ..RunOptions::default()
    };
    let argus = Controller::prepare(world.engine, options);
    let image = argus.specs.join("image");
    fs::create_dir_all(&image).expect("a folder");
    allocate(&image.join("data"), CONTEXT);
    fs::write(image.join("Dockerfile"), "FROM busybox:local\nCOPY data /data\n").expect("a file");
    (problem.cause)(world);
    let text = format!(
        "version: \"1\"\nproject: {{ name: {ENV} }}\n{settings}\nservices:\n  web:\n    {}\n    command: [sleep, \"3600\"]\n    \
         container: {{ name: {NAME_OF_CONTAINER}{} }}\n",
        problem.image, problem.container
    );
    argus.write_spec("e2e.yaml", &text);
    // An orphan counts after its first seconds.
    let is_reported = |check| wait::poll(LIMIT, || reports(&argus, check).then_some(()));
    let is_found = problem.check.is_some_and(|check| is_reported(check).is_some());
    argus.start_again();
    let is_ready = || argus.status(ENV)["phase"] == "Ready";
    let has_preflight = settings == WITH;
    // Until the first failed action, or the end of the creation. Argus reports a problem that it waits for.
    wait::poll(LIMIT, || {
        let waits = !problem.is_fixed && has_error(&argus);
        (waits || has_failed(&argus) || is_ready()).then_some(())
    });
    (problem.end)(world);
    // With preflight, an environment that does not become Ready has failed, too.
    let is_created = || !has_preflight || wait::poll(LIMIT, || is_ready().then_some(())).is_some();
    let has_failed = has_failed(&argus) || !is_created() || has_failed(&argus);
    argus.remove_spec("e2e.yaml");
    // A container can be missing for a moment because Argus is about to create it again. Without a status, the environment is gone.
    let is_gone = wait::poll(LIMIT, || argus.status(ENV).is_null().then_some(()));
    assert!(is_gone.is_some(), "{ENV} was not removed:\n{}", argus.logs());
    argus.stop();
    Round { is_found, has_failed }
}

/// Runs a container with these arguments of `docker run`.
fn run_container(world: &World<'_>, arguments: &[&str]) {
    let command = ["busybox:local", "sleep", "3600"];
    let words = [&["run", "-d"][..], arguments, &command[..]].concat();
    world.engine.docker_ok(&words);
}

/// True if `argus preflight` reports a problem with this check.
fn reports(argus: &Controller<'_>, check: &str) -> bool {
    let output = argus.cli(&["preflight", "-o", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let checks = report["checks"].as_array().cloned().unwrap_or_default();
    checks
        .iter()
        .any(|found| found["name"] == check && (found["result"] == "fail" || found["result"] == "warn"))
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
        ("environment", "st-preflight-before"),
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
fn prevented(rows: &[&Row]) -> Option<usize> {
    let (with, without) = (sum(rows, |row| row.with), sum(rows, |row| row.without));
    (without > 0).then(|| without.saturating_sub(with) * 100 / without)
}

fn sum(rows: &[&Row], of: fn(&Row) -> usize) -> usize {
    rows.iter().map(|row| of(row)).sum()
}

/// Rows of the problems that the first specification names.
fn targeted(rows: &[Row]) -> Vec<&Row> {
    rows.iter().filter(|row| row.is_targeted).collect()
}

/// True if preflight finds all targeted problems, and prevents the required share of their failures.
pub(crate) fn is_met(rows: &[Row]) -> bool {
    let targeted = targeted(rows);
    let all_found = targeted.iter().all(|row| row.found == row.rounds as usize);
    rows.is_empty() || (all_found && prevented(&targeted).is_some_and(|percent| percent >= GOAL))
}

/// Table of the found problems and of the failed rounds, in Markdown.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut text =
        "| problem | found | failed with preflight | failed without |\n|---|---|---|---|\n".to_owned();
    for row in rows {
        let Row {
            name,
            rounds,
            found,
            with,
            without,
            ..
        } = row;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| `{name}` | {found}/{rounds} | {with}/{rounds} | {without}/{rounds} |"
        );
    }
    let targeted = targeted(rows);
    text += &total("the first three", &targeted, &format!("; goal: {GOAL} %"));
    text += &total("all", &rows.iter().collect::<Vec<_>>(), "");
    text
}

fn total(name: &str, rows: &[&Row], goal: &str) -> String {
    let fewer = prevented(rows).map_or_else(
        || "nothing failed".to_owned(),
        |percent| format!("{percent} % fewer"),
    );
    let rounds: u32 = rows.iter().map(|row| row.rounds).sum();
    let (found, with, without) = (
        sum(rows, |row| row.found),
        sum(rows, |row| row.with),
        sum(rows, |row| row.without),
    );
    format!("| {name} | {found}/{rounds} | {with} ({fewer}{goal}) | {without} |\n")
}
