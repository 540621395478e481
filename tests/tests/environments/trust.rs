//! Limits for the spec files of a repository, on a real engine: the ceiling of the user, and the hidden state.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::fs;
use std::process::Command;

use argus_tests::fixture::{LIMIT, engine};
use argus_tests::wait;
use serde_json::Value;

use crate::repositories::{Run, argus, text_of};

fn spec(project: &str, more: &str) -> String {
    format!(
        "version: \"1\"\nproject: {{ name: {project} }}\nservices:\n  app:\n    image: busybox:local\n    stopGrace: 1s\n    \
         command: [\"sh\", \"-c\", \"exec sleep 3600\"]\n    container: {{ name: {project}-app{more} }}\n"
    )
}

#[test]
fn ceiling_of_the_user_holds_for_every_file() {
    let engine = engine();
    let repo = engine.scratch("ceiling");
    let config = engine.scratch("ceiling-config");
    fs::create_dir_all(config.join("argus")).unwrap();
    fs::write(
        config.join("argus/argus.toml"),
        "ceiling = { max-pids = 64, max-log-size = '2MB', min-port = 1024, no-new-privileges = true }\n",
    )
    .unwrap();
    let specs = repo.join("specs");
    fs::create_dir_all(&specs).unwrap();
    // A settings file of the repository raises no limit.
    fs::write(repo.join("argus.toml"), "ceiling = { max-pids = 4000 }\n").unwrap();
    let capped = specs.join("capped.e2e.yaml");
    fs::write(&capped, spec("capped", "")).unwrap();
    let command = |words: &[&str]| {
        let mut command = argus(engine, &repo, words);
        command.env("XDG_CONFIG_HOME", &config);
        command
    };
    let run = Run::spawn(command(&["run", "--specs", "specs"]), repo.with_extension("log"));
    let state = repo.join(".argus");
    run.ready(&state, "capped");
    let host_config = engine.inspect("capped-app").unwrap()["HostConfig"].clone();
    assert_eq!(host_config["PidsLimit"], 64);
    let log = &host_config["LogConfig"]["Config"];
    let number = |key: &str| log[key].as_str().unwrap().parse::<u64>().unwrap();
    assert!(number("max-size") * number("max-file") <= 2_000_000, "{log}");
    for (policy, name) in [
        ("pidsLimit: 65", "max-pids"),
        ("logMaxSize: 2MB", "max-log-size"),
        ("noNewPrivileges: false", "no-new-privileges"),
    ] {
        let text = spec("capped", "") + &format!("argus: {{ policy: {{ {policy} }} }}\n");
        fs::write(&capped, text).unwrap();
        let refused = run.until(name, || {
            let bytes = fs::read(state.join("environments/capped.json")).ok()?;
            let status: Value = serde_json::from_slice(&bytes).ok()?;
            let errors = status["errors"].as_array()?.clone();
            errors.into_iter().find(|error| error.to_string().contains(name))
        });
        assert_eq!(refused["code"], "POLICY_VIOLATION", "{refused}");
    }
    fs::write(&capped, spec("capped", ", ports: ['443:80']")).unwrap();
    let validated = command(&["validate", "--specs", "specs"]).output().unwrap();
    let text = text_of(&validated);
    assert_eq!(validated.status.code(), Some(3), "{text}");
    assert!(text.contains("min-port"), "{text}");
    let still = engine.inspect("capped-app").unwrap();
    assert_eq!(
        still["HostConfig"]["PidsLimit"], 64,
        "the last accepted file stays"
    );
}

#[test]
fn mounted_project_shows_no_state_of_the_controller() {
    let engine = engine();
    let repo = engine.scratch("hidden-state");
    fs::write(repo.join("e2e.yaml"), spec("hidden", ", volumes: ['.:/app']")).unwrap();
    let run = Run::start(engine, &repo, &["run", "--specs", "."]);
    run.ready(&repo.join(".argus"), "hidden");
    let shell = |line: &str| engine.docker(&["exec", "hidden-app", "sh", "-c", line]);
    let listed = shell("ls -A /app/.argus && touch /app/written");
    assert!(listed.status.success(), "{listed:?}");
    assert_eq!(text_of(&listed).trim(), "", "the state is hidden");
    assert!(
        repo.join("written").exists(),
        "the rest of the project is writable"
    );
    for line in [
        "echo x > /app/.argus/controller.json",
        "mv /app/.argus /app/moved",
        "rm -rf /app/.argus",
        "umount /app/.argus",
    ] {
        assert!(!shell(line).status.success(), "{line}");
    }
    assert!(repo.join(".argus/controller.json").exists());
    let allowed = argus(engine, &repo, &["allow"]).output().unwrap();
    assert!(allowed.status.success(), "{}", text_of(&allowed));
    drop(run);
    // A person who allows the project shows the state.
    let _run = Run::start(engine, &repo, &["run", "--specs", "."]);
    let seen = wait::poll(LIMIT, || {
        let listed = text_of(&shell("ls /app/.argus"));
        listed.contains("environments").then_some(())
    });
    assert!(seen.is_some(), "{}", text_of(&shell("ls -A /app/.argus")));
}

#[test]
fn container_writes_no_git_directory_of_a_submodule() {
    let engine = engine();
    let repo = engine.scratch("own-git");
    let git = |words: &str| {
        let settings = "-c protocol.file.allow=always -c user.name=a -c user.email=a@example.com";
        let output = Command::new("git")
            .current_dir(&repo)
            .args(settings.split(' ').chain(words.split(' ')))
            .output()
            .unwrap();
        assert!(output.status.success(), "{words}: {output:?}");
    };
    for words in [
        "init -q .",
        "init -q src",
        "-C src commit -q --allow-empty -m first",
        // One submodule has a directory `.git`, and `.git` of the other one names a directory in the project.
        "clone -q src old",
        "clone -q --separate-git-dir=gd src named",
        "add old named",
    ] {
        git(words);
    }
    fs::write(repo.join("e2e.yaml"), spec("own-git", ", volumes: ['.:/app']")).unwrap();
    let run = Run::start(engine, &repo, &["run", "--specs", "."]);
    run.ready(&repo.join(".argus"), "own-git");
    let can = |line: &str| {
        let output = engine.docker(&["exec", "own-git-app", "sh", "-c", line]);
        output.status.success()
    };
    let permitted =
        "echo x > /app/old/written && echo x > /app/named/written && cat /app/old/.git/config /app/gd/config";
    assert!(can(permitted));
    for line in [
        "echo x >> /app/old/.git/config",
        "echo x > /app/old/.git/hooks/post-checkout",
        "mv /app/old/.git /app/old/other",
        "mv /app/old /app/other",
        "echo x > /app/named/.git",
        "echo x >> /app/gd/config",
        "mv /app/gd /app/other",
    ] {
        assert!(!can(line), "{line}");
    }
    assert!(repo.join("old/written").exists());
    git("status");
}
