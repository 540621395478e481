//! Every dependency in a manifest is used: one that is not makes every build longer.

use super::{dependencies, files, none, read, sources};

/// The manifests of the workspace's crates.
fn manifests() -> Vec<String> {
    let is_member =
        |path: &String| path.ends_with("/Cargo.toml") && read(path).contains("\n[dependencies]\n");
    files().into_iter().filter(is_member).collect()
}

#[test]
fn every_dependency_is_named_in_its_crate() {
    let mut offences = Vec::new();
    for manifest in manifests() {
        let folder = manifest.trim_end_matches("Cargo.toml");
        let product = format!("{folder}src/");
        let tests = format!("{folder}tests/");
        let code = |folders: &[&String]| -> String {
            let ours = |path: &String| folders.iter().any(|folder| path.starts_with(*folder));
            sources()
                .iter()
                .filter(|path| ours(path))
                .map(|path| read(path))
                .collect()
        };
        for (section, code) in [
            ("dependencies", code(&[&product])),
            ("dev-dependencies", code(&[&product, &tests])),
        ] {
            let unused = dependencies(&manifest, section)
                .into_iter()
                .filter(|name| !is_named(&name.replace('-', "_"), &code));
            offences.extend(unused.map(|name| format!("{manifest}: {name}")));
        }
    }
    none("a dependency that its crate does not use", &offences);
}

#[test]
fn every_workspace_dependency_belongs_to_a_crate() {
    let used: String = manifests().iter().map(|path| read(path)).collect();
    let is_used = |name: &String| {
        let by = [format!("\n{name}.workspace"), format!("\n{name} = {{ workspace")];
        by.iter().any(|by| used.contains(by))
    };
    let unused: Vec<_> = dependencies("Cargo.toml", "workspace.dependencies")
        .into_iter()
        .filter(|name| !is_used(name))
        .collect();
    none("a workspace dependency that no crate uses", &unused);
}

/// Reports whether the code contains the name as a path: `name::`, or `use name;`.
fn is_named(name: &str, code: &str) -> bool {
    code.match_indices(name).any(|(start, _)| {
        let before = code[..start].chars().next_back();
        let after = &code[start + name.len()..];
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        !before.is_some_and(is_word) && (after.starts_with("::") || after.starts_with(';'))
    })
}
