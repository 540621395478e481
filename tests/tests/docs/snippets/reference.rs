//! Command lines of the reference pages, run in an environment like theirs.

use std::collections::BTreeSet;
use std::fs;

use argus_tests::fixture::LIMIT;
use argus_tests::wait;

use super::fence::{self, commands};
use super::pages::engine;
use super::shell::Shell;
use super::tour;

const SHOP: &str = r#"version: "1"
project: { name: shop }
services:
  web:
    image: busybox:1
    dependsOn: [payments]
    command: ["httpd", "-f", "-p", "8080"]
    container:
      name: shop-web
      environment: { PAYMENTS: "http://payments:8080/" }
      healthcheck: { type: tcp, port: 8080, interval: 500ms, timeout: 2s, retries: 20 }
mocks:
  payments: { port: 18260, containerPort: 8080, routes: [{ method: GET, path: /, response: { body: paid } }] }
"#;

/// A page, and for each of its lines a part of the output.
type Page = (&'static str, &'static [&'static str]);

const PAGES: &[Page] = &[
    (
        "docs/behaviour.md",
        &["1 link verified", "1 link verified", "", "", "", ""],
    ),
    ("docs/mocks.md", &["routes[0] GET /", "paid"]),
    (
        "docs/interfaces.md",
        &[
            "\"shop\"",
            "{",
            "event: snapshot",
            "create-container",
            "web: the end of the test `long`",
            "called: run-container",
            "run-container (attempt 1): process",
        ],
    ),
];

/// Pages whose commands have a test elsewhere.
const ELSEWHERE: &[&str] = &[
    "README.md",
    "docs/agents.md",
    "docs/cli.md",
    "docs/compose.md",
    "docs/contributors/messages.md",
    "docs/operations.md",
    "docs/tests.md",
    "docs/tutorial.md",
    // The selftest has a test binary of its own.
    "docs/troubleshooting.md",
    // The scripts and recipes of CI itself.
    "CONTRIBUTING.md",
];

#[test]
fn every_page_with_commands_is_executed() {
    let all = fence::all();
    let with = all
        .iter()
        .filter(|it| matches!(it.language.as_str(), "sh" | "console") && it.unchecked.is_none());
    let with: BTreeSet<&str> = with
        .map(|it| it.place.split(':').next().unwrap_or_default())
        .collect();
    let through = PAGES
        .iter()
        .map(|(page, _)| *page)
        .chain(ELSEWHERE.iter().copied());
    assert_eq!(
        with,
        through.collect(),
        "a page runs here, or is listed as tested elsewhere"
    );
}

#[test]
fn reference_lines_print_their_output() {
    let engine = engine();
    let shell = Shell::at(&engine, "reference");
    let file = shell.home.join("environments/shop.e2e.yaml");
    fs::create_dir_all(shell.home.join("environments")).expect("a directory");
    fs::write(&file, SHOP).expect("a file");
    let controller = shell.start_in_background("argus run");
    shell.run("argus wait shop --for ready --timeout 5m");
    shell.run("curl -sf http://127.0.0.1:18260/");
    for (page, words) in PAGES {
        if *page == "docs/behaviour.md" {
            wait::until(LIMIT, "the first check ends", || {
                let output = shell.run("argus network shop || true");
                output.contains("1 link verified").then_some(())
            });
        }
        let blocks = fence::of(page);
        let lines: Vec<String> = blocks
            .iter()
            .filter(|it| it.language == "sh")
            .flat_map(commands)
            .collect();
        assert_eq!(lines.len(), words.len(), "{page} has other lines: {lines:?}");
        for (line, word) in lines.iter().zip(*words) {
            if line.contains("select(.waitingOn)") {
                // A service waits, and its status names the reason.
                shell.run("argus test begin shop --case long");
                fs::write(&file, SHOP.replace("[\"httpd\", ", "[\"httpd\", \"-v\", ")).expect("a file");
                wait::until(LIMIT, "the service waits", || {
                    let output = shell.run("argus get shop");
                    output.contains("the test `long`").then_some(())
                });
            }
            if line.ends_with("--debug") {
                // A service fails.
                shell.run("argus test end shop --case long");
                fs::write(&file, SHOP.replace("[\"httpd\", ", "[\"false\", ")).expect("a file");
                wait::until(LIMIT, "the error is reported", || {
                    let output = shell.run("argus describe shop");
                    output.contains("process ended").then_some(())
                });
            }
            if line.starts_with("curl -sN ") {
                shell.follow(line, &[*word]);
                continue;
            }
            let output = shell.run(&bounded(&shell, line));
            assert!(
                output.contains(word),
                "{page}: `{line}` does not print `{word}`: {output}"
            );
        }
    }
    controller.stop();
}

/// A line as its reader types it: with names for placeholders, and with an end for the mock server.
fn bounded(shell: &Shell<'_>, line: &str) -> String {
    if line == "argus mock serve --config FILE" {
        let file = fence::of("docs/mocks.md")
            .into_iter()
            .find(|it| it.of == "mock.json");
        tour::save(shell, &file.expect("the page shows the file"));
        let serve = line.replace("FILE", "mock.json");
        return format!(
            "{serve} & curl -sf --retry 20 --retry-delay 1 --retry-connrefused http://127.0.0.1:18081/; kill $!; wait $!"
        );
    }
    line.replace("NAME", "warehouse")
}
