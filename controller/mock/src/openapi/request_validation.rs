//! Validation of requests against a document.

use argus_core::budget::Budget;
use serde::Serialize;
use serde_json::Value;

use super::json_pointer::Cursor;
use super::parameter;
use super::{Document, Operation, REQUEST_BYTES, REQUEST_STEPS};
use crate::path::Params;
use crate::request::{Content, Request};

/// Maximum number of reported violations.
const MAX_VIOLATIONS: usize = 32;

/// Violation of the document by a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Violation {
    /// Part of the request: `path`, `query`, `header`, `cookie` or `body`.
    #[serde(rename = "in")]
    pub(crate) place: String,
    /// Name of the parameter; `None` for the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// JSON pointer into the value; empty for the whole value.
    pub(crate) pointer: String,
    /// Description of the violation.
    pub(crate) message: String,
}

impl Document {
    /// Returns all violations of a request; empty if it is valid.
    pub(crate) fn violations(
        &self,
        operation: &Operation,
        request: &Request,
        params: &Params,
    ) -> Vec<Violation> {
        let root = &self.requests.root;
        let mut budget = Budget::new(REQUEST_STEPS, REQUEST_BYTES);
        let mut found = Vec::new();
        let all = parameter::all(
            Cursor::at(root, &operation.path_pointer),
            Cursor::at(root, &operation.pointer),
        );
        for parameter in all {
            let violation = |pointer: String, message: String| Violation {
                place: parameter.place.to_owned(),
                name: Some(parameter.name.to_owned()),
                pointer,
                message,
            };
            match parameter.value(request, params) {
                Err(error) => found.push(violation(String::new(), error)),
                Ok(None) if parameter.required => {
                    found.push(violation(String::new(), "it is required but missing".to_owned()));
                }
                Ok(None) => {}
                Ok(Some(value)) => {
                    let content = parameter
                        .cursor
                        .get("content")
                        .and_then(|content| Some(content.entries().next()?.1));
                    let owner = content.as_ref().unwrap_or(&parameter.cursor);
                    for (pointer, message) in self.schema_errors(owner, &value, &mut budget) {
                        found.push(violation(pointer, message));
                    }
                }
            }
        }
        self.violations_of_body(operation, request, &mut budget, &mut found);
        found.truncate(MAX_VIOLATIONS);
        found
    }

    fn violations_of_body(
        &self,
        operation: &Operation,
        request: &Request,
        budget: &mut Budget,
        violations: &mut Vec<Violation>,
    ) {
        let operation = Cursor::at(&self.requests.root, &operation.pointer);
        let Some(wanted) = operation.and_then(|operation| operation.get("requestBody")) else {
            return;
        };
        let mut violate = |pointer: String, message: String| {
            violations.push(Violation {
                place: "body".to_owned(),
                name: None,
                pointer,
                message,
            });
        };
        if request.body.is_empty() {
            if wanted.is("required") {
                violate(String::new(), "it is required but missing".to_owned());
            }
            return;
        }
        let Some(content) = wanted.get("content") else {
            return;
        };
        let kind = request
            .media_type()
            .unwrap_or_else(|| "application/json".to_owned());
        let Some((written, media)) = content.entries().find(|(written, _)| covers(written, &kind)) else {
            let known: Vec<String> = content
                .entries()
                .map(|(written, _)| format!("`{written}`"))
                .collect();
            violate(
                String::new(),
                format!(
                    "its type is `{kind}`, but the document accepts only {}",
                    known.join(", ")
                ),
            );
            return;
        };
        let value = if is_json(&kind) || is_json(&written) {
            match serde_json::from_slice(&request.body) {
                Ok(value) => value,
                Err(error) => return violate(String::new(), format!("it is not valid JSON: {error}")),
            }
        } else {
            match (request.content(), media.get("schema")) {
                (Content::Form(fields), Some(schema)) => parameter::object(
                    fields.iter().map(|(name, value)| (name.as_str(), value.as_str())),
                    &schema,
                ),
                (Content::Text(text), Some(_)) if kind.starts_with("text/") => Value::from(text.clone()),
                // Other media types have no value to validate.
                _ => return,
            }
        };
        for (pointer, message) in self.schema_errors(&media, &value, budget) {
            violate(pointer, message);
        }
    }

    /// Returns the errors of a value against the schema of a parameter or a media type.
    fn schema_errors(&self, owner: &Cursor<'_>, value: &Value, budget: &mut Budget) -> Vec<(String, String)> {
        if owner.value.get("schema").is_none() {
            return Vec::new();
        }
        let pointer = format!("{}/schema", owner.pointer);
        let bounded = self.requests.validator(&pointer);
        let errors = bounded
            .map_err(|error| format!("cannot use its schema: {error}"))
            .and_then(|bounded| {
                let errors = bounded.errors(budget, value, MAX_VIOLATIONS);
                errors.map_err(|exceeded| format!("its validation needs {exceeded}"))
            });
        errors.unwrap_or_else(|error| vec![(String::new(), error)])
    }
}

/// Returns true for JSON media types.
pub(super) fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_lowercase();
    kind == "application/json" || kind == "text/json" || kind.ends_with("+json")
}

/// Returns true if a media type or range of a document, such as `text/*`, includes the type of a request.
pub(super) fn covers(text: &str, kind: &str) -> bool {
    let text = text.split(';').next().unwrap_or_default().trim().to_lowercase();
    match text.split_once('/') {
        Some(("*", "*")) => true,
        Some((main, "*")) => kind.split_once('/').is_some_and(|(found, _)| found == main),
        _ => text == kind,
    }
}
