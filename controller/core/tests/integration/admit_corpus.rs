//! Golden tests of parsing and admission. `UPDATE=1` rewrites the expected files.

#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use argus_core::desired::admit::{Admission, SpecContext, admit};
use argus_core::time::Timestamp;
use argus_crds::{Diagnostic, yaml};

const FILE: &str = "e2e.yaml";
/// First line of a file of an allowed project.
const ALLOWED: &str = "# In an allowed project.\n";

fn context() -> SpecContext {
    SpecContext {
        directory: "/specs/shop".to_owned(),
        env_vars: BTreeMap::from([
            ("LEVEL".to_owned(), "seven".to_owned()),
            ("HOME".to_owned(), "/".to_owned()),
        ]),
        now: Timestamp(1_700_000_000_123),
        uuid: "6f2c1c7e-0000-4000-8000-000000000001".to_owned(),
        own_image: "/state/own-image".to_owned(),
        documents: BTreeMap::new(),
        allow_mounts: vec!["/opt/shared/".to_owned()],
        ..SpecContext::default()
    }
}

/// Returns the spec files of one folder of the corpus, sorted.
fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files
}

/// Admits a file; returns the admission, all diagnostics with locations in the order of the file, and their text.
fn admit_file(path: &Path) -> (Admission, Vec<Diagnostic>, String) {
    let text = std::fs::read_to_string(path).unwrap();
    let parsed = yaml::read(FILE, text.as_bytes());
    let spec = parsed
        .spec
        .unwrap_or_else(|| panic!("{}: {:#?}", path.display(), parsed.diagnostics));
    let mut context = context();
    context.host.allowed = text.starts_with(ALLOWED);
    let admission = admit(&spec, &context);
    let mut all = parsed.diagnostics;
    all.extend(
        admission
            .diagnostics
            .iter()
            .map(|diagnostic| parsed.source.with_location(diagnostic.clone())),
    );
    all.sort_by_key(|diagnostic| diagnostic.location);
    let rendered = argus_crds::render(FILE, &text, &all);
    (admission, all, rendered)
}

/// Compares the output with the expected file next to `path`, and collects differences.
fn compare(path: &Path, extension: &str, found: &str, differing: &mut Vec<String>) {
    let golden = path.with_extension(extension);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&golden, found).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    if expected != found {
        differing.push(format!(
            "{}\nexpected:\n{expected}\nfound:\n{found}",
            golden.display()
        ));
    }
}

#[test]
fn rejected_file_reports_all_problems() {
    let mut differing = Vec::new();
    let files = files("refused");
    assert!(files.len() >= 60, "{} files", files.len());
    for path in files {
        let (admission, diagnostics, rendered) = admit_file(&path);
        let name = path.display();
        assert!(admission.desired.is_none(), "{name} is admitted");
        assert!(
            admission.diagnostics.iter().any(Diagnostic::is_error),
            "{name} is rejected without an error"
        );
        for diagnostic in &diagnostics {
            assert!(
                diagnostic.location.is_some(),
                "{name}: no location: {diagnostic:?}"
            );
            assert!(diagnostic.hint.is_some(), "{name}: no hint: {diagnostic:?}");
        }
        compare(&path, "txt", &rendered, &mut differing);
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn file_with_warnings_is_admitted() {
    let mut differing = Vec::new();
    for path in files("warned") {
        let (admission, diagnostics, rendered) = admit_file(&path);
        let name = path.display();
        assert!(admission.desired.is_some(), "{name}: {rendered}");
        assert!(!diagnostics.is_empty(), "{name} has no warning");
        assert!(
            diagnostics.iter().all(|diagnostic| diagnostic.location.is_some()),
            "{name}: {diagnostics:#?}"
        );
        compare(&path, "txt", &rendered, &mut differing);
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn admitted_file_matches_its_expected_state() {
    let mut differing = Vec::new();
    for path in files("admitted") {
        let (admission, diagnostics, rendered) = admit_file(&path);
        assert!(diagnostics.is_empty(), "{}: {rendered}", path.display());
        let desired = admission.desired.unwrap();
        let json = serde_json::to_string_pretty(&desired).unwrap() + "\n";
        compare(&path, "json", &json, &mut differing);
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn diagnostics_follow_the_message_style() {
    for path in files("refused").into_iter().chain(files("warned")) {
        let (admission, _, _) = admit_file(&path);
        for Diagnostic { message, hint, .. } in admission.diagnostics {
            let hint = hint.unwrap_or_default();
            for text in [&message, &hint] {
                let has_code = text.starts_with("POLICY_VIOLATION") || text.starts_with("SPEC_CONFLICT");
                let first = text.chars().next().unwrap();
                assert!(
                    has_code || !first.is_uppercase() && !text.ends_with('.'),
                    "{text}"
                );
                assert!(!text.contains('\n') && text.chars().count() < 300, "{text}");
            }
        }
    }
}

#[test]
fn every_example_is_admitted_without_diagnostics() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut folders = vec![examples];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.to_string_lossy().ends_with("e2e.yaml") {
                let (admission, diagnostics, rendered) = admit_file(&entry);
                assert!(
                    admission.desired.is_some() && diagnostics.is_empty(),
                    "{}: {rendered}",
                    entry.display()
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 0, "there are no examples");
}
