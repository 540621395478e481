//! Whole files through reading and admission, compared with what stands beside them; `UPDATE=1` writes that anew.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use argus_core::desired::admit::{Admission, SpecContext, admit};
use argus_core::time::Timestamp;
use argus_crds::{Diagnostic, yaml};

const FILE: &str = "e2e.yaml";

fn context() -> SpecContext {
    SpecContext {
        directory: "/specs/shop".to_owned(),
        env_vars: BTreeMap::from([
            ("LEVEL".to_owned(), "seven".to_owned()),
            ("HOME".to_owned(), "/".to_owned()),
        ]),
        now: Timestamp(1_700_000_000_123),
        uuid: "6f2c1c7e-0000-4000-8000-000000000001".to_owned(),
        build_digests: BTreeMap::new(),
        own_image: "/state/own-image".to_owned(),
        documents: BTreeMap::new(),
        allow_mounts: vec!["/opt/shared/".to_owned()],
        host: argus_core::desired::host::HostPaths::default(),
    }
}

/// The files of one folder of the corpus, sorted.
fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    files.sort();
    files
}

/// What came of a file, and all complaints about it with their places, in the order of the file.
fn process(path: &Path) -> (Admission, Vec<Diagnostic>, String) {
    let text = std::fs::read_to_string(path).unwrap();
    let reading = yaml::read(FILE, text.as_bytes());
    let spec = reading
        .spec
        .unwrap_or_else(|| panic!("{}: {:#?}", path.display(), reading.diagnostics));
    let admission = admit(&spec, &context());
    let mut all = reading.diagnostics;
    all.extend(
        admission
            .diagnostics
            .iter()
            .map(|diagnostic| reading.source.placed(diagnostic.clone())),
    );
    all.sort_by_key(|diagnostic| diagnostic.location);
    let rendered = argus_crds::render(FILE, &text, &all);
    (admission, all, rendered)
}

/// Compares with the file beside it; collects what differs.
fn compare(path: &Path, ending: &str, found: &str, differing: &mut Vec<String>) {
    let golden = path.with_extension(ending);
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
fn a_refused_file_says_everything_that_is_wrong_with_it() {
    let mut differing = Vec::new();
    let files = files("refused");
    assert!(files.len() >= 60, "{} files", files.len());
    for path in files {
        let (admission, diagnostics, rendered) = process(&path);
        let name = path.display();
        assert!(admission.desired.is_none(), "{name} is admitted");
        assert!(
            admission.diagnostics.iter().any(Diagnostic::is_error),
            "{name} is refused without a word"
        );
        for diagnostic in &diagnostics {
            assert!(diagnostic.location.is_some(), "{name}: no place: {diagnostic:?}");
            assert!(diagnostic.hint.is_some(), "{name}: no hint: {diagnostic:?}");
        }
        compare(&path, "txt", &rendered, &mut differing);
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn a_warned_file_is_admitted_all_the_same() {
    let mut differing = Vec::new();
    for path in files("warned") {
        let (admission, diagnostics, rendered) = process(&path);
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
fn an_admitted_file_becomes_what_stands_beside_it() {
    let mut differing = Vec::new();
    for path in files("admitted") {
        let (admission, diagnostics, rendered) = process(&path);
        assert!(diagnostics.is_empty(), "{}: {rendered}", path.display());
        let desired = admission.desired.unwrap();
        let json = serde_json::to_string_pretty(&desired).unwrap() + "\n";
        compare(&path, "json", &json, &mut differing);
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn complaints_keep_the_style_of_words_for_people() {
    for path in files("refused").into_iter().chain(files("warned")) {
        let (admission, _, _) = process(&path);
        for Diagnostic { message, hint, .. } in admission.diagnostics {
            let hint = hint.unwrap_or_default();
            for text in [&message, &hint] {
                let shout = text.starts_with("POLICY_VIOLATION") || text.starts_with("SPEC_CONFLICT");
                let first = text.chars().next().unwrap();
                assert!(shout || !first.is_uppercase() && !text.ends_with('.'), "{text}");
                assert!(!text.contains('\n') && text.chars().count() < 300, "{text}");
            }
        }
    }
}

#[test]
fn every_example_is_admitted_without_a_word() {
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
                let (admission, diagnostics, rendered) = process(&entry);
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
