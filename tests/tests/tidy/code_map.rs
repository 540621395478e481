//! The code map of ARCHITECTURE.md names every folder of every crate, and only files that exist.

use std::collections::BTreeSet;
use std::path::Path;

use crate::{none, read, sources};

/// Texts in backticks of each row of the code map, with the crate of the row.
fn rows() -> Vec<Vec<String>> {
    let page = read("ARCHITECTURE.md");
    let (_, map) = page.split_once("\n## Code map\n").expect("the code map");
    let map = map.split("\nTo add something:").next().expect("the table");
    let rows = map
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`'));
    rows.map(|row| row.split('`').skip(1).step_by(2).map(str::to_owned).collect())
        .collect()
}

/// Folders directly below `src/` of a crate.
fn folders() -> BTreeSet<String> {
    let all = sources();
    let folder = |path: &String| {
        let (source, rest) = path.split_once("/src/")?;
        let is_crate = source == "crds" || source.starts_with("controller");
        let (folder, _) = rest.split_once('/').filter(|_| is_crate)?;
        Some(format!("{source}/src/{folder}/"))
    };
    all.iter().filter_map(folder).collect()
}

#[test]
fn code_map_names_every_folder_and_only_existing_files() {
    let mut missing = folders();
    assert!(missing.len() > 30, "{missing:?}");
    let mut offences = Vec::new();
    let mut source = String::new();
    for row in rows() {
        let folder = &row[0];
        if folder.contains("/src/") {
            if !missing.remove(folder) {
                offences.push(format!("{folder} is no folder"));
            }
        } else {
            source = format!("{folder}src/");
        }
        for file in row[1..]
            .iter()
            .filter(|name| Path::new(name).extension().is_some_and(|it| it == "rs"))
        {
            if !sources().contains(&format!("{source}{file}")) {
                offences.push(format!("{source}{file} is no file"));
            }
        }
    }
    offences.extend(
        missing
            .into_iter()
            .map(|folder| format!("{folder} is not in the code map")),
    );
    none("code map", &offences);
}
