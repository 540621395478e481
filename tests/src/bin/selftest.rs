//! Implements `scripts/selftest`: runs `argus selftest` on a private engine, then injects the faults that affect a whole engine, and
//! counts recoveries. After those faults, a recovery is complete when the suites of the environments pass again. It also counts failed
//! actions with and without preflight.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed measurement ends with a message"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, SystemTime};

use argus_tests::fixture::{self, IMAGE, LIMIT, text};
use argus_tests::{Controller, Options, PrivateEngine, RunOptions, wait};
use serde_json::Value;

#[path = "../selftest/disk.rs"]
mod disk;
#[path = "../selftest/killed_run.rs"]
mod killed_run;
#[path = "../selftest/preflight.rs"]
mod preflight;

/// Page with the tables of the last complete run on each engine.
const PAGE: &str = "docs/contributors/selftest.md";

/// Time limit of a recovery.
const HEALED_WITHIN: Duration = Duration::from_secs(120);

/// Name of the fault that hits all environments together.
const RESTART: &str = "daemon-restart";
/// Environments on an engine that restarts.
const RESTARTED: [&str; 3] = ["st-1", "st-2", "st-3"];
/// First host port of the environments.
const PORT: usize = 18600;

struct Bench<'e> {
    engine: &'e PrivateEngine,
    argus: &'e Controller<'e>,
}

/// Spec of two services with the default restart budget, and a suite.
///
/// The engine's disk is small, so the spec sets the free space that it requires.
fn spec(env: &str, port: usize, free: &str) -> String {
    format!(
        r#"version: "1"
project: {{ name: {env} }}
resilience: {{ preflight: {{ diskSpaceThreshold: {free} }} }}
tests:
  suites:
    - {{ name: Page, id: page, runner: shell, command: 'busybox wget -q -O /dev/null "$ARGUS_WEB_URL/bin/busybox"' }}
services:
  db:
    image: {IMAGE}
    container: {{ name: {env}-db, healthcheck: {{ path: /healthz, port: 8080, interval: 500ms, timeout: 1s, startPeriod: 5s }} }}
  web:
    image: busybox:local
    dependsOn: [db]
    stopGrace: 1s
    command: [httpd, -f, -p, "8080", -h, /]
    container: {{ name: {env}-web, ports: ["{port}:8080"], healthcheck: {{ type: tcp, port: 8080, interval: 500ms, timeout: 1s, startPeriod: 5s }} }}
"#
    )
}

impl Bench<'_> {
    fn network(&self, env: &str) -> Option<String> {
        let filter = format!("label=argusai.environment={env}");
        let found = self
            .engine
            .docker_ok(&["network", "ls", "-q", "--filter", &filter]);
        found.lines().next().map(str::to_owned)
    }

    /// True if the engine and the status agree: everything runs, is on the network, and no extra object exists.
    fn is_whole(&self, env: &str) -> bool {
        let Some(network) = self.network(env) else {
            return false;
        };
        let on_it = |name: String| {
            let Some(found) = self.engine.inspect(&name) else {
                return false;
            };
            let runs = found["State"]["Running"] == true && found["State"]["Paused"] == false;
            let networks = found["NetworkSettings"]["Networks"].as_object();
            runs && networks.is_some_and(|all| {
                all.values()
                    .any(|one| text(&one["NetworkID"]).starts_with(&network))
            })
        };
        let all = self.engine.containers_with(&format!("argusai.environment={env}"));
        let status = self.argus.status(env);
        all.len() == 2
            && on_it(format!("{env}-db"))
            && on_it(format!("{env}-web"))
            && status["phase"] == "Ready"
            && status["stale"] != true
    }

    /// True if the suites of the environment pass.
    fn passes_suites(&self, env: &str) -> bool {
        self.argus.cli(&["test", "run", env]).status.success()
    }
}

/// Result of all rounds of one fault.
struct Row {
    name: String,
    rounds: u32,
    times: Vec<Duration>,
}

fn main() -> ExitCode {
    let rounds: u32 = option("--rounds").map_or(10, |text| text.parse().expect("--rounds takes a number"));
    let only = option("--only");
    let is_wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let is_newest = std::env::args().any(|argument| argument == "--newest");
    let options = || {
        if is_newest {
            Options::newest_version()
        } else {
            Options::default()
        }
    };
    let version = {
        let engine = PrivateEngine::start_with(options());
        engine.docker_ok(&["version", "--format", "{{.Server.Version}}"])
    };
    let of_engine = [disk::NAME, killed_run::NAME, RESTART, preflight::NAME];
    let mut rows = match only.as_deref() {
        Some(only) if of_engine.contains(&only) => Vec::new(),
        only => of_command(options(), only, rounds),
    };
    let mut compared = Vec::new();
    if of_engine.into_iter().any(is_wanted) {
        let engine = PrivateEngine::start_with(Options {
            data_size: Some(disk::DATA_ROOT.to_owned()),
            ..options()
        });
        fixture::images(&engine);
        if is_wanted(disk::NAME) {
            rows.push(disk::rounds(&engine, PORT, rounds));
        }
        if is_wanted(killed_run::NAME) {
            rows.push(killed_run::rounds(&engine, PORT, rounds));
        }
        if is_wanted(RESTART) {
            rows.push(daemon_restarts(&engine, rounds));
        }
        if is_wanted(preflight::NAME) {
            compared = preflight::rounds(&engine, rounds);
        }
    }
    let tables = format!("{}\n{}", table(&rows), preflight::table(&compared));
    println!("{tables}");
    if only.is_none() && std::env::args().any(|argument| argument == "--write") {
        let old = std::fs::read_to_string(PAGE).unwrap_or_default();
        let tables = format!("{rounds} rounds of each fault.\n\n{tables}");
        let page = page(&old, &format!("Docker {version}"), &tables);
        std::fs::write(PAGE, page).expect("the page is writable");
    }
    let recovered: usize = rows.iter().map(|row| row.times.len()).sum();
    let total: u32 = rows.iter().map(|row| row.rounds).sum();
    let has_run = total > 0 || !compared.is_empty();
    let is_good = recovered == total as usize && preflight::is_met(&compared);
    ExitCode::from(u8::from(!has_run || !is_good))
}

