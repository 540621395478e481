//! Several git worktrees of one repository on one engine: names, ports and addresses of each.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a failed step ends the test"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use argus_tests::fixture::{IMAGE, LIMIT, engine, page, running};
use argus_tests::{Controller, RunOptions};

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
        engine.docker_ok(&["volume", "inspect", &format!("data-{name}")]);
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
    let down = argus(engine, &trees[1], &["down", "wtserve"]).output().unwrap();
    assert!(down.status.success(), "{}", text_of(&down));
}
