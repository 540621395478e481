//! The corpus: every bad file has its message, every good file is taken.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};

use argus_crds::{E2eSpec, read, render};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(folder);
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files
}

#[test]
fn every_bad_file_has_its_message() {
    let mut wrong = Vec::new();
    let files = files("bad");
    assert!(files.len() >= 110, "the corpus has shrunk to {}", files.len());
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let bytes = fs::read(&file).unwrap();
        let reading = read(name, &bytes);
        assert!(!reading.diagnostics.is_empty(), "{name}: nobody complained");
        let refused = reading.diagnostics.iter().any(argus_crds::Diagnostic::is_error);
        assert_eq!(
            refused,
            reading.spec.is_none(),
            "{name}: a spec is there exactly when nothing refuses it"
        );
        let message = render(name, &String::from_utf8_lossy(&bytes), &reading.diagnostics);
        let golden = file.with_extension("txt");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&golden, &message).unwrap();
        } else if fs::read_to_string(&golden).unwrap_or_default() != message {
            wrong.push(format!("--- {name}\n{message}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "run with UPDATE=1 after looking at:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn every_good_file_is_taken_without_a_word() {
    let files = files("good");
    assert!(files.len() >= 15, "the corpus has shrunk to {}", files.len());
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let bytes = fs::read(&file).unwrap();
        let reading = read(name, &bytes);
        let message = render(name, &String::from_utf8_lossy(&bytes), &reading.diagnostics);
        assert!(reading.diagnostics.is_empty(), "{message}");
        assert!(reading.spec.is_some(), "{name}");
    }
}

#[test]
fn a_good_file_survives_json_and_yaml() {
    for file in files("good") {
        let name = file.file_name().unwrap().to_str().unwrap();
        let spec = read(name, &fs::read(&file).unwrap()).spec.unwrap();
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(
            serde_json::from_str::<E2eSpec>(&json).unwrap(),
            spec,
            "{name} through JSON"
        );
        let yaml = argus_crds::to_yaml(&spec).unwrap();
        let again = read(name, yaml.as_bytes());
        assert_eq!(
            again.spec.as_ref(),
            Some(&spec),
            "{name} through YAML:\n{yaml}\n{:?}",
            again.diagnostics
        );
    }
}
