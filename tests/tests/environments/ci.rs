//! `argus ci` on a real engine, as the steps of the GitHub action and the GitLab template run it: green, red by a test, red by a
//! service, without a verdict, and blocked.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a failed step ends the test"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use argus_tests::fixture::{IMAGE, engine, running};
use argus_tests::{Controller, RunOptions, binary};
use quick_junit::Report;
use serde_json::Value;

/// Action of the project.
const ACTION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../action.yml");

/// Template of the project.
const TEMPLATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../templates/argus.gitlab-ci.yml");

/// Job of a workflow: its checkout, its files, and the results of its steps.
struct Job {
    argus: Controller<'static>,
    workspace: PathBuf,
    project: String,
}

/// Results of all steps.
struct Ran {
    exit: Option<i32>,
    log: String,
    env: String,
    outputs: String,
    summary: String,
}

fn spec(project: &str, port: u16, extra: &str) -> String {
    format!(
        r#"version: "1"
project: {{ name: {project} }}
service:
  name: web
  image: {IMAGE}
  stopGrace: 1s{extra}
  container:
    name: {project}-web
    ports: ["{port}:8080"]
    healthcheck: {{ path: /healthz, port: 8080, interval: 500ms, timeout: 1s, retries: 20, startPeriod: 5s }}
tests:
  suites:
    - {{ name: Checks, id: checks, file: checks.yaml }}
"#
    )
}

impl Job {
    fn new(project: &str, spec: &str, suite: &str) -> Self {
        let argus = Controller::prepare(engine(), RunOptions::default());
        let workspace = argus.specs.clone();
        fs::write(workspace.join("e2e.yaml"), spec).unwrap();
        fs::write(workspace.join("checks.yaml"), suite).unwrap();
        Self {
            argus,
            workspace,
            project: project.to_owned(),
        }
    }

    /// Runs the steps of the action that are scripts, like a runner.
    fn run(&self) -> Ran {
        let action = argus_crds::yaml::document("action.yml", &fs::read(ACTION).unwrap()).unwrap();
        let temporary = self.workspace.join(".runner");
        fs::create_dir_all(&temporary).unwrap();
        let files = ["ENV", "OUTPUT", "STEP_SUMMARY", "PATH"].map(|name| (name, temporary.join(name)));
        let (mut log, mut exit) = (String::new(), Some(0));
        for step in action.value["runs"]["steps"].as_array().unwrap() {
            let Some(script) = step["run"].as_str() else {
                continue;
            };
            // After a failed step, only those with `always()` run.
            let condition = step["if"].as_str().unwrap_or_default();
            if exit != Some(0) && !condition.contains("always()") {
                continue;
            }
            let ended = self.run_step(script, &step["env"], &action.value["inputs"], &files);
            log.push_str(&text(&ended));
            if exit == Some(0) {
                exit = ended.status.code();
            }
        }
        let read = |index: usize| fs::read_to_string(&files[index].1).unwrap_or_default();
        Ran {
            exit,
            log,
            env: read(0),
            outputs: read(1),
            summary: read(2),
        }
    }

    fn run_step(&self, script: &str, env: &Value, inputs: &Value, files: &[(&str, PathBuf)]) -> Output {
        let temporary = self.workspace.join(".runner");
        let mut command = self.script(script);
        command
            .env("RUNNER_TEMP", &temporary)
            .env("GITHUB_ACTIONS", "true")
            .env("GITHUB_WORKSPACE", &self.workspace);
        for (name, path) in files {
            command.env(format!("GITHUB_{name}"), path);
        }
        for (name, value) in env.as_object().into_iter().flatten() {
            let value = value
                .as_str()
                .unwrap()
                .replace("${{ runner.temp }}", temporary.to_str().unwrap());
            let input = value
                .strip_prefix("${{ inputs.")
                .and_then(|rest| rest.strip_suffix(" }}"));
            let value = input.map_or(value.clone(), |input| {
                inputs[input]["default"].as_str().unwrap().to_owned()
            });
            command.env(name, value);
        }
        command.output().expect("bash runs")
    }

