//! Named volumes of environments.

use argus_tests::fixture::{LIMIT, container_runs, engine};
use argus_tests::{Controller, PrivateEngine, RunOptions};
use serde_json::Value;

/// An environment whose service mounts the volume `db-data`.
fn spec(name: &str, more: &str) -> String {
    format!(
        "project: {{ name: {name} }}\n{more}services:\n  one:\n    image: busybox:local\n    command: [\"sleep\", \"3600\"]\n    stopGrace: 1s\n    \
         container: {{ name: {name}-one, volumes: [\"db-data:/data\"] }}\n"
    )
}

fn exists(engine: &PrivateEngine, volume: &str) -> bool {
    engine.docker(&["volume", "inspect", volume]).status.success()
}

fn write(engine: &PrivateEngine, name: &str) {
    let command = format!("echo {name} > /data/owner");
    engine.docker_ok(&["exec", &format!("{name}-one"), "sh", "-c", &command]);
}

fn owner(engine: &PrivateEngine, name: &str) -> String {
    let text = engine.docker_ok(&[
        "exec",
        &format!("{name}-one"),
        "sh",
        "-c",
        "cat /data/owner || true",
    ]);
    text.trim().to_owned()
}

fn runs(argus: &Controller<'_>, words: &[&str]) -> String {
    let output = argus.cli(words);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "argus {words:?}: {text}");
    text
}

fn has_error(status: &Value, code: &str) -> bool {
    let errors = status["errors"].as_array();
    errors.is_some_and(|errors| errors.iter().any(|error| error["code"] == code))
}

#[test]
fn projects_with_one_volume_name_keep_their_own_data() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    let names = ["vol-one", "vol-two"];
    for name in names {
        argus.write_spec(&format!("{name}.e2e.yaml"), &spec(name, ""));
    }
    for name in names {
        argus.wait_ready(name, LIMIT);
        write(engine, name);
    }
    assert_eq!(names.map(|name| owner(engine, name)), names);

    runs(&argus, &["down", "vol-one"]);
    runs(&argus, &["retry", "vol-one"]);
    argus.wait_ready("vol-one", LIMIT);
    assert_eq!(owner(engine, "vol-one"), "vol-one", "the data is kept");

    // Also after the removal of its containers, and without a controller.
    runs(&argus, &["down", "vol-one"]);
    assert!(exists(engine, "argusai-vol-one_db-data"));
    runs(&argus, &["down", "vol-one", "--volumes"]);
    assert!(!exists(engine, "argusai-vol-one_db-data"));
    assert_eq!(owner(engine, "vol-two"), "vol-two");
    argus.stop();
    runs(&argus, &["down", "vol-two", "--volumes"]);
    assert!(!exists(engine, "argusai-vol-two_db-data"));
}

#[test]
fn volume_of_an_earlier_version_stays_in_use() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    let labels = [
        "managed=true",
        "project=vol-old",
        "environment=vol-old",
        "role=volume",
        "controller=old",
    ];
    let labels = labels.map(|label| format!("argusai.{label}"));
    let mut create = vec!["volume", "create"];
    create.extend(labels.iter().flat_map(|label| ["--label", label]));
    create.push("db-data");
    engine.docker_ok(&create);
    argus.write_spec("vol-old.e2e.yaml", &spec("vol-old", ""));
    argus.wait_ready("vol-old", LIMIT);
    let mounts = engine.inspect("vol-old-one").expect("it runs")["Mounts"].clone();
    assert_eq!(mounts[0]["Name"], "db-data", "{mounts:#}");
    assert!(!exists(engine, "argusai-vol-old_db-data"));
    // A controller that starts later decides in the same way.
    let before = container_runs(engine, "vol-old");
    argus.kill9();
    argus.start_again();
    argus.wait_ready("vol-old", LIMIT);
    argus.assert_settled("vol-old");
    assert_eq!(container_runs(engine, "vol-old"), before);
    runs(&argus, &["down", "vol-old"]);
    engine.docker_ok(&["volume", "rm", "db-data"]);
}

#[test]
fn external_volume_is_used_and_never_made_or_removed() {
    let engine = engine();
    let project = engine
        .scratch("vol-ext")
        .canonicalize()
        .expect("the directory exists");
    let options = RunOptions {
        specs: Some(project.clone()),
        // A permission holds for the current folder.
        launcher: ["env", "-C", project.to_str().expect("UTF-8")]
            .map(str::to_owned)
            .to_vec(),
        ..RunOptions::default()
    };
    let argus = Controller::start(engine, options);
    let text = spec(
        "vol-ext",
        "volumes: { db-data: { external: true, name: vol-outside } }\n",
    );
    argus.write_spec("vol-ext.e2e.yaml", &text);
    let refused = argus.cli(&["validate"]);
    let shown =
        String::from_utf8_lossy(&refused.stdout).into_owned() + &String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{shown}");
    assert!(shown.contains("`argus allow`"), "{shown}");
    runs(&argus, &["allow"]);
    argus.stop();
    argus.start_again();
    let status = argus.wait_status("vol-ext", LIMIT, "misses the volume", |status| {
        has_error(status, "VOLUME_NOT_FOUND")
    });
    let errors = status["errors"].as_array().expect("errors");
    let error = errors.iter().find(|error| error["code"] == "VOLUME_NOT_FOUND");
    let remedy = &error.expect("the error")["remedies"][0];
    assert_eq!(remedy["command"], "docker volume create vol-outside");
    assert!(!exists(engine, "vol-outside"));
    engine.docker_ok(&["volume", "create", "vol-outside"]);
    runs(&argus, &["retry", "vol-ext"]);
    argus.wait_ready("vol-ext", LIMIT);
    write(engine, "vol-ext");
    runs(&argus, &["down", "vol-ext", "--volumes"]);
    assert!(exists(engine, "vol-outside"));
    engine.docker_ok(&["volume", "rm", "vol-outside"]);
}

#[test]
fn kept_volume_fails_no_check_of_another_controller() {
    let engine = PrivateEngine::start();
    engine.make_busybox_image("busybox:local", &[]);
    let first = Controller::start(&engine, RunOptions::default());
    first.write_spec("vol-kept.e2e.yaml", &spec("vol-kept", ""));
    first.wait_ready("vol-kept", LIMIT);
    runs(&first, &["down", "vol-kept"]);
    first.stop();
    let argus = Controller::start(&engine, RunOptions::default());
    argus.write_spec("vol-other.e2e.yaml", &spec("vol-other", ""));
    argus.wait_ready("vol-other", LIMIT);
    let listed = argus.wait_until(LIMIT, "the volume is listed", || {
        let listed = runs(&argus, &["orphans"]);
        listed.contains("argusai-vol-kept_db-data").then_some(listed)
    });
    assert!(listed.contains("kept"), "{listed}");
    runs(&argus, &["doctor"]);
    let cleaned = runs(&argus, &["orphans", "--clean", "--project", "vol-kept"]);
    assert!(cleaned.contains("in another folder"), "{cleaned}");
    assert!(exists(&engine, "argusai-vol-kept_db-data"));
    let cleaned = runs(
        &argus,
        &["orphans", "--clean", "--volumes", "--project", "vol-kept"],
    );
    assert!(cleaned.contains("removed"), "{cleaned}");
    assert!(!exists(&engine, "argusai-vol-kept_db-data"));
    assert!(exists(&engine, "argusai-vol-other_db-data"));
}
