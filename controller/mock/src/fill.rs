//! Templates of answers: `{{request.…}}`, `{{timestamp}}`, `{{uuid}}` and `{{date}}` in texts.

use argus_core::desired::template::{Piece, has_slots, pieces};
use argus_core::time::Timestamp;
use serde_json::{Map, Value};

use crate::path::Params;
use crate::request::{Content, Request};
use crate::when::dig;

/// What the world brings along for one answer: the pure part asks neither a clock nor for chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time.
    pub now: Timestamp,
    /// Chance, other for every request.
    pub chance: u128,
}

/// What templates of one answer stand for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TemplateContext<'a> {
    pub(crate) request: &'a Request,
    pub(crate) params: &'a Params,
    pub(crate) moment: Moment,
}

/// Whether any text of it holds a template.
pub(crate) fn is_template(value: &Value) -> bool {
    match value {
        Value::String(text) => has_slots(text),
        Value::Array(items) => items.iter().any(is_template),
        Value::Object(map) => map.values().any(is_template),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

impl TemplateContext<'_> {
    /// The value with its templates filled in. A text that is one template becomes what that stands for, with its type; what
    /// stands for nothing stays as written. One request has one `{{uuid}}`.
    pub(crate) fn fill(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => match pieces(text).as_slice() {
                [Piece::Slot(slot, _)] => self.value(slot).unwrap_or_else(|| value.clone()),
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

    /// The text with its templates filled in; lists and maps as JSON.
    pub(crate) fn text(&self, text: &str) -> String {
        let piece = |piece: Piece<'_>| match piece {
            Piece::Text(text) => text.to_owned(),
            Piece::Slot(slot, raw) => match self.value(slot) {
                None => raw.to_owned(),
                Some(Value::String(text)) => text,
                Some(other) => other.to_string(),
            },
        };
        pieces(text).into_iter().map(piece).collect()
    }

    fn value(&self, slot: &str) -> Option<Value> {
        let text = |text: &str| Some(Value::String(text.to_owned()));
        match slot {
            "timestamp" => return Some(Value::from(self.moment.now.0)),
            "date" => return text(self.moment.now.to_string().get(..10)?),
            "uuid" => return text(&uuid(self.moment.chance)),
            _ => {}
        }
        let what = slot.strip_prefix("request.")?;
        match what {
            "method" => return text(&self.request.method),
            "path" => return text(&self.request.path),
            "body" => return self.request.value(),
            _ => {}
        }
        let (part, name) = what.split_once(['.', '['])?;
        match part {
            "params" => {
                let found = self.params.iter().find(|(found, _)| found == name)?;
                text(&found.1)
            }
            "query" => text(self.request.queried(name).next()?),
            "headers" => text(self.request.header(name)?),
            "body" => match self.request.content() {
                Content::Json(value) => dig(value, &what["body".len()..]).cloned(),
                Content::Form(fields) => text(&fields.iter().find(|(found, _)| found == name)?.1),
                Content::Nothing | Content::Text(_) | Content::Bytes => None,
            },
            _ => None,
        }
    }
}

/// Why a template can stand for nothing, whatever the request; nothing where it may stand for something.
pub(crate) fn stands_for_nothing(slot: &str, names: &[&str]) -> Option<String> {
    if ["timestamp", "date", "uuid"].contains(&slot) {
        return None;
    }
    let known = "there are `request.body`, `.params`, `.query`, `.headers`, `.method`, `.path`, `timestamp`, `date`, `uuid`";
    let Some(what) = slot.strip_prefix("request.") else {
        return Some(known.to_owned());
    };
    match what.split(['.', '[']).next().unwrap_or_default() {
        "params" => {
            let name = what.strip_prefix("params.").unwrap_or_default();
            let has = if names.is_empty() {
                "the path has no parameters".to_owned()
            } else {
                format!("the path has `{}`", names.join("`, `"))
            };
            (!names.contains(&name)).then_some(has)
        }
        "body" | "method" | "path" => None,
        "query" | "headers" if what.contains('.') => None,
        _ => Some(known.to_owned()),
    }
}

/// A UUID of version 4.
pub(crate) fn uuid(chance: u128) -> String {
    let mut bits = chance;
    bits &= !(0xf << 76);
    bits |= 0x4 << 76;
    bits &= !(0x3 << 62);
    bits |= 0x2 << 62;
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
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
            chance: 0,
        };
        let facts = TemplateContext {
            request: &request,
            params: &params,
            moment,
        };
        facts.fill(template)
    }

    #[test]
    fn templates_stand_for_what_the_format_says() {
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
    fn a_template_that_can_stand_for_nothing_is_known_before() {
        let check = |slot: &str| stands_for_nothing(slot, &["id"]).is_some();
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
        fn what_holds_no_template_stays_as_it_is(text in "[^{}]{0,40}") {
            prop_assert_eq!(filled(&json!(text.clone()), "{}"), json!(text));
        }

        #[test]
        fn no_template_panics(text in ".{0,60}", body in ".{0,60}") {
            let _ = filled(&json!(format!("{{{{{text}}}}}{text}")), &body);
        }

        #[test]
        fn a_uuid_is_one(chance in any::<u128>()) {
            let text = uuid(chance);
            prop_assert_eq!(text.len(), 36);
            prop_assert_eq!(&text[14..15], "4");
            prop_assert!("89ab".contains(&text[19..20]));
        }
    }
}
