//! A full data root: nothing new is created, nothing healthy is touched, and work resumes automatically.

use std::fs::File;
use std::path::PathBuf;

use argus_tests::fixture::{IMAGE, LIMIT, condition, container_runs, images, running, shop, text};
use argus_tests::{Controller, PrivateEngine, RunOptions};
use serde_json::Value;

/// Free space that the specs here require, in bytes.
const THRESHOLD: u64 = 20_000_000;

/// An engine with a small data root, and the file that fills it.
struct Small {
    engine: PrivateEngine,
    ballast: PathBuf,
}

impl Small {
    fn start() -> Self {
        let options = argus_tests::Options {
            data_size: Some("128m".to_owned()),
            ..argus_tests::Options::default()
        };
        let engine = PrivateEngine::start_with(options);
        images(&engine);
        let ballast = engine.data_root().join("ballast");
        Self { engine, ballast }
    }

    fn free(&self) -> u64 {
        let found = rustix::fs::statvfs(self.engine.data_root()).expect("the data root exists");
        found.f_bavail * found.f_frsize
    }

    /// Fills the disk except for this many bytes.
    fn leave(&self, bytes: u64) {
        let file = File::create(&self.ballast).expect("a file in the data root");
        let size = self.free().checked_sub(bytes).expect("enough space is free");
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size).expect("it fits");
    }

    fn free_again(&self) {
        std::fs::remove_file(&self.ballast).expect("the ballast exists");
    }
}

fn one(name: &str, resilience: &str) -> String {
    format!(
        "version: \"1\"\nproject: {{ name: {name} }}\nresilience: {{ preflight: {{ {resilience} }} }}\nservices:\n  web:\n    \
         image: {IMAGE}\n    container: {{ name: {name}-web }}\n"
    )
}

fn disk_error(status: &Value) -> Option<Value> {
    let errors = status["errors"].as_array()?;
    errors
        .iter()
        .find(|error| error["code"] == "DISK_SPACE_LOW")
        .cloned()
}

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().expect("checks");
    checks
        .iter()
        .find(|check| check["name"] == name)
        .expect("the check is in the report")
}

/// Starts an environment whose only service is optional.
fn start_spare(argus: &Controller<'_>, engine: &PrivateEngine) {
    let spare = one("spare", "diskSpaceThreshold: 20MB") + "    criticality: optional\n";
    argus.write_spec("spare.e2e.yaml", &spare);
    wait_for_spare(argus, engine);
}

/// Waits until the optional service runs. Its environment is Ready without it.
fn wait_for_spare(argus: &Controller<'_>, engine: &PrivateEngine) {
    argus.wait_until(LIMIT, "the optional service runs", || {
        running(engine, "spare-web").then_some(())
    });
}

/// Checks that the optional service is stopped because of the full disk, and that the others run.
fn check_shed(argus: &Controller<'_>, engine: &PrivateEngine) {
    let status = argus.wait_status("spare", LIMIT, "sheds its optional service", |status| {
        status["services"][0]["waitingOn"]["reason"] == "Shed"
    });
    assert!(!running(engine, "spare-web"), "{status:#}");
    for name in ["calm-db", "calm-api", "calm-web"] {
        assert!(running(engine, name), "{name} is not optional");
    }
}

