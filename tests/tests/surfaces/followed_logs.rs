//! `argus logs --follow` shows each line of each run once, over restarts, replacements and a restart of the engine.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};

use argus_tests::fixture::{LIMIT, engine, images};
use argus_tests::{Controller, PrivateEngine, RunOptions};

/// A service that ends with exit code 1. Its lines have the time of its start, and the last one of a run is `end`.
fn worker(project: &str, name: &str, lines: usize) -> String {
    format!(
        "  {name}:\n    image: busybox:local\n    command: [\"sh\", \"-c\", \"r=$(cut -d' ' -f1 /proc/uptime); \
         for n in $(seq {lines}); do echo run $r $n; sleep 0.3; done; echo run $r end; exit 1\"]\n    \
         container: {{ name: {project}-{name} }}\n"
    )
}

/// A service that writes without an end.
fn clock(project: &str, name: &str) -> String {
    format!(
        "  {name}:\n    image: busybox:local\n    command: [\"sh\", \"-c\", \"r=$(cut -d' ' -f1 /proc/uptime); n=0; \
         while :; do n=$((n+1)); echo run $r $n; sleep 0.3; done\"]\n    container: {{ name: {project}-{name} }}\n"
    )
}

fn spec(project: &str, services: &str) -> String {
    format!(
        "version: \"1\"\nproject: {{ name: {project} }}\nservices:\n{services}argus: {{ restart: {{ mode: slowRetry, \
         delay: 1s, backoff: fixed, maxRestarts: 50 }} }}\n"
    )
}

/// A running `argus logs --follow`.
struct Follow {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Follow {
    fn start(engine: &PrivateEngine, argus: &Controller<'_>, name: &str, words: &[&str]) -> Self {
        let folder = engine.scratch(name);
        let (stdout, stderr) = (folder.join("out"), folder.join("err"));
        let file = |path| File::create(path).expect("a file");
        let mut command = argus.command();
        command.args(["logs", "--follow"]).args(words);
        command.stdin(Stdio::null());
        command.stdout(file(&stdout)).stderr(file(&stderr));
        Self {
            child: command.spawn().expect("argus runs"),
            stdout,
            stderr,
        }
    }

    fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.stdout).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn notes(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// Number of lines that announce another run.
    fn borders(&self) -> usize {
        self.notes().matches("note: new run of `").count()
    }

    /// Waits until the command ends.
    fn end(mut self, argus: &Controller<'_>) -> (ExitStatus, Vec<String>, String) {
        let status = argus.wait_until(LIMIT, "the end of the command", || {
            self.child.try_wait().expect("a child")
        });
        (status, self.lines(), self.notes())
    }

    fn stop(mut self) -> Vec<String> {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ended");
        self.lines()
    }
}

/// Runs of a service, which is empty for lines without a name: the start of each, and the ends of its lines.
fn runs(lines: &[String], name: &str) -> BTreeMap<String, Vec<String>> {
    let mut runs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let split = lines
        .iter()
        .map(|line| line.split_once(" | ").unwrap_or(("", line)));
    for (_, line) in split.filter(|(of, _)| of.trim_end() == name) {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["run", start, what] = words[..] {
            runs.entry(start.to_owned()).or_default().push(what.to_owned());
        }
    }
    runs
}

fn ended(lines: &[String], prefix: &str) -> usize {
    let has_end = |run: &&Vec<String>| run.last().is_some_and(|last| last == "end");
    runs(lines, prefix).values().filter(has_end).count()
}

/// Checks that the lines of each run are its first ones, in order and each once.
fn assert_each_once(lines: &[String], prefix: &str) {
    for (start, run) in runs(lines, prefix) {
        let numbers: Vec<String> = (1..=run.len()).map(|number| number.to_string()).collect();
        let cut = run.len() - usize::from(run.last().is_some_and(|last| last == "end"));
        assert_eq!(run[..cut], numbers[..cut], "run {start}: {lines:#?}");
    }
}

#[test]
fn restarts_show_each_line_once_with_their_borders() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &spec("repeated", &worker("repeated", "worker", 5)));
    argus.wait_until(LIMIT, "a container", || {
        engine
            .inspect("repeated-worker")
            .filter(|seen| seen["State"]["Running"] == true)
    });
    let follow = Follow::start(engine, &argus, "followed-restarts", &["repeated/worker"]);
    argus.wait_until(LIMIT, "three complete runs", || {
        (ended(&follow.lines(), "") >= 3).then_some(())
    });
    let borders = follow.borders();
    let lines = follow.stop();
    assert_each_once(&lines, "");
    let complete = runs(&lines, "").len();
    assert!(borders + 1 >= complete.min(3), "{borders} borders: {lines:?}");
    let output = argus.cli(&[
        "logs",
        "repeated/worker",
        "--since",
        "1h",
        "--until",
        "2020-01-01T00:00:00Z",
    ]);
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(0), 0),
        "{output:?}"
    );
    let output = argus.cli(&["logs", "repeated/worker", "--since", "then"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn replacements_are_followed_until_the_removal() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &spec("renewed", &clock("renewed", "clock")));
    argus.wait_ready("renewed", LIMIT);
    let follow = Follow::start(engine, &argus, "followed-replacement", &["renewed/clock"]);
    let seen = |count| move |follow: &Follow| runs(&follow.lines(), "").len() >= count;
    argus.wait_until(LIMIT, "the first container", || seen(1)(&follow).then_some(()));
    let edited = spec("renewed", &clock("renewed", "clock")).replace("sleep 0.3", "sleep 0.2");
    argus.write_spec("e2e.yaml", &edited);
    argus.wait_until(LIMIT, "its replacement", || seen(2)(&follow).then_some(()));
    assert!(argus.cli(&["restart", "renewed/clock"]).status.success());
    argus.wait_until(LIMIT, "the restart", || seen(3)(&follow).then_some(()));
    assert!(
        follow.notes().contains(", which replaces `"),
        "{}",
        follow.notes()
    );
    assert!(argus.cli(&["down", "renewed"]).status.success());
    let (status, lines, notes) = follow.end(&argus);
    assert!(status.success(), "{notes}");
    assert!(notes.contains("note: `renewed/clock` was removed"), "{notes}");
    assert_each_once(&lines, "");
    assert_eq!(notes.matches("new run of `renewed/clock`").count(), 2, "{notes}");
}

