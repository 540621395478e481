//! The validators of a document's schemas, made when they are first asked for.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonschema::{Draft, Registry, Validator};
use serde_json::{Value, json};

use super::schema_conversion::{Direction, plain};

/// How many validators are kept. Each holds all that its schema leads to, which may be the whole document: of one with 400
/// schemas that lead to each other it takes 8 MiB.
const KEPT: usize = 16;

const BASE: &str = "argus:///document";

/// The schemas of a document in one direction.
pub(super) struct Schemas {
    /// The document, its schemas in JSON Schema 2020-12.
    pub(super) root: Value,
    registry: Registry<'static>,
    made: Mutex<HashMap<String, Result<Arc<Validator>, String>>>,
}

impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schemas").finish_non_exhaustive()
    }
}

impl Schemas {
    pub(super) fn new(document: &Value, is_30: bool, direction: Direction) -> Result<Self, String> {
        let root = plain(document, is_30, direction);
        let registry = Registry::new()
            .draft(Draft::Draft202012)
            .add(BASE, root.clone())
            .and_then(jsonschema::RegistryBuilder::prepare)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            root,
            registry,
            made: Mutex::default(),
        })
    }

    /// The validator of the schema at a pointer; the error says why there is none.
    pub(super) fn validator(&self, pointer: &str) -> Result<Arc<Validator>, String> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = made.get(pointer) {
            return found.clone();
        }
        if made.len() >= KEPT {
            made.clear();
        }
        let new = self.make(pointer).map(Arc::new);
        made.insert(pointer.to_owned(), new.clone());
        new
    }

    fn make(&self, pointer: &str) -> Result<Validator, String> {
        // In a fragment, what is no part of a URI has to be encoded.
        let mut fragment = String::with_capacity(pointer.len());
        for byte in pointer.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
                fragment.push(char::from(byte));
            } else {
                // A text takes all that is written to it.
                let _infallible = write!(fragment, "%{byte:02X}");
            }
        }
        jsonschema::options()
            .with_draft(Draft::Draft202012)
            .offline()
            .should_validate_formats(true)
            .with_format("byte", |text: &str| STANDARD.decode(text).is_ok())
            .with_registry(&self.registry)
            .build(&json!({ "$ref": format!("{BASE}#{fragment}") }))
            .map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_schemas_are_asked_for_few_validators_are_kept() {
        let names: Vec<String> = (0..60).map(|number| format!("S{number}")).collect();
        let all = names
            .iter()
            .map(|name| (name.clone(), json!({ "type": "integer" })));
        let document = json!({ "components": { "schemas": all.collect::<serde_json::Map<_, _>>() } });
        let schemas = Schemas::new(&document, false, Direction::Request).unwrap();
        for name in names {
            let validator = schemas.validator(&format!("/components/schemas/{name}")).unwrap();
            assert!(validator.is_valid(&json!(1)) && !validator.is_valid(&json!("x")));
            assert!(schemas.made.lock().unwrap().len() <= KEPT);
        }
    }
}
