//! Check of a document: structure, references, schemas and examples.

use std::collections::{BTreeMap, BTreeSet};

use argus_core::budget::{Budget, Exceeded};
use argus_crds::{Diagnostic, number};
use serde_json::Value;

use super::json_pointer::{Cursor, escape, unescape};
use super::schemas::Schemas;
use super::steps::{self, MAX_CHAIN, NULL, Uncounted, Visits};
use super::{examples, methods, references, subschemas, unsupported};
use crate::path::{Pattern, is_reserved, reserved};

/// JSON pointer to a part of the document, and the diagnostic about it.
pub(super) type Problems = (String, Diagnostic);

/// Returns the version that a document declares.
pub(super) fn version(root: &Value) -> Option<String> {
    let version = root.get("openapi")?;
    let text = number::spelled(version).or_else(|| version.as_str());
    Some(text.map_or_else(|| version.to_string(), str::to_owned))
}

/// Checks version, structure and references, which all responses need.
pub(super) fn structure(root: &Value) -> Vec<Problems> {
    let mut found = Vec::new();
    let version = version(root);
    match version {
        Some(version)
            if ["3.0", "3.1", "3.2"]
                .iter()
                .any(|known| version.starts_with(known)) => {}
        Some(version) => {
            let message = format!("OpenAPI version `{version}` is not supported");
            let diagnostic = Diagnostic::error("", message).hint("use OpenAPI 3.0, 3.1 or 3.2");
            found.push(("/openapi".to_owned(), diagnostic));
        }
        None if root.get("swagger").is_some() => {
            let diagnostic = Diagnostic::error("", "Swagger 2.0 is not supported");
            found.push(("/swagger".to_owned(), diagnostic.hint("convert it to OpenAPI 3")));
        }
        None => {
            let diagnostic =
                Diagnostic::error("", "this is not an OpenAPI document, because it has no `openapi`");
            found.push((String::new(), diagnostic.hint("start it with `openapi: 3.1.0`")));
        }
    }
    if !found.is_empty() {
        return found;
    }
    let pointer_of_paths = root
        .get("paths")
        .map_or_else(String::new, |_| "/paths".to_owned());
    match root.get("paths") {
        Some(Value::Object(_)) => {}
        None if root
            .get("openapi")
            .and_then(Value::as_str)
            .is_some_and(|version| !version.starts_with("3.0")) =>
        {
            let diagnostic = Diagnostic::warning("", "the document has no `paths`, so no request matches");
            found.push((String::new(), diagnostic.hint("add `paths`")));
        }
        _ => found.push((
            pointer_of_paths,
            Diagnostic::error("", "`paths` must be a map").hint("add `paths:` with its paths"),
        )),
    }
    references::check(root, &mut found);
    found.extend(unsupported::parts(root));
    // After a broken reference, further checks would only report its consequences.
    if found.iter().all(|(_, diagnostic)| !diagnostic.is_error())
        && let Some(paths) = Cursor::root(root).get("paths")
    {
        for (path, item) in paths.entries().filter(|(path, _)| !path.starts_with("x-")) {
            self::path(root, &path, &item, &mut found);
        }
    }
    found
}

fn path(root: &Value, path: &str, item: &Cursor<'_>, problems: &mut Vec<Problems>) {
    if !path.starts_with('/') {
        let message = format!("the path `{path}` does not start with `/`");
        let diagnostic = Diagnostic::error("", message)
            .hint(format!("write `/{path}`"))
            .replace(path, format!("/{path}"));
        problems.push((item.pointer.clone(), diagnostic));
    }
    if is_reserved(path) {
        problems.push((item.pointer.clone(), Diagnostic::error("", reserved(path))));
    }
    if !item.value.is_object() {
        let diagnostic = Diagnostic::error("", format!("the path `{path}` must be a map"));
        problems.push((item.pointer.clone(), diagnostic));
        return;
    }
    let pattern = Pattern::new(path);
    for (method, operation) in methods(root, item) {
        let name = format!("{method} {path}");
        let mut declared = BTreeSet::new();
        for owner in [item, &operation] {
            let Some(list) = owner.get("parameters") else {
                continue;
            };
            for (_, parameter) in list.entries() {
                let (name_of_parameter, place) = (parameter.text("name"), parameter.text("in"));
                match (name_of_parameter, place) {
                    (Some(declared_name), Some("path")) => drop(declared.insert(declared_name)),
                    (Some(_), Some("query" | "header" | "cookie" | "querystring")) => {}
                    _ => {
                        let message = format!(
                            "a parameter of `{name}` needs a `name`, and `in` with one of `path`, `query`, `header`, `cookie`"
                        );
                        problems.push((parameter.pointer, Diagnostic::error("", message)));
                    }
                }
            }
        }
        let missing = pattern.names().into_iter().find(|name| !declared.contains(name));
        if let Some(missing) = missing {
            let message = format!("`{name}` declares no parameter `{missing}` in `path`");
            let diagnostic = Diagnostic::warning("", message).hint("add it to its `parameters`");
            problems.push((operation.pointer.clone(), diagnostic));
        }
        responses(&name, &operation, problems);
    }
}