/// Runs `argus selftest`, with all of its faults or with one of them.
fn of_command(options: Options, only: Option<&str>, rounds: u32) -> Vec<Row> {
    let engine = PrivateEngine::start_with(options);
    let mut command = fixture::selftest(&engine, &engine.scratch("selftest"));
    command.args(["-o", "json", "--rounds", &rounds.to_string()]);
    command.args(only.iter().flat_map(|only| ["--only", *only]));
    let output = command.stderr(Stdio::inherit()).output().expect("argus runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let faults = report["faults"].as_array().expect("faults").iter();
    let row = |fault: &Value| {
        let seconds = fault["seconds"].as_array().expect("seconds").iter();
        Row {
            name: text(&fault["name"]),
            rounds,
            times: seconds
                .map(|seconds| Duration::from_secs_f64(seconds.as_f64().expect("a number")))
                .collect(),
        }
    };
    faults.map(row).collect()
}

/// Restarts the daemon under several environments: it stops cleanly and is killed, in turns.
fn daemon_restarts(engine: &PrivateEngine, rounds: u32) -> Row {
    let argus = &Controller::start(engine, RunOptions::default());
    let bench = Bench { engine, argus };
    for (number, env) in RESTARTED.into_iter().enumerate() {
        argus.write_spec(&format!("{env}/e2e.yaml"), &spec(env, PORT + number, "20MB"));
    }
    for env in RESTARTED {
        argus.wait_ready(env, LIMIT);
    }
    let mut times = Vec::new();
    for round in 0..rounds {
        let started = now();
        if round % 2 == 0 {
            engine.stop();
        } else {
            engine.kill9();
        }
        engine.start_again();
        let whole = wait::poll(HEALED_WITHIN, || {
            RESTARTED.iter().all(|env| bench.is_whole(env)).then_some(())
        });
        let took = whole.and_then(|()| now().duration_since(started).ok());
        times.extend(took.filter(|_| RESTARTED.iter().all(|env| bench.passes_suites(env))));
    }
    Row {
        name: RESTART.to_owned(),
        rounds,
        times,
    }
}

/// Table of the recoveries, in Markdown.
fn table(rows: &[Row]) -> String {
    let mut text = "| fault | recovered | median | longest |\n|---|---|---|---|\n".to_owned();
    for row in rows {
        let _ = writeln!(text, "{}", line(row));
    }
    let recovered: usize = rows.iter().map(|row| row.times.len()).sum();
    let total: u32 = rows.iter().map(|row| row.rounds).sum();
    let _ = writeln!(text, "| all | {recovered}/{total} (goal: 90 %) | | |");
    text
}

/// The page `docs/contributors/selftest.md` with the tables of this engine. Those of other engines stay.
fn page(old: &str, engine: &str, tables: &str) -> String {
    let sections = old.split("\n## ").skip(1);
    let mut sections: BTreeMap<&str, &str> = sections
        .filter_map(|section| section.split_once("\n\n"))
        .collect();
    sections.insert(engine, tables);
    let head = format!(
        "# Results of the self-test\n\nWritten by `./scripts/selftest --write`, with `--newest` for the newest engine; \
         do not edit.\n\n\
         The first table counts recoveries on a private engine. `argus selftest` injects the faults of one environment, each \
         with the default restart budget. An environment has recovered if all its services are healthy again, one reaches the other by \
         its name, and no extra object exists. After `{}`, `{}` and `{RESTART}`, its suites must pass too. \
         The times do not include the suites. `{}` is the run after a controller that SIGKILL ended: it must get the same port, and the \
         leftovers must go.\n\n\
         In each round of the second table, the engine has one problem before the environment is created: an orphan has the name of a \
         container, the engine does not answer, the disk is full, a fixed port is taken, the image is in no registry, or a foreign container \
         has the name. The table counts the rounds in which `argus preflight` reported the problem, and those in which an action of the \
         controller failed, with preflight and without. The first three problems are those that preflight prevents. An image can only be \
         pulled to find out if it exists, and only the engine knows the names of foreign containers.\n",
        disk::NAME,
        killed_run::NAME,
        killed_run::NAME
    );
    let section = |(engine, tables): (&&str, &&str)| format!("\n## {engine}\n\n{}\n", tables.trim_end());
    head + &sections.iter().map(section).collect::<String>()
}

fn line(row: &Row) -> String {
    let mut times = row.times.clone();
    times.sort();
    let seconds = |time: Option<&Duration>| {
        time.map_or_else(|| "-".to_owned(), |time| format!("{:.1} s", time.as_secs_f64()))
    };
    format!(
        "| `{}` | {}/{} | {} | {} |",
        row.name,
        times.len(),
        row.rounds,
        seconds(times.get(times.len() / 2)),
        seconds(times.last())
    )
}

fn option(name: &str) -> Option<String> {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    args.nth(1)
}

#[allow(clippy::disallowed_methods, reason = "this program measures")]
fn now() -> SystemTime {
    SystemTime::now()
}