    /// A script of a job, on a runner with `argus` and an engine.
    fn script(&self, script: &str) -> Command {
        let program = binary::argus();
        let path = std::env::var("PATH").unwrap();
        let mut command = engine().command_in_netns("bash");
        command
            .args(["--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script])
            .current_dir(&self.workspace)
            .env("PATH", format!("{}:{path}", program.parent().unwrap().display()))
            .env("DOCKER_HOST", engine().host())
            .env("NO_COLOR", "1")
            .env("CI", "true")
            .env("ARGUS_NO_HELPERS", "1")
            .env("ARGUS_STATE", &self.argus.state);
        command
    }

    /// Runs the scripts of the template, like a GitLab runner: the first two are one script, and the last one always runs.
    fn run_template(&self, template: &Value) -> Output {
        let lines = |key: &str| {
            let lines = template[key].as_array().unwrap().iter();
            lines.map(|line| line.as_str().unwrap()).collect::<Vec<_>>()
        };
        let script = [lines("before_script"), lines("script")].concat().join("\n");
        let run = |script: &str| {
            let mut command = self.script(script);
            for (name, value) in template["variables"].as_object().unwrap() {
                command.env(name, value.as_str().unwrap());
            }
            command.env("GITLAB_CI", "true").output().expect("bash runs")
        };
        let ran = run(&script);
        let after = run(&lines("after_script").join("\n"));
        assert!(after.status.success(), "{}", text(&after));
        ran
    }

    fn report(&self, name: &str) -> PathBuf {
        self.workspace.join("argus-report").join(name)
    }

    fn junit(&self) -> Report {
        let text = fs::read_to_string(self.report("junit.xml")).unwrap();
        Report::deserialize_from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn is_gone(&self) -> bool {
        !running(engine(), &format!("{}-web", self.project)) && self.argus.status(&self.project).is_null()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

/// Variables of a file with delimiters.
fn variables(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut lines = text.lines();
    while let Some(first) = lines.next() {
        let (name, delimiter) = first.split_once("<<").expect("a name and a delimiter");
        let value: Vec<&str> = lines.by_ref().take_while(|line| *line != delimiter).collect();
        found.insert(name.to_owned(), value.join("\n"));
    }
    found
}

fn exists(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.len() > 0)
}

const GREEN: &str = "name: Checks
cases:
  - name: page
    request: { method: GET, path: / }
    expect: { status: 200 }
";

#[test]
fn green_run_reports_ports_and_results() {
    let job = Job::new("cigreen", &spec("cigreen", 19450, ""), GREEN);
    let ran = job.run();
    assert_eq!(ran.exit, Some(0), "{}", ran.log);
    assert_eq!(variables(&ran.outputs)["result"], "passed", "{}", ran.outputs);
    assert_eq!(variables(&ran.env)["ARGUS_WEB_8080"], "127.0.0.1:19450");
    assert!(ran.summary.contains("| web | Ready |"), "{}", ran.summary);
    assert!(ran.log.contains("::group::Run the suites"), "{}", ran.log);
    assert!(!ran.log.contains("::error"), "{}", ran.log);
    let junit = job.junit();
    assert_eq!(
        (junit.tests, junit.failures, junit.errors),
        (1, 0, 0),
        "{junit:?}"
    );
    assert!(exists(&job.report("report.json")) && exists(&job.report("argus.env")));
    assert!(!job.report("logs").exists());
    assert!(exists(&job.workspace.join(".runner/argus-images/images.tar")));
    assert!(job.is_gone());
    // The image of the cache is loaded before the next run.
    let again = job.run();
    assert_eq!(again.exit, Some(0), "{}", again.log);
    assert!(again.log.contains("Loaded image"), "{}", again.log);
}

#[test]
fn failed_test_annotates_its_line_and_keeps_logs() {
    let suite = GREEN.replace("200", "404");
    let job = Job::new("cired", &spec("cired", 19460, ""), &suite);
    let ran = job.run();
    assert_eq!(ran.exit, Some(1), "{}", ran.log);
    assert_eq!(variables(&ran.outputs)["result"], "failed");
    assert!(
        ran.log
            .contains("::error file=checks.yaml,line=3,title=checks%3A page::"),
        "{}",
        ran.log
    );
    assert!(ran.summary.contains("attribution: test"), "{}", ran.summary);
    assert_eq!(job.junit().failures, 1);
    assert!(exists(&job.report("logs/suite-checks.log")));
    let comment = fs::read_to_string(job.workspace.join(".runner/argus-comment.md")).unwrap();
    assert!(comment.starts_with("<!-- argus ci: "), "{comment}");
    assert!(
        comment.contains("- **failed** ` checks: page ` (` checks.yaml:3 `)"),
        "{comment}"
    );
    assert!(job.is_gone());
}

#[test]
fn failed_service_is_attributed_with_its_evidence() {
    let crash = "docker exec ciservice-web kill 1; \
                 for i in $(seq 60); do argus evidence ciservice/web && break; sleep 1; done; exit 1";
    let spec = spec("ciservice", 19470, "")
        .replace("file: checks.yaml", &format!("runner: shell, command: '{crash}'"));
    let job = Job::new("ciservice", &spec, GREEN);
    let ran = job.run();
    assert_eq!(ran.exit, Some(1), "{}", ran.log);
    assert!(ran.summary.contains("attribution: service"), "{}", ran.summary);
    assert!(exists(&job.report("evidence/web/1/evidence.json")), "{}", ran.log);
    assert!(job.is_gone());
}

#[test]
fn stop_by_another_client_gives_no_verdict() {
    // Each attempt is disrupted, so no attempt confirms the failure.
    let stop = "docker kill ciinfra-web; \
                until docker ps --quiet --filter name=ciinfra-web | grep -q .; do sleep 1; done; exit 1";
    let spec =
        spec("ciinfra", 19475, "").replace("file: checks.yaml", &format!("runner: shell, command: '{stop}'"));
    let job = Job::new("ciinfra", &spec, GREEN);
    let ran = job.run();
    assert_eq!(ran.exit, Some(8), "{}", ran.log);
    let outputs = variables(&ran.outputs);
    assert_eq!(
        (outputs["result"].as_str(), outputs["exit-code"].as_str()),
        ("infrastructure", "8"),
        "{}",
        ran.outputs
    );
    assert!(ran.summary.contains("| no verdict |"), "{}", ran.summary);
    assert!(
        ran.summary.contains("attribution: infrastructure"),
        "{}",
        ran.summary
    );
    let junit = job.junit();
    assert_eq!(
        (junit.tests, junit.failures, junit.errors),
        (1, 0, 1),
        "{junit:?}"
    );
    assert!(job.is_gone());
}

#[test]
fn blocked_environment_ends_early_with_its_reason() {
    let extra = "\n  command: [\"/missing\"]";
    let job = Job::new("ciblocked", &spec("ciblocked", 19480, extra), GREEN);
    let ran = job.run();
    assert_eq!(ran.exit, Some(6), "{}", ran.log);
    assert_eq!(variables(&ran.outputs)["result"], "not-ready");
    assert!(ran.log.contains("::error file=e2e.yaml,line="), "{}", ran.log);
    assert!(ran.summary.contains("ENTRYPOINT_NOT_FOUND"), "{}", ran.summary);
    let comment = fs::read_to_string(job.workspace.join(".runner/argus-comment.md")).unwrap();
    assert!(
        comment.contains("- **ENTRYPOINT_NOT_FOUND** ` web `: "),
        "{comment}"
    );
    let junit = job.junit();
    assert!(exists(&job.report("logs/web.log")), "{}", ran.log);
    assert_eq!((junit.tests, junit.errors), (1, 1), "{junit:?}");
    assert!(job.is_gone());
    fs::write(job.workspace.join("checks.yaml"), "name: Checks\ncases: 5\n").unwrap();
    let rejected = job.run();
    assert_eq!(rejected.exit, Some(3), "{}", rejected.log);
    assert!(
        rejected.log.contains("::error file=checks.yaml,line=2"),
        "{}",
        rejected.log
    );
}

#[test]
fn suite_reaches_other_hosts_only_with_a_flag() {
    let stranger = engine().listen("127.0.0.1:0".parse().unwrap());
    stranger.set_nonblocking(true).unwrap();
    let port = stranger.local_addr().unwrap().port();
    let suite = GREEN.replace("path: /", &format!("url: 'http://localhost:{port}/'"));
    let job = Job::new("cihosts", &spec("cihosts", 19485, ""), &suite);
    let refused = job
        .script("argus ci e2e.yaml")
        .env("HTTP_PROXY", format!("http://127.0.0.1:{port}"))
        .env("http_proxy", format!("http://127.0.0.1:{port}"))
        .output()
        .expect("bash runs");
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    let flag = format!("--allow-test-hosts localhost:{port}");
    assert!(!text(&refused).contains(&flag), "{}", text(&refused));
    assert!(
        text(&refused).contains("--allow-test-hosts"),
        "{}",
        text(&refused)
    );
    let published = "`web` at `127.0.0.1:19485`";
    assert!(text(&refused).contains(published), "{}", text(&refused));
    let connected = stranger.accept().map(drop);
    assert!(connected.is_err(), "the listener received a connection");

    stranger.set_nonblocking(false).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = stranger.accept().unwrap();
        let _head = stream.read(&mut [0; 4096]).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .unwrap();
    });
    let allowed = job.script(&format!("argus ci e2e.yaml {flag}")).output();
    let allowed = allowed.expect("bash runs");
    assert_eq!(allowed.status.code(), Some(0), "{}", text(&allowed));
    assert!(job.is_gone());
}

/// The only job of the template.
fn template() -> Value {
    let template = argus_crds::yaml::document("gitlab-ci.yml", &fs::read(TEMPLATE).unwrap()).unwrap();
    template.value[".argus"].clone()
}

/// Titles of the sections of a log that begin and end, in their order.
fn sections(log: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in log.split("\u{1b}[0Ksection_start:").skip(1) {
        let (head, rest) = part.split_once("\r\u{1b}[0K").expect("the end of the marker");
        let (at, name) = head.split_once(':').expect("time and name");
        assert!(at.parse::<u64>().is_ok(), "{head:?}");
        let name = name
            .strip_suffix("[collapsed=true]")
            .expect("a collapsed section");
        let end = format!(":{name}\r\u{1b}[0K\n");
        let (body, _) = rest.split_once(&end).expect("its end");
        assert!(body.contains("\u{1b}[0Ksection_end:"), "{rest:?}");
        found.push(rest.lines().next().unwrap_or_default().to_owned());
    }
    found
}

#[test]
fn gitlab_job_folds_its_log_and_keeps_reports() {
    let template = template();
    let job = Job::new("cigitlab", &spec("cigitlab", 19490, ""), GREEN);
    let ran = job.run_template(&template);
    let log = text(&ran);
    assert_eq!(ran.status.code(), Some(0), "{log}");
    assert_eq!(
        sections(&log),
        [
            "Check the file",
            "Check the engine",
            "Start the environment",
            "Run the suites"
        ],
        "{log}"
    );
    assert!(log.contains("passed checks in "), "{log}");
    let artifact = |kind: &str| {
        let path = template["artifacts"]["reports"][kind].as_str().unwrap();
        fs::read_to_string(job.workspace.join(path)).unwrap()
    };
    let dotenv = artifact("dotenv");
    assert!(
        dotenv
            .lines()
            .any(|line| line == "ARGUS_WEB_8080=127.0.0.1:19490"),
        "{dotenv}"
    );
    let is_variable = |line: &str| {
        let name = line.split_once('=').map(|(name, _)| name).unwrap_or_default();
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    // GitLab refuses a file with anything else.
    assert!(dotenv.lines().all(is_variable), "{dotenv}");
    let junit = Report::deserialize_from_str(&artifact("junit")).unwrap();
    assert_eq!((junit.tests, junit.failures), (1, 0), "{junit:?}");
    assert!(exists(&job.workspace.join(".argus-images/images.tar")));
    assert!(job.is_gone());

    fs::write(job.workspace.join("checks.yaml"), GREEN.replace("200", "404")).unwrap();
    let red = job.run_template(&template);
    let log = text(&red);
    assert_eq!(red.status.code(), Some(1), "{log}");
    // The image of the cache is loaded before.
    assert!(log.contains("Loaded image"), "{log}");
    assert!(log.contains("(checks.yaml:3)"), "{log}");
    let junit = Report::deserialize_from_str(&artifact("junit")).unwrap();
    assert_eq!((junit.tests, junit.failures), (1, 1), "{junit:?}");
    assert!(job.is_gone());
}

/// Runs a job of the pipeline of `workspace` with gitlab-ci-local, which follows GitLab's rules for templates, caches and artifacts.
fn run_pipeline(job: &Job, name: &str) -> Output {
    let tool =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/npm-tools/node_modules/.bin/gitlab-ci-local");
    assert!(
        tool.exists(),
        "no gitlab-ci-local at {}\nhint: ./scripts/setup",
        tool.display()
    );
    let script = format!(
        "\"{}\" --force-shell-executor --variable GITLAB_CI=true {name}",
        tool.display()
    );
    job.script(&script).output().expect("bash runs")
}

#[test]
fn gitlab_ci_local_runs_the_template() {
    let job = Job::new("cilocal", &spec("cilocal", 19500, ""), GREEN);
    let pipeline = "include:
  - local: argus.gitlab-ci.yml
e2e:
  extends: .argus
later:
  stage: deploy
  needs: [e2e]
  script:
    - echo \"later sees $ARGUS_WEB_8080\"
";
    fs::write(job.workspace.join(".gitlab-ci.yml"), pipeline).unwrap();
    fs::copy(TEMPLATE, job.workspace.join("argus.gitlab-ci.yml")).unwrap();
    let commit =
        "git init -q . && git add . && git -c user.name=a -c user.email=a@localhost commit -qm files";
    let committed = job.script(commit).output().unwrap();
    assert!(committed.status.success(), "{}", text(&committed));

    let green = run_pipeline(&job, "--needs later");
    let log = text(&green);
    assert!(green.status.success(), "{log}");
    assert!(log.contains("passed checks in "), "{log}");
    // The job gets the addresses from the variables report.
    assert!(log.contains("later sees 127.0.0.1:19500"), "{log}");
    assert_eq!(job.junit().tests, 1);
    assert!(job.is_gone());

    fs::write(job.workspace.join("checks.yaml"), GREEN.replace("200", "404")).unwrap();
    let red = run_pipeline(&job, "e2e");
    let log = text(&red);
    assert_eq!(red.status.code(), Some(1), "{log}");
    assert!(log.contains("Loaded image"), "{log}");
    assert!(log.contains("FAIL 1"), "{log}");
    assert_eq!(job.junit().failures, 1);
    assert!(job.is_gone());
}

#[test]
fn output_for_programs_is_one_object() {
    let job = Job::new("cijson", &spec("cijson", 19495, ""), GREEN);
    let run = || {
        let ran = job.script("argus ci e2e.yaml -o json").output().unwrap();
        let output: Value =
            serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&ran)));
        (ran.status.code(), output)
    };
    let (exit, green) = run();
    assert_eq!((exit, &green["result"]), (Some(0), &"passed".into()), "{green:#}");
    assert_eq!(
        green["variables"]["ARGUS_WEB_8080"], "127.0.0.1:19495",
        "{green:#}"
    );
    assert_eq!(green["report"]["suites"][0]["result"], "passed", "{green:#}");
    assert!(
        green["reports"].as_str().unwrap().ends_with("argus-report"),
        "{green:#}"
    );
    assert_eq!(green["error"], Value::Null, "{green:#}");
    fs::write(job.workspace.join("checks.yaml"), "name: Checks\ncases: 5\n").unwrap();
    let (exit, rejected) = run();
    assert_eq!(
        (exit, &rejected["exitCode"]),
        (Some(3), &3.into()),
        "{rejected:#}"
    );
    assert_eq!(rejected["result"], "rejected", "{rejected:#}");
    assert_eq!(rejected["error"]["code"], "SPEC_INVALID", "{rejected:#}");
}

