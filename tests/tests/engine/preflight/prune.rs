//! `argus prune` removes only images that Argus built and that newer builds replaced.

use std::collections::BTreeSet;

use argus_tests::fixture::{LIMIT, images, text};
use argus_tests::{Controller, PrivateEngine, RunOptions};
use serde_json::Value;

fn image_of(engine: &PrivateEngine, container: &str) -> Option<String> {
    let found = engine.inspect(container)?;
    (found["State"]["Running"] == true).then(|| text(&found["Image"]))
}

fn all_images(engine: &PrivateEngine) -> BTreeSet<String> {
    let ids = engine.docker_ok(&["images", "-q", "--no-trunc"]);
    ids.lines().map(str::to_owned).collect()
}

fn reclaim(controller: &Controller<'_>, args: &[&str]) -> Value {
    // With another state directory, the images that this one keeps for a rollback are in use.
    let nothing = controller.state.with_extension("nothing").display().to_string();
    let mut all = vec![
        "prune",
        "--images-only",
        "-o",
        "json",
        "--state",
        nothing.as_str(),
    ];
    all.extend(args);
    let output = controller.cli(&all);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {err}"))
}

#[test]
fn prune_removes_only_superseded_builds() {
    // A private engine, because the test counts all images.
    let engine = &PrivateEngine::start();
    images(engine);
    let argus = Controller::start(engine, RunOptions::default());
    let context = argus.specs.join("app");
    std::fs::create_dir_all(&context).expect("a directory");
    let steps = "FROM busybox:local\nCOPY file /file\nRUN touch /made\n";
    std::fs::write(context.join("Dockerfile"), steps).expect("a file");
    // Replaces the file atomically: a partial file would be a different build.
    let write = |content: &str| {
        let temporary = context.with_extension("new");
        std::fs::write(&temporary, content.repeat(100_000)).expect("a file");
        std::fs::rename(&temporary, context.join("file")).expect("a file");
    };
    write("one");
    argus.write_spec(
        "e2e.yaml",
        "version: \"1\"\nproject: { name: given }\nservices:\n  app:\n    build: { context: ./app }\n    container: { name: given-app }\n",
    );
    argus.wait_ready("given", LIMIT);
    let first = image_of(engine, "given-app").expect("the container runs");
    // A foreign image is based on it, and another foreign image has lost its name.
    foreign(engine, "foreign:old", "old", "busybox:local");
    foreign(engine, "foreign:old", "new", "busybox:local");
    write("two");
    let second = argus.wait_until(LIMIT, "the new build runs", || {
        image_of(engine, "given-app").filter(|image| *image != first)
    });
    write("three");
    let third = argus.wait_until(LIMIT, "the third build runs", || {
        image_of(engine, "given-app").filter(|image| *image != first && *image != second)
    });
    foreign(engine, "foreign:child", "child", &second);

    let before = all_images(engine);
    let output = reclaim(&argus, &[]);
    let listed: Vec<String> = output["images"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| text(&row["id"]))
        .collect();
    assert_eq!(
        listed,
        std::slice::from_ref(&first),
        "the second has a child, the third runs: {output:#}"
    );
    assert!(output["imagesBytes"].as_u64() >= Some(300_000), "{output:#}");
    assert_eq!(output["applied"], false);
    assert_eq!(all_images(engine), before, "without `--yes` nothing is removed");

    let done = reclaim(&argus, &["--yes"]);
    assert_eq!(done["applied"], true);
    assert_eq!(done["images"][0]["removed"], true, "{done:#}");
    let expected: BTreeSet<String> = before.into_iter().filter(|id| *id != first).collect();
    assert_eq!(all_images(engine), expected, "nothing else is removed");
    assert_eq!(image_of(engine, "given-app"), Some(third));
    assert!(
        reclaim(&argus, &["--yes"])["images"]
            .as_array()
            .expect("a list")
            .is_empty()
    );
}

