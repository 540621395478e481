//! The table itself, and the page that is generated from it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::*;

const PAGE: &str = "docs/reference/remedies.md";
const BEGIN: &str =
    "<!-- begin: all rules; `UPDATE=1 cargo test --lib rules_are_documented` writes this -->\n";
const END: &str = "<!-- end -->";

/// Texts of the rules, in their order: name, family, evidence and change.
fn texts() -> Vec<[&'static str; 4]> {
    let rows = include_str!("facts/rules.txt").lines().skip(1);
    let columns = |row: &'static str| -> Vec<&'static str> { row.split(" | ").collect() };
    rows.map(|row| columns(row).try_into().unwrap()).collect()
}

#[test]
fn rules_have_their_own_names_and_texts() {
    let names: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(names.len(), RULES.len());
    assert!(RULES.len() >= 45, "{}", RULES.len());
    let order: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    let in_texts: Vec<&str> = texts().iter().map(|[name, ..]| *name).collect();
    assert_eq!(in_texts, order);
    assert!(RULES.iter().all(|rule| !rule.phases.is_empty()));
    assert!(texts().iter().flatten().all(|text| !text.is_empty()));
}

#[test]
fn rules_are_documented() {
    let mut table =
        "\n| rule | family | confidence | lines | evidence | change |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for (rule, [name, family, evidence, edit]) in RULES.iter().zip(texts()) {
        let confidence = rule.confidence.name();
        let lines = match rule.scope {
            Scope::Facts => "none",
            Scope::Cause => "cause",
            Scope::Last => "last 20",
            Scope::All | Scope::Warned => "all",
        };
        writeln!(
            table,
            "| `{name}` | {family} | {confidence} | {lines} | {} | {} |",
            evidence.replace('|', "\\|"),
            edit.replace('|', "\\|")
        )
        .unwrap();
    }
    table.push('\n');
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(BEGIN).unwrap();
    let (found, tail) = rest.split_once(END).unwrap();
    if found != table {
        let is_update = std::env::var_os("UPDATE").is_some();
        assert!(
            is_update,
            "{PAGE} is out of date; hint: UPDATE=1 cargo test --lib rules_are_documented"
        );
        std::fs::write(&path, format!("{head}{BEGIN}{table}{END}{tail}")).unwrap();
    }
}
