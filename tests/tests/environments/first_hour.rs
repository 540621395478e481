//! First hour of a new user in three projects: a Dockerfile, a compose file, and an `e2e.yaml` in the repository root.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step ends the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use argus_tests::fixture::{container_runs, images, page};
use argus_tests::{PrivateEngine, Registry, binary};

use super::repositories::{Run, argus, text_of};

/// Number of builds, and id and start time of each container.
type Results = (usize, BTreeMap<String, (String, String)>);

/// A person with a shell in the folder of a project. The project, its folder and its environment have the same name.
pub(super) struct NewUser {
    pub(super) engine: PrivateEngine,
    name: &'static str,
    pub(super) folder: PathBuf,
}

impl NewUser {
    /// Clones a project on a machine with its own engine.
    pub(super) fn clones(name: &'static str, files: &[(&str, &str)]) -> Self {
        let engine = PrivateEngine::start();
        images(&engine);
        let folder = engine.scratch("first-hour").join(name);
        fs::create_dir_all(folder.join(".git")).unwrap();
        let new_user = Self { engine, name, folder };
        for (path, text) in files {
            new_user.writes(path, text);
        }
        new_user
    }

    pub(super) fn writes(&self, path: &str, text: &str) {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn replaces(&self, path: &str, old: &str, new: &str) {
        let text = fs::read_to_string(self.folder.join(path)).unwrap();
        assert!(text.contains(old), "{path} has no `{old}`: {text}");
        self.writes(path, &text.replace(old, new));
    }

    /// Runs a line in the shell and checks its exit code. Returns everything that it printed.
    #[track_caller]
    pub(super) fn types(&self, line: &str, code: i32) -> String {
        let plain = argus(&self.engine, &self.folder, &[]);
        let mut shell = self.engine.command_in_netns("sh");
        shell.args(["-c", line]).current_dir(&self.folder);
        shell.stdin(Stdio::null());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let programs = binary::argus().parent().unwrap().display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let output = shell.env("PATH", format!("{programs}:{path}")).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "`{line}`: {}", text_of(&output));
        text_of(&output)
    }

    /// Runs a line that succeeds, and checks that it prints each of the parts.
    #[track_caller]
    pub(super) fn sees(&self, line: &str, parts: &[&str]) {
        self.fails(line, 0, parts);
    }

    /// Runs a line that ends with this exit code, and checks that it prints each of the parts.
    #[track_caller]
    pub(super) fn fails(&self, line: &str, code: i32, parts: &[&str]) {
        let shown = self.types(line, code);
        for part in parts {
            assert!(shown.contains(part), "`{line}` does not print `{part}`: {shown}");
        }
        assert!(!shown.contains("INTERNAL"), "{line}: {shown}");
    }

    /// Waits for Ready. The containers run at that moment, which excludes a false Ready.
    #[track_caller]
    pub(super) fn waits(&self) {
        let (name, ready) = (self.name, format!("{} Ready", self.name));
        self.sees(&format!("argus wait {name} --timeout 60s"), &[&ready]);
        let label = format!("argusai.project={name}");
        for container in self.engine.containers_with(&label) {
            assert_eq!(container["State"], "running", "{container:#}");
        }
    }

    /// Runs the first command that the hints of an output name.
    #[track_caller]
    pub(super) fn follows_the_first_hint(&self, shown: &str) {
        let hint = shown
            .split("hint: ")
            .nth(1)
            .and_then(|hint| hint.rsplit('`').nth(1));
        let command = hint.unwrap_or_else(|| panic!("no hint has a command: {shown}"));
        self.types(command, 0);
    }

    /// Number of builds so far, and the runs of the containers.
    fn results(&self, run: &Run) -> Results {
        let log = fs::read_to_string(&run.log).unwrap();
        let builds = log.matches("build-image").count();
        (builds, container_runs(&self.engine, self.name))
    }

    /// Checks that Argus builds and replaces nothing while no file changes, and reports no orphan and no problem.
    #[track_caller]
    pub(super) fn sees_no_change(&self, run: &Run) {
        self.sees_no_change_since(&self.results(run), run);
    }

    /// The same since earlier results.
    #[track_caller]
    fn sees_no_change_since(&self, before: &Results, run: &Run) {
        self.sees("argus orphans", &["no orphans"]);
        self.types("argus doctor", 0);
        // The wait begins with a scan of all files.
        self.waits();
        self.sees(&format!("argus plan {}", self.name), &["nothing to do"]);
        assert_eq!(self.results(run), *before, "nothing changes without an edit");
    }

    /// Takes everything down. Nothing of the environment remains on the engine.
    #[track_caller]
    pub(super) fn leaves(&self) {
        let name = self.name;
        self.sees(&format!("argus down {name}"), &[&format!("{name} gone")]);
        self.sees("argus get", &["no environments"]);
        self.types(&format!("argus wait {name} --for gone --timeout 5s"), 0);
        for kind in ["ps --all", "network ls"] {
            let line = format!("docker {kind} --quiet --filter label=argusai.project={name}");
            assert_eq!(self.types(&line, 0), "", "{line}");
        }
    }

