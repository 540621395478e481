//! Broken environments: the first remedy names the edit, and the edits together repair the environment.

use std::fs;
use std::path::Path;
use std::time::Duration;

use argus_tests::fixture::{IMAGE, LIMIT, engine, text};
use argus_tests::{Controller, PortHolder, RunOptions, http, wait};
use serde_json::{Value, json};

use super::case::shell;

/// Longer than all edits of an environment take.
const REPAIR: Duration = Duration::from_secs(150);
/// Edits after which a repair counts as endless.
const MOST_EDITS: usize = 8;

/// A broken environment with its expected first remedy. Its file is `NAME.e2e.yaml`, its failing service `bad`.
struct Broken {
    name: &'static str,
    /// The file after the name of the project.
    text: String,
    code: &'static str,
    action: &'static str,
    /// Key of the edit; empty for the whole file, and for an action without an edit.
    key: &'static str,
    suggest: Suggest,
}

enum Suggest {
    Nothing,
    Exactly(&'static str),
    /// A value that depends on a measurement.
    Any,
}

const SOON: &str = "resilience: { container: { restartDelay: 1s } }";
const NEVER: &str = "resilience: { container: { restartOnFailure: false } }";
const STRICT: &str = "resilience: { network: { portConflictStrategy: fail } }";
/// Host port of another process.
const TAKEN: u16 = 18_370;
/// Container that Argus does not own.
const FOREIGN: &str = "broken-name-bad";

fn broken(
    name: &'static str,
    text: String,
    code: &'static str,
    key: &'static str,
    suggest: Suggest,
) -> Broken {
    Broken {
        name,
        text,
        code,
        action: "fix_spec",
        key,
        suggest,
    }
}

/// File with the service `bad`, and further top-level keys.
fn service(more: &str, lines: &str) -> String {
    format!("{more}\nservices:\n  bad:\n    {lines}\n")
}

/// Web service with a health check of short times.
fn probed(name: &str, healthcheck: &str, more: &str) -> String {
    let lines = format!(
        "image: {IMAGE}\n    container:\n      name: {name}-bad\n      healthcheck:\n        interval: 500ms\n        \
         timeout: 1s\n        retries: 2\n        startPeriod: 1s\n        {healthcheck}\n    {more}"
    );
    service(SOON, &lines)
}

/// Service `bad` that uses the web service `database`, which listens once the gate is open.
fn client(name: &str, condition: &str, host: &str) -> String {
    let script = "wget -q -O /dev/null http://$DB/ || exit 3; exec sleep 3600";
    let lines = format!(
        "image: {IMAGE}\n    command: [\"sh\", \"-c\", \"{script}\"]\n    dependsOn:\n      - service: database\n        \
         condition: {condition}\n    container:\n      name: {name}-bad\n      environment:\n        DB: {host}:8080\n  \
         database:\n    image: {IMAGE}\n    command: [\"sh\", \"-c\", \"until [ -e /gate/{name} ]; do sleep 0.2; done; exec httpd -f -p 8080 -h /www\"]\n    \
         container:\n      name: {name}-database\n      volumes: [\"./gate:/gate:ro\"]\n      \
         healthcheck: {{ path: /healthz, port: 8080, interval: 500ms, startPeriod: 5m }}"
    );
    service(NEVER, &lines)
}

fn of_health_checks() -> Vec<Broken> {
    let slow = "command: [\"sh\", \"-c\", \"sleep 12; exec httpd -f -p 8080 -h /www\"]";
    vec![
        broken(
            "broken-path",
            probed("broken-path", "path: /nowhere\n        port: 8080", ""),
            "HEALTH_CHECK_TIMEOUT",
            "services.bad.container.healthcheck.path",
            Suggest::Exactly("/healthz"),
        ),
        broken(
            "broken-port",
            probed("broken-port", "path: /healthz\n        port: 8081", ""),
            "HEALTH_CHECK_TIMEOUT",
            "services.bad.container.healthcheck.port",
            Suggest::Exactly("8080"),
        ),
        broken(
            "broken-slow",
            probed("broken-slow", "path: /healthz\n        port: 8080", slow),
            "HEALTH_CHECK_TIMEOUT",
            "services.bad.container.healthcheck.startPeriod",
            Suggest::Any,
        ),
    ]
}

fn of_programs() -> Vec<Broken> {
    let grow = "x=aaaaaaaaaaaaaaaa; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do x=$x$x; done; sleep 3600";
    vec![
        broken(
            "broken-memory",
            service(SOON, &shell("broken-memory", grow, "memory: 24m")),
            "CONTAINER_OOM",
            "services.bad.memory",
            Suggest::Any,
        ),
        broken(
            "broken-host",
            client("broken-host", "healthy", "databse"),
            "CONTAINER_CRASH",
            "services.bad.container.environment.DB",
            Suggest::Exactly("database"),
        ),
        broken(
            "broken-order",
            client("broken-order", "started", "database"),
            "CONTAINER_CRASH",
            "services.bad.dependsOn[0].condition",
            Suggest::Exactly("healthy"),
        ),
        broken(
            "broken-variable",
            service(
                NEVER,
                &shell("broken-variable", ": ${API_KEY?}; exec sleep 3600", ""),
            ),
            "CONTAINER_CRASH",
            "services.bad.container.environment.API_KEY",
            Suggest::Nothing,
        ),
    ]
}

fn of_names() -> Vec<Broken> {
    vec![
        broken(
            "broken-image",
            service(
                SOON,
                "image: busybox:locla\n    container: { name: broken-image-bad }",
            ),
            "IMAGE_PULL_FAILED",
            "services.bad.image",
            Suggest::Exactly("busybox:local"),
        ),
        broken(
            "broken-file",
            service(
                SOON,
                "image: busybox:local\n    command: [sleep, \"3600\"]\n    container:\n      name: broken-file-bad\n      \
                 volumes:\n        - ./config/ap.txt:/app.txt",
            ),
            "BAD_MOUNT",
            "services.bad.container.volumes[0]",
            Suggest::Exactly("./config/app.txt:/app.txt"),
        ),
        broken(
            "broken-taken",
            service(
                STRICT,
                &format!(
                    "image: {IMAGE}\n    container: {{ name: broken-taken-bad, ports: [\"{TAKEN}:8080\"] }}"
                ),
            ),
            "PORT_CONFLICT",
            "resilience.network.portConflictStrategy",
            Suggest::Exactly("auto"),
        ),
        broken(
            "broken-name",
            service(
                SOON,
                &format!("image: {IMAGE}\n    container: {{ name: {FOREIGN} }}"),
            ),
            "NAME_CONFLICT",
            "services.bad.container.name",
            Suggest::Exactly("broken-name-bad-2"),
        ),
        broken(
            "broken-needs",
            service(
                SOON,
                &shell("broken-needs", "exec sleep 3600", "dependsOn: [databse]"),
            ) + "  database:\n    image: busybox:local\n    command: [sleep, \"3600\"]\n    container: { name: broken-needs-database }\n",
            "SPEC_INVALID",
            "services[0].dependsOn[0]",
            Suggest::Exactly("database"),
        ),
        broken(
            "broken-cycle",
            service(
                SOON,
                &shell("broken-cycle", "exec sleep 3600", "dependsOn: [other]"),
            ) + "  other:\n    image: busybox:local\n    dependsOn: [bad]\n    container: { name: broken-cycle-other }\n",
            "SPEC_INVALID",
            "services[0].dependsOn",
            Suggest::Nothing,
        ),
        broken(
            "broken-yaml",
            "services:\n  bad: [\n".to_owned(),
            "SPEC_INVALID",
            "",
            Suggest::Nothing,
        ),
        Broken {
            action: "contact_holder",
            ..broken(
                "broken-held",
                service(SOON, &shell("broken-held", "exec sleep 3600", "")),
                "HELD",
                "",
                Suggest::Nothing,
            )
        },
    ]
}

impl Broken {
    fn spec(&self) -> String {
        format!(
            "version: \"1\"\nproject: {{ name: {} }}\n{}",
            self.name, self.text
        )
    }

