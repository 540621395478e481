//! Invariants of the code base that the compiler does not check: dependencies between crates, allowed names, module
//! length.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

mod action;
mod budgets;
mod code_map;
mod dependencies;
mod flaky_tests;
mod language;
mod module_graph;
mod requirements;

const MAX_LINES: usize = 400;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace is above")
        .to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every committed or new file, relative to the root.
fn files() -> Vec<String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root());
    let output = git.output().expect("git runs");
    assert!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let listed = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect::<BTreeSet<_>>();
    listed
        .into_iter()
        .filter(|path| root().join(path).is_file())
        .collect()
}

fn ends_with(path: &str, ending: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == ending)
}

fn sources() -> Vec<String> {
    files().into_iter().filter(|path| ends_with(path, "rs")).collect()
}

/// The modules of the product, without tests in separate files and without what only tests compile.
fn modules() -> Vec<String> {
    let is_module = |path: &String| {
        let product =
            path.starts_with("crds/src/") || (path.starts_with("controller/") && path.contains("src/"));
        let tests = path.ends_with("_tests.rs") || path.ends_with("/tests.rs") || path.contains("/tests/");
        product && !tests
    };
    let all: Vec<String> = sources().into_iter().filter(is_module).collect();
    let fixtures: BTreeSet<String> = all.iter().flat_map(|path| fixtures(path)).collect();
    all.into_iter().filter(|path| !fixtures.contains(path)).collect()
}

/// Files that a module declares for tests only.
fn fixtures(path: &str) -> Vec<String> {
    let module = path.trim_end_matches(".rs");
    let folder = module.strip_suffix("/lib").or(module.strip_suffix("/main"));
    let folder = folder.unwrap_or(module);
    let text = read(path);
    let declared = text.split("#[cfg(test)]\n").skip(1);
    let names = declared.filter_map(|rest| {
        let line = rest.lines().next()?.trim_start_matches("pub(crate) ");
        line.strip_prefix("mod ")?.strip_suffix(';')
    });
    names.map(|name| format!("{folder}/{name}.rs")).collect()
}

/// Text of a file without its test module. A line such as `mod fixtures;` ends no product.
fn product(path: &str) -> String {
    let text = read(path);
    let product = text.split("\n#[cfg(test)]\nmod tests {").next();
    product.unwrap_or_default().to_owned()
}

