//! Remedies work: each command of an error runs as printed.

use std::fmt::Write as _;
use std::process::Output;

use argus_core::time::Timestamp;
use argus_tests::fixture::{IMAGE, LIMIT, engine};
use argus_tests::{Controller, PortHolder, PrivateEngine, Registry, RunOptions};
use serde_json::Value;

use super::case::{shell, started};
use super::health::web;

/// One fault, and the effect of its remedies.
struct Case {
    /// The environment; its service is `bad`.
    name: &'static str,
    code: &'static str,
    /// The lines of the service.
    service: String,
    /// Further keys of the file.
    more: &'static str,
    /// The suggested commands, in order; `{}` is the environment and `{registry}` the test's registry.
    commands: &'static [&'static str],
    /// A part of its log.
    log: &'static str,
}

impl Case {
    fn new(
        name: &'static str,
        code: &'static str,
        service: String,
        commands: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            code,
            service,
            more: "",
            commands,
            log: "",
        }
    }

    fn with(self, more: &'static str) -> Self {
        Self { more, ..self }
    }

    fn logging(self, log: &'static str) -> Self {
        Self { log, ..self }
    }

    fn spec(&self) -> String {
        format!(
            "version: \"1\"\nproject: {{ name: {} }}\n{}\nservices:\n  bad:\n    {}\n",
            self.name, self.more, self.service
        )
    }

    /// Its error, in the environment or in a service.
    fn error(&self, status: &Value) -> Option<Value> {
        let of_bad = Controller::service(status, "bad")["lastError"].clone();
        let all = status["errors"].as_array().cloned().unwrap_or_default();
        let mut output = std::iter::once(of_bad).chain(all);
        output.find(|error| error["code"] == self.code)
    }

    fn container(&self) -> String {
        format!("{}-bad", self.name)
    }

    fn since(&self, engine: &PrivateEngine) -> Option<Timestamp> {
        engine.inspect(&self.container()).as_ref().and_then(started)
    }
}

const LOGS: &str = "argus logs {} bad";
const RETRY: &str = "argus retry {}";
const EVIDENCE: &str = "argus evidence {} bad";
const VALIDATE: &str = "argus validate";
const PREFLIGHT: &str = "argus preflight";
const NEVER: &str = "resilience: { container: { restartOnFailure: false } }";
const STRICT: &str = "resilience: { network: { portConflictStrategy: fail } }";
/// No restart before the end of the test.
const LATE: &str = "resilience: { container: { restartDelay: 10m } }\nargus: { restart: { maxDelay: 1h } }";
/// Alternates between healthy and unhealthy.
const FLAP: &str = "command: [\"sh\", \"-c\", \"httpd -p 8080 -h /www; while :; do rm /www/healthz; sleep 1; touch /www/healthz; sleep 1; done\"]";

fn cases(absent: &str) -> Vec<Case> {
    let report =
        |name: &str, script: &str, more: &str| shell(name, &format!("echo its words; {script}"), more);
    let published = |name: &str, port: u16| {
        format!("image: {IMAGE}\n    container: {{ name: {name}-bad, ports: [\"{port}:8080\"] }}")
    };
    let grow = "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done";
    vec![
        Case::new("cure-oom", "CONTAINER_OOM", report("cure-oom", grow, "memory: 32m"), &[VALIDATE, VALIDATE])
            .with("resilience: { container: { maxRestarts: 8, restartDelay: 1s, restartBackoff: linear } }")
            .logging("its words"),
        Case::new("cure-crash", "CONTAINER_CRASH", report("cure-crash", "exit 3", ""), &[LOGS, EVIDENCE])
            .with(NEVER)
            .logging("its words"),
        Case::new(
            "cure-spent",
            "CONTAINER_RESTART_EXHAUSTED",
            report("cure-spent", "exit 3", ""),
            // No revision was ever good, so no rollback is possible.
            &[LOGS, EVIDENCE, RETRY],
        )
        .with("resilience: { container: { maxRestarts: 0 } }")
        .logging("its words"),
        Case::new(
            "cure-loop",
            "LOOP_HALTED",
            report("cure-loop", "echo no table >&2; exit 3", ""),
            &[LOGS, EVIDENCE, RETRY],
        )
        .with(
            "resilience: { container: { maxRestarts: 1, restartDelay: 300ms } }\n\
             argus: { restart: { haltAfterSame: 1 } }",
        )
        .logging("no table"),
        Case::new(
            "cure-sick",
            "HEALTH_CHECK_TIMEOUT",
            web("cure-sick", 18359, "/nowhere", ""),
            &[VALIDATE, LOGS],
        )
        .with(LATE),
        Case::new(
            "cure-flaky",
            "FLAKY_SUSPECTED",
            web("cure-flaky", 18351, "/healthz", FLAP).replace("retries: 3", "retries: 1"),
            &[VALIDATE, VALIDATE, LOGS],
        )
        .with(LATE),
        Case::new(
            "cure-entry",
            "ENTRYPOINT_NOT_FOUND",
            "image: busybox:local\n    command: [\"no-such-program\"]\n    container: { name: cure-entry-bad }"
                .to_owned(),
            &[VALIDATE],
        ),
        Case::new(
            "cure-start",
            "CONTAINER_START_FAILED",
            shell("cure-start", "sleep 3600", "user: nosuchuser"),
            &[LOGS, VALIDATE, RETRY],
        ),
        Case::new(
            "cure-image",
            "IMAGE_NOT_FOUND",
            format!("image: {absent}\n    container: {{ name: cure-image-bad }}"),
            &[VALIDATE, "docker login {registry}", RETRY],
        ),
        Case::new(
            "cure-taken",
            "PORT_CONFLICT",
            published("cure-taken", 18352),
            &[VALIDATE, RETRY],
        )
        .with(STRICT),
        Case::new(
            "cure-full",
            "PORT_EXHAUSTION",
            published("cure-full", 18353),
            &[VALIDATE, RETRY, "argus orphans"],
        )
        .with("isolation: { portRange: [18354, 18355] }"),
        Case::new(
            "cure-leak",
            "PORT_STALE_ALLOCATION",
            published("cure-leak", 18356),
            &[VALIDATE, PREFLIGHT, RETRY],
        )
        .with(STRICT),
        Case::new(
            "cure-held",
            "HELD",
            shell("cure-held", "exec sleep 3600", ""),
            &["argus describe {}", "argus resume {}", "argus wait {}"],
        ),
    ]
}

