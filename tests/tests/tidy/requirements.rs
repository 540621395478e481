//! Requirements: each statement of the seeds has a row in `docs/contributors/requirements.md`, and its test contains its values.

use std::collections::BTreeSet;

use regex::Regex;

use super::{ends_with, none, read, root};

const PAGE: &str = "docs/contributors/requirements.md";
const DECISION: &str = "docs/decisions/0016-omitted-features.md";
/// Headings of the seeds with their numbers of statements.
const SEEDS: [(&str, usize); 5] = [
    ("## Seed 000: ArgusAI resilience", 208),
    ("## Seed 001: vuhlp failure modes", 62),
    ("## Seed 002: GitNexus resilience", 27),
    ("## Seed 003: ReviewCat error handling", 69),
    ("## Seed 004: aiOS watchdog", 77),
];
const MAX_WORDS: usize = 15;
const LEFT_OUT: &str = "left out";
const NOT_APPLICABLE: &str = "does not apply";
/// Maximum number of lines between the attribute of a test and its function.
const MAX_DISTANCE: usize = 8;

struct Row<'a> {
    /// Heading of the seed.
    seed: &'a str,
    id: &'a str,
    statement: &'a str,
    test: &'a str,
    value: &'a str,
    note: &'a str,
}

impl Row<'_> {
    fn has_test(&self) -> bool {
        ![LEFT_OUT, NOT_APPLICABLE].contains(&self.test)
    }
}

/// All rows of the page. Returns lines of tables with another number of cells as offences.
fn rows(page: &str) -> (Vec<Row<'_>>, Vec<String>) {
    let (mut rows, mut offences, mut seed) = (Vec::new(), Vec::new(), "");
    for line in page.lines() {
        if line.starts_with("## ") {
            seed = line;
        }
        if !line.starts_with("| ") || line.starts_with("| id |") {
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let &[id, statement, test, value, note] = cells.as_slice() else {
            offences.push(format!("not five cells: {line}"));
            continue;
        };
        rows.push(Row {
            seed,
            id,
            statement,
            test,
            value,
            note,
        });
    }
    (rows, offences)
}

/// Texts in backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

/// The declaration of a constant, up to the end of its value.
fn constant(lines: &[&str], name: &str) -> Option<String> {
    let declarations = ["const", "static"].map(|kind| format!("{kind} {name}: "));
    let is_declaration = |line: &&str| declarations.iter().any(|text| line.contains(text));
    let first = lines.iter().position(is_declaration)?;
    let length = lines[first..].iter().position(|line| line.ends_with(';'))?;
    Some(lines[first..=first + length].join("\n"))
}

/// A test of a Rust file with the constants of the file that it names. Another file is its own text, if it contains `name`.
fn test_text(path: &str, name: &str) -> Option<String> {
    if !root().join(path).is_file() {
        return None;
    }
    let text = read(path);
    if !ends_with(path, "rs") {
        return text.contains(name).then_some(text);
    }
    let lines: Vec<&str> = text.lines().collect();
    let function = pattern(&format!(r"^(\s*)(?:pub(?:\(\w+\))? )?(?:async )?fn {name}\("));
    let first = lines.iter().position(|line| function.is_match(line))?;
    let is_attribute = |line: &&str| line.contains("#[test]") || line.contains("::test");
    let before = &lines[first.saturating_sub(MAX_DISTANCE)..first];
    if !path.starts_with("tests/src/") && !before.iter().any(is_attribute) {
        return None;
    }
    let end = format!("{}}}", &function.captures(lines[first])?[1]);
    let length = lines[first..].iter().position(|line| *line == end)?;
    let mut found = lines[first..=first + length].join("\n");
    let names = pattern(r"\b[A-Z][A-Z0-9_]+\b");
    let names: BTreeSet<String> = names
        .find_iter(&found)
        .map(|name| name.as_str().to_owned())
        .collect();
    for declaration in names.iter().filter_map(|name| constant(&lines, name)) {
        found.push('\n');
        found.push_str(&declaration);
    }
    Some(found)
}

/// True if the text contains the value, not as a part of a longer word or number.
fn contains(text: &str, value: &str) -> bool {
    let is_word =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let (first, last) = (value.chars().next(), value.chars().last());
    text.match_indices(value).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + value.len()..]);
        let is_part = is_word(first) && is_word(before.chars().last())
            || is_word(last) && is_word(after.chars().next());
        !is_part
    })
}