#[test]
fn log_and_report_in_the_context_never_change_the_image() {
    let spec = spec("ciown", 19515, "").replace(&format!("image: {IMAGE}"), "build: { context: . }");
    let job = Job::new("ciown", &spec, GREEN);
    fs::write(
        job.workspace.join("Dockerfile"),
        format!("FROM {IMAGE}\nCOPY . /src\n"),
    )
    .unwrap();
    let built = || {
        let ran = job.script("argus ci e2e.yaml >> ci.log 2>&1").output().unwrap();
        let log = fs::read_to_string(job.workspace.join("ci.log")).unwrap();
        assert!(ran.status.success(), "{log}");
        let tags = engine().docker_ok(&["images", "--format", "{{.Repository}}:{{.Tag}}", "argus/ciown*"]);
        assert_eq!(tags.lines().count(), 1, "{tags}");
        engine().docker_ok(&["image", "inspect", "--format", "{{.Id}}", &tags])
    };
    let first = built();
    assert!(job.report("summary.md").exists() && job.report("junit.xml").exists());
    assert_eq!([built(), built()], [first.clone(), first]);
    // A path without permission has its name, and a remedy.
    let folder = job.workspace.join("data/pg");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o000)).unwrap();
    let validate = "setpriv --bounding-set -dac_override,-dac_read_search argus validate e2e.yaml";
    let refused = job.script(validate).output().unwrap();
    let printed = text(&refused);
    assert!(
        !refused.status.success() && printed.contains("`data/pg`: "),
        "{printed}"
    );
    assert!(
        printed.contains("add the path to the `.dockerignore`"),
        "{printed}"
    );
    fs::write(job.workspace.join(".dockerignore"), "data/\n").unwrap();
    let accepted = job.script(validate).output().unwrap();
    assert!(accepted.status.success(), "{}", text(&accepted));
}