#[test]
fn prune_keeps_the_image_that_mocks_use() {
    // A private engine, because the list here shows everything on it.
    let engine = PrivateEngine::start();
    let argus = Controller::start(&engine, RunOptions::default());
    argus.write_spec(
        "e2e.yaml",
        "version: \"1\"\nproject: { name: mocked }\nmocks:\n  api:\n    port: 18390\n    routes: [{ method: GET, path: /x, response: { body: hi } }]\n",
    );
    argus.wait_ready("mocked", LIMIT);
    let runs = || image_of(&engine, "mocked-mock-api");
    let tags = |id: &str| engine.docker_ok(&["inspect", "-f", "{{join .RepoTags \" \"}}", id]);
    let first = runs().expect("the container runs");
    assert!(tags(&first).starts_with("argus/mock:"), "{}", tags(&first));
    assert_eq!(
        reclaim(&argus, &[])["images"],
        serde_json::json!([]),
        "it is the newest"
    );
    // A changed program, as after an upgrade: a new image with a new tag.
    let dockerfile = argus.state.join("private/own-image/Dockerfile");
    let upgrade = |to: &str| {
        assert!(argus.stop().success());
        let text = std::fs::read_to_string(&dockerfile).expect("the Dockerfile exists");
        std::fs::write(&dockerfile, format!("{text}ENV PROGRAM={to}\n")).expect("a file");
        let before = runs();
        argus.start_again();
        argus.wait_until(LIMIT, "the mock runs the newer image", || {
            runs().filter(|image| Some(image) != before.as_ref())
        })
    };
    let second = upgrade("second");
    // A user tags the second image.
    engine.docker_ok(&["tag", &second, "mine:1"]);
    let third = upgrade("third");
    argus.wait_ready("mocked", LIMIT);
    let listed = argus.wait_until(LIMIT, "the first image is unused", || {
        let output = reclaim(&argus, &[]);
        (!output["images"].as_array().is_none_or(Vec::is_empty)).then_some(output)
    });
    assert_eq!(listed["images"].as_array().map(Vec::len), Some(1), "{listed:#}");
    assert_eq!(listed["images"][0]["id"], first.as_str(), "{listed:#}");
    let done = reclaim(&argus, &["--yes"]);
    assert_eq!(done["images"][0]["removed"], true, "{done:#}");
    let left = all_images(&engine);
    assert!(!left.contains(&first) && left.contains(&second) && left.contains(&third));
    assert_eq!(runs(), Some(third));
    assert!(tags(&second).contains("mine:1"));
}

#[test]
fn prune_counts_and_empties_the_build_cache() {
    // A private engine, because this prune would remove images of the parallel test.
    let engine = PrivateEngine::start();
    let argus = Controller::prepare(&engine, RunOptions::default());
    for args in [&["prune", "-o", "json"][..], &["prune", "--yes", "-o", "json"]] {
        let output = argus.cli(args);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{err}");
        let printed: Value = serde_json::from_slice(&output.stdout).expect("a document");
        // Argus' builder keeps its steps as images, so the build cache is empty.
        assert_eq!(printed["buildCacheBytes"], 0, "{printed:#}");
    }
    let away = RunOptions {
        host: Some("unix:///nonexistent/docker.sock".to_owned()),
        ..RunOptions::default()
    };
    let nowhere = Controller::prepare(&engine, away).cli(&["prune"]);
    assert_eq!(nowhere.status.code(), Some(4));
}

/// A foreign build: an image of this name, based on `from`.
fn foreign(engine: &PrivateEngine, name: &str, step: &str, from: &str) {
    let folder = engine.scratch("foreign");
    std::fs::write(
        folder.join("Dockerfile"),
        format!("FROM {from}\nRUN touch /{step}\n"),
    )
    .expect("a file");
    engine.docker_ok(&["build", "-q", "-t", name, &folder.display().to_string()]);
}