    fn file(&self) -> String {
        format!("{}.e2e.yaml", self.name)
    }

    /// Asserts that the error, `argus why` and `argus_why` give the expected remedy first.
    fn assert_first_remedy(&self, argus: &Controller<'_>) {
        let what = format!("suggests {} {}", self.action, self.key);
        // A file that was never accepted has no status file.
        let mut last = Value::Null;
        let status = wait::poll(LIMIT, || {
            last = self.described(argus);
            let remedy = first_remedy(&last);
            let is_expected =
                remedy["action"] == self.action && remedy["key"].as_str().unwrap_or_default() == self.key;
            is_expected.then(|| last.clone())
        });
        let status = status.unwrap_or_else(|| panic!("{what}: {:#}", last["errors"]));
        let error = &status["errors"][0];
        let remedy = first_remedy(&status);
        assert_eq!(error["code"], self.code, "{error:#}");
        assert_eq!(error["suggestedActions"][0], self.action, "{error:#}");
        match self.suggest {
            Suggest::Exactly(value) => assert_eq!(remedy["suggest"], value, "{remedy:#}"),
            Suggest::Any => assert!(remedy["suggest"].is_string(), "{remedy:#}"),
            Suggest::Nothing => assert!(remedy["suggest"].is_null(), "{remedy:#}"),
        }
        let expected = if self.action == "fix_spec" {
            assert_eq!(remedy["file"], self.file().as_str(), "{remedy:#}");
            format!("{}:{}", self.file(), remedy["line"])
        } else {
            text(&remedy["summary"])
        };
        let why = argus.cli(&["why", self.name]);
        let why = String::from_utf8_lossy(&why.stdout).into_owned();
        let hint = why.lines().find(|line| line.trim_start().starts_with("hint:"));
        assert!(
            hint.is_some_and(|hint| hint.contains(&expected)),
            "{expected}: {why}"
        );
        let describe = argus.cli(&["describe", self.name]);
        assert!(
            String::from_utf8_lossy(&describe.stdout).contains(&expected),
            "{describe:?}"
        );
        let socket = argus.state.join("private/argus.sock");
        let answer = http::call(&socket, "argus_why", &json!({ "environment": self.name }), LIMIT);
        let steps = answer["nextSteps"].as_array().cloned().unwrap_or_default();
        assert!(
            text(&answer["nextSteps"][0]["why"]).contains(&expected),
            "{answer:#}"
        );
        let call = |step: &Value| format!("{} {}", step["tool"], step["arguments"]);
        let calls: std::collections::BTreeSet<String> = steps.iter().map(call).collect();
        assert_eq!(
            calls.len(),
            steps.len(),
            "a call is a next step twice: {answer:#}"
        );
    }