/// The code of a file, without comments and without its test module.
fn code(path: &str) -> String {
    product(path)
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Names of the dependencies in one section of a manifest.
fn dependencies(manifest: &str, section: &str) -> BTreeSet<String> {
    let text = read(manifest);
    let lines = text
        .lines()
        .skip_while(|line| *line != format!("[{section}]"))
        .skip(1);
    let names = lines
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with('#'));
    names
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

fn none(what: &str, offences: &[String]) {
    assert!(offences.is_empty(), "{what}:\n  {}", offences.join("\n  "));
}

/// All modules whose code contains one of `words`, except those in `allowed`.
fn named_outside(words: &[&str], allowed: &[&str]) -> Vec<String> {
    let mut offences = Vec::new();
    for path in modules() {
        if allowed.iter().any(|prefix| path.starts_with(prefix)) {
            continue;
        }
        let code = code(&path);
        offences.extend(
            words
                .iter()
                .filter(|word| code.contains(**word))
                .map(|word| format!("{path}: {word}")),
        );
    }
    offences
}

#[test]
fn layer_dependencies_point_down() {
    let layers = [
        ("crds", &[][..]),
        ("controller/core", &["argus-crds"]),
        ("controller/mock", &["argus-core", "argus-crds"]),
        ("controller/suite", &["argus-core", "argus-crds"]),
        ("controller/backend", &["argus-core", "argus-crds"]),
        (
            "controller/docker",
            &["argus-backend", "argus-core", "argus-crds"],
        ),
        (
            "controller/reconciler",
            &["argus-backend", "argus-core", "argus-crds", "argus-mock"],
        ),
        (
            "controller",
            &[
                "argus-backend",
                "argus-core",
                "argus-crds",
                "argus-docker",
                "argus-mock",
                "argus-reconciler",
                "argus-suite",
            ],
        ),
    ];
    let mut offences = Vec::new();
    for (baseline, below) in layers {
        let used = dependencies(&format!("{baseline}/Cargo.toml"), "dependencies");
        let ours = used.iter().filter(|name| name.starts_with("argus"));
        offences.extend(
            ours.filter(|name| !below.contains(&name.as_str()))
                .map(|name| format!("{baseline} -> {name}")),
        );
    }
    none("a layer may depend only on lower layers", &offences);
}

#[test]
fn planner_has_few_dependencies() {
    let allowed = [
        "argus-crds",
        "jiff",
        "regex",
        "serde",
        "serde_json",
        "sha2",
        "thiserror",
    ];
    let used = dependencies("controller/core/Cargo.toml", "dependencies");
    let extra: Vec<_> = used
        .into_iter()
        .filter(|name| !allowed.contains(&name.as_str()))
        .collect();
    none(
        "argus-core is pure: no async, no clock, no I/O, no randomness",
        &extra,
    );
    let allowed = [
        "granit-parser",
        "schemars",
        "serde",
        "serde_json",
        "serde_yaml",
        "strsim",
        "thiserror",
    ];
    let used = dependencies("crds/Cargo.toml", "dependencies");
    let extra: Vec<_> = used
        .into_iter()
        .filter(|name| !allowed.contains(&name.as_str()))
        .collect();
    none("argus-crds is types and their text forms", &extra);
    let allowed = [
        "argus-core",
        "argus-crds",
        "base64",
        "bytes",
        "jsonschema",
        "percent-encoding",
        "regex-syntax",
        "serde",
        "serde_json",
        "sha2",
        "strsim",
    ];
    let used = dependencies("controller/mock/Cargo.toml", "dependencies");
    let extra: Vec<_> = used
        .into_iter()
        .filter(|name| !allowed.contains(&name.as_str()))
        .collect();
    none("argus-mock answers requests that others receive", &extra);
    let allowed = [
        "argus-core",
        "argus-crds",
        "fancy-regex",
        "serde",
        "serde_json",
        "url",
    ];
    let used = dependencies("controller/suite/Cargo.toml", "dependencies");
    let extra: Vec<_> = used
        .into_iter()
        .filter(|name| !allowed.contains(&name.as_str()))
        .collect();
    none("argus-suite decides about results that others collect", &extra);
}

#[test]
fn planner_does_no_io_and_never_blocks() {
    let words = [
        "std::fs",
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "std::env",
        "std::process",
        "std::thread",
        "tokio::",
        "async fn",
        ".await",
        "rand::",
    ];
    let offences = named_outside(
        &words,
        &[
            "controller/backend",
            "controller/docker",
            "controller/reconciler",
            "controller/src",
        ],
    );
    none("layers 0 and 1, with mocks and suites, are pure", &offences);
}

#[test]
fn module_has_at_most_400_lines() {
    let too_long = |path: String| {
        let lines = read(&path).lines().count();
        (lines > MAX_LINES).then(|| format!("{path}: {lines}"))
    };
    none(
        "split the module by responsibility",
        &modules().into_iter().filter_map(too_long).collect::<Vec<_>>(),
    );
}

#[test]
fn every_source_file_has_a_summary() {
    let silent: Vec<_> = sources()
        .into_iter()
        .filter(|path| !read(path).starts_with("//! "))
        .collect();
    none("the first line of a source file is its `//!` summary", &silent);
}

#[test]
fn there_is_no_mod_rs() {
    let found: Vec<_> = sources()
        .into_iter()
        .filter(|path| path.ends_with("/mod.rs"))
        .collect();
    none("foo.rs + foo/, never foo/mod.rs", &found);
}

#[test]
fn only_the_docker_crate_names_bollard() {
    none(
        "only the docker crate names the engine's client",
        &named_outside(&["bollard"], &["controller/docker/"]),
    );
    let manifests = files()
        .into_iter()
        .filter(|path| path.ends_with("Cargo.toml") && path != "Cargo.toml");
    let named =
        manifests.filter(|path| path != "controller/docker/Cargo.toml" && read(path).contains("bollard"));
    none(
        "only the docker crate names the engine's client",
        &named.collect::<Vec<_>>(),
    );
}

#[test]
fn only_yaml_rs_names_the_yaml_crate() {
    none(
        "the YAML crate",
        &named_outside(
            &["serde_yaml", "serde_saphyr", "granit_parser"],
            &["crds/src/yaml.rs", "crds/src/yaml/"],
        ),
    );
}

#[test]
fn only_the_clock_reads_the_time() {
    let words = [
        "SystemTime::now",
        "Instant::now",
        "Timestamp::now",
        "Zoned::now",
        "Utc::now",
    ];
    none(
        "time is an argument",
        &named_outside(&words, &["controller/reconciler/src/clock.rs"]),
    );
}

#[test]
fn only_host_path_opens_files_that_others_can_make() {
    let words = [
        "OpenOptions",
        "File::options(",
        "File::create",
        "File::open(",
        "fs::write(",
        "fs::read(",
        "fs::read_to_string(",
        "set_permissions(",
        "custom_flags(",
    ];
    let allowed = [
        "controller/backend/src/host_path",
        // Files of the system and of the user.
        "controller/docker/src/bridges.rs",
        "controller/docker/src/connect/",
        "controller/docker/src/host_facts.rs",
        "controller/docker/src/image/credentials.rs",
        "controller/docker/src/listeners.rs",
        "controller/docker/src/memory_peaks.rs",
        "controller/docker/src/service_sockets.rs",
        "controller/reconciler/src/identity.rs",
        "controller/reconciler/src/lease/process.rs",
        "controller/reconciler/src/lock.rs",
        "controller/reconciler/src/prober/pressure.rs",
        "controller/src/api/doctor/machine.rs",
        "controller/src/http/token.rs",
        "controller/reconciler/src/state_dir/seal.rs",
        "controller/src/settings/status_group.rs",
        // Private state, whose folder only the user of the controller can have made.
        "controller/reconciler/src/executor/evidence_store.rs",
        "controller/reconciler/src/journal/log_file.rs",
        "controller/reconciler/src/private_folder.rs",
        "controller/src/test_runner/ci_files.rs",
        "controller/src/http/listen.rs",
        "controller/src/process/own_image.rs",
        "controller/src/session/background.rs",
        // Files that the operator or the CI system names for this output.
        "controller/src/api/doctor/bundle.rs",
        "controller/src/cli/ci/console.rs",
        "controller/src/cli/man.rs",
        "controller/src/selftest/environment.rs",
        // Mocks run in their own container.
        "controller/src/mock/",
    ];
    none(
        "open files of projects and of the state with `host_path::folder`",
        &named_outside(&words, &allowed),
    );
}

/// A repository can contain a file whose name has a line break. `quoting.rs` shows it in one line.
#[test]
fn messages_show_paths_in_one_line() {
    // Addresses and folders of the operator, and keys.
    let allowed = [
        "controller/docker/src/connect.rs",
        "controller/docker/src/connect/",
        "controller/docker/src/image/credentials",
        "controller/reconciler/src/lease/process.rs",
        "controller/reconciler/src/specs/evaluation.rs",
        "controller/src/api/preflight/checks.rs",
    ];
    let mut offences = Vec::new();
    for path in modules() {
        let code = code(&path);
        let mut uses = code.split(".display()").skip(1);
        let is_key = |rest: &str| rest.trim_start().starts_with(".to_string()");
        if !allowed.iter().any(|start| path.starts_with(start)) && uses.any(|rest| !is_key(rest)) {
            offences.push(path);
        }
    }
    none("show paths with `PathText::shown`", &offences);
}

#[test]
fn no_script_uses_a_fixed_path_in_tmp() {
    let is_script = |path: &String| path.starts_with("scripts/") || path == "justfile";
    let mut offences = Vec::new();
    for path in files().into_iter().filter(is_script) {
        let text = read(&path);
        let lines = text.lines().filter(|line| line.contains("/tmp/"));
        offences.extend(lines.map(|line| format!("{path}: {}", line.trim())));
    }
    none("another user can create a known path in /tmp first", &offences);
}

#[test]
fn engine_script_uses_no_folder_of_others() {
    let script = read("scripts/engine");
    let from = script.find("prepare_home() {").expect("the function");
    let function = script[from..].split_inclusive("\n}\n").next().expect("its end");
    let folder = tempfile::tempdir().expect("a folder");
    let prepare = |name: &str| {
        let program = format!("home=$1\nsay() {{ :; }}\n{function}prepare_home\n");
        let ended = std::process::Command::new("bash")
            .args(["-c", &program, "engine"])
            .arg(folder.path().join(name))
            .status();
        ended.expect("bash runs").code()
    };
    let open = folder.path().join("open");
    std::fs::create_dir(&open).expect("a folder");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&open, mode).expect("its mode");
    std::os::unix::fs::symlink(folder.path(), folder.path().join("link")).expect("a link");
    std::fs::write(folder.path().join("file"), "").expect("a file");
    for name in ["open", "link", "file", "missing/below"] {
        assert_eq!(prepare(name), Some(4), "{name}");
    }
    // Only root starts an engine.
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        let foreign = folder.path().join("foreign");
        std::fs::create_dir(&foreign).expect("a folder");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&foreign, mode).expect("its mode");
        std::os::unix::fs::chown(&foreign, Some(1234), None).expect("its owner");
        assert_eq!(prepare("foreign"), Some(4), "another user made it");
    }
    assert_eq!(prepare("new"), Some(if is_root { 0 } else { 4 }));
    assert!(script.contains("start_directly() {\n    prepare_home\n"));
}

