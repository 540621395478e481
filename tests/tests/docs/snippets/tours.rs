//! The tours of the pages, run line by line as a new user does.

use std::fs;

use argus_tests::fixture::{LIMIT, engine};
use argus_tests::{Controller, PrivateEngine, RunOptions};

use super::fence::{self, commands, root};
use super::shell::Shell;

fn block(page: &str, begins: &str) -> Vec<String> {
    let found = fence::of(page)
        .into_iter()
        .find(|fence| fence.body.starts_with(begins));
    commands(&found.unwrap_or_else(|| panic!("{page} has no block that begins with `{begins}`")))
}

#[test]
fn readme_quick_start_runs_as_written() {
    // The page names the port of the controller.
    let engine = &PrivateEngine::start();
    engine.load_argus_image("argus-demo:local");
    let mut shell = Shell::at(engine, "tour");
    // The directory that `./scripts/demo --keep` leaves.
    let demo = shell.home.join("target/demo");
    shell.exported.push(("ARGUS_STATE", demo.join("state")));
    fs::create_dir_all(demo.join("environments/shop")).expect("a directory");
    let spec = demo.join("environments/shop/e2e.yaml");
    fs::copy(root().join("examples/shop/e2e.yaml"), spec).expect("an example");
    let argus = Controller::start(
        engine,
        RunOptions {
            specs: Some(demo.join("environments")),
            state: Some(demo.join("state")),
            args: vec!["--listen".to_owned(), "127.0.0.1:9470".to_owned()],
            ..RunOptions::default()
        },
    );
    argus.wait_ready("shop", LIMIT);
    shell.editor("s/\"hello\"/\"good day\"/", "");
    let mut gone_through = 0;
    for line in block("README.md", "./scripts/demo --keep") {
        gone_through += 1;
        match line.as_str() {
            // The demo installs and builds, and has its own test; the two lines name its results.
            "./scripts/demo --keep" | "./scripts/demo --stop" => {}
            export if export.starts_with("export ") => {}
            follow if follow.starts_with("curl -N ") => {
                shell.follow(follow, &["event: ", "\"shop\""]);
            }
            "curl http://127.0.0.1:18080/" => assert!(shell.run(&line).contains("hello"), "{line}"),
            "argus get shop" => {
                let output = shell.run(&line);
                for word in ["SERVICE", "api", "db", "web", "Ready", "18080"] {
                    assert!(output.contains(word), "no {word} in {output}");
                }
            }
            kill if kill.starts_with("docker kill shop-api") => {
                shell.run(&line);
                let started = || {
                    engine
                        .inspect("shop-api")
                        .is_some_and(|it| it["State"]["Running"] == true)
                };
                argus.wait_until(LIMIT, "the container is repaired", || started().then_some(()));
                argus.wait_ready("shop", LIMIT);
            }
            edit if edit.starts_with("$EDITOR ") => {
                shell.run(&line);
                argus.wait_until(LIMIT, "the edit is served", || {
                    let page = shell.command("curl -s http://127.0.0.1:18080/").output().ok()?;
                    String::from_utf8_lossy(&page.stdout)
                        .contains("good day")
                        .then_some(())
                });
                argus.wait_ready("shop", LIMIT);
            }
            _ => assert!(!shell.run(&line).is_empty(), "`{line}` prints nothing"),
        }
    }
    assert!(gone_through >= 11, "{gone_through} lines");
    assert_eq!(
        engine.containers_with("argusai.project=shop").len(),
        0,
        "it was removed"
    );
}

#[test]
fn own_file_follows_the_readme() {
    let engine = engine();
    let shell = Shell::at(engine, "own");
    shell.editor(
        "",
        "version: \"1\"\nproject: { name: own }\nservices:\n  app: { image: \"busybox:local\", container: { name: own-app } }\n",
    );
    let mut running = None;
    for line in block("README.md", "mkdir environments") {
        match line.as_str() {
            "argus run" => {
                running = Some(shell.start_in_background("argus run --listen off"));
            }
            line => {
                // The reader chooses the name of the environment.
                let output = shell.run(&line.replace("NAME", "own"));
                assert!(
                    line.starts_with("mkdir") || output.contains("own"),
                    "`{line}`: {output}"
                );
            }
        }
    }
    shell.run("argus get own");
    shell.run("argus down own");
    running.expect("the page starts a controller").stop();
}

#[test]
fn first_run_of_a_compose_file_works_as_written() {
    let engine = &super::pages::engine();
    let shell = Shell::at(engine, "first");
    let file = "services:\n  web: { image: \"busybox:1\", command: [sh, -c, 'echo serving; exec httpd -f -p 8080'] }\n";
    fs::write(shell.home.join("compose.yaml"), file).expect("a file");
    for line in block("docs/compose.md", "argus validate") {
        if line.ends_with(" --follow") {
            shell.follow(&line, &["serving"]);
        } else {
            shell.run(&line);
        }
    }
    let left = engine.containers_with("argusai.managed=true");
    assert!(left.is_empty(), "everything is removed: {left:?}");
    shell.run("argus stop");
}
