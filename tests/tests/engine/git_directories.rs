//! Git directories on a real engine: a container with a writable mount of the project writes no hook.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use argus_tests::fixture::{LIMIT, engine, text};
use argus_tests::{Controller, PrivateEngine, RunOptions};

const SPEC: &str = "version: \"1\"\nproject: { name: hooks }\nservices:\n  app:\n    image: busybox:local\n    stopGrace: 1s\n    \
    command: [\"sh\", \"-c\", \"exec sleep 3600\"]\n    container: { name: hooks-app, volumes: [\".:/app\"] }\n";

/// Creates a repository with a submodule.
fn repository(engine: &PrivateEngine, name: &str) -> PathBuf {
    let top = engine.scratch(name).canonicalize();
    let top = top.expect("the directory exists");
    for (path, content) in [
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/hooks/pre-commit.sample", "#!/bin/sh\n"),
        (".git/modules/lib/HEAD", "ref: refs/heads/main\n"),
        (".git/modules/lib/config", "[core]\n\tworktree = ../../../lib\n"),
        ("lib/.git", "gitdir: ../.git/modules/lib\n"),
        ("lib/code", "code\n"),
        // The state of another controller, whose addresses a shell reads.
        ("other/.argus/environments/shop.env", "WEB_PORT=80\n"),
        // A checkout that no list names.
        ("nested/.git/config", ""),
    ] {
        let path = top.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, content).expect("a file");
    }
    top
}

/// Starts a controller with a project as its specs folder.
fn start_in<'e>(engine: &'e PrivateEngine, top: &Path) -> Controller<'e> {
    let options = RunOptions {
        specs: Some(top.to_path_buf()),
        ..RunOptions::default()
    };
    Controller::start(engine, options)
}

/// Commits a container of a command as an image `NAME:local`.
fn commit(engine: &PrivateEngine, name: &str, command: &str, change: &str) {
    engine.docker_ok(&["run", "--name", name, "busybox:local", "sh", "-c", command]);
    let image = format!("{name}:local");
    engine.docker_ok(&["commit", "--change", change, name, &image]);
    engine.docker_ok(&["rm", name]);
}

/// Runs a command in the container. Returns whether it succeeded.
fn can(engine: &PrivateEngine, command: &str) -> bool {
    let output = engine.docker(&["exec", "hooks-app", "sh", "-c", command]);
    output.status.success()
}

fn id_of_the_container(engine: &PrivateEngine) -> String {
    text(&engine.inspect("hooks-app").expect("the container runs")["Id"])
}

#[test]
fn container_writes_no_hook_without_a_permission() {
    let engine = engine();
    let top = repository(engine, "hooks");
    // A mount around private state is refused.
    let state = engine.scratch("hooks-state");
    let start = |args: &[&str]| {
        let options = RunOptions {
            specs: Some(top.clone()),
            state: Some(state.clone()),
            args: args.iter().map(|text| (*text).to_owned()).collect(),
            ..RunOptions::default()
        };
        Controller::start(engine, options)
    };
    let argus = start(&[]);
    argus.write_spec("e2e.yaml", SPEC);
    argus.wait_ready("hooks", LIMIT);
    for permitted in [
        "echo x > /app/written && echo x > /app/lib/written && mv /app/written /app/lib/moved",
        "cat /app/.git/HEAD /app/lib/.git",
    ] {
        assert!(can(engine, permitted), "{permitted}");
    }
    for refused in [
        "echo x > /app/.git/hooks/post-checkout",
        "echo x > /app/.git/config",
        "mv /app/.git /app/moved",
        "rm -rf /app/.git",
        "umount /app/.git",
        "mount -o remount,rw /app/.git",
        "echo x > /app/lib/.git",
        "echo x > /app/nested/.git/config",
        "mv /app/nested /app/moved",
        "echo x > /app/other/.argus/environments/shop.env",
        "mv /app/other /app/moved",
        "rm /app/lib/.git",
        "mv /app/lib /app/moved",
    ] {
        assert!(!can(engine, refused), "{refused}");
    }
    assert!(top.join(".git/hooks/pre-commit.sample").exists());
    assert!(!top.join(".git/hooks/post-checkout").exists());
    assert!(top.join("lib/moved").exists());

    // The covers are no drift, and a new run of the controller keeps the container.
    let before = id_of_the_container(engine);
    argus.stop();
    argus.start_again();
    argus.wait_ready("hooks", LIMIT);
    argus.assert_settled("hooks");
    assert_eq!(id_of_the_container(engine), before);
    // A container that ends is started with its covers again.
    engine.docker_ok(&["kill", "hooks-app"]);
    argus.wait_status("hooks", LIMIT, "is Ready again", |status| {
        status["phase"] == "Ready" && can(engine, "test -e /app/.git/HEAD")
    });
    // Links of the earlier run are gone with its container.
    assert_ne!(id_of_the_container(engine), before);
    assert!(!can(engine, "echo x > /app/.git/hooks/post-checkout"));

    argus.stop();
    let argus = start(&["--git-writable"]);
    argus.wait_ready("hooks", LIMIT);
    argus.wait_status("hooks", LIMIT, "may write hooks", |status| {
        status["phase"] == "Ready" && can(engine, "echo x > /app/.git/hooks/post-checkout")
    });
    assert!(top.join(".git/hooks/post-checkout").exists());
    assert!(argus.cli(&["down", "hooks"]).status.success());
}

