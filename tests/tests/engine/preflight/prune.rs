//! `argus prune` removes only images that Argus built and that newer builds replaced.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use argus_backend::Backend as _;
use argus_core::action::Deadlines;
use argus_core::outcome::Done;
use argus_docker::{Docker, Endpoint};
use argus_reconciler::clock;
use argus_tests::fixture::{LIMIT, images, text};
use argus_tests::{Controller, PrivateEngine, RunOptions};
use serde_json::Value;

use crate::buildkit::{block, build, connect};

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
    fs::create_dir_all(&context).expect("a directory");
    let steps = "FROM busybox:local\nCOPY file /file\nRUN touch /made\n";
    fs::write(context.join("Dockerfile"), steps).expect("a file");
    // Replaces the file atomically: a partial file would be a different build.
    let write = |content: &str| {
        let temporary = context.with_extension("new");
        fs::write(&temporary, content.repeat(100_000)).expect("a file");
        fs::rename(&temporary, context.join("file")).expect("a file");
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
        let text = fs::read_to_string(&dockerfile).expect("the Dockerfile exists");
        fs::write(&dockerfile, format!("{text}ENV PROGRAM={to}\n")).expect("a file");
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

/// A build with a cache mount of 4 MB.
fn build_with_a_cache(tag: &str) -> String {
    format!(
        "FROM busybox:local\nRUN --mount=type=cache,id={tag},target=/cache dd if=/dev/zero of=/cache/large bs=1000000 count=4\n"
    )
}

#[test]
fn build_cache_is_measured_limited_and_emptied() {
    const SIZE: u64 = 4_000_000;
    // A private engine, because this prune would remove images of the parallel test.
    let engine = PrivateEngine::start();
    images(&engine);
    let argus = Controller::start(&engine, RunOptions::default());
    fs::write(argus.specs.join("Dockerfile"), build_with_a_cache("one")).expect("a file");
    argus.write_spec(
        "e2e.yaml",
        "version: \"1\"\nproject: { name: cached }\nservice: { build: { context: . }, container: { name: cached-app } }\n",
    );
    argus.wait_ready("cached", LIMIT);
    argus.wait_until(LIMIT, "the status names the size of the cache", || {
        let size = argus.controller_status()["engine"]["buildCacheBytes"].as_u64()?;
        (size >= SIZE).then_some(())
    });
    assert!(argus.cli(&["down", "cached"]).status.success());
    argus.stop();

    let folder = engine.scratch("limited");
    let limit = SIZE / 2;
    let endpoint = Endpoint::parse(&engine.host()).expect("an endpoint");
    let deadlines = Deadlines {
        long: LIMIT,
        ..Deadlines::default()
    };
    let limited = Docker::with_own_image(
        endpoint,
        Arc::new(clock::now),
        None,
        deadlines,
        LIMIT,
        Some(limit),
    );
    let size = block(async {
        let act = build(&folder, "limited:1", &build_with_a_cache("two"));
        assert_eq!(limited.execute(&act, &()).await, Ok(Done::Applied));
        let (sender, mut sizes) = tokio::sync::mpsc::unbounded_channel();
        let report = |bytes| sender.send(bytes).expect("the test waits for it");
        tokio::select! {
            () = limited.clean_up_builds(report) => unreachable!("it has no end"),
            size = tokio::time::timeout(LIMIT, sizes.recv()) => size.expect("a clean-up"),
        }
    });
    assert!(size.is_some_and(|size| size <= limit), "{size:?}");

    let act = build(&folder, "more:1", &build_with_a_cache("three"));
    let done = block(connect(&engine.host()).execute(&act, &()));
    assert_eq!(done, Ok(Done::Applied));
    let prune = |args: &[&str]| {
        let output = argus.cli(&[&["prune", "-o", "json"], args].concat());
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{err}");
        let printed: Value = serde_json::from_slice(&output.stdout).expect("a document");
        printed["buildCacheBytes"].as_u64().expect("a size")
    };
    assert!(prune(&["--dry-run"]) >= SIZE);
    let removals = || {
        let output = argus.cli(&["events", "--type", "engine_change", "-o", "json"]);
        let page: Value = serde_json::from_slice(&output.stdout).expect("a document");
        let items = page["items"].as_array().expect("a list").iter();
        items
            .filter(|item| item["name"] == "unused build cache" && item["removed"] == true)
            .count()
    };
    let before = removals();
    prune(&["--yes"]);
    assert_eq!(removals(), before + 1, "the removal of the cache is an event");
    assert_eq!(prune(&["--dry-run"]), 0);
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
    fs::write(
        folder.join("Dockerfile"),
        format!("FROM {from}\nRUN touch /{step}\n"),
    )
    .expect("a file");
    engine.docker_ok(&["build", "-q", "-t", name, &folder.display().to_string()]);
}
