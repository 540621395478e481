//! Tests of delayed builds through the loader.

use std::fs;
use std::path::Path;

use argus_core::time::Timestamp;

use super::prefix_tests::new_loader;

#[test]
fn context_that_keeps_changing_is_built_later_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (specs, app) = (dir.path().join("specs"), dir.path().join("specs/app"));
    fs::create_dir_all(&app).unwrap();
    fs::write(app.join("Dockerfile"), "FROM scratch").unwrap();
    let spec = "version: \"1\"\nproject: {name: shop}\nservices:\n  web:\n    build: {context: ./app}\n    container: {name: web}\n";
    fs::write(specs.join("e2e.yaml"), spec).unwrap();
    let mut loader = new_loader(&specs);
    let mut revisions = Vec::new();
    let mut last = None;
    for second in 0..170_i64 {
        let now = Timestamp(second * 1_000);
        let next = loader.scan_once(now).next_at;
        let revision = loader
            .registry()
            .environments
            .values()
            .next()
            .map(|spec| spec.desired.revision.clone());
        if revision != last {
            revisions.push(second);
            last = revision;
        }
        if revisions.last() == Some(&(second - 10)) {
            // The service writes a file of its own context.
            fs::write(app.join("log"), format!("{second}")).unwrap();
        }
        let entry = loader
            .registry()
            .files
            .get(Path::new("e2e.yaml"))
            .cloned()
            .unwrap_or_default();
        if (40..90).contains(&second) {
            assert_eq!(entry.diagnostics.len(), 1, "{second}: {entry:?}");
            assert!(next.is_some_and(|at| at > now), "{second}: {next:?}");
        } else if (1..30).contains(&second) {
            assert_eq!(entry.diagnostics, [], "{second}");
        }
    }
    assert_eq!(revisions, [1, 13, 25, 97], "{revisions:?}");
}