fn responses(name: &str, operation: &Cursor<'_>, problems: &mut Vec<Problems>) {
    let responses = operation
        .get("responses")
        .filter(|responses| responses.value.as_object().is_some_and(|map| !map.is_empty()));
    let Some(responses) = responses else {
        let message = format!("`{name}` has no responses, so its response is an empty 200");
        let diagnostic = Diagnostic::warning("", message).hint("add `responses:`");
        problems.push((operation.pointer.clone(), diagnostic));
        return;
    };
    for (status, response) in responses
        .entries()
        .filter(|(status, _)| !status.starts_with("x-"))
    {
        let digits = status.trim_end_matches(['X', 'x']);
        let is_valid = status == "default"
            || (status.len() == 3
                && digits.parse::<u16>().is_ok()
                && ('1'..='5').contains(&status.chars().next().unwrap_or('0')));
        if !is_valid {
            let message = format!("`{status}` of `{name}` is not a valid status");
            let diagnostic = Diagnostic::error("", message).hint("use `200`, `4XX` or `default`");
            problems.push((response.pointer.clone(), diagnostic));
        } else if !response.value.is_object() {
            let message = format!("the response `{status}` of `{name}` must be a map");
            problems.push((response.pointer.clone(), Diagnostic::error("", message)));
        }
    }
}

/// Checks all schemas, and all examples against their schemas.
pub(super) fn schemas(
    root: &Value,
    requests: &Schemas,
    responses: &Schemas,
    budget: &mut Budget,
) -> Vec<Problems> {
    let mut found = Vec::new();
    let outermost = subschemas::outermost(root);
    let meta = jsonschema::draft202012::meta::validator();
    for outer in &outermost {
        let schema = responses.root.pointer(outer);
        let errors = schema.map(|schema| meta.iter_errors(schema).take(8));
        for error in errors.into_iter().flatten() {
            let diagnostic = Diagnostic::error("", format!("this schema is invalid: {error}"));
            found.push((format!("{outer}{}", error.instance_path()), diagnostic));
        }
    }
    let all = outermost
        .iter()
        .flat_map(|outer| subschemas::all(&responses.root, outer));
    let all: Vec<(String, &Value)> = all.collect();
    for (written, places) in patterns(&all) {
        if let Err(exceeded) = steps::pattern(written, budget) {
            let error = |at| (at, over_budget("this regular expression", exceeded));
            found.extend(places.into_iter().take(1).map(error));
            break;
        }
        if let Err(error) = jsonschema::validator_for(&serde_json::json!({ "pattern": written })) {
            let message = format!("`{written}` is not a valid regular expression: {error}");
            let diagnostic = Diagnostic::error("", message).hint("use the syntax of JavaScript");
            found.extend(places.into_iter().map(|at| (at, diagnostic.clone())));
        }
    }
    if found.is_empty() {
        found = endless(&responses.root, &all, budget);
    }
    if found.is_empty() {
        examples::check(root, requests, responses, budget, &mut found);
    }
    found
}

/// Returns the errors of schemas whose validation never ends, or takes more steps than are left.
fn endless(root: &Value, all: &[(String, &Value)], budget: &mut Budget) -> Vec<Problems> {
    let (mut found, mut visits) = (Vec::new(), Visits::new(root));
    for (pointer, schema) in all {
        let counted = visits.count(schema, &NULL, budget);
        match counted.and_then(|(visits, _)| Ok(budget.clone().steps(visits)?)) {
            Ok(()) => {}
            Err(Uncounted::Exceeded(exceeded)) => {
                found.push((pointer.clone(), over_budget("this schema", exceeded)));
                break;
            }
            Err(Uncounted::Endless { schema, is_circle }) => {
                let message = if is_circle {
                    "this schema refers to itself without end".to_owned()
                } else {
                    format!("this schema refers to more than {MAX_CHAIN} others in a row")
                };
                let hint = "move the reference into a property or an item";
                let place = all.iter().find(|(_, other)| std::ptr::eq(*other, schema));
                let at = place.map_or(pointer, |(at, _)| at).clone();
                found.push((at, Diagnostic::error("", message).hint(hint)));
            }
        }
    }
    visits.release(budget);
    found
}

/// Returns the diagnostic about a part of the document whose evaluation exceeds the budget.
pub(super) fn over_budget(part: &str, exceeded: Exceeded) -> Diagnostic {
    Diagnostic::error("", format!("the evaluation of {part} needs {exceeded}"))
        .hint("make it smaller, for example with fewer references to schemas that refer to others")
}

/// Returns the regular expressions of schemas with their places. The meta schema accepts any string as one.
fn patterns<'a>(schemas: &[(String, &'a Value)]) -> BTreeMap<&'a str, Vec<String>> {
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (pointer, schema) in schemas {
        if let Some(Value::String(written)) = schema.get("pattern") {
            found
                .entry(written)
                .or_default()
                .push(format!("{pointer}/pattern"));
        }
        let named = schema.get("patternProperties").and_then(Value::as_object);
        for (written, _) in named.into_iter().flatten() {
            let at = format!("{pointer}/patternProperties/{}", escape(written));
            found.entry(written).or_default().push(at);
        }
    }
    found
}

/// Converts a JSON pointer to the path of a diagnostic: `/paths/~1a/get/tags/0` becomes `paths./a.get.tags[0]`.
pub(super) fn path_of(root: &Value, pointer: &str) -> String {
    let (mut path, mut value) = (String::new(), Some(root));
    for token in pointer.split('/').skip(1) {
        let key = unescape(token);
        if matches!(value, Some(Value::Array(_))) {
            path = format!("{path}[{key}]");
            value = value.and_then(|value| value.get(key.parse::<usize>().ok()?));
        } else {
            path = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            value = value.and_then(|value| value.get(&key));
        }
    }
    path
}
