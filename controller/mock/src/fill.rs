//! Templates in responses: `{{request.…}}`, `{{timestamp}}`, `{{uuid}}` and `{{date}}` in strings.

use std::cell::RefCell;

use argus_core::budget::Budget;
use argus_core::desired::template::{Segment, has_placeholders, segments};
use argus_core::hex::random_uuid;
use argus_core::time::Timestamp;
use argus_crds::number;
use serde_json::{Map, Value};

use crate::path::Params;
use crate::request::{Content, Request};
use crate::when::value_at;

/// Time and randomness for one response. The caller provides both, because this crate is pure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Current time.
    pub now: Timestamp,
    /// Random bits, different for every request.
    pub random: u128,
}

/// Values of the templates in one response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TemplateContext<'a> {
    pub(crate) request: &'a Request,
    pub(crate) params: &'a Params,
    pub(crate) moment: Moment,
    /// Budget of the values that replace templates.
    pub(crate) budget: &'a RefCell<Budget>,
}

/// Maximum number of bytes of the values that replace templates in one response. A template can repeat the whole body of a request.
pub(crate) const MAX_FILLED_BYTES: u64 = 32 << 20;

/// Returns true if a string in the value contains a template.
pub(crate) fn is_template(value: &Value) -> bool {
    match value {
        Value::String(text) => has_placeholders(text),
        Value::Array(items) => items.iter().any(is_template),
        Value::Object(map) => map.values().any(is_template),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

impl TemplateContext<'_> {
    /// Replaces the templates in a value. A string that is exactly one template takes the type of its value. An unresolved
    /// template stays unchanged. All `{{uuid}}` of one request are equal.
    pub(crate) fn fill(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => match segments(text).as_slice() {
                [Segment::Template(slot, _)] => self.value(slot).unwrap_or_else(|| value.clone()),
                _ => Value::String(self.text(text)),
            },
            Value::Array(items) => items.iter().map(|item| self.fill(item)).collect(),
            Value::Object(map) => {
                let filled = map.iter().map(|(key, value)| (key.clone(), self.fill(value)));
                Value::Object(filled.collect::<Map<_, _>>())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Replaces the templates in a text, with lists and maps as JSON.
    pub(crate) fn text(&self, text: &str) -> String {
        let piece = |piece: Segment<'_>| match piece {
            Segment::Text(text) => text.to_owned(),
            Segment::Template(slot, raw) => match self.value(slot) {
                None => raw.to_owned(),
                Some(value) if number::is_number(&value) => number::to_json(&value),
                Some(Value::String(text)) => text,
                Some(other) => number::to_json(&other),
            },
        };
        segments(text).into_iter().map(piece).collect()
    }

    /// Returns the value of a template, within the budget.
    fn value(&self, slot: &str) -> Option<Value> {
        let mut budget = self.budget.borrow_mut();
        budget.bytes(0).ok()?;
        let found = self.find(slot)?;
        let bytes = match &found {
            Value::String(text) => text.len(),
            other => number::to_json(other).len(),
        };
        budget.bytes(bytes as u64).ok()?;
        Some(found)
    }

    fn find(&self, slot: &str) -> Option<Value> {
        let text = |text: &str| Some(Value::String(text.to_owned()));
        match slot {
            "timestamp" => return Some(Value::from(self.moment.now.0)),
            "date" => return text(self.moment.now.to_string().get(..10)?),
            "uuid" => return text(&random_uuid(self.moment.random)),
            _ => {}
        }
        let field = slot.strip_prefix("request.")?;
        match field {
            "method" => return text(&self.request.method),
            "path" => return text(&self.request.path),
            "body" => return self.request.value(),
            _ => {}
        }
        let (part, name) = field.split_once(['.', '['])?;
        match part {
            "params" => {
                let found = self.params.iter().find(|(found, _)| found == name)?;
                text(&found.1)
            }
            "query" => text(self.request.query_values(name).next()?),
            "headers" => text(self.request.header(name)?),
            "body" => match self.request.content() {
                Content::Json(value) => value_at(value, &field["body".len()..]).cloned(),
                Content::Form(fields) => text(&fields.iter().find(|(found, _)| found == name)?.1),
                Content::Empty | Content::Text(_) | Content::Bytes => None,
            },
            _ => None,
        }
    }
}

/// Returns a hint for a template that no request can resolve; `None` if a request can. `names` are the path parameters.
pub(crate) fn unresolvable_hint(slot: &str, names: &[&str]) -> Option<String> {
    if ["timestamp", "date", "uuid"].contains(&slot) {
        return None;
    }
    let known = "use `request.body`, `.params`, `.query`, `.headers`, `.method`, `.path`, `timestamp`, `date` or `uuid`";
    let Some(field) = slot.strip_prefix("request.") else {
        return Some(known.to_owned());
    };
    match field.split(['.', '[']).next().unwrap_or_default() {
        "params" => {
            let name = field.strip_prefix("params.").unwrap_or_default();
            let hint = if names.is_empty() {
                "remove it, because the path has no parameters".to_owned()
            } else {
                format!("use a parameter of the path (`{}`)", names.join("`, `"))
            };
            (!names.contains(&name)).then_some(hint)
        }
        "body" | "method" | "path" => None,
        "query" | "headers" if field.contains('.') => None,
        _ => Some(known.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn filled(template: &Value, body: &str) -> Value {
        let headers = vec![("X-Id".to_owned(), "h7".to_owned())];
        let request = Request::new("POST", "/users/7?page=2", headers, Bytes::from(body.to_owned()));
        let params = vec![("id".to_owned(), "7".to_owned())];
        let moment = Moment {
            now: Timestamp(1_700_000_000_000),
            random: 0,
        };
        let budget = RefCell::new(Budget::new(0, MAX_FILLED_BYTES));
        let context = TemplateContext {
            request: &request,
            params: &params,
            moment,
            budget: &budget,
        };
        context.fill(template)
    }

    #[test]
    fn templates_resolve_to_their_values() {
        let body = r#"{"name":"ann","age":3,"tags":["a"],"deep":{"x":{"y":true}},"n":null}"#;
        let cases = [
            (json!("{{request.body.name}}"), json!("ann")),
            (json!("{{ request.body.age }}"), json!(3)),
            (json!("{{request.body.tags}}"), json!(["a"])),
            (json!("{{request.body.tags[0]}}"), json!("a")),
            (json!("{{request.body.tags.0}}"), json!("a")),
            (json!("{{request.body.deep.x.y}}"), json!(true)),
            (json!("{{request.body.n}}"), json!(null)),
            (json!("{{request.body}}"), serde_json::from_str(body).unwrap()),
            (
                json!("hi {{request.body.name}} ({{request.body.age}})"),
                json!("hi ann (3)"),
            ),
            (json!("{{request.body.deep}}!"), json!("{\"x\":{\"y\":true}}!")),
            (json!("{{request.params.id}}"), json!("7")),
            (json!("{{request.query.page}}"), json!("2")),
            (json!("{{request.headers.X-ID}}"), json!("h7")),
            (
                json!("{{request.method}} {{request.path}}"),
                json!("POST /users/7"),
            ),
            (json!("{{timestamp}}"), json!(1_700_000_000_000_i64)),
            (json!("at {{timestamp}}"), json!("at 1700000000000")),
            (json!("{{date}}"), json!("2023-11-14")),
            (json!("{{uuid}}"), json!("00000000-0000-4000-8000-000000000000")),
            (json!("{{request.body.none}}"), json!("{{request.body.none}}")),
            (
                json!("x {{request.query.none}} {{config.A}}"),
                json!("x {{request.query.none}} {{config.A}}"),
            ),
            (
                json!({ "a": ["{{request.params.id}}", 1] }),
                json!({ "a": ["7", 1] }),
            ),
        ];
        for (template, wanted) in cases {
            assert_eq!(filled(&template, body), wanted, "{template}");
        }
    }

    #[test]
    fn unresolvable_template_is_detected_without_a_request() {
        let check = |slot: &str| unresolvable_hint(slot, &["id"]).is_some();
        for good in [
            "uuid",
            "request.params.id",
            "request.body",
            "request.body[0]",
            "request.query.a",
            "request.headers.b",
        ] {
            assert!(!check(good), "{good}");
        }
        for bad in [
            "uid",
            "request.params.ix",
            "request.bdy.a",
            "request.query",
            "env.X",
        ] {
            assert!(check(bad), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn text_without_template_stays_unchanged(text in "[^{}]{0,40}") {
            prop_assert_eq!(filled(&json!(text.clone()), "{}"), json!(text));
        }

        #[test]
        fn arbitrary_template_never_panics(text in ".{0,60}", body in ".{0,60}") {
            let _ = filled(&json!(format!("{{{{{text}}}}}{text}")), &body);
        }
    }
}