#[test]
fn two_services_are_followed_together() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    let services = worker("paired", "worker", 3) + &clock("paired", "clock");
    argus.write_spec("e2e.yaml", &spec("paired", &services));
    let follow = argus.wait_until(LIMIT, "the environment", || {
        let known = argus.status("paired")["services"]
            .as_array()
            .is_some_and(|all| all.len() == 2);
        known.then(|| Follow::start(engine, &argus, "followed-pair", &["paired"]))
    });
    argus.wait_until(LIMIT, "runs of both", || {
        let lines = follow.lines();
        (ended(&lines, "worker") >= 3 && !runs(&lines, "clock").is_empty()).then_some(())
    });
    let lines = follow.stop();
    assert_each_once(&lines, "worker");
    assert_each_once(&lines, "clock");
    let starts: BTreeSet<_> = runs(&lines, "clock").into_keys().collect();
    assert_eq!(starts.len(), 1, "{lines:?}");
}

#[test]
fn completed_job_ends_the_command() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    let job = "  job:\n    image: busybox:local\n    oneShot: true\n    command: [\"sh\", \"-c\", \"sleep 3; echo run 1 end\"]\n    \
               container: { name: finished-job }\n";
    argus.write_spec(
        "e2e.yaml",
        &spec("finished", &format!("{job}{}", clock("finished", "clock"))),
    );
    argus.wait_until(LIMIT, "the job", || engine.inspect("finished-job"));
    let follow = Follow::start(engine, &argus, "followed-job", &["finished/job"]);
    let (status, lines, notes) = follow.end(&argus);
    assert!(
        status.success() && notes.contains("`finished/job` has completed"),
        "{notes}"
    );
    assert_eq!(lines, ["run 1 end"]);
}

#[test]
fn restarted_daemon_is_a_pause() {
    let engine = PrivateEngine::start();
    images(&engine);
    let argus = Controller::start(&engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &spec("paused", &clock("paused", "clock")));
    argus.wait_ready("paused", LIMIT);
    let follow = Follow::start(&engine, &argus, "followed-outage", &[]);
    argus.wait_until(LIMIT, "the first run", || {
        (!runs(&follow.lines(), "paused/clock").is_empty()).then_some(())
    });
    engine.restart();
    argus.wait_until(LIMIT, "another run", || {
        (runs(&follow.lines(), "paused/clock").len() == 2).then_some(())
    });
    let notes = follow.notes();
    assert!(
        notes.contains("the engine does not answer") && notes.contains("answers again"),
        "{notes}"
    );
    assert!(
        argus.cli(&["down"]).status.success(),
        "the only environment is the default"
    );
    let (status, lines, notes) = follow.end(&argus);
    assert!(status.success(), "{notes}");
    assert_each_once(&lines, "paused/clock");
}
