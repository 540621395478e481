//! `OpenAPI` documents: responses from them, and validation of requests against them.

use argus_core::budget::Budget;
use argus_crds::number::Keep;
use argus_crds::yaml::SourceMap;
use argus_crds::{Diagnostic, yaml};
use serde_json::Value;

use crate::path::{Params, Pattern};
use crate::request::Request;
use crate::route::Nearest;
use json_pointer::Cursor;
use schema_conversion::Direction;
use schemas::Schemas;

mod check;
mod examples;
mod json_pointer;
mod make;
mod parameter;
mod references;
mod reflect_request;
mod request_validation;
mod respond;
mod schema_conversion;
mod schemas;
mod steps;
mod subschemas;
mod unsupported;

pub(crate) use request_validation::Violation;

/// HTTP methods of a path item.
const METHODS: [&str; 8] = [
    "get", "put", "post", "delete", "options", "head", "patch", "trace",
];

/// Returns the operations of a path item, with their methods in upper case.
fn methods<'a>(root: &Value, item: &Cursor<'a>) -> Vec<(String, Cursor<'a>)> {
    let is_32 = check::version(root).is_some_and(|version| version.starts_with("3.2"));
    let newer = is_32.then_some("query");
    let fixed = METHODS.into_iter().chain(newer);
    let mut found: Vec<_> = fixed
        .filter_map(|method| Some((method.to_uppercase(), item.get(method)?)))
        .collect();
    if is_32 && let Some(additional) = item.get("additionalOperations") {
        found.extend(
            additional
                .entries()
                .map(|(method, operation)| (method.to_uppercase(), operation)),
        );
    }
    found
}

/// Maximum number of steps of the check of a document.
const CHECK_STEPS: u64 = 1_000_000;
/// Maximum size of a document in memory, in bytes. The check holds a few copies of it.
const CHECK_BYTES: u64 = 32 << 20;
/// Maximum number of steps of the response to a request, and of the validation of the request.
const REQUEST_STEPS: u64 = 4_000_000;
/// Maximum number of bytes that the generation of a response holds.
const REQUEST_BYTES: u64 = 32 << 20;

/// Document that is ready to create responses.
#[derive(Debug)]
pub(crate) struct Document {
    /// Operations, most specific path first.
    operations: Vec<Operation>,
    /// Path prefixes of its servers, without empty ones.
    prefixes: Vec<Vec<String>>,
    requests: Schemas,
    responses: Schemas,
    max_depth: usize,
}

/// Operation: one method of one path.
#[derive(Debug)]
pub(crate) struct Operation {
    method: String,
    pattern: Pattern,
    /// JSON pointer to the path item.
    path_pointer: String,
    /// JSON pointer to the operation.
    pointer: String,
    /// Name for messages, such as `GET /users/{id}`.
    pub(crate) name: String,
}

/// Returns all diagnostics about a document, with their locations in its text.
///
/// Their paths begin at the root of the document, such as `paths./users.get.responses`.
///
/// ```rust
/// let text = "openapi: 3.1.0\ninfo: { title: shop, version: '1' }\npaths: { users: {} }\n";
/// let diagnostics = argus_mock::check_openapi(text);
/// assert_eq!(diagnostics[0].message, "the path `users` does not start with `/`");
/// let correction = diagnostics[0].correction.as_ref().unwrap();
/// assert_eq!(correction.suggest.as_deref(), Some("/users"));
/// ```
pub fn check_openapi(text: &str) -> Vec<Diagnostic> {
    Document::read(text, 3).1
}

impl Document {
    /// Reads a document. It is `None` exactly if a diagnostic is an error.
    pub(crate) fn read(text: &str, max_depth: u32) -> (Option<Self>, Vec<Diagnostic>) {
        Self::read_within(text, max_depth, &mut Budget::new(CHECK_STEPS, CHECK_BYTES))
    }

    fn read_within(text: &str, max_depth: u32, budget: &mut Budget) -> (Option<Self>, Vec<Diagnostic>) {
        let read = match yaml::exact_document("openapi", text.as_bytes(), Keep::Spelling) {
            Ok(read) => read,
            Err(diagnostic) => return (None, vec![*diagnostic]),
        };
        let mut diagnostics = read.diagnostics;
        let found = Self::of(&read.value, &read.source, max_depth, budget, &mut diagnostics);
        diagnostics.sort_by_key(|diagnostic| diagnostic.location);
        let has_error = diagnostics.iter().any(Diagnostic::is_error);
        (found.filter(|_| !has_error), diagnostics)
    }