    pub(super) fn page(&self, port: u64) -> String {
        page(&self.engine, port).unwrap_or_default()
    }
}

#[test]
fn project_with_a_dockerfile_starts_and_recovers() {
    let dockerfile = "FROM busybox:local\nCOPY www /www\nEXPOSE 8080\nCMD [\"httpd\", \"-f\", \"-p\", \"8080\", \"-h\", \"/www\"]\n";
    let files = [("Dockerfile", dockerfile), ("www/index.html", "one")];
    let me = NewUser::clones("docked", &files);
    me.fails("argus validate", 3, &["does not exist", "argus init"]);
    me.sees("argus init", &["1 service", "argus plan", "argus run"]);
    me.fails("argus init", 2, &["already exists", "--force"]);
    me.sees("argus validate", &["environment `docked`, 1 service"]);
    me.sees("argus plan", &["build-image"]);
    me.fails(
        "argus wait docked --timeout 1s",
        5,
        &["start a controller with `argus run`"],
    );

    let run = Run::start(&me.engine, &me.folder, &["run"]);
    me.waits();
    me.sees("argus open docked/app --print", &["http://127.0.0.1:8080"]);
    assert_eq!(me.page(8080), "one");
    me.sees_no_change(&run);

    // An edit of the source, then of the file.
    me.writes("www/index.html", "two");
    me.waits();
    assert_eq!(me.page(8080), "two");
    me.replaces("environments/e2e.yaml", "8080:8080", "18080:8080");
    me.waits();
    assert_eq!(me.page(18080), "two");

    // A crash. A detached `exec` does not wait for `kill`, which can end together with its container.
    me.types("docker exec -d docked-app kill 1", 0);
    run.until("the crash is reported", || {
        let why = me.types("argus why docked", 0);
        let is_reported = why.contains("CONTAINER_CRASH") && why.contains("SIGTERM");
        is_reported.then_some(())
    });
    me.waits();
    me.sees("argus evidence docked/app", &["killed by SIGTERM"]);
    me.sees_no_change(&run);

    // A broken build keeps the container. The wait fails early, and its hint names the two ways to repair it.
    me.replaces("Dockerfile", "COPY www", "COPY nowhere");
    let failed = me.types("argus wait docked --timeout 60s", 6);
    assert!(failed.contains("COPY nowhere /www: "), "{failed}");
    assert!(failed.contains("Dockerfile:2: create `nowhere` in "), "{failed}");
    assert!(failed.contains(", or correct the path"), "{failed}");
    me.sees("argus why docked", &["BUILD_FAILED", "nowhere"]);
    assert_eq!(me.page(18080), "two");
    me.replaces("Dockerfile", "COPY nowhere", "COPY www");
    me.waits();
    me.sees_no_change(&run);
    me.leaves();
}

const COMPOSE: &str = r#"
name: composed
services:
  db:
    image: busybox:local
    command: ["sh", "-c", "touch /tmp/up; echo db is up; exec sleep 3600"]
    environment: { DB_PASSWORD: "${DB_PASSWORD}" }
    volumes: ["./seed:/seed:ro"]
    healthcheck: { test: ["CMD", "test", "-e", "/tmp/up"], interval: 1s, timeout: 2s, retries: 5 }
    stop_grace_period: 1s
  web:
    build: { context: ./app, target: site }
    command: ["sh", "-c", "echo $$GREETING > /www/index.html; echo web is up; exec httpd -f -p 8080 -h /www"]
    environment: { GREETING: "${GREETING}" }
    ports: ["${WEB_PORT}:8080"]
    depends_on: { db: { condition: service_healthy } }
    stop_grace_period: 1s
  debug:
    image: busybox:local
    profiles: [debug]
"#;

