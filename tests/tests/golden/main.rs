//! Golden plans: the decisions for a spec in a world, one readable file per case; `UPDATE=1` writes them again. The module
//! `instructions` counts the instructions of the pure parts.

#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::path::{Path, PathBuf};

use crate::case::Case;
use crate::fixture::GoldenFixture;

mod case;
mod error;
mod fixture;
mod instructions;
mod objects;
mod recall;

/// Paths in a folder of the cases.
fn list(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(folder);
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// The cases; each group is a folder.
fn files() -> Vec<PathBuf> {
    let groups = list("").into_iter().filter(|path| path.is_dir());
    groups.flat_map(|group| list(group.to_str().unwrap())).collect()
}

#[test]
fn every_golden_case_is_in_a_group_and_has_a_sentence() {
    let is_case = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "txt");
    let without_group: Vec<PathBuf> = list("").into_iter().filter(is_case).collect();
    assert!(without_group.is_empty(), "{without_group:?}");
    for path in files() {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# shows that "), "{}", path.display());
    }
}

#[test]
fn every_golden_case_is_planned_as_recorded() {
    let files = files();
    assert!(files.len() >= 60, "{} cases", files.len());
    let mut differing = Vec::new();
    for path in files {
        let case = Case::read(&std::fs::read_to_string(&path).unwrap());
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let found = match GoldenFixture::play(&case) {
            Ok(found) => found,
            Err(why) => {
                differing.push(format!("{name}: {why}"));
                continue;
            }
        };
        if found == case.plan {
            continue;
        }
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, case.with_plan(&found)).unwrap();
        } else {
            differing.push(format!("{name}\nexpected:\n{}found:\n{found}", case.plan));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}