#[test]
fn every_task_has_a_name() {
    let words = ["tokio::spawn(", "task::spawn(", "thread::spawn("];
    none(
        "every task starts with supervise.spawn",
        &named_outside(&words, &["controller/reconciler/src/supervise"]),
    );
}

#[test]
fn no_sleep_hides_a_race() {
    let mut offences = named_outside(&["thread::sleep"], &[]);
    let tests = sources().into_iter().filter(|path| path.starts_with("tests/"));
    let excused = ["tests/src/wait.rs", "tests/tests/tidy/main.rs"];
    offences.extend(
        tests.filter(|path| !excused.contains(&path.as_str()) && code(path).contains("thread::sleep")),
    );
    none("wait for a condition with a limit", &offences);
}

#[test]
fn ignored_tests_have_a_reason() {
    let off = concat!("#[ig", "nore]");
    let found: Vec<_> = sources()
        .into_iter()
        .filter(|path| read(path).contains(off))
        .collect();
    none("#[ignore = \"reason\"]", &found);
}

/// The rows of the table below `## Invariants`: number and tests of each invariant.
fn invariants() -> Vec<(String, String)> {
    let text = read("ARCHITECTURE.md");
    let section = text
        .split("\n## Invariants\n")
        .nth(1)
        .expect("ARCHITECTURE.md has `## Invariants`");
    let rows = section
        .lines()
        .take_while(|line| !line.starts_with("## "))
        .filter(|line| line.starts_with("| "));
    let cells = rows.map(|row| {
        row.trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect::<Vec<_>>()
    });
    cells
        .filter(|cells| cells[0].parse::<u32>().is_ok())
        .map(|cells| (cells[0].clone(), cells[2].clone()))
        .collect()
}

