//! Implements `scripts/selftest`: injects every recoverable fault into environments on a private engine, and counts
//! recoveries. A recovery is complete when the suites of the environment pass again. It also counts failed actions with and without
//! preflight.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed measurement ends with a message"
)]

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use argus_tests::fixture::{self, IMAGE, LIMIT, text};
use argus_tests::{Controller, Options, PrivateEngine, RunOptions, wait};
use serde_json::{Value, json};

#[path = "../selftest/disk.rs"]
mod disk;
#[path = "../selftest/preflight.rs"]
mod preflight;

/// Page with the tables of a complete run.
const PAGE: &str = "docs/selftest.md";

/// Time limit of a recovery.
const HEALED_WITHIN: Duration = Duration::from_secs(120);
/// Time limit of a recovery that needs a restart, because all environments share ten repeated restarts per minute.
const RATIONED: Duration = Duration::from_secs(240);

/// Name of the fault that hits all environments together.
const RESTART: &str = "daemon-restart";

/// One way to break an environment.
struct Fault {
    name: &'static str,
    /// Injects the fault into the named environment, in this round.
    inject: fn(&Bench<'_>, &str, u32),
    /// The recovery must show a new run of `web`.
    restarts: bool,
    limit: Duration,
}

const FAULTS: &[Fault] = &[
    Fault {
        name: "exit-crash",
        inject: |bench, env, _| bench.exec(env, "kill -9 -1"),
        restarts: true,
        limit: RATIONED,
    },
    Fault {
        name: "oom-crash",
        inject: |bench, env, _| bench.exec(env, "touch /tmp/boom"),
        restarts: true,
        limit: RATIONED,
    },
    Fault {
        name: "stopped",
        inject: |bench, env, _| bench.docker(&["stop", "-t", "0", &web(env)]),
        restarts: true,
        limit: HEALED_WITHIN,
    },
    Fault {
        name: "paused",
        inject: |bench, env, _| bench.docker(&["pause", &web(env)]),
        restarts: false,
        limit: HEALED_WITHIN,
    },
    Fault {
        name: "removed",
        inject: |bench, env, _| bench.docker(&["rm", "-f", &web(env)]),
        restarts: true,
        limit: HEALED_WITHIN,
    },
    Fault {
        name: "detached",
        inject: |bench, env, _| {
            let network = bench.network(env).expect("its network");
            bench.docker(&["network", "disconnect", "-f", &network, &web(env)]);
        },
        restarts: false,
        limit: HEALED_WITHIN,
    },
    Fault {
        name: "stale-network",
        inject: |bench, env, _| {
            // Both in parallel: Argus would repair each one before the next.
            let network = bench.network(env).expect("its network");
            let detach = |name: String| format!("docker network disconnect -f {network} {name}");
            let (db, web) = (detach(format!("{env}-db")), detach(web(env)));
            bench.shell(&format!("{db} & {web} & wait; docker network rm {network}"));
        },
        restarts: false,
        limit: HEALED_WITHIN,
    },
    Fault {
        name: "port-conflict",
        inject: |bench, env, round| {
            let port = bench.port(env);
            let stranger = format!("{env}-stranger-{round}");
            // The first one gets the port: the stranger retries as soon as the environment releases it.
            let (rm, run) = (
                format!("docker rm -f {}", web(env)),
                format!("docker run -d --name {stranger} -p 127.0.0.1:{port}:8080 {IMAGE}"),
            );
            bench.shell(&format!("{rm} && {{ {run} || docker rm -f {stranger}; }}"));
        },
        restarts: true,
        limit: HEALED_WITHIN,
    },
    Fault {
        name: "orphan",
        inject: |bench, env, round| {
            let donor = bench.engine.inspect(&web(env)).expect("web runs");
            let mut command = vec![
                "run".to_owned(),
                "-d".to_owned(),
                "--name".to_owned(),
                format!("{env}-ghost-{round}"),
            ];
            for (key, value) in donor["Config"]["Labels"].as_object().expect("labels") {
                if key.starts_with("argusai.") {
                    let value = if key == "argusai.service" {
                        "ghost"
                    } else {
                        value.as_str().unwrap_or_default()
                    };
                    command.extend(["--label".to_owned(), format!("{key}={value}")]);
                }
            }
            command.extend(["busybox:local", "sleep", "3600"].map(str::to_owned));
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            bench.docker(&words);
        },
        restarts: false,
        limit: HEALED_WITHIN,
    },
];

struct Bench<'e> {
    engine: &'e PrivateEngine,
    argus: &'e Controller<'e>,
}

