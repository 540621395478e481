//! A checkout of an author who is not trusted, on a real engine: its settings, state, links and earlier revisions reach nothing outside.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use argus_tests::fixture::{LIMIT, engine, running, text};
use argus_tests::{Controller, PrivateEngine, RunOptions, http};
use serde_json::{Value, json};

use super::recovery::proven;
use super::repositories::{Run, argus, text_of};

/// A line of a file that no output may quote.
const SECRET: &str = "root:$6$c0ffee:19000:0:99999:7:::\n";

fn spec(project: &str, volumes: &str) -> String {
    format!(
        "version: \"1\"\nproject: {{ name: {project} }}\nservices:\n  app:\n    image: busybox:local\n    stopGrace: 1s\n    \
         command: [\"sh\", \"-c\", \"exec sleep 3600\"]\n    container: {{ name: {project}-app, volumes: [{volumes}] }}\n"
    )
}

/// Folder of the host with files that only root may read.
fn write_outside(name: &str) -> PathBuf {
    let outside = engine().scratch(name).canonicalize().unwrap();
    for file in ["shadow", "id_rsa", "plain.json"] {
        fs::write(outside.join(file), SECRET).unwrap();
        fs::set_permissions(outside.join(file), fs::Permissions::from_mode(0o600)).unwrap();
    }
    outside
}

