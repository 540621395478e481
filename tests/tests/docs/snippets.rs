//! The documentation is correct: its real consumer reads every block, and the tours run on a real engine.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step ends the test with a message"
)]

mod fence;
mod pages;
mod reference;
mod shell;
mod tour;
mod tours;
mod upgrade;

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

use argus_tests::binary;
use argus_tests::prometheus::promtool;
use fence::{Fence, all, commands, root};
use serde_json::Value;

/// Maximum number of unchecked blocks; each has a reason in its page.
const UNCHECKED: usize = 5;
/// Programs other than `argus` that blocks call and that the reader's machine has.
const OTHERS: &[&str] = &[
    "curl",
    "sed",
    "jq",
    "docker",
    "mkdir",
    "rm",
    "echo",
    "sh",
    "export",
    "$EDITOR",
    "just",
    "useradd",
    "install",
    "systemctl",
];

fn argus(words: &[&str]) -> Output {
    let mut command = Command::new(binary::argus());
    command.args(words).env("NO_COLOR", "1");
    command.output().expect("argus runs")
}

fn none(what: &str, wrong: &[String]) {
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

fn checked(language: &str) -> Vec<Fence> {
    let of = |fence: &Fence| fence.language == language && fence.unchecked.is_none();
    let found: Vec<_> = all().into_iter().filter(of).collect();
    assert!(!found.is_empty(), "no block of `{language}`");
    found
}

#[test]
fn every_block_has_a_language_or_a_reason() {
    // A separate test in controller/src/settings.rs reads the settings of docs/cli.md.
    let known = ["sh", "yaml", "json", "console", "toml"];
    let all = all();
    assert!(all.len() > 25, "{} blocks", all.len());
    let strange = all
        .iter()
        .filter(|it| it.unchecked.is_none() && !known.contains(&it.language.as_str()));
    let strange: Vec<_> = strange
        .map(|it| format!("{}: `{}`", it.place, it.language))
        .collect();
    none(
        "no test checks blocks of this language; add `<!-- unchecked: why -->` above",
        &strange,
    );
    let left: Vec<_> = all
        .iter()
        .filter(|it| it.unchecked.is_some())
        .map(|it| &it.place)
        .collect();
    assert!(left.len() <= UNCHECKED, "too many unchecked blocks: {left:?}");
    let silent = all
        .iter()
        .filter(|it| it.unchecked.as_ref().is_some_and(|why| why.len() < 10));
    assert_eq!(silent.count(), 0, "a reason has more than one word");
}

/// Completes a fragment of a spec.
fn whole(piece: &str) -> String {
    let has = |key: &str| piece.lines().any(|line| line.starts_with(key));
    let mut text = String::new();
    if !has("version:") {
        text.push_str("version: \"1\"\nproject: { name: page }\n");
    }
    text.push_str(piece);
    if !has("services:") && !has("service:") {
        text.push_str("services:\n  app: { image: \"busybox:1\", container: { name: page-app } }\n");
    }
    text
}

#[test]
fn every_spec_block_is_admitted_without_diagnostics() {
    let keys = [
        "version:",
        "services:",
        "mocks:",
        "resilience:",
        "isolation:",
        "argus:",
    ];
    let mut admitted = 0;
    for fence in checked("yaml") {
        if !fence
            .body
            .lines()
            .any(|line| keys.iter().any(|key| line.starts_with(key)))
        {
            continue;
        }
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("e2e.yaml");
        fs::write(&file, whole(&fence.body)).expect("a file");
        // Files that the pages mention.
        for name in ["config", "recordings"] {
            fs::create_dir_all(folder.path().join(name)).expect("a directory");
        }
        let document = "openapi: 3.1.0\ninfo: { title: t, version: '1' }\npaths: {}\n";
        fs::write(folder.path().join("catalogue.yaml"), document).expect("a file");
        // Suite files of the same page.
        let page = fence.place.split(':').next().unwrap_or_default();
        for other in fence::of(page)
            .iter()
            .filter(|other| other.of.ends_with("checks.yaml"))
        {
            let name = other.of.rsplit('/').next().unwrap_or_default();
            fs::write(folder.path().join(name), &other.body).expect("a file");
        }
        let output = argus(&["validate", "--strict", file.to_str().expect("a path")]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success() && text.is_empty(),
            "{}:\n{text}",
            fence.place
        );
        admitted += 1;
    }
    assert!(admitted >= 4, "{admitted} specs");
}

#[test]
fn every_other_yaml_block_parses_as_its_kind() {
    let mut seen = BTreeSet::new();
    for fence in checked("yaml") {
        let comment = fence.body.strip_prefix("# yaml-language-server: $schema=");
        if let Some(schema) = comment.and_then(|comment| comment.lines().next()) {
            assert!(
                root().join("docs").join(schema.trim()).is_file(),
                "{}: no {schema}",
                fence.place
            );
            if schema.contains("suite.schema.json") {
                let document = argus_crds::yaml::document(&fence.place, fence.body.as_bytes());
                let document = document.expect("a suite is YAML").value;
                let wrong = self::schema("suite")
                    .iter_errors(&document)
                    .map(|it| it.to_string())
                    .collect::<Vec<_>>();
                none(&fence.place, &wrong);
                seen.insert("suite");
            }
            seen.insert("schema");
        } else if fence.body.contains("scrape_configs:") {
            let output = promtool(&["check", "config", "--syntax-only", "/dev/stdin"], &fence.body);
            assert!(output.status.success(), "{}: {output:?}", fence.place);
            seen.insert("prometheus");
        }
    }
    assert_eq!(seen, BTreeSet::from(["prometheus", "schema", "suite"]));
}

fn schema(which: &str) -> jsonschema::Validator {
    let printed = argus(&["schema", which]);
    let schema: Value = serde_json::from_slice(&printed.stdout).expect("a schema is JSON");
    jsonschema::validator_for(&schema).expect("a schema")
}

#[test]
fn every_json_block_is_valid_and_fits_its_schema() {
    let error = schema("error");
    let mut errors = 0;
    for fence in checked("json") {
        let value: Value =
            serde_json::from_str(&fence.body).unwrap_or_else(|why| panic!("{}: {why}", fence.place));
        // Blocks of a tool are checked against the tool's own schema, together with the tools.
        if fence.of.is_empty() && value.get("suggestedActions").is_some() {
            let wrong: Vec<_> = error.iter_errors(&value).map(|it| it.to_string()).collect();
            none(&fence.place, &wrong);
            errors += 1;
        }
    }
    assert!(errors > 0, "an error is shown");
}

/// A spec with an invalid port.
const BAD: &str = "version: \"1\"\nproject: { name: shop }\nservices:\n  api:\n    image: busybox:1\n    container:\n      \
                   ports: [\"80800:8080\"]\n      name: shop-api\n";

#[test]
fn style_example_is_a_real_message() {
    let block = fence::of("docs/contributors/messages.md").remove(0);
    let (line, shown) = block.body.split_once('\n').expect("a command and its output");
    let folder = tempfile::tempdir().expect("a directory");
    fs::write(folder.path().join("shop.e2e.yaml"), BAD).expect("a file");
    let words = line.trim_start_matches("$ argus ").split(' ');
    let mut command = Command::new(binary::argus());
    let output = command
        .args(words)
        .current_dir(folder.path())
        .output()
        .expect("argus runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(shown, text(&output.stderr) + &text(&output.stdout));
}

#[test]
fn every_program_in_a_block_exists() {
    let recipes = fs::read_to_string(root().join("justfile")).expect("a justfile");
    let mut wrong = Vec::new();
    for fence in checked("sh") {
        for line in commands(&fence) {
            for call in line.split(['|', ';']).flat_map(|part| part.split("&&")) {
                let words: Vec<&str> = call.split_whitespace().collect();
                let Some(&program) = words.first() else { continue };
                let there = match program.strip_prefix("./") {
                    Some(script) => root().join(script).is_file(),
                    None if program == "just" => words.get(1).is_none_or(|name| {
                        recipes
                            .lines()
                            .any(|line| line.split([':', ' ']).next() == Some(name))
                    }),
                    None => program == "argus" || OTHERS.contains(&program) || quoted(&line, call),
                };
                if !there {
                    wrong.push(format!("{}: `{program}` in `{line}`", fence.place));
                }
            }
        }
    }
    none("unknown programs or commands", &wrong);
}

/// True if the `|` or `;` that ends this part is inside quotes.
fn quoted(line: &str, part: &str) -> bool {
    let at = line.find(part).unwrap_or(0);
    line[..at].matches('\'').count() % 2 == 1 || line[..at].matches('"').count() % 2 == 1
}
