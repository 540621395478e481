//! Validators of a document's schemas, created on first use.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use argus_core::budget::{Budget, Exceeded};
use argus_crds::number;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonschema::{Draft, PatternOptions, Registry, Validator};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::schema_conversion::{Direction, plain};
use super::steps::{MAX_BACKTRACKS, MAX_DESCRIBED, Uncounted, Visits};
use super::subschemas::outermost;

/// Maximum number of cached validators.
///
/// Each one holds all schemas that its schema refers to, possibly the whole document. With 400 schemas that refer to each
/// other, one validator takes 8 MiB.
const MAX_CACHED: usize = 16;

const BASE: &str = "argus:///document";

/// ASCII characters that the fragment of a URI may not contain, and some others.
const FRAGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// Schemas of a document for one direction.
pub(super) struct Schemas {
    /// Document with its schemas in JSON Schema 2020-12.
    pub(super) root: Value,
    registry: Registry<'static>,
    made: Mutex<HashMap<String, Result<Arc<Validator>, String>>>,
}

/// Validator of one schema of a document.
#[derive(Debug)]
pub(super) struct BoundedValidator<'a> {
    pub(super) root: &'a Value,
    /// JSON pointer to the schema.
    pub(super) pointer: &'a str,
    pub(super) validator: Arc<Validator>,
}

impl BoundedValidator<'_> {
    /// Returns true if a value is valid, and its validation within the budget.
    pub(super) fn is_valid(&self, budget: &mut Budget, value: &Value) -> bool {
        let value = &number::rounded(value);
        self.visits(budget, value).is_ok() && self.validator.is_valid(value)
    }

    /// Returns at most `most` errors of a value, each with the JSON pointer to its place. A large value has at most one, without its place.
    pub(super) fn errors(
        &self,
        budget: &mut Budget,
        value: &Value,
        most: usize,
    ) -> Result<Vec<(String, String)>, Exceeded> {
        let value = &*number::rounded(value);
        if self.visits(budget, value)? > MAX_DESCRIBED {
            let error = || (String::new(), "it does not match its schema".to_owned());
            let error = (!self.validator.is_valid(value)).then(error);
            return Ok(error.into_iter().collect());
        }
        let errors = self.validator.iter_errors(value).take(most);
        Ok(errors
            .map(|error| (error.instance_path().to_string(), error.to_string()))
            .collect())
    }

    /// Uses the steps of the validation of a value. Returns the number of its visits.
    fn visits(&self, budget: &mut Budget, value: &Value) -> Result<u64, Exceeded> {
        let Some(schema) = self.root.pointer(self.pointer) else {
            return Ok(0);
        };
        let mut visits = Visits::new(self.root);
        let counted = visits.count(schema, value, budget);
        visits.release(budget);
        let visits = match counted {
            Ok((visits, _)) => visits,
            Err(Uncounted::Exceeded(exceeded)) => return Err(exceeded),
            Err(Uncounted::Endless { .. }) => u64::MAX,
        };
        budget.steps(visits)?;
        Ok(visits)
    }
}

impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schemas").finish_non_exhaustive()
    }
}

impl Schemas {
    pub(super) fn new(document: &Value, is_30: bool, direction: Direction) -> Result<Self, String> {
        let mut root = plain(document, is_30, direction);
        // Examples outside of schemas keep the spelling of their numbers. A validator knows only doubles.
        for pointer in outermost(document) {
            if let Some(schema) = root.pointer_mut(&pointer) {
                *schema = number::rounded(schema).into_owned();
            }
        }
        let registry = Registry::new()
            .draft(Draft::Draft202012)
            .add(BASE, number::rounded(&root).into_owned())
            .and_then(jsonschema::RegistryBuilder::prepare)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            root,
            registry,
            made: Mutex::default(),
        })
    }

    /// Returns the validator of the schema at a pointer, or the reason why it has none.
    pub(super) fn validator<'a>(&'a self, pointer: &'a str) -> Result<BoundedValidator<'a>, String> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if !made.contains_key(pointer) && made.len() >= MAX_CACHED {
            made.clear();
        }
        let new = || self.make(pointer).map(Arc::new);
        let validator = made.entry(pointer.to_owned()).or_insert_with(new).clone()?;
        Ok(BoundedValidator {
            root: &self.root,
            pointer,
            validator,
        })
    }

    fn make(&self, pointer: &str) -> Result<Validator, String> {
        let fragment = utf8_percent_encode(pointer, FRAGMENT);
        jsonschema::options()
            .with_draft(Draft::Draft202012)
            .offline()
            .should_validate_formats(true)
            .with_format("byte", |text: &str| STANDARD.decode(text).is_ok())
            .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(MAX_BACKTRACKS))
            .with_registry(&self.registry)
            .build(&json!({ "$ref": format!("{BASE}#{fragment}") }))
            .map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_cached_validators_is_bounded() {
        let names: Vec<String> = (0..60).map(|number| format!("S{number}")).collect();
        let all = names
            .iter()
            .map(|name| (name.clone(), json!({ "type": "integer" })));
        let document = json!({ "components": { "schemas": all.collect::<serde_json::Map<_, _>>() } });
        let schemas = Schemas::new(&document, false, Direction::Request).unwrap();
        for name in names {
            let pointer = format!("/components/schemas/{name}");
            let validator = schemas.validator(&pointer).unwrap().validator;
            assert!(validator.is_valid(&json!(1)) && !validator.is_valid(&json!("x")));
            assert!(schemas.made.lock().unwrap().len() <= MAX_CACHED);
        }
    }
}