    fn described(&self, argus: &Controller<'_>) -> Value {
        let output = argus.cli(&["describe", self.name, "-o", "json"]);
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    /// Applies the first remedy until the environment is ready.
    fn repair(&self, argus: &Controller<'_>) {
        let file = argus.specs.join(self.file());
        for _ in 0..MOST_EDITS {
            let status = argus.wait_until(REPAIR, "is Ready, or suggests an edit", || {
                let status = self.described(argus);
                let is_changed = edited(&file, &first_remedy(&status)).is_some();
                (status["phase"] == "Ready" || is_changed).then_some(status)
            });
            if status["phase"] == "Ready" {
                return;
            }
            let text = edited(&file, &first_remedy(&status)).expect("an edit");
            argus.write_spec(&self.file(), &text);
        }
        panic!(
            "{} is not ready after {MOST_EDITS} edits: {:#}",
            self.name,
            argus.status(self.name)
        );
    }
}

fn first_remedy(status: &Value) -> Value {
    status["errors"][0]["remedies"][0].clone()
}

/// Text of the file with the edit. `None` if it was made already, or has no value.
fn edited(file: &Path, remedy: &Value) -> Option<String> {
    let source = fs::read_to_string(file).ok()?;
    let line = usize::try_from(remedy["line"].as_u64()?).ok()?;
    let (now, suggest) = (remedy["now"].as_str()?, remedy["suggest"].as_str()?);
    let mut lines: Vec<String> = source.lines().map(str::to_owned).collect();
    let changed = lines.get_mut(line.checked_sub(1)?)?;
    if !changed.contains(now) || changed.contains(suggest) {
        return None;
    }
    *changed = changed.replacen(now, suggest, 1);
    Some(lines.join("\n") + "\n")
}

#[test]
fn first_remedies_repair_broken_environments() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    let _holder = PortHolder::of(engine, TAKEN);
    engine.docker_ok(&["create", "--name", FOREIGN, "busybox:local", "sleep", "1"]);
    let all: Vec<Broken> = of_health_checks()
        .into_iter()
        .chain(of_programs())
        .chain(of_names())
        .collect();
    let config = argus.specs.join("config");
    fs::create_dir_all(&config).expect("a directory");
    fs::write(config.join("app.txt"), "x").expect("a file");
    let gate = argus.specs.join("gate");
    fs::create_dir_all(&gate).expect("a directory");
    fs::write(gate.join("broken-host"), "").expect("a file");
    for one in &all {
        argus.write_spec(&one.file(), &one.spec());
    }
    let environment = "broken-held";
    argus.wait_ready(environment, LIMIT);
    let hold = argus.cli(&["hold", environment, "--holder", "ann", "--reason", "inspection"]);
    assert!(hold.status.success(), "{hold:?}");
    engine.docker_ok(&["rm", "-f", "broken-held-bad"]);
    for one in &all {
        one.assert_first_remedy(&argus);
    }
    fs::write(gate.join("broken-order"), "").expect("a file");
    let error = argus.status(environment)["errors"][0]["message"].clone();
    assert!(text(&error).contains("by `ann`: inspection"), "{error}");
    std::thread::scope(|scope| {
        for one in all.iter().filter(|one| !matches!(one.suggest, Suggest::Nothing)) {
            scope.spawn(|| one.repair(&argus));
        }
    });
    assert!(engine.inspect(FOREIGN).is_some(), "the foreign container stays");
    engine.docker_ok(&["rm", FOREIGN]);
}