#[test]
fn every_invariant_names_an_existing_test() {
    let code: String = sources().iter().map(|path| read(path)).collect();
    let mut offences = Vec::new();
    let rows = invariants();
    assert!(rows.len() >= 13, "13 invariants, {} rows", rows.len());
    for (number, held) in rows {
        let names: Vec<_> = held.split('`').skip(1).step_by(2).collect();
        if !code.contains(&format!("Invariant {number}: ")) {
            offences.push(format!("{number}: no module states it"));
        }
        if names.is_empty() && !held.contains("not yet held by a test") {
            offences.push(format!("{number}: names no test"));
        }
        let missing = names.iter().filter(|name| !code.contains(&format!("fn {name}(")));
        offences.extend(missing.map(|name| format!("{number}: no test `{name}`")));
    }
    none("ARCHITECTURE.md", &offences);
}

#[test]
fn every_link_in_the_docs_resolves() {
    let mut offences = Vec::new();
    for path in files().into_iter().filter(|path| ends_with(path, "md")) {
        let folder = root()
            .join(&path)
            .parent()
            .expect("a file has a directory")
            .to_owned();
        for link in read(&path)
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let target = link.split('#').next().unwrap_or_default();
            let elsewhere = link.contains("://") || link.starts_with("mailto:") || target.is_empty();
            if !elsewhere && !folder.join(target).exists() {
                offences.push(format!("{path}: {link}"));
            }
        }
    }
    none("dead links", &offences);
}