/// An error code in capitals, or as a variant: `PORT_CONFLICT` or `PortConflict`.
fn contains_code(text: &str, code: &str) -> bool {
    let variant = code.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_owned() + &rest.to_lowercase()
    });
    contains(text, code) || contains(text, &variant.collect::<String>())
}

fn is_code(text: &str) -> bool {
    text.contains('_')
        && text
            .chars()
            .all(|letter| letter.is_ascii_uppercase() || letter == '_')
}

/// Offences of a row that names tests.
fn check_test(row: &Row<'_>) -> Vec<String> {
    let mut offences = Vec::new();
    let mut texts = String::new();
    for test in quoted(row.test) {
        let found = test
            .split_once("::")
            .and_then(|(path, name)| test_text(path, name));
        match found {
            Some(text) => texts.push_str(&text),
            None => offences.push(format!("{}: there is no test `{test}`", row.id)),
        }
    }
    let is_absent =
        |value: &&str| !(contains(&texts, value) || is_code(value) && contains_code(&texts, value));
    let codes = quoted(row.statement).filter(|text| is_code(text));
    let absent = quoted(row.value).chain(codes).filter(is_absent);
    offences.extend(absent.map(|value| format!("{}: no `{value}` in {}", row.id, row.test)));
    let prose: String = row.statement.split('`').step_by(2).collect();
    if prose.contains(|letter: char| letter.is_ascii_digit()) && row.value.is_empty() {
        offences.push(format!("{}: a number without a value", row.id));
    }
    if quoted(row.test).next().is_none() {
        offences.push(format!("{}: no test and no reason", row.id));
    }
    offences
}

#[test]
fn every_statement_of_the_seeds_has_one_row() {
    let page = read(PAGE);
    let (rows, mut offences) = rows(&page);
    let mut ids = BTreeSet::new();
    for row in &rows {
        if !ids.insert(row.id) {
            offences.push(format!("{}: two rows", row.id));
        }
        let words = row.statement.split_whitespace().count();
        if words > MAX_WORDS {
            offences.push(format!("{}: {words} words", row.id));
        }
        if !row.has_test() && (row.note.is_empty() || !row.value.is_empty()) {
            offences.push(format!("{}: needs a note, and no value", row.id));
        }
    }
    none("rows of docs/contributors/requirements.md", &offences);
    for (seed, expected) in SEEDS {
        let found = rows.iter().filter(|row| row.seed == seed).count();
        assert_eq!(found, expected, "statements of `{seed}`");
    }
    let total: usize = SEEDS.iter().map(|(_, statements)| statements).sum();
    assert_eq!(rows.len(), total);
    let count = |test: &str| rows.iter().filter(|row| row.test == test).count();
    let (left_out, not_applicable) = (count(LEFT_OUT), count(NOT_APPLICABLE));
    let tested = rows.iter().filter(|row| row.has_test()).count();
    let numbers = format!(
        "Of {total} statements, {tested} have tests, {left_out} are left out, and {not_applicable} do not apply."
    );
    assert!(page.contains(&numbers), "the page does not say: {numbers}");
}

#[test]
fn tests_of_statements_contain_their_values() {
    let page = read(PAGE);
    let (rows, _) = rows(&page);
    let with_test = rows.iter().filter(|row| row.has_test());
    let offences: Vec<String> = with_test.flat_map(check_test).collect();
    none("tests of requirements", &offences);
}

#[test]
fn decision_lists_the_omitted_statements() {
    let page = read(PAGE);
    let (rows, _) = rows(&page);
    let left_out = rows.iter().filter(|row| row.test == LEFT_OUT);
    let left_out: BTreeSet<&str> = left_out.map(|row| row.id).collect();
    let decision = read(DECISION);
    let table = decision
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split('|').next());
    let listed = table.flat_map(|cell| cell.split(',').map(str::trim));
    let known: BTreeSet<&str> = rows.iter().map(|row| row.id).collect();
    let listed: BTreeSet<&str> = listed.filter(|id| known.contains(id)).collect();
    assert_eq!(listed, left_out);
}