fn assert_unchanged(outside: &Path) {
    assert_eq!(fs::read_dir(outside).unwrap().count(), 3);
    for file in ["shadow", "id_rsa", "plain.json"] {
        let path = outside.join(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), SECRET, "{file}");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

/// Writes the private state of a controller that accepted the mounts of all files in the checkout, without an engine.
fn ship_private_state(engine: &PrivateEngine, repo: &Path, outside: &Path) {
    let granted = outside.display().to_string();
    let words = [
        "run",
        "--specs",
        ".",
        "--state",
        "made",
        "--allow-mount",
        &granted,
    ];
    let mut command = argus(engine, repo, &words);
    let absent = engine.scratch("hostile-engine").join("absent.sock");
    command.env("DOCKER_HOST", format!("unix://{}", absent.display()));
    let run = Run::spawn(command, repo.with_extension("made.log"));
    let accepted = repo.join("made/private/specs.json");
    run.until("the mount is accepted", || {
        let text = fs::read_to_string(&accepted).ok()?;
        text.contains(&granted).then_some(())
    });
    drop(run);
    fs::create_dir(repo.join(".argus")).unwrap();
    fs::rename(repo.join("made/private"), repo.join(".argus/private")).unwrap();
    fs::remove_dir_all(repo.join("made")).unwrap();
}

fn status_of(repo: &Path, environment: &str) -> Option<Value> {
    let path = repo.join(format!(".argus/environments/{environment}.json"));
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn is_refused(status: &Value) -> bool {
    let errors = status["errors"].as_array().cloned().unwrap_or_default();
    errors.iter().any(|error| error["code"] == "POLICY_VIOLATION")
}

#[test]
fn hostile_checkout_gets_nothing_of_the_host() {
    let engine = engine();
    let repo = engine.scratch("hostile");
    let outside = write_outside("hostile-outside");
    let shown = outside.display().to_string();
    fs::create_dir(repo.join(".git")).unwrap();
    fs::write(
        repo.join("stolen.e2e.yaml"),
        spec("stolen", &format!("'{shown}:/x'")),
    )
    .unwrap();
    ship_private_state(engine, &repo, &outside);
    fs::write(repo.join("argus.toml"), format!("allow-mount = [\"{shown}\"]\n")).unwrap();
    for name in [
        ".argus/environments",
        ".argus/incidents",
        ".argus/controller.json",
        "team",
    ] {
        symlink(&outside, repo.join(name)).unwrap();
    }
    symlink(outside.join("shadow"), repo.join("linked.yaml")).unwrap();
    symlink(outside.join("id_rsa"), repo.join("taken.e2e.yaml")).unwrap();
    let suites = format!(
        "tests:\n  suites:\n    - {{ name: Linked, id: linked, file: linked.yaml }}\n    \
         - {{ name: Absolute, id: absolute, file: '{shown}/shadow' }}\n"
    );
    fs::write(repo.join("plain.e2e.yaml"), spec("plain", "") + &suites).unwrap();

    let run = Run::start(engine, &repo, &["run", "--specs", "."]);
    run.ready(&repo.join(".argus"), "plain");
    run.until("the mount is refused", || {
        is_refused(&status_of(&repo, "stolen")?).then_some(())
    });
    let has_container = || !engine.containers_with("argusai.project=stolen").is_empty();
    assert!(!has_container());
    assert_unchanged(&outside);

    let private = argus(engine, &repo, &["state", "-o", "name"]).output().unwrap();
    let private = PathBuf::from(String::from_utf8_lossy(&private.stdout).trim());
    assert!(!private.starts_with(repo.canonicalize().unwrap()));
    let accepted: Value = serde_json::from_slice(&fs::read(private.join("specs.json")).unwrap()).unwrap();
    let accepted = accepted["accepted"].as_object().unwrap();
    assert_eq!(accepted.keys().collect::<Vec<_>>(), ["plain.e2e.yaml"]);
    let socket = private.join("argus.sock");
    let call = |tool: &str, arguments: Value| http::result(&socket, tool, &arguments, LIMIT).to_string();
    let selected = json!({ "environment": "plain", "suites": ["linked", "absolute"] });
    let mut answers = vec![
        call("argus_test_run", selected),
        call("argus_status", json!({ "environment": "plain" })),
    ];
    // A name with a linked folder, and the name of a link.
    for (project, name) in [("shop", "team/shop.e2e.yaml"), ("taken", "taken.e2e.yaml")] {
        let content = spec(project, "");
        let answer = call("argus_apply", json!({ "content": content, "name": name }));
        assert!(answer.contains("link"), "{name}: {answer}");
        assert_unchanged(&outside);
        answers.push(answer);
    }
    let validated = http::request(&socket, "GET", "/api/v1/validate", "", b"", LIMIT).unwrap();
    answers.push(String::from_utf8_lossy(&validated.body).into_owned());
    for words in [
        &["test", "run", "plain"][..],
        &["validate"],
        &["get"],
        &["incidents"],
        &["doctor"],
    ] {
        answers.push(text_of(&argus(engine, &repo, words).output().unwrap()));
    }
    for answer in &answers {
        assert!(!answer.contains("c0ffee"), "{answer}");
    }
    let validated = answers[5..].concat();
    for named in [
        "linked.yaml",
        "outside the project of the spec file",
        "`allow-mount`, which a repository cannot set",
    ] {
        assert!(validated.contains(named), "{named} in {validated}");
    }
    assert!(!has_container());
    assert_unchanged(&outside);
}

#[test]
fn earlier_revision_below_a_writable_mount_never_starts() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    fs::create_dir(argus.specs.join("conf")).unwrap();
    argus.write_spec("shop.e2e.yaml", &spec("shop", "'./conf:/conf:ro'"));
    let earlier = argus.wait_ready("shop", LIMIT)["revision"].clone();
    let command = |words: &[&str]| {
        let output = argus.cli(words);
        assert!(output.status.success(), "{words:?} {}", text_of(&output));
    };
    command(&["fork", "shop", "copy"]);
    argus.wait_ready("copy", LIMIT);
    proven(&argus, "shop");
    // The next revision has no mount, so another file may have one above its earlier source.
    argus.write_spec("shop.e2e.yaml", &spec("shop", ""));
    argus.wait_status("shop", LIMIT, "has the next revision", |now| {
        now["phase"] == "Ready" && now["revision"] != earlier
    });
    argus.write_spec("mail.e2e.yaml", &spec("mail", "'.:/app'"));
    argus.wait_ready("mail", LIMIT);

    engine.docker_ok(&["kill", "copy-app"]);
    command(&["rollback", "shop"]);
    for name in ["shop", "copy"] {
        let status = argus.wait_status(name, LIMIT, "waits for the writer", |now| {
            Controller::service(now, "app")["waitingOn"]["reason"] == "SourceWritable"
        });
        let shown = status["errors"].to_string();
        assert!(is_refused(&status) && shown.contains("mail-app"), "{shown}");
        assert!(shown.contains("argus down mail"), "{shown}");
    }
    let mounts_the_source = |name: &str| {
        let found = engine.inspect(name).unwrap_or_default();
        let mounts = found["Mounts"].as_array().cloned().unwrap_or_default();
        running(engine, name) && mounts.iter().any(|mount| text(&mount["Destination"]) == "/conf")
    };
    assert!(!mounts_the_source("shop-app") && !mounts_the_source("copy-app"));

    command(&["down", "mail"]);
    for name in ["shop", "copy"] {
        argus.wait_status(name, LIMIT, "is Ready", |now| {
            now["phase"] == "Ready" && mounts_the_source(&format!("{name}-app"))
        });
    }
    command(&["down", "--all"]);
}

#[test]
fn controllers_of_one_worktree_expose_no_source_of_each_other() {
    let engine = engine();
    let repo = engine.scratch("mono").canonicalize().unwrap();
    for folder in [".git", "a", "b/sub"] {
        fs::create_dir_all(repo.join(folder)).unwrap();
    }
    fs::write(repo.join("a/e2e.yaml"), spec("mono-a", "'..:/app'")).unwrap();
    fs::write(repo.join("b/e2e.yaml"), spec("mono-b", "'./sub:/x'")).unwrap();
    let run = |folder: &str| Run::start(engine, &repo.join(folder), &["run", "--specs", "."]);
    let first = run("a");
    first.ready(&repo.join("a/.argus"), "mono-a");
    let second = run("b");
    let status = second.until("the source is refused", || {
        status_of(&repo.join("b"), "mono-b").filter(is_refused)
    });
    assert!(status["errors"].to_string().contains("mono-a-app"), "{status:#}");
    assert!(!running(engine, "mono-b-app"));
    let down = |folder: &str| {
        argus(engine, &repo.join(folder), &["down", "--all"])
            .output()
            .unwrap()
    };
    assert!(down("a").status.success());
    second.ready(&repo.join("b/.argus"), "mono-b");
    assert!(down("b").status.success());
}

#[test]
fn project_does_not_grow_when_a_container_changes_its_owner() {
    let engine = engine();
    let outer = engine.scratch("grown").canonicalize().unwrap();
    let repo = outer.join("checkout");
    fs::create_dir_all(repo.join(".git")).unwrap();
    fs::create_dir(outer.join("secret")).unwrap();
    let changes = spec("grown", "'.:/app'").replace("exec sleep", "chown 12345 /app && exec sleep");
    fs::write(repo.join("e2e.yaml"), changes).unwrap();
    let run = Run::start(engine, &outer, &["run", "--specs", "checkout"]);
    run.ready(&outer.join(".argus"), "grown");
    run.until("the owner changes", || {
        (fs::metadata(&repo).ok()?.uid() == 12345).then_some(())
    });
    fs::write(repo.join("e2e.yaml"), spec("grown", "'../secret:/s'")).unwrap();
    run.until("the source is refused", || {
        status_of(&outer, "grown").filter(is_refused)
    });
    let mounts = engine.inspect("grown-app").unwrap()["Mounts"].to_string();
    assert!(!mounts.contains("secret"), "{mounts}");
    assert!(
        argus(engine, &outer, &["down", "--all"])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn spec_file_in_a_volume_uses_no_path_of_the_host() {
    let engine = engine();
    let folder = engine.scratch("stored").canonicalize().unwrap();
    let kept = spec("kept", "'data:/data'");
    let planted = spec("planted", "./sub:/x")
        .replace('\n', "\\n")
        .replace('"', "\\\"");
    let writes = format!("mkdir -p /data/p/sub && printf '%b' '{planted}' > /data/p/e2e.yaml && exec sleep");
    let kept = kept.replace("exec sleep", &writes);
    fs::write(folder.join("kept.e2e.yaml"), kept).unwrap();
    let run = Run::start(engine, &folder, &["run", "--specs", "."]);
    run.ready(&folder.join(".argus"), "kept");
    let volume = engine
        .data_root()
        .join("volumes/argusai-kept_data/_data/p/e2e.yaml");
    run.until("the container writes the file", || volume.exists().then_some(()));
    symlink(&volume, folder.join("planted.e2e.yaml")).unwrap();
    run.until("the source is refused", || {
        status_of(&folder, "planted").filter(is_refused)
    });
    assert!(!running(engine, "planted-app"));
    fs::remove_file(folder.join("planted.e2e.yaml")).unwrap();
    assert!(
        argus(engine, &folder, &["down", "kept", "--volumes"])
            .status()
            .unwrap()
            .success()
    );
}