/// Commands of the remedies of an error.
fn commands(error: &Value) -> Vec<&str> {
    let remedies = error["remedies"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    remedies.iter().filter_map(|it| it["command"].as_str()).collect()
}

fn run(argus: &Controller<'_>, engine: &PrivateEngine, command: &str) -> Output {
    let words: Vec<&str> = command.split(' ').collect();
    match words.as_slice() {
        ["argus", words @ ..] => argus.cli(words),
        ["docker", words @ ..] => engine.docker(words),
        _ => panic!("no command: `{command}`"),
    }
}

#[test]
fn failure_remedies_run_as_printed() {
    let engine = engine();
    let registry = Registry::start(engine, 5051);
    let cases = cases(&format!("{}/absent:1", registry.address));
    let holders = [18352, 18353, 18354, 18355].map(|port| PortHolder::new(engine, port));
    let leaked = PortHolder::leaked_proxy(engine, 18356);
    let argus = Controller::start(engine, RunOptions::default());
    for case in &cases {
        argus.write_spec(&format!("{}.e2e.yaml", case.name), &case.spec());
    }
    argus.wait_ready("cure-held", LIMIT);
    assert!(argus.cli(&["hold", "cure-held"]).status.success());
    engine.docker_ok(&["rm", "-f", "cure-held-bad"]);

    for case in &cases {
        let expected: Vec<String> = case
            .commands
            .iter()
            .map(|it| {
                it.replace("{}", case.name)
                    .replace("{registry}", &registry.address)
            })
            .collect();
        // The evidence of a failed run can change the remedies.
        let status = argus.wait_status(case.name, LIMIT, &format!("suggests {expected:?}"), |now| {
            case.error(now).is_some_and(|error| commands(&error) == expected)
        });
        let error = case.error(&status).expect("the error is reported");
        let commands = commands(&error);
        for command in commands {
            let before = case.since(engine);
            if command.starts_with("argus evidence") {
                // Evidence is stored before any action on the container, but possibly not yet.
                let kept = format!("private/evidence/{}/bad/1/evidence.json", case.name);
                let kept = argus.state.join(kept);
                argus.wait_until(LIMIT, "it is stored", || kept.is_file().then_some(()));
            }
            let output = run(&argus, engine, command);
            let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
            write!(text, "{}", String::from_utf8_lossy(&output.stderr)).expect("a string");
            // `docker login` needs a terminal. A preflight ends with the most severe result: here a port conflict.
            let good = output.status.success()
                || (command.starts_with("docker login ") && text.contains("TTY"))
                || (command == PREFLIGHT && text.contains("PORT_CONFLICT"));
            assert!(good, "{}: `{command}`: {text}", case.code);
            if command.starts_with("argus logs") || command.starts_with("argus evidence") {
                assert!(text.contains(case.log), "{}: `{command}`: {text}", case.code);
            }
            let runs_again = ["CONTAINER_RESTART_EXHAUSTED", "LOOP_HALTED"].contains(&case.code);
            if command.starts_with("argus retry") && runs_again {
                argus.wait_until(LIMIT, "it is started again", || {
                    (case.since(engine)? > before?).then_some(())
                });
            }
        }
    }

    // Logs of a failed service stay readable without its container.
    assert!(argus.cli(&["hold", "cure-crash"]).status.success());
    engine.docker_ok(&["rm", "-f", "cure-crash-bad"]);
    let logs = argus.cli(&["logs", "cure-crash", "bad"]);
    assert!(logs.status.success(), "{logs:?}");
    assert!(
        String::from_utf8_lossy(&logs.stdout).contains("its words"),
        "{logs:?}"
    );
    assert!(
        String::from_utf8_lossy(&logs.stderr).contains("has no container"),
        "{logs:?}"
    );

    // The port holders end, and the printed commands bring the rest.
    drop((holders, leaked));
    for case in ["cure-taken", "cure-full", "cure-leak"] {
        assert!(argus.cli(&["retry", case]).status.success(), "{case}");
        argus.wait_ready(case, LIMIT);
    }
    let held = argus.wait_ready("cure-held", LIMIT);
    assert_ne!(held["phase"], "Held");
}
