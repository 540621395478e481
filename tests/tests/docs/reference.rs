//! The tables of the reference pages match the code: fields of the status files, and names of records.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use argus_core::journal::{Entry, Event, Outcome, Record};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Page of the status files, the journal and the events.
const PAGE: &str = "docs/interfaces.md";

fn page(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read_to_string(root.join(name)).expect("the page exists")
}

/// The parts of a text between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The rows of the table after a heading: the fields of each row, without list markers, and its text.
fn rows<'p>(page: &'p str, heading: &str) -> Vec<(Vec<&'p str>, &'p str)> {
    let (_, section) = page.split_once(&format!("\n{heading}\n")).expect("the heading");
    let (_, table) = section.split_once("|---|---|\n").expect("a table");
    let rows = table.lines().map_while(|line| line.strip_prefix("| "));
    rows.map(|row| {
        let (fields, text) = row.split_once(" | ").expect("two cells");
        let fields = quoted(fields).into_iter();
        (fields.map(|field| field.trim_end_matches("[]")).collect(), text)
    })
    .collect()
}

fn schema() -> Value {
    serde_json::from_str(&page("crds/status.schema.json")).expect("a schema")
}

/// The fields of a type, each with the type of its value or of its items.
fn fields(schema: &Value, of: &str) -> BTreeMap<String, Option<String>> {
    let properties = schema["definitions"][of]["properties"].as_object();
    let properties = properties.unwrap_or_else(|| panic!("`{of}` has no fields"));
    let type_of = |property: &Value| {
        let places = [
            &property["$ref"],
            &property["items"]["$ref"],
            &property["allOf"][0]["$ref"],
            &property["anyOf"][0]["$ref"],
        ];
        let path = places.into_iter().find_map(Value::as_str)?;
        path.rsplit('/').next().map(str::to_owned)
    };
    let field = |(name, property): (&String, &Value)| (name.clone(), type_of(property));
    properties.iter().map(field).collect()
}

/// The types of both files, each with its heading on the page.
const FILES: &[(&str, &str)] = &[
    ("### ENV.json", "EnvironmentStatus"),
    ("### controller.json", "ControllerStatus"),
];

#[test]
fn status_page_has_every_field_and_no_other() {
    let (page, schema) = (page(PAGE), schema());
    for (heading, of) in FILES {
        let output: BTreeSet<_> = rows(&page, heading)
            .into_iter()
            .flat_map(|(names, _)| names)
            .collect();
        let fields = fields(&schema, of);
        let ours: BTreeSet<_> = fields.keys().map(String::as_str).collect();
        assert_eq!(output, ours, "{heading}");
    }
}

/// The text of a row, together with the pages that it links to.
fn with_links(text: &str) -> String {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let pages = links.filter_map(|link| match link.split_once(".md") {
        Some((name, _)) => Some(page(&format!("docs/{name}.md"))),
        // A link within the page.
        None => link.starts_with('#').then(|| page(PAGE)),
    });
    std::iter::once(text.to_owned())
        .chain(pages)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn status_page_names_the_content_of_each_field() {
    let (page, schema) = (page(PAGE), schema());
    let mut within = 0;
    for (heading, of) in FILES {
        let fields_of = fields(&schema, of);
        for (names, text) in rows(&page, heading) {
            let inner = names.iter().filter_map(|name| fields_of.get(*name)?.as_deref());
            for inner in inner.filter(|inner| schema["definitions"][inner]["properties"].is_object()) {
                // Types of both files are described once, and errors have a page of their own.
                if text.contains("as above") || inner == "StructuredError" {
                    continue;
                }
                let output = with_links(text);
                let output: BTreeSet<_> = quoted(&output)
                    .into_iter()
                    .map(|it| it.trim_end_matches("[]"))
                    .collect();
                for field in fields(&schema, inner).keys() {
                    assert!(
                        output.contains(field.as_str()),
                        "{heading}: {names:?}: no `{field}` in {text}"
                    );
                    within += 1;
                }
            }
        }
    }
    assert!(within > 40, "{within} fields");
}

/// The values of a type, from its own error about another value.
fn words<T: DeserializeOwned>(wrong: Value) -> BTreeSet<String> {
    let refused = serde_json::from_value::<T>(wrong)
        .err()
        .expect("an unknown value is an error");
    let refused = refused.to_string();
    let (_, known) = refused
        .split_once("expected one of")
        .expect("the error lists the values");
    quoted(known).into_iter().map(str::to_owned).collect()
}

/// The quoted words in a row of the journal's table.
fn of_the_journal(field: &str) -> BTreeSet<String> {
    let page = page(PAGE);
    let row = rows(&page, "### The journal")
        .into_iter()
        .find(|(names, _)| names.contains(&field));
    let (_, text) = row.unwrap_or_else(|| panic!("no row of `{field}`"));
    quoted(text).into_iter().map(str::to_owned).collect()
}

#[test]
fn journal_page_has_every_kind_and_event() {
    assert_eq!(of_the_journal("kind"), words::<Entry>(json!({ "kind": "?" })));
    assert_eq!(of_the_journal("event"), words::<Event>(json!({ "event": "?" })));
    assert_eq!(of_the_journal("outcome"), words::<Outcome>(json!("?")));
}

#[test]
fn journal_page_has_every_field_of_a_record() {
    let page = page(PAGE);
    let output: BTreeSet<_> = rows(&page, "### The journal")
        .into_iter()
        .flat_map(|(names, _)| names)
        .collect();
    let line = |entry: Value| {
        let mut whole = json!({ "v": 1, "seq": 1, "at": "2026-01-01T00:00:00Z", "run": "R" });
        whole
            .as_object_mut()
            .expect("an object")
            .extend(entry.as_object().expect("an object").clone());
        let record: Record = serde_json::from_value(whole).unwrap_or_else(|why| panic!("{why}"));
        let written = serde_json::to_value(record).expect("the record is serializable");
        written
            .as_object()
            .expect("an object")
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let intent = json!({ "kind": "intent", "environment": "shop", "cause": "why", "correlationId": "A", "subject": { "kind": "network", "environment": "shop" },
        "action": { "verb": "create-network", "name": "shop" } });
    let result = json!({ "kind": "result", "of": 1, "environment": "shop", "verb": "start-container", "outcome": "failed",
        "code": "PORT_CONFLICT", "ms": 7 });
    let note = json!({ "kind": "event", "event": "stop" });
    let mut written: BTreeSet<String> = [intent, result, note].into_iter().flat_map(line).collect();
    // The writer appends the checksum to the line.
    written.insert("sum".to_owned());
    assert_eq!(output, written.iter().map(String::as_str).collect());
}

#[test]
fn events_page_has_every_name_and_no_other() {
    let page = page(PAGE);
    let (_, output) = page
        .split_once("The names of the records are ")
        .expect("the sentence");
    let (output, _) = output.split_once(".\n").expect("the end of the sentence");
    let output: BTreeSet<_> = quoted(output).into_iter().collect();
    assert_eq!(output, Record::NAMES.iter().copied().collect());
}
