//! Test that the table of paths in `docs/interfaces.md` equals the operations of this interface.

use std::collections::{BTreeMap, BTreeSet};

use super::openapi::{OTHER_PATHS, method, routes};
use crate::api::{Method, arguments};

/// Prefix of the paths of commands.
const COMMANDS: &str = "/api/v1/commands/";

const PAGE: &str = include_str!("../../../docs/interfaces.md");

/// Placeholders of the page with the parameters of the paths.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("ENV", "{environment}"),
    ("SVC", "{service}"),
    ("MOCK", "{mock}"),
    ("ID", "{id}"),
    ("CODE", "{code}"),
    ("KEY", "{key}"),
    ("VERB", "{verb}"),
];

/// Names of the query parameters, by method and path.
type PageOperations = BTreeMap<(&'static str, String), BTreeSet<String>>;

/// Returns the rows of the table of paths as pairs of cells.
fn table_rows() -> Vec<(&'static str, &'static str)> {
    let (_, table) = PAGE.split_once("| path | response |\n|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with("| "));
    rows.map(|row| row.trim_start_matches("| ").split_once(" | ").unwrap())
        .collect()
}

/// Converts a path of the page into a path of [`OTHER_PATHS`].
fn with_parameters(path: &str) -> String {
    let parts = path.split('/').map(|part| {
        let known = PLACEHOLDERS.iter().find(|(name, _)| *name == part);
        known.map_or(part, |(_, braced)| *braced)
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Parses a path of the page: its variants with and without the optional part, and the names of its query.
fn parse_path(token: &str) -> (Vec<String>, BTreeSet<String>) {
    let (path, query) = match token.split_once('?') {
        Some((path, query)) => (path.trim_end_matches('['), query),
        None => (token, ""),
    };
    let paths = match path.split_once("[/") {
        Some((short, more)) => vec![
            with_parameters(short),
            with_parameters(&format!("{short}/{}", more.trim_end_matches(']'))),
        ],
        None => vec![with_parameters(path)],
    };
    let names = query
        .split(['&', '?', '[', ']'])
        .filter_map(|part| part.split_once('='));
    (paths, names.map(|(name, _)| name.to_owned()).collect())
}

fn page_operations() -> PageOperations {
    let mut all = PageOperations::new();
    for (paths_cell, description) in table_rows() {
        for token in paths_cell.split('`').skip(1).step_by(2) {
            let (method, path) = token
                .strip_prefix("POST ")
                .map_or(("get", token), |path| ("post", path));
            let (paths, query) = parse_path(path);
            for path in paths {
                if description.contains("`POST`") {
                    all.insert(("post", path.clone()), BTreeSet::new());
                }
                all.insert((method, path), query.clone());
            }
        }
    }
    all
}

/// Returns all operations with the names of their queries.
fn operations() -> PageOperations {
    let table = OTHER_PATHS.iter().map(|operation| {
        let query = operation.query.iter().map(|name| (*name).to_owned());
        ((operation.method, operation.path.to_owned()), query.collect())
    });
    let routes = routes().map(|(entry, route)| {
        let query = arguments::parameters(&entry.arguments, route)
            .filter(|_| route.method == Method::Get)
            .map(|(name, _)| name.clone());
        // The table of paths has one row for all commands.
        let path = match route.path.strip_prefix(COMMANDS) {
            Some(_) => format!("{COMMANDS}{{verb}}"),
            None => route.path.to_owned(),
        };
        ((method(route), path), query.collect())
    });
    table.chain(routes).collect()
}

#[test]
fn page_lists_exactly_the_operations() {
    let page: BTreeSet<_> = page_operations().into_keys().collect();
    let ours: BTreeSet<_> = operations().into_keys().collect();
    assert_eq!(page, ours);
}

#[test]
fn page_lists_the_query_of_each_operation() {
    let page = page_operations();
    for (operation, query) in operations() {
        assert_eq!(page.get(&operation), Some(&query), "{operation:?}");
    }
}

/// Texts in backticks.
fn quoted(cell: &str) -> impl Iterator<Item = String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}

#[test]
fn page_lists_the_fields_of_each_command() {
    let (_, table) = PAGE
        .split_once("| verb | fields of the body |\n|---|---|\n")
        .unwrap();
    let rows = table.lines().take_while(|line| line.starts_with("| "));
    let cells = rows.map(|row| row.trim_start_matches("| ").split_once(" | ").unwrap());
    let page: BTreeMap<String, BTreeSet<String>> = cells
        .flat_map(|(verbs, fields)| {
            let fields: BTreeSet<String> = quoted(fields).collect();
            quoted(verbs).map(move |verb| (verb, fields.clone()))
        })
        .collect();
    let ours: BTreeMap<String, BTreeSet<String>> = routes()
        .filter_map(|(entry, route)| {
            let verb = route.path.strip_prefix(COMMANDS)?;
            let fields = arguments::parameters(&entry.arguments, route).map(|(name, _)| name.clone());
            Some((verb.to_owned(), fields.collect()))
        })
        .collect();
    assert_eq!(page, ours);
}
