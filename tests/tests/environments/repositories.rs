//! `argus run` in repositories, on a real engine: the root as specs folder, one file, the default state directory, links.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use argus_tests::fixture::{LIMIT, engine};
use argus_tests::{PrivateEngine, binary, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A command of the CLI in a directory, without variables of Argus.
pub(super) fn argus(engine: &PrivateEngine, directory: &Path, words: &[&str]) -> Command {
    let mut command = engine.command_in_netns(binary::argus());
    command.args(words).current_dir(directory).stdin(Stdio::null());
    command
        .env("DOCKER_HOST", engine.host())
        .env("XDG_STATE_HOME", engine.scratch("xdg"))
        .env("ARGUS_LISTEN", "off")
        .env("ARGUS_NO_HELPERS", "1")
        .env("NO_COLOR", "1");
    command
}

/// A controller that was started in a directory. Drop stops it.
pub(super) struct Run {
    child: Child,
    pub(super) log: PathBuf,
}

impl Run {
    pub(super) fn start(engine: &PrivateEngine, directory: &Path, words: &[&str]) -> Self {
        Self::spawn(argus(engine, directory, words), directory.with_extension("log"))
    }

    pub(super) fn spawn(mut command: Command, log: PathBuf) -> Self {
        let file = fs::File::create(&log).unwrap();
        command.stdout(file.try_clone().unwrap()).stderr(file);
        let child = command.spawn().unwrap();
        Self { child, log }
    }

    pub(super) fn until<T>(&self, what: &str, question: impl FnMut() -> Option<T>) -> T {
        let log = || fs::read_to_string(&self.log).unwrap_or_default();
        wait::poll(LIMIT, question).unwrap_or_else(|| panic!("timed out: {what}\n{}", log()))
    }

    /// Waits for an environment that is Ready.
    pub(super) fn ready(&self, state: &Path, env: &str) -> Value {
        self.until(&format!("{env} is Ready"), || {
            let bytes = fs::read(state.join(format!("environments/{env}.json"))).ok()?;
            let status: Value = serde_json::from_slice(&bytes).ok()?;
            (status["phase"] == "Ready").then_some(status)
        })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _gone = kill_process(Pid::from_child(&self.child), Signal::TERM);
        drop(self.child.wait());
    }
}

fn spec(project: &str, more: &str) -> String {
    format!(
        "version: \"1\"\nproject: {{ name: {project} }}\nservices:\n  app:\n    image: busybox:local\n    stopGrace: 1s\n    \
         command: [\"sh\", \"-c\", \"exec sleep 3600\"]\n    container: {{ name: {project}-app{more} }}\n"
    )
}

pub(super) fn text_of(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&all).into_owned()
}

