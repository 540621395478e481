//! Edits of other inputs than spec files on a real engine: build contexts, and files that containers mount.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::fs;

use argus_tests::fixture::{LIMIT, engine, text};
use argus_tests::{Controller, RunOptions};

/// Options with an interval of scans that no test waits for: only notifications cause further scans.
fn without_scans() -> RunOptions {
    RunOptions {
        env: vec![("ARGUS_WAITS".to_owned(), "scanInterval=1h".to_owned())],
        ..RunOptions::default()
    }
}

#[test]
fn edit_of_a_context_is_built_in_each_layout_without_a_scan() {
    let engine = engine();
    let project = engine.scratch("watched-project");
    let options = RunOptions {
        specs: Some(project.join("environments")),
        ..without_scans()
    };
    let argus = Controller::prepare(engine, options);
    let write = |path: &str, text: &str| {
        let path = project.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    // The project of the spec files is the worktree.
    fs::create_dir_all(project.join(".git")).expect("a worktree");
    let spec = |name: &str, context: &str| {
        format!(
            "project: {{ name: {name} }}\nservices:\n  web:\n    build: {{ context: {context} }}\n    command: [\"sleep\", \"3600\"]\n    \
             stopGrace: 1s\n    container: {{ name: {name}-web }}\n"
        )
    };
    let dockerfile = "FROM busybox:local\nCOPY . /app\n";
    let layouts = [
        ("watchednear", ".", "environments/watchednear", "src/app/main.c"),
        (
            "watchedbelow",
            "./src",
            "environments/watchedbelow/src",
            "lib/main.c",
        ),
        ("watchedoutside", "../../server", "server", "lib/deep/main.c"),
    ];
    for (name, context, folder, source) in layouts {
        write(&format!("{folder}/Dockerfile"), dockerfile);
        write(&format!("{folder}/{source}"), "one");
        write(&format!("environments/{name}/e2e.yaml"), &spec(name, context));
    }
    argus.start_again();
    for (name, ..) in layouts {
        argus.wait_ready(name, LIMIT);
    }
    for (name, _, folder, source) in layouts {
        let container = format!("{name}-web");
        let image = || engine.inspect(&container).map(|found| text(&found["Image"]));
        let before = image();
        write(&format!("{folder}/{source}"), "two");
        argus.wait_until(LIMIT, "the edit is built", || {
            image().filter(|image| Some(image) != before.as_ref())
        });
    }
    fs::remove_dir_all(&argus.specs).expect("the specs");
    fs::create_dir(&argus.specs).expect("no specs");
}

#[test]
fn replaced_mounted_file_is_tried_again_or_reported() {
    let engine = engine();
    let argus = Controller::prepare(engine, without_scans());
    let replace = |text: &str| {
        let path = argus.specs.join("conf/app.conf");
        fs::create_dir_all(argus.specs.join("conf")).expect("a folder");
        fs::write(path.with_extension("new"), text).expect("a file");
        fs::rename(path.with_extension("new"), path).expect("another inode");
    };
    replace("bad");
    argus.write_spec(
        "e2e.yaml",
        "project: { name: swapped }\nresilience: { container: { maxRestarts: 0 } }\nservices:\n  web:\n    image: busybox:local\n    \
         command: [\"sh\", \"-c\", \"grep -q good /app.conf && exec sleep 3600\"]\n    stopGrace: 1s\n    \
         container: { name: swapped-web, volumes: [\"./conf/app.conf:/app.conf:ro\"] }\n",
    );
    argus.start_again();
    argus.wait_status("swapped", LIMIT, "has given up", |status| {
        status["errors"]
            .to_string()
            .contains("CONTAINER_RESTART_EXHAUSTED")
    });
    replace("good, one");
    argus.wait_status("swapped", LIMIT, "is Ready", |status| status["phase"] == "Ready");
    let started = || {
        engine
            .inspect("swapped-web")
            .map(|found| text(&found["State"]["StartedAt"]))
    };
    let before = started();

    replace("good, two");
    let status = argus.wait_status("swapped", LIMIT, "has a warning", |status| {
        status["diagnostics"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
    });
    let warning = &status["diagnostics"][0];
    assert!(
        text(&warning["hint"]).contains("argus restart swapped/web"),
        "{warning:#}"
    );
    assert_eq!(started(), before, "a running service is not restarted");
    for words in [&["doctor"][..], &["describe", "swapped"]] {
        let output = argus.cli(words);
        let output = String::from_utf8_lossy(&output.stdout);
        let is_named = output.contains("conf/app.conf") && output.contains("argus restart swapped/web");
        assert!(is_named, "{words:?}: {output}");
    }
    let content = || engine.docker_ok(&["exec", "swapped-web", "cat", "/app.conf"]);
    assert_eq!(content().trim(), "good, one");

    assert!(argus.cli(&["restart", "swapped/web"]).status.success());
    argus.wait_status("swapped", LIMIT, "has no warning any more", |status| {
        status["phase"] == "Ready" && status["diagnostics"].as_array().is_none_or(Vec::is_empty)
    });
    assert_eq!(content().trim(), "good, two");
}