#[test]
fn full_data_root_is_reported_and_recovered() {
    let small = Small::start();
    let engine = &small.engine;
    let options = RunOptions {
        args: vec!["--shed-optional".to_owned()],
        ..RunOptions::default()
    };
    let argus = Controller::start(engine, options);
    let calm = format!(
        "{}resilience: {{ preflight: {{ diskSpaceThreshold: 20MB }} }}\n",
        shop("calm", 18610, "one")
    );
    argus.write_spec("calm.e2e.yaml", &calm);
    let status = argus.wait_ready("calm", LIMIT);
    assert_eq!(
        check(&status["preflight"], "disk")["code"],
        Value::Null,
        "{status:#}"
    );
    let before = container_runs(engine, "calm");
    start_spare(&argus, engine);

    // A check stays valid for a while; a controller checks when it starts.
    argus.stop();
    small.leave(THRESHOLD / 2);
    argus.start_again();
    argus.write_spec("late.e2e.yaml", &one("late", "diskSpaceThreshold: 20MB"));
    let late = argus.wait_status("late", LIMIT, "reports the full disk", |status| {
        disk_error(status).is_some()
    });
    let error = disk_error(&late).expect("the status reports it");
    let details = &error["details"];
    assert_eq!(
        text(&details["dataRoot"]),
        engine.data_root().display().to_string()
    );
    assert!(details["freeBytes"].as_u64() < Some(THRESHOLD), "{error:#}");
    assert_eq!(details["totalBytes"], 128 * 1024 * 1024);
    assert_eq!(details["thresholdBytes"], THRESHOLD);
    assert!(details["reclaimable"]["imagesBytes"].is_u64(), "{error:#}");
    assert_eq!(late["services"][0]["waitingOn"]["error"], "DISK_SPACE_LOW");
    assert_eq!(condition(&late, "Blocked")["status"], "True");
    assert_eq!(late["preflight"]["overall"], "unhealthy");
    assert!(
        container_runs(engine, "late").is_empty(),
        "nothing of it is created"
    );
    assert!(
        engine
            .docker_ok(&["network", "ls", "-q", "--filter", "label=argusai.project=late"])
            .is_empty()
    );

    check_shed(&argus, engine);

    // Existing containers are still repaired.
    engine.docker_ok(&["kill", "calm-web"]);
    argus.wait_until(LIMIT, "the killed container runs again", || {
        running(engine, "calm-web").then_some(())
    });
    argus.wait_ready("calm", LIMIT);
    let now = container_runs(engine, "calm");
    for name in ["calm-db", "calm-api"] {
        assert_eq!(now.get(name), before.get(name), "{name} is untouched");
    }
    assert_eq!(
        now["calm-web"].0, before["calm-web"].0,
        "started again, not recreated"
    );
    assert!(
        container_runs(engine, "late").is_empty(),
        "still nothing of it is created"
    );

    small.free_again();
    argus.wait_ready("late", LIMIT);
    wait_for_spare(&argus, engine);

    // Above the threshold, a nearly full disk is a warning, and creation continues.
    argus.stop();
    small.leave(THRESHOLD * 3 / 2);
    argus.start_again();
    argus.write_spec("soon.e2e.yaml", &one("soon", "diskSpaceThreshold: 20MB"));
    argus.wait_ready("soon", LIMIT);
    let soon = argus.wait_status("soon", LIMIT, "warns about the disk", |status| {
        disk_error(status).is_some()
    });
    let error = disk_error(&soon).expect("the status reports it");
    assert_eq!(
        (
            &soon["phase"],
            &error["severity"],
            &error["remedies"][0]["action"]
        ),
        (&"Ready".into(), &"warning".into(), &"free_disk_space".into()),
        "{error:#}"
    );
    assert!(
        error["details"]["freeBytes"].as_u64() > Some(THRESHOLD),
        "{error:#}"
    );
}

#[test]
fn engine_without_space_is_reported_with_usage() {
    let small = Small::start();
    let engine = &small.engine;
    let argus = Controller::start(engine, RunOptions::default());
    small.leave(0);
    argus.write_spec("e2e.yaml", &one("brim", "enabled: false"));
    let status = argus.wait_status("brim", LIMIT, "reports the full disk", |status| {
        disk_error(status).is_some_and(|error| error["details"]["freeBytes"].is_u64())
    });
    let error = disk_error(&status).expect("the status reports it");
    assert!(
        text(&error["details"]["reason"]).contains("no space left"),
        "{error:#}"
    );
    assert_eq!(status["preflight"], Value::Null, "no preflight was requested");
    assert!(!running(engine, "brim-web"));
    small.free_again();
    argus.wait_ready("brim", LIMIT);

    // A step of a build writes more than the disk has.
    let steps = "FROM busybox:local\nRUN dd if=/dev/zero of=/fill bs=1000000 count=200\n";
    std::fs::write(argus.specs.join("Dockerfile"), steps).expect("a file");
    argus.write_spec(
        "build.e2e.yaml",
        "version: \"1\"\nproject: { name: brick }\nresilience: { preflight: { enabled: false } }\n\
         service: { build: { context: . }, container: { name: brick-app } }\n",
    );
    let status = argus.wait_status("brick", LIMIT, "reports the full disk", |status| {
        disk_error(status).is_some_and(|error| error["details"]["freeBytes"].is_u64())
    });
    let error = disk_error(&status).expect("the status reports it");
    assert_eq!(error["details"]["verb"], "build-image", "{error:#}");
    assert!(error["details"]["thresholdBytes"].is_u64(), "{error:#}");
    let actions = error["suggestedActions"].as_array().expect("a list");
    for cleanup in ["free_disk_space", "clean_orphans"] {
        assert!(actions.contains(&cleanup.into()), "{error:#}");
    }
}