fn environments(state: &Path) -> Vec<String> {
    let entries = fs::read_dir(state.join("environments")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let documents = paths.filter(|path| path.extension().is_some_and(|kind| kind == "json"));
    let mut names: Vec<_> = documents
        .map(|path| path.file_name().unwrap().display().to_string())
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn repository_root_is_watched_with_its_state_inside() {
    let engine = engine();
    let repo = engine.scratch("repo-root");
    fs::create_dir(repo.join(".git")).unwrap();
    fs::write(repo.join("Dockerfile"), "FROM busybox:local\nCOPY . /context\n").unwrap();
    let text = spec("rooted", "").replace("image: busybox:local", "build: { context: . }");
    fs::write(repo.join("e2e.yaml"), text).unwrap();
    let content = || {
        engine.docker_ok(&[
            "exec",
            "rooted-app",
            "busybox",
            "find",
            "/context",
            "-mindepth",
            "1",
        ])
    };
    let run = Run::start(engine, &repo, &["run", "--specs", "."]);
    let state = repo.join(".argus");
    run.ready(&state, "rooted");
    let validated = argus(engine, &repo, &["validate"]).output().unwrap();
    assert!(
        validated.status.success() && text_of(&validated).contains("rooted"),
        "{validated:?}"
    );
    let planned = argus(engine, &repo, &["plan", "--specs", "."]).output().unwrap();
    assert!(planned.status.success(), "{planned:?}");
    assert_eq!(content().trim(), "/context/Dockerfile");
    drop(run);
    // A visible state directory in the watched folder is not part of it either.
    fs::remove_dir_all(&state).unwrap();
    let run = Run::start(engine, &repo, &["run", "--specs", ".", "--state", "./state"]);
    let first = run.ready(&repo.join("state"), "rooted")["services"][0]["containerId"].clone();
    assert_eq!(content().trim(), "/context/Dockerfile");
    // Each `sync` of a command scans the folder again, with all changes of the state in between.
    for _ in 0..3 {
        let words = ["wait", "rooted", "--state", "state"];
        assert!(argus(engine, &repo, &words).output().unwrap().status.success());
        let status = run.ready(&repo.join("state"), "rooted");
        assert_eq!(status["services"][0]["containerId"], first, "nothing is rebuilt");
    }
    let down = argus(engine, &repo, &["down", "rooted", "--state", "state"])
        .output()
        .unwrap();
    assert!(down.status.success(), "{down:?}");
}

#[test]
fn one_file_is_watched_without_its_neighbours() {
    let engine = engine();
    let repo = engine.scratch("one-file");
    fs::write(repo.join("alone.yaml"), spec("alone", "")).unwrap();
    fs::write(repo.join("e2e.yaml"), spec("neighbour", "")).unwrap();
    let state = repo.join(".argus");
    let missing = argus(engine, &repo, &["run", "none.yaml"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    let run = Run::start(engine, &repo, &["run", "alone.yaml"]);
    let revision = run.ready(&state, "alone")["revision"].clone();
    assert_eq!(environments(&state), ["alone.json"]);

    let edited = spec("alone", ", environment: { MOOD: calm }");
    fs::write(repo.join("alone.yaml~"), edited).unwrap();
    fs::rename(repo.join("alone.yaml~"), repo.join("alone.yaml")).unwrap();
    run.until("the edit is in force", || {
        let status = run.ready(&state, "alone");
        (status["revision"] != revision).then_some(())
    });
    for words in ["validate", "plan", "get", "doctor"] {
        let output = argus(engine, &repo, &[words]).output().unwrap();
        let shown = text_of(&output);
        // `doctor` also checks the engine, on which other tests leave orphans at this time.
        let has_orphans_of_others = words == "doctor" && shown.contains("ORPHAN_DETECTED");
        assert!(
            output.status.success() || has_orphans_of_others,
            "{words}: {output:?}"
        );
        assert!(shown.contains("alone") || words == "doctor", "{words}: {shown}");
        assert!(!shown.contains("neighbour"), "{words}: {shown}");
    }
    let down = argus(engine, &repo, &["down", "alone"]).output().unwrap();
    assert!(down.status.success(), "{down:?}");
}

/// The command in a file system where the directory is read-only, even for root.
fn without_writes(engine: &PrivateEngine, directory: &Path, home: &Path, words: &[&str]) -> Command {
    let mut command = engine.command_in_netns("unshare");
    let script = "mount --bind . . && mount -o remount,bind,ro . && cd \"$PWD\" && exec \"$@\"";
    command.args(["--mount", "--", "sh", "-c", script, "sh"]);
    let plain = argus(engine, directory, words);
    command.arg(binary::argus()).args(words).current_dir(directory);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("XDG_STATE_HOME", home).stdin(Stdio::null());
    command
}

#[test]
fn unwritable_directory_has_its_own_state_at_home() {
    let engine = engine();
    let home = engine.scratch("state-home");
    let repos = ["fixed-one", "fixed-two"].map(|name| (name, engine.scratch(name)));
    let runs = repos.each_ref().map(|(name, repo)| {
        fs::write(repo.join("e2e.yaml"), spec(name, "")).unwrap();
        let command = without_writes(engine, repo, &home, &["run", "e2e.yaml"]);
        Run::spawn(command, repo.with_extension("log"))
    });
    for ((name, repo), run) in repos.iter().zip(&runs) {
        let client = |words: &[&str]| without_writes(engine, repo, &home, words).output().unwrap();
        run.until("the client finds the controller", || {
            let output = client(&["get", "-o", "json"]);
            text_of(&output).contains("\"Ready\"").then_some(())
        });
        let found = text_of(&client(&["get"]));
        let others = repos.iter().filter(|(other, _)| found.contains(other));
        assert_eq!(others.count(), 1, "{found}");
        assert!(client(&["down", name]).status.success());
        assert!(!repo.join(".argus").exists());
    }
    assert_eq!(fs::read_dir(home.join("argus")).unwrap().count(), 2);
}

#[test]
fn linked_repositories_run_side_by_side() {
    let engine = engine();
    let home = engine.scratch("linked");
    let watched = home.join("desk");
    fs::create_dir_all(watched.join("environments")).unwrap();
    let [shop, blog] = ["shop", "blog"].map(|name| {
        let repo = home.join("src").join(name);
        for folder in [".git", "deploy", "data"] {
            fs::create_dir_all(repo.join(folder)).unwrap();
        }
        fs::write(repo.join("data/name"), name).unwrap();
        fs::write(
            repo.join("Dockerfile"),
            "FROM busybox:local\nCOPY data/name /name\n",
        )
        .unwrap();
        // `..` leaves the folder of the file, but not the repository.
        let text = spec(&format!("linked-{name}"), ", volumes: [\"../data:/data:ro\"]");
        let text = text.replace("image: busybox:local", "build: { context: .. }");
        fs::write(repo.join("deploy/e2e.yaml"), text).unwrap();
        repo
    });
    let environments = watched.join("environments");
    symlink(shop.join("deploy/e2e.yaml"), environments.join("shop.e2e.yaml")).unwrap();
    symlink(blog.join("deploy"), environments.join("blog")).unwrap();
    let run = Run::start(engine, &watched, &["run"]);
    let state = watched.join(".argus");
    for name in ["shop", "blog"] {
        run.ready(&state, &format!("linked-{name}"));
        let shown = engine.docker_ok(&[
            "exec",
            &format!("linked-{name}-app"),
            "cat",
            "/name",
            "/data/name",
        ]);
        assert_eq!(shown.trim(), format!("{name}{name}"));
    }
    // The other repository and the watched folder are outside the project.
    for outside in ["../../blog/data", "../../../desk"] {
        let text = spec("linked-shop", &format!(", volumes: [\"{outside}:/data:ro\"]"));
        fs::write(shop.join("deploy/e2e.yaml"), text).unwrap();
        let rejected = run.until("the mount is refused", || {
            let output = argus(engine, &watched, &["validate"]).output().unwrap();
            let shown = text_of_rejection(&output)?;
            shown.contains(outside).then_some(shown)
        });
        assert!(rejected.contains("POLICY_VIOLATION"), "{rejected}");
    }
    let down = argus(engine, &watched, &["down", "--all"]).output().unwrap();
    assert!(down.status.success(), "{down:?}");
}

fn text_of_rejection(output: &Output) -> Option<String> {
    (output.status.code() == Some(3)).then(|| text_of(output))
}

#[test]
fn missing_dockerfile_is_reported_and_heals() {
    let engine = engine();
    let repo = engine.scratch("no-dockerfile");
    fs::create_dir_all(repo.join(".git")).unwrap();
    fs::create_dir_all(repo.join("deploy")).unwrap();
    let text = spec("undocked", "").replace(
        "image: busybox:local",
        "build:\n      context: .\n      dockerfile: docker/App.Dockerfile",
    );
    fs::write(repo.join("deploy/e2e.yaml"), text).unwrap();
    let validated = argus(engine, &repo, &["validate", "deploy"]).output().unwrap();
    assert_eq!(validated.status.code(), Some(3));
    // The page of a diagnostic has the line, the paths and the hint.
    let shown = text_of(&validated);
    let tried = ["deploy/docker", "docker"].map(|folder| repo.join(folder).join("App.Dockerfile"));
    for part in [
        "does not exist",
        "e2e.yaml:7:",
        "write its path",
        &tried[0].display().to_string(),
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shown.contains(&tried[1].display().to_string()), "{shown}");

    let run = Run::start(engine, &repo, &["run", "--specs", "deploy"]);
    let state = repo.join(".argus");
    let rejected = |status: &Value| status["rejected"][0]["diagnostics"].to_string();
    run.until("the file is rejected", || {
        let bytes = fs::read(state.join("controller.json")).ok()?;
        let status: Value = serde_json::from_slice(&bytes).ok()?;
        rejected(&status).contains("does not exist").then_some(())
    });
    fs::create_dir(repo.join("docker")).unwrap();
    fs::write(&tried[1], "FROM busybox:local\n").unwrap();
    let waited = argus(engine, &repo, &["wait", "undocked", "--timeout", "60s"])
        .output()
        .unwrap();
    assert!(waited.status.success(), "{waited:?}");
    run.ready(&state, "undocked");
    let hosts = engine.docker_ok(&["exec", "undocked-app", "cat", "/etc/hosts"]);
    assert!(hosts.contains("host.docker.internal"), "{hosts}");
    let down = argus(engine, &repo, &["down", "undocked"]).output().unwrap();
    assert!(down.status.success(), "{down:?}");
}

#[test]
fn project_without_a_worktree_mounts_its_own_directories() {
    let engine = engine();
    let project = engine.scratch("plain-project");
    let environments = project.join("environments");
    for folder in [&environments, &project.join("initdb")] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(project.join("initdb/schema"), "tables").unwrap();
    let text = spec("plain", ", volumes: [\"../initdb:/initdb:ro\"]");
    fs::write(environments.join("e2e.yaml"), text).unwrap();
    let run = Run::start(engine, &project, &["run"]);
    run.ready(&project.join(".argus"), "plain");
    let shown = engine.docker_ok(&["exec", "plain-app", "cat", "/initdb/schema"]);
    assert_eq!(shown.trim(), "tables");
    let down = argus(engine, &project, &["down", "plain"]).output().unwrap();
    assert!(down.status.success(), "{down:?}");
}
