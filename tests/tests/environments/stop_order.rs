//! Order of stops on a real engine: a container ends before those that it depends on, on every way down.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a failed step ends the test"
)]

use argus_reconciler::clock;
use argus_tests::fixture::LIMIT;
use argus_tests::{Controller, PrivateEngine, RunOptions};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::{Output, Stdio};

/// `app` needs `db` for a second after the stop signal; `other` is independent.
fn spec(project: &str, version: u32) -> String {
    format!(
        r#"version: "1"
project: {{ name: {project} }}
services:
  db:
    image: busybox:local
    command: ["sh", "-c", "trap 'rm -f /out/alive; exit 0' TERM; touch /out/alive; while :; do sleep 0.1; done"]
    container: {{ name: {project}-db, volumes: ["./out:/out"], environment: {{ VERSION: "{version}" }} }}
  app:
    image: busybox:local
    dependsOn: [db]
    command: ["sh", "-c", "trap 'sleep 1; [ -f /out/alive ] && echo saved >>/out/result || echo LOST >>/out/result; exit 0' TERM; while :; do sleep 0.1; done"]
    container: {{ name: {project}-app, volumes: ["./out:/out"], environment: {{ VERSION: "{version}" }} }}
  other:
    image: busybox:local
    command: ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"]
    container: {{ name: {project}-other }}
tests:
  suites: [{{ name: Nothing, id: nothing, runner: shell, command: "true" }}]
"#
    )
}

/// One environment on the way down.
struct Case<'e> {
    engine: &'e PrivateEngine,
    argus: Controller<'e>,
    project: &'static str,
}

impl<'e> Case<'e> {
    /// The file of the environment, and no controller.
    fn prepare(engine: &'e PrivateEngine, project: &'static str) -> Self {
        let argus = Controller::prepare(engine, RunOptions::default());
        fs::create_dir_all(argus.specs.join("out")).unwrap();
        argus.write_spec("e2e.yaml", &spec(project, 1));
        Self {
            engine,
            argus,
            project,
        }
    }

    /// A running environment with a controller.
    fn start(engine: &'e PrivateEngine, project: &'static str) -> Self {
        let case = Self::prepare(engine, project);
        case.argus.start_again();
        case.argus.wait_ready(project, LIMIT);
        case
    }

    /// Events of the containers since the start of the engine, oldest first, as `die shop-db`.
    fn events(&self) -> Vec<String> {
        let now = clock::now().0;
        let label = format!("label=argusai.project={}", self.project);
        let until = format!("{}.{:03}", now / 1_000, now % 1_000);
        let format = "{{.Action}} {{.Actor.Attributes.name}}";
        let words = ["events", "--since", "1", "--until", &until, "--filter", &label];
        let all = self
            .engine
            .docker_ok(&[&words[..], &["--filter", "type=container", "--format", format]].concat());
        all.lines().map(str::to_owned).collect()
    }

    fn assert_gone(&self) {
        self.argus.wait_until(LIMIT, "the containers are gone", || {
            let label = format!("argusai.project={}", self.project);
            self.engine.containers_with(&label).is_empty().then_some(())
        });
        self.assert_order();
    }

    /// Checks that `db` got its stop signal after the end of `app`, which saved its data, and `other` got it before that.
    fn assert_order(&self) {
        let events = self.events();
        let at = |verb: &str, service: &str| {
            let event = format!("{verb} {}-{service}", self.project);
            let found = events.iter().position(|it| *it == event);
            found.unwrap_or_else(|| panic!("no `{event}` in {events:#?}"))
        };
        assert!(at("die", "app") < at("kill", "db"), "{events:#?}");
        assert!(at("kill", "other") < at("die", "app"), "{events:#?}");
        let result = fs::read_to_string(self.argus.specs.join("out/result")).unwrap();
        assert_eq!(result, "saved\n", "{events:#?}");
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

fn own_engine() -> PrivateEngine {
    let engine = PrivateEngine::start();
    engine.make_busybox_image("busybox:local", &[]);
    engine
}

#[test]
fn dependents_stop_first_with_a_controller() {
    let engine = own_engine();
    let down = Case::start(&engine, "stopdown");
    let output = down.argus.cli(&["down", "stopdown"]);
    assert!(output.status.success(), "{}", text(&output));
    down.assert_gone();

    let removed = Case::start(&engine, "stopfile");
    removed.argus.remove_spec("e2e.yaml");
    removed.assert_gone();
}

#[test]
fn dependents_stop_first_without_a_controller() {
    let engine = own_engine();
    let alone = Case::start(&engine, "stopalone");
    assert!(alone.argus.stop().success());
    let output = alone.argus.cli(&["down", "stopalone"]);
    assert!(output.status.success(), "{}", text(&output));
    alone.assert_gone();
    let recorded = text(&alone.argus.cli(&["events", "--type", "result", "--tail", "20"]));
    assert!(recorded.contains("remove-container done"), "{recorded}");

    // Without the saved state, the labels of the containers are enough.
    let lost = Case::start(&engine, "stoplost");
    assert!(lost.argus.stop().success());
    let identity = lost.argus.state.join("private/identity");
    for entry in fs::read_dir(lost.argus.state.join("private")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && path != identity {
            fs::remove_file(path).unwrap();
        }
    }
    let output = lost.argus.cli(&["down", "stoplost"]);
    assert!(output.status.success(), "{}", text(&output));
    lost.assert_gone();
}

#[test]
fn dependents_stop_first_at_the_end_of_up_and_ci() {
    let engine = own_engine();
    let up = Case::prepare(&engine, "stopup");
    let output = up.argus.cli(&["up", "--", "true"]);
    assert!(output.status.success(), "{}", text(&output));
    up.assert_gone();

    let ci = Case::prepare(&engine, "stopci");
    let report = engine.scratch("stopci-report");
    let output = ci.argus.cli(&["ci", "--out", report.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output));
    ci.assert_gone();

    let signal = Case::prepare(&engine, "stopsignal");
    let mut command = signal.argus.command();
    command
        .arg("up")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    signal.argus.wait_ready("stopsignal", LIMIT);
    kill_process(Pid::from_child(&process), Signal::INT).unwrap();
    assert!(process.wait().unwrap().success());
    signal.assert_gone();
}

#[test]
fn dependents_stop_first_when_all_are_replaced() {
    let engine = own_engine();
    let case = Case::start(&engine, "stopedit");
    case.argus.write_spec(
        "e2e.yaml",
        &spec("stopedit", 2).replace("'exit 0' TERM", "'exit 0' TERM INT"),
    );
    case.argus.wait_until(LIMIT, "both are replaced", || {
        let is_new = |service: &str| {
            let found = case.engine.inspect(&format!("stopedit-{service}"))?;
            let env = found["Config"]["Env"].to_string();
            (env.contains("VERSION=2") && found["State"]["Running"] == true).then_some(())
        };
        is_new("db").and(is_new("app"))
    });
    case.assert_order();
}