#[test]
fn project_with_a_compose_file_starts_and_recovers() {
    // The last stage is not the target, and its build fails.
    let stages = "FROM busybox:local AS base\nCOPY page /page\n\nFROM base AS site\nCOPY --from=base /page /www/page\n\n\
                  FROM site\nRUN false\n";
    let files = [
        ("compose.yaml", COMPOSE),
        (".env", "WEB_PORT=18300\nGREETING=hello\nDB_PASSWORD=swordfish\n"),
        ("seed/rows", "rows"),
        ("app/Dockerfile", stages),
        ("app/page", "page"),
    ];
    let me = NewUser::clones("composed", &files);
    me.sees(
        "argus init",
        &["2 services", "left out: service `debug`", "(line 20)"],
    );
    me.sees("argus validate", &["ok environment `composed`"]);
    let run = Run::start(&me.engine, &me.folder, &["run"]);
    me.waits();
    assert_eq!(me.page(18300), "hello\n");
    me.sees_no_change(&run);

    me.sees("argus logs composed", &["db is up", "web is up"]);
    me.fails(
        "timeout 2 argus logs -f composed",
        124,
        &["db is up", "web is up"],
    );
    me.sees(
        "eval \"$(argus env composed)\"; busybox wget -qO - $ARGUS_WEB_URL/page",
        &["page"],
    );
    me.fails("argus open composed/db --print", 1, &["publishes no TCP port"]);
    me.sees("argus exec composed/db -- cat /seed/rows", &["rows"]);
    me.fails("argus exec composed/db -- sh -c 'exit 7'", 7, &[]);
    me.fails(
        "echo 'echo in the $0; exit 3' | argus shell composed/db",
        3,
        &["in the"],
    );
    me.sees("argus describe composed", &["Events:", "Ready"]);
    me.fails("argus restart composed/nope", 1, &["its services: db, web"]);
    me.types("argus restart composed/web", 0);
    me.waits();
    assert_eq!(me.page(18300), "hello\n");

    // A missing variable is named, also if its value would be secret.
    me.writes("environments/.env", "");
    me.sees(
        "argus validate",
        &["`{{env.DB_PASSWORD}}` does not resolve", "environments/e2e.yaml:"],
    );
    me.waits();
    me.sees(
        "argus describe composed",
        &["`{{env.DB_PASSWORD}}` does not resolve"],
    );
    me.writes("environments/.env", "DB_PASSWORD=swordfish\n");
    me.waits();
    assert!(
        !me.types("argus describe composed", 0)
            .contains("does not resolve")
    );
    me.sees_no_change(&run);

    // A bad tag is reported, and the first hint works after the fix.
    let registry = Registry::start(&me.engine, 5051);
    let bad = format!("image: {}/busybox:nope", registry.address);
    me.replaces("environments/e2e.yaml", "image: busybox:local", &bad);
    let failed = run.until("the missing image is reported", || {
        let shown = me.types("argus why composed", 0);
        shown.contains("IMAGE_NOT_FOUND").then_some(shown)
    });
    assert!(failed.contains("busybox:nope"), "{failed}");
    me.replaces("environments/e2e.yaml", &bad, "image: busybox:local");
    me.follows_the_first_hint(&failed);
    me.waits();

    // A container that a person removes comes back.
    me.types("docker rm -f composed-db", 0);
    me.waits();
    me.sees_no_change(&run);
    me.leaves();
}

#[test]
fn project_with_a_file_in_its_root_starts_and_recovers() {
    let spec = "version: \"1\"\nproject: { name: rooted-app }\nservices:\n  app:\n    build: { context: .. }\n    \
                stopGrace: 1s\n    container:\n      name: rooted-app\n      volumes: [\"./data:/data\"]\n";
    let dockerfile =
        "FROM busybox:local\nCOPY . /src\nCMD [\"sh\", \"-c\", \"cat /src/version; exec sleep 3600\"]\n";
    let files = [
        ("e2e.yaml", spec),
        ("Dockerfile", dockerfile),
        ("version", "one\n"),
        ("data/rows", "rows"),
    ];
    let me = NewUser::clones("rooted-app", &files);
    me.fails(
        "argus validate --specs .",
        3,
        &["e2e.yaml:5:", "POLICY_VIOLATION", "name a folder of the project"],
    );
    me.replaces("e2e.yaml", "context: ..", "context: .");
    me.sees("argus validate --specs .", &["ok environment `rooted-app`"]);
    let run = Run::start(&me.engine, &me.folder, &["run", "--specs", "."]);
    me.waits();
    me.sees("argus logs rooted-app", &["one"]);
    me.sees_no_change(&run);

    // The container writes into the build context. Argus does not treat this as an edit.
    let before = me.results(&run);
    me.types("argus exec rooted-app/app -- sh -c 'echo more > /data/more'", 0);
    me.sees_no_change_since(&before, &run);
    me.writes("version", "two\n");
    me.waits();
    me.sees(
        "argus exec rooted-app/app -- cat /src/version /data/more",
        &["two", "more"],
    );

    // A program that ends immediately is never Ready.
    me.replaces("Dockerfile", "exec sleep 3600", "exit 3");
    let failed = me.types("argus wait rooted-app --timeout 60s", 6);
    assert!(failed.contains("gave up"), "{failed}");
    me.follows_the_first_hint(&failed);
    me.sees(
        "argus why rooted-app",
        &["CONTAINER_RESTART_EXHAUSTED", "exit code 3"],
    );
    me.fails(
        "argus exec rooted-app/app -- true",
        1,
        &["argus why rooted-app/app"],
    );
    me.replaces("Dockerfile", "exit 3", "exec sleep 3600");
    me.waits();

    // A typing mistake in the file keeps everything.
    me.replaces("e2e.yaml", "stopGrace: 1s", "stopGrace: soon");
    me.fails("argus validate", 3, &["e2e.yaml:6:"]);
    run.until("the mistake is reported", || {
        let shown = me.types("argus get", 0);
        (shown.contains("file rejected: 1 error") && shown.contains("Ready")).then_some(())
    });
    me.replaces("e2e.yaml", "stopGrace: soon", "stopGrace: 1s");
    me.waits();
    me.sees_no_change(&run);
    me.leaves();
}
