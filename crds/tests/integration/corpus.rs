//! Corpus of spec files: expected diagnostics of every invalid file, and none for every valid file.
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
fn every_invalid_file_has_its_expected_diagnostics() {
    let mut wrong = Vec::new();
    let files = files("bad");
    assert!(files.len() >= 110, "the corpus shrank to {} files", files.len());
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let bytes = fs::read(&file).unwrap();
        let parsed = read(name, &bytes);
        assert!(!parsed.diagnostics.is_empty(), "{name} has no diagnostics");
        let has_error = parsed.diagnostics.iter().any(argus_crds::Diagnostic::is_error);
        assert_eq!(
            has_error,
            parsed.spec.is_none(),
            "{name} must have a spec exactly if no diagnostic is an error"
        );
        let message = render(name, &String::from_utf8_lossy(&bytes), &parsed.diagnostics);
        let golden = file.with_extension("txt");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&golden, &message).unwrap();
        } else if fs::read_to_string(&golden).unwrap_or_default() != message {
            wrong.push(format!("--- {name}\n{message}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "review these diagnostics, then run with UPDATE=1:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn every_valid_file_is_accepted_without_diagnostics() {
    let files = files("good");
    assert!(files.len() >= 15, "the corpus shrank to {} files", files.len());
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let bytes = fs::read(&file).unwrap();
        let parsed = read(name, &bytes);
        let message = render(name, &String::from_utf8_lossy(&bytes), &parsed.diagnostics);
        assert!(parsed.diagnostics.is_empty(), "{message}");
        assert!(parsed.spec.is_some(), "{name}");
    }
}

#[test]
fn valid_file_survives_json_and_yaml() {
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