    fn of(
        root: &Value,
        source: &SourceMap,
        max_depth: u32,
        budget: &mut Budget,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Self> {
        let placed = |(pointer, diagnostic): (String, Diagnostic)| {
            let path = check::path_of(root, &pointer);
            source.with_location(Diagnostic { path, ..diagnostic })
        };
        if let Err(exceeded) = steps::copy(root, 0, budget) {
            diagnostics.push(placed((
                String::new(),
                check::over_budget("the document", exceeded),
            )));
            return None;
        }
        let found = check::structure(root);
        let broken = found.iter().any(|(_, diagnostic)| diagnostic.is_error());
        diagnostics.extend(found.into_iter().map(placed));
        if broken {
            return None;
        }
        let is_30 = check::version(root).is_some_and(|version| version.starts_with("3.0"));
        let schemas = |direction| Schemas::new(root, is_30, direction);
        let (requests, responses) = match (schemas(Direction::Request), schemas(Direction::Response)) {
            (Ok(requests), Ok(responses)) => (requests, responses),
            (Err(error), _) | (_, Err(error)) => {
                let message = format!("cannot read the schemas: {error}");
                diagnostics.push(placed((String::new(), Diagnostic::error("", message))));
                return None;
            }
        };
        diagnostics.extend(
            check::schemas(root, &requests, &responses, budget)
                .into_iter()
                .map(placed),
        );
        let max_depth = usize::try_from(max_depth).unwrap_or(3);
        let (operations, prefixes) = (operations(root), prefixes(root));
        Some(Self {
            operations,
            prefixes,
            requests,
            responses,
            max_depth,
        })
    }

    /// Returns the operation of a request with its path parameters, otherwise the nearest operation.
    pub(crate) fn find(
        &self,
        request: &Request,
        segments: &[String],
    ) -> Result<(&Operation, Params), Option<Nearest>> {
        let mut tried = vec![segments];
        tried.extend(
            self.prefixes
                .iter()
                .filter_map(|prefix| segments.strip_prefix(prefix.as_slice())),
        );
        let wanted = |method: &str| {
            tried.iter().find_map(|segments| {
                let mut of_method = self.operations.iter().filter(|found| found.method == method);
                of_method.find_map(|operation| Some((operation, operation.pattern.matches(segments)?)))
            })
        };
        let is_head = request.method == "HEAD";
        let found = wanted(&request.method).or_else(|| is_head.then(|| wanted("GET")).flatten());
        found.ok_or_else(|| {
            let all = |segments| self.operations.iter().map(move |operation| (operation, segments));
            Nearest::of(tried.iter().flat_map(all).map(|(operation, segments)| {
                let of_operation = (Some(operation.method.as_str()), &operation.pattern);
                Nearest::new(&operation.name, of_operation, None, request, segments)
            }))
        })
    }
}

fn operations(root: &Value) -> Vec<Operation> {
    let Some(paths) = Cursor::root(root).get("paths") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (path, item) in paths.entries() {
        for (method, operation) in methods(root, &item) {
            found.push(Operation {
                name: format!("{method} {path}"),
                method,
                pattern: Pattern::new(&path),
                path_pointer: item.pointer.clone(),
                pointer: operation.pointer,
            });
        }
    }
    found.sort_by_key(|operation| operation.pattern.rank());
    found
}

/// Returns the paths of the servers: `/v1` for `https://example.com/v1`.
fn prefixes(root: &Value) -> Vec<Vec<String>> {
    let servers = root.get("servers").and_then(Value::as_array);
    let urls = servers
        .into_iter()
        .flatten()
        .filter_map(|server| server.get("url")?.as_str());
    let path = |url: &str| {
        let rest = url
            .split_once("://")
            .map_or(url, |(_, rest)| rest.find('/').map_or("", |at| &rest[at..]));
        crate::path::segments(rest)
    };
    let mut found: Vec<Vec<String>> = urls.map(path).filter(|path| !path.is_empty()).collect();
    found.dedup();
    found
}

#[cfg(test)]
mod budget_tests;
#[cfg(test)]
mod newer_tests;

#[cfg(test)]
#[path = "openapi_tests.rs"]
mod tests;
