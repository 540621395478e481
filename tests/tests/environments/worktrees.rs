//! Several git worktrees of one repository on one engine: names, ports and addresses of each.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a failed step ends the test"
)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use argus_tests::fixture::{IMAGE, LIMIT, engine, page, running, text};
use argus_tests::{Controller, PrivateEngine, RunOptions, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::recovery::proven;
use super::repositories::{Run, argus, text_of};

/// Worktrees of one repository with the layout of `git worktree add`: the first one is the main one. Each contains the file.
fn worktrees(place: &str, names: &[&str], spec: &str) -> Vec<PathBuf> {
    let place = engine().scratch(place);
    let create = |(index, name): (usize, &&str)| {
        let tree = place.join(name);
        fs::create_dir_all(&tree).unwrap();
        let git = place.join(names[0]).join(".git");
        if index == 0 {
            fs::create_dir_all(&git).unwrap();
            fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        } else {
            let own = git.join("worktrees").join(name);
            fs::create_dir_all(&own).unwrap();
            fs::write(own.join("HEAD"), format!("ref: refs/heads/topic/{name}\n")).unwrap();
            fs::write(tree.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
            fs::write(own.join("gitdir"), format!("{}\n", tree.join(".git").display())).unwrap();
        }
        fs::write(tree.join("e2e.yaml"), spec).unwrap();
        tree
    };
    names.iter().enumerate().map(create).collect()
}

/// A published service of the project `shop`, which all worktrees share.
fn spec(port: u16, more: &str) -> String {
    format!(
        r#"version: "1"
project: {{ name: shop }}
service:
  name: web
  image: {IMAGE}
  stopGrace: 1s
  container:
    name: web
    ports: ["{port}:8080"]
    volumes: ["data:/data"]
    healthcheck: {{ path: /healthz, port: 8080, interval: 500ms, timeout: 1s, retries: 20, startPeriod: 5s }}
{more}
"#
    )
}

fn link(argus: &Controller<'_>, tree: &Path) {
    let name = tree.file_name().unwrap().to_str().unwrap();
    symlink(
        tree.join("e2e.yaml"),
        argus.specs.join(format!("{name}.e2e.yaml")),
    )
    .unwrap();
}

#[test]
fn auto_namespace_separates_the_worktrees_of_a_repository() {
    let engine = engine();
    let names = ["wtauto", "wtauto-fix"];
    let trees = worktrees(
        "worktrees-auto",
        &names,
        &spec(19600, "isolation: { namespace: auto }"),
    );
    let controller = Controller::start(engine, RunOptions::default());
    for tree in &trees {
        link(&controller, tree);
    }
    let ports = names.map(|name| {
        let status = controller.wait_ready(name, LIMIT);
        assert!(running(engine, &format!("{name}-web")));
        engine.docker_ok(&["volume", "inspect", &format!("argusai-{name}_data")]);
        engine.docker_ok(&["network", "inspect", &format!("argusai-{name}-network")]);
        status["portMappings"][0]["actualPort"].as_u64().unwrap()
    });
    assert_ne!(ports[0], ports[1]);
    assert!(
        ports
            .iter()
            .all(|port| page(engine, *port).as_deref() == Some("hello"))
    );
    // Commands without a controller use the same name.
    let plan = argus(engine, &trees[1], &["validate", "e2e.yaml"])
        .output()
        .unwrap();
    assert!(plan.status.success(), "{}", text_of(&plan));
    // A directory without git has no such name.
    let alone = engine.scratch("worktrees-none");
    fs::write(
        alone.join("e2e.yaml"),
        spec(19600, "isolation: { namespace: auto }"),
    )
    .unwrap();
    let refused = argus(engine, &alone, &["validate", "e2e.yaml"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(3), "{}", text_of(&refused));
    let shown = text_of(&refused);
    assert!(
        shown.contains("e2e.yaml:12:") && shown.contains("the file is in none"),
        "{shown}"
    );
}

#[test]
fn namespace_is_the_branch_or_a_variable_of_the_command() {
    let engine = engine();
    let trees = worktrees(
        "worktrees-branch",
        &["wtbranch", "wtbranch-fix"],
        &spec(19610, ""),
    );
    let run = |tree: &Path, words: &[&str], slot: Option<&str>| {
        let mut command = argus(engine, tree, words);
        command.envs(slot.map(|slot| ("SLOT", slot)));
        let output = command.output().unwrap();
        (output.status.code(), text_of(&output))
    };
    let script = "test \"$ARGUS_ENVIRONMENT\" = topic-wtbranch-fix && test -n \"$ARGUS_WEB_URL\"";
    let up = ["up", "--namespace-from", "branch", "--", "sh", "-c", script];
    let (code, shown) = run(&trees[1], &up, None);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("removing `topic-wtbranch-fix`"), "{shown}");
    let validate = ["validate", "e2e.yaml", "--namespace-from", "env:SLOT"];
    let (code, shown) = run(&trees[0], &validate, Some("slot-7"));
    assert!(code == Some(0) && shown.contains("slot-7"), "{shown}");
    let (code, shown) = run(&trees[0], &validate, None);
    assert!(
        code == Some(3) && shown.contains("`SLOT`, which is not set"),
        "{shown}"
    );
    let (code, shown) = run(&trees[0], &["validate", "--namespace-from", "moon"], None);
    assert!(code == Some(2) && shown.contains("`env:NAME`"), "{shown}");
}

#[test]
fn addresses_of_each_worktree_are_in_its_project() {
    let engine = engine();
    let names = ["wtfile", "wtfile-fix"];
    let more = "isolation: { namespace: auto }\nargus: { envFile: .env.argus }";
    let trees = worktrees("worktrees-file", &names, &spec(19620, more));
    let controller = Controller::start(engine, RunOptions::default());
    for tree in &trees {
        link(&controller, tree);
    }
    for (tree, name) in trees.iter().zip(names) {
        let status = controller.wait_ready(name, LIMIT);
        let port = &status["portMappings"][0]["actualPort"];
        let text = fs::read_to_string(tree.join(".env.argus")).unwrap();
        assert!(
            text.starts_with(&format!("# written by Argus for the environment `{name}`")),
            "{text}"
        );
        assert!(
            text.contains(&format!("\nARGUS_WEB_URL=http://127.0.0.1:{port}\n")),
            "{text}"
        );
        assert_eq!(status["worktree"], tree.canonicalize().unwrap().to_str().unwrap());
    }
    let table = controller.cli(&["get", "-o", "wide"]);
    let table = text_of(&table);
    assert!(
        table.contains("WORKTREE") && table.contains(trees[1].to_str().unwrap()),
        "{table}"
    );
    // The controller replaces neither a file of the user nor the file of the other environment.
    let down = controller.cli(&["down", names[0]]);
    assert!(down.status.success(), "{}", text_of(&down));
    controller.wait_until(LIMIT, "the file is removed", || {
        (!trees[0].join(".env.argus").exists()).then_some(())
    });
    assert!(trees[1].join(".env.argus").exists());
    fs::write(trees[0].join(".env.argus"), "MINE=1\n").unwrap();
    let refused = argus(engine, &trees[0], &["validate", "e2e.yaml"])
        .output()
        .unwrap();
    let shown = text_of(&refused);
    assert!(
        refused.status.code() == Some(3) && shown.contains("Argus did not write it"),
        "{shown}"
    );
}

#[test]
fn addresses_follow_a_renamed_and_a_restored_environment() {
    let engine = engine();
    let file = |name: &str, path: &str| {
        let more = format!("isolation: {{ namespace: {name} }}\nargus: {{ envFile: {path} }}");
        spec(19630, &more)
    };
    let trees = worktrees(
        "addresses-renamed",
        &["renamed"],
        &file("addresses-old", ".env.argus"),
    );
    let (tree, controller) = (&trees[0], Controller::start(engine, RunOptions::default()));
    link(&controller, tree);
    let written_for = |path: &str, name: &str| {
        let text = fs::read_to_string(tree.join(path)).unwrap_or_default();
        let is_own = text.starts_with(&format!("# written by Argus for the environment `{name}`"));
        (is_own && text.contains("\nARGUS_WEB_URL=")).then_some(())
    };
    controller.wait_ready("addresses-old", LIMIT);
    controller.wait_until(LIMIT, "the first file is written", || {
        written_for(".env.argus", "addresses-old")
    });
    fs::write(tree.join("e2e.yaml"), file("addresses-new", ".env.argus")).unwrap();
    controller.wait_ready("addresses-new", LIMIT);
    controller.wait_until(LIMIT, "the earlier environment is gone", || {
        controller.status("addresses-old").is_null().then_some(())
    });
    controller.wait_until(LIMIT, "the file has the addresses of the new environment", || {
        written_for(".env.argus", "addresses-new")
    });

    proven(&controller, "addresses-new");
    let later = file("addresses-new", ".env.other").replace("stopGrace: 1s", "stopGrace: 2s");
    fs::write(tree.join("e2e.yaml"), later).unwrap();
    controller.wait_until(LIMIT, "the file moves", || {
        written_for(".env.other", "addresses-new").filter(|()| !tree.join(".env.argus").exists())
    });
    controller.wait_ready("addresses-new", LIMIT);
    let restored = controller.cli(&["rollback", "addresses-new"]);
    assert!(restored.status.success(), "{}", text_of(&restored));
    controller.wait_until(LIMIT, "the file moves back", || {
        written_for(".env.argus", "addresses-new").filter(|()| !tree.join(".env.other").exists())
    });
}

#[test]
fn controller_of_one_worktree_serves_another() {
    let engine = engine();
    let names = ["wtserve", "wtserve-fix"];
    let trees = worktrees(
        "worktrees-serve",
        &names,
        &spec(19630, "isolation: { namespace: auto }"),
    );
    let specs = trees[0].join("environments");
    fs::create_dir(&specs).unwrap();
    symlink("../e2e.yaml", specs.join("e2e.yaml")).unwrap();
    let run = Run::start(engine, &trees[0], &["run"]);
    run.ready(&trees[0].join(".argus"), "wtserve");
    // The second worktree has no controller of its own; the command sees both environments.
    let script = "test \"$ARGUS_ENVIRONMENT\" = wtserve-fix && \"$0\" get";
    let argus_path = argus_tests::binary::argus();
    let words = ["up", "--", "sh", "-c", script, argus_path.to_str().unwrap()];
    let up = argus(engine, &trees[1], &words).output().unwrap();
    let shown = text_of(&up);
    assert!(
        up.status.success() && shown.contains("removing `wtserve-fix`"),
        "{shown}"
    );
    let listed = String::from_utf8_lossy(&up.stdout).into_owned();
    let rows: Vec<_> = listed
        .lines()
        .skip(1)
        .filter_map(|row| row.split_whitespace().next())
        .collect();
    assert_eq!(rows, names, "{listed}");
    assert!(!trees[1].join(".argus").exists(), "it started no controller");
    assert_eq!(fs::read_dir(&specs).unwrap().count(), 1, "the link is removed");
    assert!(running(engine, "wtserve-web") && !running(engine, "wtserve-fix-web"));
    // Another source of names would give the file another name than the controller does.
    let other = argus(engine, &trees[1], &["up", "--namespace-from", "branch"])
        .output()
        .unwrap();
    let shown = text_of(&other);
    assert!(
        other.status.code() == Some(2) && shown.contains("namespace source"),
        "{shown}"
    );
    // The first worktree keeps its environment.
    let all = argus(engine, &trees[1], &["down", "--all"]).output().unwrap();
    let shown = text_of(&all);
    assert!(
        all.status.code() == Some(2) && shown.contains("other folders") && running(engine, "wtserve-web"),
        "{shown}"
    );
    let down = argus(engine, &trees[1], &["down", "wtserve"]).output().unwrap();
    assert!(down.status.success(), "{}", text_of(&down));
}

/// Suites that record the environment that ran them.
const SUITES: &str = r#"isolation: { namespace: auto }
tests:
  suites:
    - { name: one, runner: shell, command: 'busybox wget -q -O - "$ARGUS_WEB_URL/" && echo "$ARGUS_ENVIRONMENT $ARGUS_WEB_URL" > one.ran' }
    - { name: two, runner: shell, command: 'busybox wget -q -O - "$ARGUS_WEB_URL/" && echo "$ARGUS_ENVIRONMENT $ARGUS_WEB_URL" > two.ran' }
    - { name: three, runner: shell, command: 'busybox wget -q -O - "$ARGUS_WEB_URL/" && echo "$ARGUS_ENVIRONMENT $ARGUS_WEB_URL" > three.ran' }
    - { name: four, runner: shell, command: 'busybox wget -q -O - "$ARGUS_WEB_URL/" && echo "$ARGUS_ENVIRONMENT $ARGUS_WEB_URL" > four.ran' }
"#;

/// Forks of an environment that exist on the engine.
fn forks(engine: &PrivateEngine, env: &str) -> Vec<String> {
    let prefix = format!("{env}-w");
    let containers = engine.containers_with("argusai.project=shop");
    let names = containers
        .iter()
        .map(|container| text(&container["Labels"]["argusai.environment"]));
    names.filter(|name| name.starts_with(&prefix)).collect()
}

#[test]
fn worker_with_a_failed_suite_keeps_its_fork_for_a_while() {
    let engine = engine();
    let failing = SUITES.replace("> two.ran", "> two.ran && exit 3");
    let trees = worktrees("worktrees-hold", &["wthold"], &spec(19640, &failing));
    let controller = Controller::start(engine, RunOptions::default());
    link(&controller, &trees[0]);
    controller.wait_ready("wthold", LIMIT);
    let out = trees[0].join("report");
    let words = [
        "test",
        "run",
        "wthold",
        "--workers",
        "2",
        "--on-failure",
        "hold=30m",
        "-o",
        "json",
        "--out",
    ];
    let ran = controller.cli(&[&words[..], &[out.to_str().unwrap()]].concat());
    let shown = text_of(&ran);
    assert_eq!(ran.status.code(), Some(1), "{shown}");
    let report: Value = serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
    let worker_of = |name: &str| {
        let suites = report["suites"].as_array().unwrap();
        text(&suites.iter().find(|suite| suite["name"] == name).unwrap()["worker"])
    };
    for name in ["one", "two", "three", "four"] {
        let worker = worker_of(name);
        assert!(worker.starts_with("wthold-w"), "{name}: {shown}");
        let recorded = fs::read_to_string(trees[0].join(format!("{name}.ran"))).unwrap();
        assert!(recorded.starts_with(&format!("{worker} http://")), "{recorded}");
    }
    let held = worker_of("two");
    assert!(shown.contains(&format!("`{held}` is held for 30m")), "{shown}");
    assert_eq!(controller.status(&held)["phase"], "Held");
    let left = forks(engine, "wthold");
    assert_eq!(left, std::slice::from_ref(&held), "only the held fork remains");
    let junit = fs::read_to_string(out.join("junit.xml")).unwrap();
    assert!(
        junit.contains(&format!("name=\"worker\" value=\"{held}\"")),
        "{junit}"
    );
    assert!(controller.cli(&["down", &held]).status.success());
    assert_eq!(forks(engine, "wthold"), [""; 0]);
}

#[test]
fn run_with_a_removed_fork_passes() {
    let engine = engine();
    let waiting = SUITES.replace(
        "&& echo",
        "&& while [ $ARGUS_ENVIRONMENT = wtgone-w2 ] && ! [ -e go ]; do sleep 0.1; done && echo",
    );
    let trees = worktrees("worktrees-gone", &["wtgone"], &spec(19660, &waiting));
    let controller = Controller::start(engine, RunOptions::default());
    link(&controller, &trees[0]);
    controller.wait_ready("wtgone", LIMIT);
    let mut run = controller.command();
    run.args(["test", "run", "wtgone", "--workers", "2"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let run = run.spawn().unwrap();
    let is_idle = || {
        let suites = ["one", "two", "three", "four"];
        let ran = suites
            .iter()
            .filter(|name| trees[0].join(format!("{name}.ran")).exists());
        (ran.count() == 3
            && controller.status("wtgone-w1")["tests"]
                .as_array()
                .is_none_or(Vec::is_empty))
        .then_some(())
    };
    controller.wait_until(LIMIT, "the first worker has no more suites", is_idle);
    assert!(controller.cli(&["down", "wtgone-w1"]).status.success());
    fs::write(trees[0].join("go"), "").unwrap();
    let ended = run.wait_with_output().unwrap();
    let shown = text_of(&ended);
    assert_eq!(ended.status.code(), Some(0), "{shown}");
    assert_eq!(forks(engine, "wtgone"), [""; 0]);
}

#[test]
fn signal_ends_the_workers_and_removes_their_forks() {
    let engine = engine();
    let endless = SUITES.replace(
        "&& echo",
        "&& touch \"$ARGUS_ENVIRONMENT.seen\" && sleep 600 && echo",
    );
    let trees = worktrees("worktrees-signal", &["wtsignal"], &spec(19645, &endless));
    let controller = Controller::start(engine, RunOptions::default());
    link(&controller, &trees[0]);
    controller.wait_ready("wtsignal", LIMIT);
    let mut run = controller.command();
    run.args(["test", "run", "wtsignal", "--workers", "2"])
        .stdin(Stdio::null());
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    for number in [1, 2] {
        let seen = trees[0].join(format!("wtsignal-w{number}.seen"));
        controller.wait_until(LIMIT, "both workers run a suite", || seen.exists().then_some(()));
    }
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let ended = wait::poll(LIMIT, || run.try_wait().unwrap()).expect("the run ends");
    assert_eq!(ended.code(), Some(130));
    assert_eq!(forks(engine, "wtsignal"), [""; 0]);
    assert!(running(engine, "wtsignal-web"));
}

/// Rounds of the test of many workers, from `ARGUS_ROUNDS`.
fn rounds() -> usize {
    let given = std::env::var("ARGUS_ROUNDS").ok();
    given.map_or(1, |text| text.parse().expect("a number of rounds"))
}

#[test]
fn four_worktrees_with_four_workers_each_never_collide() {
    let engine = engine();
    let names = ["wtfour", "wtfour-a", "wtfour-b", "wtfour-c"];
    let trees = worktrees("worktrees-four", &names, &spec(19650, SUITES));
    // One controller serves two worktrees; the other two have their own.
    let specs = trees[0].join("environments");
    fs::create_dir(&specs).unwrap();
    let main = Run::start(engine, &trees[0], &["run"]);
    main.until("the controller of the main worktree runs", || {
        let shown = argus(engine, &trees[0], &["state", "-o", "name"])
            .output()
            .unwrap();
        let private = String::from_utf8(shown.stdout).unwrap();
        Path::new(private.trim())
            .join("argus.sock")
            .exists()
            .then_some(())
    });
    let binary = argus_tests::binary::argus();
    let script = "exec \"$0\" test run \"$ARGUS_ENVIRONMENT\" --workers 4";
    for round in 0..rounds() {
        let runs: Vec<_> = trees
            .iter()
            .enumerate()
            .map(|(index, tree)| {
                for name in ["one", "two", "three", "four"] {
                    drop(fs::remove_file(tree.join(format!("{name}.ran"))));
                }
                let mut command = argus(engine, tree, &["up"]);
                if index >= 2 {
                    command.env("ARGUS_STATE", ".argus");
                }
                command.args(["--", "sh", "-c", script]).arg(&binary);
                let output = fs::File::create(tree.join("run.log")).unwrap();
                command.stdout(output.try_clone().unwrap()).stderr(output);
                command.spawn().unwrap()
            })
            .collect();
        let mut used = BTreeSet::new();
        for ((mut run, tree), name) in runs.into_iter().zip(&trees).zip(names) {
            let ended = wait::poll(LIMIT * 2, || run.try_wait().unwrap()).expect("the run ends");
            let log = fs::read_to_string(tree.join("run.log")).unwrap();
            assert!(ended.success(), "round {round}, {name}: {log}");
            for suite in ["one", "two", "three", "four"] {
                let recorded = fs::read_to_string(tree.join(format!("{suite}.ran"))).unwrap();
                let (env, url) = recorded.trim().split_once(' ').unwrap();
                assert!(env.starts_with(&format!("{name}-w")), "{recorded}");
                used.insert((env.to_owned(), url.to_owned()));
            }
        }
        let environments: BTreeSet<_> = used.iter().map(|(env, _)| env).collect();
        assert_eq!(
            environments.len(),
            used.len(),
            "each fork has one address: {used:?}"
        );
        let left: Vec<String> = names.iter().flat_map(|name| objects(engine, name)).collect();
        assert_eq!(left, [""; 0], "round {round}");
        assert!(
            !trees[1].join(".argus").exists(),
            "the first controller serves it"
        );
    }
}

/// Containers and networks of an environment and its forks.
fn objects(engine: &PrivateEngine, env: &str) -> Vec<String> {
    let listed = |words: &[&str]| {
        let output = engine.docker_ok(words);
        output.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let containers = listed(&["ps", "--all", "--format", "{{.Names}}"]);
    let networks = listed(&["network", "ls", "--format", "{{.Name}}"]);
    let (own, network) = (format!("{env}-web"), format!("argusai-{env}-network"));
    let (fork, fork_network) = (format!("{env}-w"), format!("argusai-{env}-w"));
    let is_own = |name: &String| {
        *name == own || *name == network || name.starts_with(&fork) || name.starts_with(&fork_network)
    };
    containers.into_iter().chain(networks).filter(is_own).collect()
}
