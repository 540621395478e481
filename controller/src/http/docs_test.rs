//! The table of paths in `docs/http.md` is what can be asked.

use std::collections::{BTreeMap, BTreeSet};

use super::openapi::OPERATIONS;

const PAGE: &str = include_str!("../../../docs/http.md");

/// What the page writes where the table has a name between braces.
const NAMES: &[(&str, &str)] = &[
    ("ENV", "{env}"),
    ("SVC", "{service}"),
    ("MOCK", "{mock}"),
    ("ID", "{id}"),
    ("CODE", "{code}"),
    ("VERB", "{verb}"),
];

/// Methods with paths, and of each the names in its query.
type Asked = BTreeMap<(&'static str, String), BTreeSet<String>>;

/// The rows of the table of paths: what can be asked, and what it is.
fn rows() -> Vec<(&'static str, &'static str)> {
    let (_, table) = PAGE.split_once("| path | is |\n|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with("| "));
    rows.map(|row| row.trim_start_matches("| ").split_once(" | ").unwrap())
        .collect()
}

/// A path as the table of operations has it.
fn named(path: &str) -> String {
    let parts = path.split('/').map(|part| {
        let known = NAMES.iter().find(|(name, _)| *name == part);
        known.map_or(part, |(_, braced)| *braced)
    });
    parts.collect::<Vec<_>>().join("/")
}

/// The path, also without what may be left out of it, and the names of its query.
fn read(token: &str) -> (Vec<String>, BTreeSet<String>) {
    let (path, query) = match token.split_once('?') {
        Some((path, query)) => (path.trim_end_matches('['), query),
        None => (token, ""),
    };
    let paths = match path.split_once("[/") {
        Some((short, more)) => vec![
            named(short),
            named(&format!("{short}/{}", more.trim_end_matches(']'))),
        ],
        None => vec![named(path)],
    };
    let names = query
        .split(['&', '?', '[', ']'])
        .filter_map(|part| part.split_once('='));
    (paths, names.map(|(name, _)| name.to_owned()).collect())
}

fn on_the_page() -> Asked {
    let mut all = Asked::new();
    for (asked, is) in rows() {
        for token in asked.split('`').skip(1).step_by(2) {
            let (method, path) = token
                .strip_prefix("POST ")
                .map_or(("get", token), |path| ("post", path));
            let (paths, query) = read(path);
            for path in paths {
                if is.contains("`POST`") {
                    all.insert(("post", path.clone()), BTreeSet::new());
                }
                all.insert((method, path), query.clone());
            }
        }
    }
    all
}

#[test]
fn the_page_has_every_path_with_its_method_and_no_other() {
    let page: BTreeSet<_> = on_the_page().into_keys().collect();
    let ours = OPERATIONS.iter().map(|it| (it.method, it.path.to_owned()));
    let ours: BTreeSet<_> = ours.collect();
    assert_eq!(page, ours);
}

#[test]
fn the_page_has_the_query_of_every_path() {
    let page = on_the_page();
    for operation in OPERATIONS {
        let query = page.get(&(operation.method, operation.path.to_owned()));
        let ours = operation.query.iter().map(|name| (*name).to_owned());
        assert_eq!(
            query,
            Some(&ours.collect()),
            "{} {}",
            operation.method,
            operation.path
        );
    }
}