#[test]
fn no_file_names_its_build_machine() {
    let words = [
        concat!("/wo", "rk/main"),
        concat!("/wo", "rk/shared"),
        concat!("/wo", "rk/.lib"),
        concat!("/ro", "ot/.cargo"),
        concat!("/ro", "ot/.rustup"),
        concat!("the C", "EO"),
    ];
    let mut offences = Vec::new();
    for path in files() {
        let text = std::fs::read(root().join(&path)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        offences.extend(
            words
                .iter()
                .filter(|word| text.contains(**word))
                .map(|word| format!("{path}: {word}")),
        );
    }
    none("a file names its build machine", &offences);
}

#[test]
fn every_script_parses_and_stops_at_its_first_error() {
    let mut offences = String::new();
    let scripts = files()
        .into_iter()
        .filter(|path| path.starts_with("scripts/") || path == ".ci/run");
    for path in scripts.filter(|path| read(path).starts_with("#!")) {
        let parsed = Command::new("bash")
            .arg("-n")
            .arg(root().join(&path))
            .output()
            .expect("bash runs");
        if !parsed.status.success() {
            writeln!(offences, "{path}: {}", String::from_utf8_lossy(&parsed.stderr))
                .expect("writing to a string succeeds");
        }
        if !read(&path).contains("\nset -euo pipefail\n") {
            writeln!(offences, "{path}: no `set -euo pipefail`").expect("writing to a string succeeds");
        }
    }
    assert!(offences.is_empty(), "{offences}");
}

#[test]
fn every_example_is_admitted_without_diagnostics() {
    let examples = files()
        .into_iter()
        .filter(|path| path.starts_with("examples/") && path.ends_with("e2e.yaml"));
    let mut seen = 0;
    for path in examples {
        let reading = argus_crds::yaml::read(&path, read(&path).as_bytes());
        assert!(
            reading.spec.is_some() && reading.diagnostics.is_empty(),
            "{path}: {:#?}",
            reading.diagnostics
        );
        let schema = "yaml-language-server: $schema=";
        let first = read(&path);
        let target = first
            .lines()
            .next()
            .and_then(|line| line.split_once(schema))
            .map(|(_, target)| target.to_owned());
        let target = target.unwrap_or_else(|| panic!("{path}: no schema line for editors"));
        let folder = root()
            .join(&path)
            .parent()
            .expect("a file has a directory")
            .join(target);
        assert!(folder.is_file(), "{path}: no schema at {}", folder.display());
        seen += 1;
    }
    assert!(seen >= 3, "{seen} examples");
}