fn web(env: &str) -> String {
    format!("{env}-web")
}

/// Spec of two services with the default restart budget, and a suite. `web` ends on a signal, and fills its memory when `/tmp/boom`
/// exists.
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
    memory: 48m
    command:
      - sh
      - -c
      - "httpd -p 8080 -h / & while :; do if [ -f /tmp/boom ]; then rm /tmp/boom; exec tail /dev/zero; fi; sleep 0.1; done"
    container: {{ name: {env}-web, ports: ["{port}:8080"], healthcheck: {{ type: tcp, port: 8080, interval: 500ms, timeout: 1s, startPeriod: 5s }} }}
"#
    )
}

impl Bench<'_> {
    fn docker(&self, args: &[&str]) {
        let output = self.engine.docker(args);
        assert!(
            output.status.success(),
            "docker {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// The injected fault may end the command itself, so its result is ignored.
    fn exec(&self, env: &str, script: &str) {
        drop(self.engine.docker(&["exec", &web(env), "sh", "-c", script]));
    }

    fn shell(&self, script: &str) {
        let mut command = self.engine.command_in_netns("sh");
        command
            .args(["-c", script])
            .env("DOCKER_HOST", self.engine.host());
        drop(command.output().expect("sh runs"));
    }

    fn network(&self, env: &str) -> Option<String> {
        let filter = format!("label=argusai.environment={env}");
        let found = self
            .engine
            .docker_ok(&["network", "ls", "-q", "--filter", &filter]);
        found.lines().next().map(str::to_owned)
    }

    fn port(&self, env: &str) -> u64 {
        let status = self.argus.status(env);
        let mappings = status["portMappings"].as_array().cloned().unwrap_or_default();
        let mut ports = mappings
            .iter()
            .filter_map(|mapping| mapping["actualPort"].as_u64());
        ports.next().expect("a published port")
    }

    /// Identity of the current run of `web`.
    fn run(&self, env: &str) -> Value {
        let found = self.engine.inspect(&web(env)).unwrap_or_default();
        json!([found["Id"], found["State"]["StartedAt"]])
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
            && on_it(web(env))
            && status["phase"] == "Ready"
            && status["stale"] != true
    }

    /// True if the suites of the environment pass. Its restart budget is whole after that, so that rounds do not share one.
    fn passes_suites(&self, env: &str) -> bool {
        let passed = self.argus.cli(&["test", "run", env]).status.success();
        self.argus.cli(&["retry", env]).status.success() && passed
    }

    /// Time until the environment is whole again. `None` if that takes too long, or if its suites fail after that.
    fn healed(&self, env: &str, fault: &Fault, round: u32) -> Option<Duration> {
        let before = self.run(env);
        let started = now();
        (fault.inject)(self, env, round);
        wait::poll(fault.limit, || {
            let again = !fault.restarts || self.run(env) != before;
            (again && self.is_whole(env)).then_some(())
        })?;
        let took = now().duration_since(started).ok();
        took.filter(|_| self.passes_suites(env))
    }
}

/// Result of all rounds of one fault.
struct Row {
    name: &'static str,
    rounds: u32,
    times: Vec<Duration>,
}

fn main() -> ExitCode {
    let rounds: u32 = option("--rounds").map_or(10, |text| text.parse().expect("--rounds takes a number"));
    let only = option("--only");
    let engine = PrivateEngine::start_with(Options {
        data_size: Some(disk::DATA_ROOT.to_owned()),
        ..Options::default()
    });
    fixture::images(&engine);
    let argus = Controller::start(&engine, RunOptions::default());
    let bench = Bench {
        engine: &engine,
        argus: &argus,
    };
    let is_wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    // All environments share the restart of the daemon.
    let all: Vec<&Fault> = FAULTS
        .iter()
        .filter(|fault| is_wanted(fault.name) || is_wanted(RESTART))
        .collect();
    let is_apart = is_wanted(disk::NAME) || is_wanted(preflight::NAME);
    assert!(!all.is_empty() || is_apart, "--only names no fault");
    let wanted: Vec<&Fault> = all
        .iter()
        .copied()
        .filter(|fault| is_wanted(fault.name))
        .collect();
    for (number, fault) in all.iter().enumerate() {
        let env = format!("st-{}", fault.name);
        argus.write_spec(
            &format!("{}/e2e.yaml", fault.name),
            &spec(&env, 18600 + number, "20MB"),
        );
    }
    for fault in &all {
        argus.wait_ready(&format!("st-{}", fault.name), LIMIT);
    }
    let rows = Mutex::new(Vec::new());
    let done = |row: Row| {
        eprintln!("{}", line(&row));
        rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
    };
    std::thread::scope(|scope| {
        let (bench, done) = (&bench, &done);
        if is_wanted(disk::NAME) {
            scope.spawn(move || done(disk::rounds(bench.engine, 18600 + FAULTS.len(), rounds)));
        }
        for fault in &wanted {
            scope.spawn(move || {
                let env = format!("st-{}", fault.name);
                let times = (0..rounds)
                    .filter_map(|round| bench.healed(&env, fault, round))
                    .collect();
                done(Row {
                    name: fault.name,
                    rounds,
                    times,
                });
            });
        }
    });
    let mut rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    if is_wanted(RESTART) {
        rows.push(daemon_restarts(&bench, &all, rounds));
    }
    // The engine's disk is full at times, so nothing else may run.
    let compared = if is_wanted(preflight::NAME) {
        preflight::rounds(&engine, rounds)
    } else {
        Vec::new()
    };
    let tables = format!("{}\n{}", table(&rows), preflight::table(&compared));
    println!("{tables}");
    if only.is_none() && std::env::args().any(|argument| argument == "--write") {
        std::fs::write(PAGE, page(&tables, rounds)).expect("the page is writable");
    }
    let recovered: usize = rows.iter().map(|row| row.times.len()).sum();
    let total: u32 = rows.iter().map(|row| row.rounds).sum();
    let has_run = total > 0 || !compared.is_empty();
    let is_good = recovered == total as usize && preflight::is_met(&compared);
    ExitCode::from(u8::from(!has_run || !is_good))
}

/// Restarts the daemon under all environments together.
fn daemon_restarts(bench: &Bench<'_>, faults: &[&Fault], rounds: u32) -> Row {
    let envs: Vec<String> = faults.iter().map(|fault| format!("st-{}", fault.name)).collect();
    let mut times = Vec::new();
    for _ in 0..rounds {
        let started = now();
        bench.engine.restart();
        let whole = wait::poll(HEALED_WITHIN, || {
            envs.iter().all(|env| bench.is_whole(env)).then_some(())
        });
        let took = whole.and_then(|()| now().duration_since(started).ok());
        times.extend(took.filter(|_| envs.iter().all(|env| bench.passes_suites(env))));
    }
    Row {
        name: RESTART,
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
    let _ = writeln!(text, "| all | {recovered}/{total} | | |");
    text
}

/// The page `docs/selftest.md`.
fn page(tables: &str, rounds: u32) -> String {
    format!(
        "# Results of the self-test\n\nWritten by `./scripts/selftest --rounds {rounds} --write`; do not edit.\n\n\
         The first table counts recoveries on a private engine, with the default restart budgets. An environment has recovered if all its \
         services are healthy again, no extra object exists, and its suites pass. The times do not include the suites.\n\n\
         The second table counts the rounds in which an action of the controller failed, with preflight and without. In each round, the \
         engine has one problem before the environment is created: an orphan has the name of a container, or the disk is full.\n\n{tables}"
    )
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
