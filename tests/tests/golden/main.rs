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

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "txt"))
        .collect();
    files.sort();
    files
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
