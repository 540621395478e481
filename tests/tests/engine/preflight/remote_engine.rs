//! An engine behind TCP: a helper measures the free disk space and is removed afterwards.

use argus_tests::fixture::{LIMIT, images};
use argus_tests::{Controller, Options, PrivateEngine, RunOptions, wait};

use super::report::{check, report};

#[test]
fn remote_disk_is_measured_without_leftovers() {
    let engine = PrivateEngine::start_with(Options {
        args: ["-H", "tcp://127.0.0.1:2375", "--tls=false"]
            .map(str::to_owned)
            .to_vec(),
        ..Options::default()
    });
    images(&engine);
    let argus = Controller::prepare(
        &engine,
        RunOptions {
            host: Some("tcp://127.0.0.1:2375".to_owned()),
            helpers: true,
            ..RunOptions::default()
        },
    );
    // The second check reuses the image that the first one created. On a busy machine, the first one can end before its image exists.
    let measured = || {
        let found = report(&argus.cli(&["preflight", "-o", "json"]));
        (check(&found, "disk")["result"] != "skipped").then_some(found)
    };
    for _ in 0..2 {
        let found = wait::until(LIMIT, "the disk is measured", measured);
        let disk = check(&found, "disk");
        assert_eq!(disk["result"], "pass", "{found:#}");
        let free = disk["details"]["freeBytes"].as_u64().expect("bytes");
        let here = rustix::fs::statvfs(engine.data_root()).expect("the data root exists");
        let (here, slack) = (here.f_bavail * here.f_frsize, 4_000_000_000);
        assert!(free.abs_diff(here) < slack, "{free} there, {here} here");
    }
    assert!(engine.containers().is_empty(), "no helper container remains");
}