#[test]
fn target_behind_a_link_of_the_image_is_refused() {
    let engine = engine();
    // `/link/app` of the image is `/volume/app`, where another container could exchange a directory during the start.
    let link = "mkdir -p /volume /plain && ln -s /volume /link";
    commit(engine, "git-linked", link, "ENV A=b");
    let top = repository(engine, "linked");
    let argus = start_in(engine, &top);
    let spec = |target: &str| {
        let spec = SPEC
            .replace("hooks", "linked")
            .replace(".:/app", &format!(".:{target}"));
        spec.replace("busybox:local", "git-linked:local")
    };
    argus.write_spec("e2e.yaml", &spec("/link/app"));
    let status = argus.wait_status("linked", LIMIT, "is refused", |status| {
        let errors = status["errors"].as_array().into_iter().flatten();
        let mut codes = errors.map(|error| error["code"].as_str());
        codes.any(|code| code == Some("POLICY_VIOLATION"))
    });
    assert!(status["errors"].to_string().contains("`/link`"), "{status:#}");
    let found = engine.inspect("linked-app");
    assert!(found.is_none_or(|found| found["State"]["Running"] == false));
    argus.write_spec("e2e.yaml", &spec("/plain/app"));
    argus.wait_ready("linked", LIMIT);
}

#[test]
fn engine_makes_no_folder_in_git_through_a_link() {
    let engine = engine();
    // A directory `.git/index.lock` stops git. The second link leads there by a name that exists on the host only.
    let links = "ln -s /app/.git/index.lock /direct && ln -s /app/name /first && ln -s /first /second && ln -s /tmp/run /harmless && ln -s /proc/self/root/app/.git/index.lock /kernel";
    commit(engine, "git-lock", links, "ENV A=b");
    let top = repository(engine, "lock");
    for name in ["name", "hosts"] {
        symlink(".git/index.lock", top.join(name)).expect("a link");
    }
    let argus = start_in(engine, &top);
    let variants = [
        ("lock-tmpfs", "\"..:/app\"", "[/direct]", Some("`/direct`")),
        ("lock-steps", "\"..:/app\"", "[/second/x]", Some("`/second/x`")),
        ("lock-kernel", "\"..:/app\"", "[/kernel]", Some("`/proc`")),
        ("lock-hosts", "\"..:/etc\"", "[/tmp]", Some("/hosts`")),
        (
            "lock-volume",
            "\"..:/app\", \"v:/direct\"",
            "[/tmp]",
            Some("`/direct`"),
        ),
        ("lock-below", "\"..:/app\", \"v:/v\"", "[/v/x]", Some("`/v/x`")),
        ("lock-none", "\"..:/app\", \"v:/data\"", "[/harmless]", None),
    ];
    for (name, volumes, tmpfs, _) in variants {
        let spec = SPEC.replace("hooks", name).replace("\".:/app\"", volumes);
        let spec = spec.replace("busybox:local", "git-lock:local");
        let spec = spec.replace("    stopGrace", &format!("    tmpfs: {tmpfs}\n    stopGrace"));
        argus.write_spec(&format!("{name}/e2e.yaml"), &spec);
    }
    for (name, .., link) in variants {
        let Some(link) = link else {
            argus.wait_ready(name, LIMIT);
            continue;
        };
        argus.wait_status(name, LIMIT, "is refused", |status| {
            let errors = status["errors"].to_string();
            errors.contains("POLICY_VIOLATION") && errors.contains(link)
        });
        assert!(!top.join(".git/index.lock").exists(), "{name}");
    }
}

#[test]
fn link_that_a_later_mount_hides_is_refused() {
    let engine = engine();
    // The first volume is mounted at `/p`. Its link `x` leads the project elsewhere, and the second volume hides it.
    let links = "mkdir -p /real /p/x /c2 /k && ln -s /p /c && ln -s /p /c2/y";
    for (name, change) in [
        ("git-hidden", "ENV A=b"),
        ("git-volume", "VOLUME /c2/y"),
        ("git-around", "VOLUME /p"),
    ] {
        commit(engine, name, links, change);
    }
    let top = repository(engine, "hidden");
    let argus = start_in(engine, &top);
    let refused = [
        (
            "hidden-a",
            "git-hidden",
            "\"v1:/c\", \"..:/p/x\", \"v2:/c2/y\"",
            "`/c`",
        ),
        (
            "hidden-b",
            "git-hidden",
            "\"v1:/k\", \"v3:/k/m\", \"..:/p/x\", \"v2:/k/l\"",
            "v1:/k",
        ),
        ("hidden-c", "git-volume", "\"v1:/c\", \"..:/p/x\"", "`/c`"),
        ("hidden-d", "git-around", "\"..:/p/x\"", "the volume at `/p`"),
    ];
    let accepted = [
        (
            "plain-a",
            "busybox",
            "\"..:/app\", \"node_modules:/app/node_modules\"",
            "",
        ),
        ("plain-b", "git-hidden", "\"..:/app\", \"data:/data\"", ""),
    ];
    for (name, image, volumes, _) in refused.iter().chain(&accepted) {
        let spec = SPEC.replace("hooks", name).replace("\".:/app\"", volumes);
        let spec = spec.replace("busybox:local", &format!("{image}:local"));
        let spec = spec.replace("    stopGrace", "    tmpfs: [/tmp, /var/run]\n    stopGrace");
        argus.write_spec(&format!("{name}/e2e.yaml"), &spec);
    }
    for (name, ..) in accepted {
        argus.wait_ready(name, LIMIT);
    }
    for (name, _, _, why) in refused {
        argus.wait_status(name, LIMIT, "is refused", |status| {
            let errors = status["errors"].to_string();
            errors.contains("POLICY_VIOLATION") && errors.contains(why)
        });
        let found = engine.inspect(&format!("{name}-app"));
        assert!(
            found.is_none_or(|found| found["State"]["Running"] == false),
            "{name}"
        );
    }
    let mut helpers = engine.containers_with("argusai.helper").into_iter();
    assert!(helpers.all(|helper| helper["Command"] != "-"), "no helper stays");
}
