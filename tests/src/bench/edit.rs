//! Measures the time from an edit of a source file to the new container: Argus and Compose take turns, each with the same project, whose
//! base image and first steps are cached.

use std::fs;
use std::path::{Path, PathBuf};

use argus_tests::fixture::{IMAGE, LIMIT};
use argus_tests::{Controller, PrivateEngine, RunOptions, wait};

use super::compose::Compose;
use super::{Figure, push};

const PROJECT: &str = "edited";
const PAGE: &str = "www/index.html";

pub(crate) fn run(engine: &PrivateEngine, pairs: usize, figures: &mut Vec<Figure>) {
    let controller = Controller::start(engine, RunOptions::default());
    let folder = controller.specs.join(PROJECT);
    write_project(&folder);
    let spec = format!(
        "version: \"1\"\nproject: {{ name: {PROJECT} }}\nservices:\n  app:\n    build: {{ context: . }}\n    container:\n      name: {PROJECT}-app\n      \
         healthcheck: {{ path: /, port: 8080, interval: 500ms, timeout: 1s, retries: 20, startPeriod: 5s }}\n"
    );
    controller.write_spec(&format!("{PROJECT}/e2e.yaml"), &spec);
    controller.wait_ready(PROJECT, LIMIT);
    let rivals: Vec<(Compose, String, PathBuf)> = Compose::all()
        .into_iter()
        .map(|rival| {
            let project = format!("{PROJECT}{}", rival.version.replace('.', "-"));
            let folder = engine.scratch(&project);
            write_project(&folder);
            // With the signals of an init process, as each container of Argus has.
            let file = "services:\n  app:\n    build: .\n    init: true\n";
            fs::write(folder.join("compose.yaml"), file).expect("the file can be written");
            rival.up_built(engine, &project);
            (rival, project, folder)
        })
        .collect();
    let mut ours = Vec::new();
    let mut theirs: Vec<Vec<f64>> = rivals.iter().map(|_| Vec::new()).collect();
    for pair in 0..pairs {
        ours.push(edit(engine, &folder, &format!("{PROJECT}-app"), pair, || {
            let waited = controller.cli(&["wait", PROJECT]);
            assert!(waited.status.success(), "{waited:?}");
        }));
        for ((rival, project, folder), took) in rivals.iter().zip(&mut theirs) {
            let container = format!("{project}-app-1");
            took.push(edit(engine, folder, &container, pair, || {
                rival.up_built(engine, project);
            }));
        }
    }
    let what = "Argus: edit of a source file to Ready, with build and health check";
    push(figures, Figure::new(what, "ms", ours.clone()));
    for ((rival, project, _), took) in rivals.iter().zip(&theirs) {
        rival.down(engine, project);
        let version = &rival.version;
        let what = format!("Compose {version}: edit of a source file to the end of `up --build -d`");
        push(figures, Figure::new(what, "ms", took.clone()));
        let ratios = ours
            .iter()
            .zip(took)
            .map(|(ours, theirs)| ours / theirs)
            .collect();
        let what = format!("Argus / Compose {version}, edit to Ready");
        push(figures, Figure::new(what, "×", ratios).goal(("≤ 1.1 ×", 1.1)));
    }
    super::argus_down(engine, &controller, PROJECT);
}

fn write_project(folder: &Path) {
    fs::create_dir_all(folder.join("www")).expect("a folder");
    let dockerfile = format!("FROM {IMAGE}\nRUN echo dependencies > /dependencies\nCOPY www /www\n");
    fs::write(folder.join("Dockerfile"), dockerfile).expect("the file can be written");
    fs::write(folder.join(PAGE), "first").expect("the file can be written");
}

/// Milliseconds from an edit to the end of `follow`, after which the container must have the new page.
fn edit(engine: &PrivateEngine, folder: &Path, container: &str, pair: usize, follow: impl FnOnce()) -> f64 {
    // No tool can use the steps of another one.
    let page = format!("page {pair} of {container}");
    let (took, ()) = wait::timed(|| {
        fs::write(folder.join(PAGE), &page).expect("the file can be written");
        follow();
    });
    assert_eq!(
        engine.docker_ok(&["exec", container, "cat", "/www/index.html"]),
        page
    );
    took.as_secs_f64() * 1e3
}
