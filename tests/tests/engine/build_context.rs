//! The default layout on a real engine: the controller's private state is not part of a build context.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::fs;

use argus_tests::fixture::{LIMIT, engine, text};
use argus_tests::{Controller, Proxy, RunOptions};

/// Requests of one build: the session of `BuildKit`, whose Dockerfile adds the labels. The classic builder adds none.
const REQUESTS: [(&str, Option<usize>); 2] = [("POST /session", Some(1)), ("POST /build", None)];

#[test]
fn init_and_run_build_once_without_the_state() {
    let engine = engine();
    let project = engine.scratch("default");
    fs::create_dir_all(project.join(".git")).expect("a directory");
    fs::write(project.join(".git/HEAD"), "ref: refs/heads/main").expect("a file");
    fs::write(project.join("main.txt"), "program").expect("a file");
    let dockerfile = "FROM busybox:local\nCOPY . /context\nCMD [\"sh\", \"-c\", \"exec sleep 3600\"]\n";
    fs::write(project.join("Dockerfile"), dockerfile).expect("a file");
    let proxy = Proxy::start(&engine.scratch("wire").join("p.sock"), &engine.socket());
    // The layout that `argus init .` and `argus run` create in the project.
    let argus = Controller::prepare(
        engine,
        RunOptions {
            specs: Some(project.join("environments")),
            state: Some(project.join(".argus")),
            host: Some(proxy.host()),
            ..RunOptions::default()
        },
    );
    let init = argus.cli(&["init", project.to_str().expect("a path"), "-o", "json"]);
    assert!(init.status.success(), "{init:?}");
    let output: serde_json::Value = serde_json::from_slice(&init.stdout).expect("JSON");
    let environment = output["environment"].as_str().expect("an environment").to_owned();
    argus.start_again();
    argus.wait_ready(&environment, LIMIT);

    let label = format!("argusai.environment={environment}");
    let ids = || {
        let all = engine.containers_with(&label);
        all.iter().map(|one| text(&one["Id"])).collect::<Vec<_>>()
    };
    let first = ids();
    assert_eq!(first.len(), 1);
    // The state has changed since the build, and each scan lists the whole context again.
    for number in 0..2 {
        fs::write(project.join(format!(".argus/private/later-{number}")), "state").expect("a file");
        argus.assert_settled(&environment);
    }
    assert_eq!(ids(), first);
    for (request, expected) in REQUESTS {
        assert_eq!(proxy.counts().get(request).copied(), expected, "{request}");
    }
    assert_eq!(proxy.counts().get("POST /containers/create").copied(), Some(1));

    let found = engine.docker_ok(&["exec", &first[0], "busybox", "find", "/context"]);
    let mut found: Vec<_> = found.lines().map(str::trim).collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            "/context",
            "/context/Dockerfile",
            "/context/environments",
            "/context/main.txt"
        ]
    );
    assert!(argus.cli(&["down", &environment]).status.success());
}
