//! The tables of the pages of reference are what is written: fields of the status files, and the names of what is recorded.
#![allow(clippy::expect_used, reason = "a test that cannot look ends with a message")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use argus_core::journal::{Entry, Event, Outcome, Record};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn page(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read_to_string(root.join(name)).expect("it lies there")
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The rows of the table after a heading: the fields that each is about, without what says that there are several, and what it says.
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

/// The fields of a type, each with the type that it, or each of it, is.
fn fields(schema: &Value, of: &str) -> BTreeMap<String, Option<String>> {
    let properties = schema["definitions"][of]["properties"].as_object();
    let properties = properties.unwrap_or_else(|| panic!("`{of}` has fields"));
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

/// The types behind both files, each with the heading that it has on the page.
const FILES: &[(&str, &str)] = &[
    ("## ENV.json", "EnvironmentStatus"),
    ("## controller.json", "ControllerStatus"),
];

#[test]
fn status_page_has_every_field_and_no_other() {
    let (page, schema) = (page("docs/status.md"), schema());
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

/// What a row says, and the pages that it leaves the rest to.
fn with_links(text: &str) -> String {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(".md"));
    let pages = links.map(|(name, _)| page(&format!("docs/{name}.md")));
    std::iter::once(text.to_owned())
        .chain(pages)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn status_page_names_the_content_of_each_field() {
    let (page, schema) = (page("docs/status.md"), schema());
    let mut within = 0;
    for (heading, of) in FILES {
        let fields_of = fields(&schema, of);
        for (names, text) in rows(&page, heading) {
            let inner = names.iter().filter_map(|name| fields_of.get(*name)?.as_deref());
            for inner in inner.filter(|inner| schema["definitions"][inner]["properties"].is_object()) {
                // What is told once is told for both files; an error has a page of its own.
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

/// The words that a type takes, as it says itself when it is given another.
fn words<T: DeserializeOwned>(wrong: Value) -> BTreeSet<String> {
    let refused = serde_json::from_value::<T>(wrong).err().expect("no such word");
    let refused = refused.to_string();
    let (_, known) = refused.split_once("expected one of").expect("it lists them");
    quoted(known).into_iter().map(str::to_owned).collect()
}

/// The quoted words of a row of the journal's table.
fn of_the_journal(field: &str) -> BTreeSet<String> {
    let page = page("docs/journal.md");
    let row = rows(&page, "## The journal")
        .into_iter()
        .find(|(names, _)| names.contains(&field));
    let (_, text) = row.unwrap_or_else(|| panic!("a row of `{field}`"));
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
    let page = page("docs/journal.md");
    let output: BTreeSet<_> = rows(&page, "## The journal")
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
        let written = serde_json::to_value(record).expect("it is written");
        written
            .as_object()
            .expect("an object")
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let intent = json!({ "kind": "intent", "environment": "shop", "cause": "why", "subject": { "kind": "network", "environment": "shop" },
        "action": { "verb": "create-network", "name": "shop" } });
    let result = json!({ "kind": "result", "of": 1, "environment": "shop", "verb": "start-container", "outcome": "failed",
        "code": "PORT_CONFLICT", "ms": 7 });
    let note = json!({ "kind": "event", "event": "stop" });
    let mut written: BTreeSet<String> = [intent, result, note].into_iter().flat_map(line).collect();
    // It is put behind the rest of the line.
    written.insert("sum".to_owned());
    assert_eq!(output, written.iter().map(String::as_str).collect());
}

#[test]
fn events_page_has_every_name_and_no_other() {
    let page = page("docs/http.md");
    let (_, output) = page.split_once("Records are named ").expect("the sentence");
    let (output, _) = output.split_once(".\n").expect("its end");
    let output: BTreeSet<_> = quoted(output).into_iter().collect();
    assert_eq!(output, Record::NAMES.iter().copied().collect());
}
