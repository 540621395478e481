//! Properties of resolver, operators and parser: total on every input, and equal to their definitions.

use std::time::Duration;

use argus_core::time::Timestamp;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::check::Check;
use crate::evaluate::{OPERATORS, check_fields, check_value};
use crate::pattern;
use crate::value::{entries, equal, length, type_name};
use crate::{Action, CommandOutput, Moment, Reply, Response, Retry, Run, Scope, Work, parse};

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..4).prop_map(Value::from),
        (-30i32..40).prop_map(|number| json!(f64::from(number) / 10.0)),
        "[ab0-2]{0,3}".prop_map(Value::from),
        r"\PC{0,6}".prop_map(Value::from),
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab01]",
        prop::sample::select(&OPERATORS[..]).prop_map(str::to_owned)
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 16, 3, |inner| {
        let maps = prop::collection::vec((key(), inner.clone()), 0..3);
        prop_oneof![
            prop::collection::vec(inner, 0..3).prop_map(Value::from),
            maps.prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn missing_or_value() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![1 => Just(None), 9 => value().prop_map(Some)]
}

fn moment(random: &mut dyn FnMut() -> u128) -> Moment<'_> {
    Moment {
        now: Timestamp(0),
        random,
    }
}

/// Result of one operator. `None` if the operator itself is invalid.
fn holds(actual: Option<&Value>, operator: &str, wanted: &Value) -> Option<bool> {
    let expected = json!({ operator: wanted });
    let checks = check_value(actual, &expected, "a").ok()?;
    Some(checks.iter().all(|check| check.holds))
}

/// Definition of equality by the canonical text of a value, in which lists are maps of positions.
fn canonical(value: &Value) -> String {
    match value {
        Value::Number(number) => format!("n{:?}", number.as_f64().unwrap() + 0.0),
        Value::Array(_) | Value::Object(_) => {
            let mut parts: Vec<String> = entries(value)
                .unwrap()
                .iter()
                .map(|(key, value)| format!("{key:?}={}", canonical(value)))
                .collect();
            parts.sort();
            format!("{{{}}}", parts.join(","))
        }
        other => other.to_string(),
    }
}

proptest! {
    #[test]
    fn evaluation_is_total(actual in missing_or_value(), expected in value()) {
        let _checks = check_value(actual.as_ref(), &expected, "");
        let _checks = check_fields(actual.as_ref(), &expected, "body");
    }

    #[test]
    fn equality_agrees_with_its_definition(left in value(), right in value()) {
        prop_assert_eq!(equal(&left, &right), canonical(&left) == canonical(&right));
        prop_assert!(equal(&left, &left));
        prop_assert_eq!(equal(&left, &right), equal(&right, &left));
    }

    #[test]
    fn operators_agree_with_their_definitions(actual in missing_or_value(), wanted in value()) {
        let found = actual.as_ref();
        let texts = (found.and_then(Value::as_str), wanted.as_str());
        let list = found.and_then(Value::as_array);
        let contains = match (texts, list) {
            ((Some(text), Some(part)), _) => text.contains(part),
            (_, Some(items)) => items.iter().any(|item| equal(item, &wanted)),
            _ => false,
        };
        prop_assert_eq!(holds(found, "contains", &wanted), Some(contains));
        prop_assert_eq!(holds(found, "notContains", &wanted), Some(!contains));
        let exists = found.is_some_and(|value| !value.is_null());
        prop_assert_eq!(holds(found, "exists", &wanted), Some(wanted == json!(exists)));
        prop_assert_eq!(holds(found, "type", &wanted), Some(wanted == json!(type_name(found))));
        let allowed = json!([wanted, 1, null]);
        let is_in = found.is_some_and(|value| allowed.as_array().unwrap().iter().any(|one| equal(one, value)));
        prop_assert_eq!(holds(found, "in", &allowed), Some(is_in));
        if let (Some(text), Some(part)) = texts {
            prop_assert_eq!(holds(found, "startsWith", &wanted), Some(text.starts_with(part)));
            prop_assert_eq!(holds(found, "endsWith", &wanted), Some(text.ends_with(part)));
        }
        if !wanted.is_object() {
            let same = found.is_some_and(|value| equal(value, &wanted));
            prop_assert_eq!(holds(found, "not", &wanted), Some(!same));
        }
    }

    #[test]
    fn numbers_compare_as_doubles(actual in scalar(), limit in -3i32..4) {
        let number = actual.as_f64();
        let by = |test: fn(f64, f64) -> bool| Some(number.is_some_and(|number| test(number, f64::from(limit))));
        for wanted in [json!(limit), json!(limit.to_string())] {
            prop_assert_eq!(holds(Some(&actual), "gt", &wanted), by(|left, right| left > right));
            prop_assert_eq!(holds(Some(&actual), "gte", &wanted), by(|left, right| left >= right));
            prop_assert_eq!(holds(Some(&actual), "lt", &wanted), by(|left, right| left < right));
            prop_assert_eq!(holds(Some(&actual), "lte", &wanted), by(|left, right| left <= right));
        }
    }

    #[test]
    fn length_counts_units_items_and_keys(actual in missing_or_value(), wanted in 0usize..4) {
        let found = actual.as_ref().and_then(length);
        prop_assert_eq!(holds(actual.as_ref(), "length", &json!(wanted)), Some(found == Some(wanted)));
        let at_least = found.is_some_and(|found| found >= wanted);
        prop_assert_eq!(holds(actual.as_ref(), "length", &json!({ "gte": wanted })), Some(at_least));
    }

    #[test]
    fn quantifiers_agree_with_their_items(items in prop::collection::vec(value(), 0..4), wanted in value()) {
        let item = |item: &Value| {
            let checks = match item {
                Value::Object(_) => check_fields(Some(item), &wanted, ""),
                _ => check_value(Some(item), &wanted, ""),
            };
            checks.ok().map(|checks| checks.iter().all(|check: &Check| check.holds))
        };
        let results: Option<Vec<bool>> = items.iter().map(item).collect();
        if let Some(results) = results {
            let list = json!(items);
            prop_assert_eq!(holds(Some(&list), "every", &wanted), Some(results.iter().all(|one| *one)));
            prop_assert_eq!(holds(Some(&list), "some", &wanted), Some(results.iter().any(|one| *one)));
        }
    }

    #[test]
    fn text_without_templates_is_unchanged(text in r"[^{]{0,20}|\{[^{]{0,9}") {
        let resolved = Scope::default().resolve_text(&text, &mut moment(&mut || 0));
        prop_assert_eq!(resolved, text);
    }

    #[test]
    fn values_are_inserted_in_one_pass(before in "[^{]{0,9}", inserted in r"\PC{0,9}|\{\{a\}\}", after in "[^}]{0,9}") {
        let mut scope = Scope::default();
        scope.save([("a".to_owned(), inserted.clone())]);
        let text = format!("{before}{{{{ a }}}}{after}");
        let resolved = scope.resolve_text(&text, &mut moment(&mut || 0));
        prop_assert!(resolved.starts_with(&format!("{before}{inserted}")), "{}", resolved);
    }

    #[test]
    fn resolver_is_total(text in r"(\{\{|\}\}|[ .a]|uuid|env|\n|é){0,12}") {
        let _resolved = Scope::default().resolve_text(&text, &mut moment(&mut || u128::MAX));
    }

    #[test]
    fn patterns_are_total(pattern in r"[\\()\[\]{}^$*+?.|a-c0-9&~:=!<>,-]{0,12}", text in "[a-c]{0,9}") {
        let _found = pattern::is_match(&pattern, &text);
    }

    #[test]
    fn expressions_are_total(expression in r"(&&|\|\||==|[<>!=]|body|[.]|length|status| |[\x22'1a])*", body in value()) {
        let step = json!({ "request": { "url": "http://h" }, "expect": { "expr": expression } });
        run_any(&step, &body);
    }

    #[test]
    fn parser_is_total(text in r"(name|cases|setup|- |: |\n|  |request|[{}\[\],&*|>'\x22]|\PC){0,30}") {
        let _parsed = parse("any.yaml", text.as_bytes());
    }

    #[test]
    fn every_step_is_total(kind in 0usize..6, step in value(), expect in value(), body in value()) {
        let kind = ["request", "exec", "file", "process", "port", "plugin"][kind];
        run_any(&json!({ kind: step, "expect": expect, "save": expect, "delay": body, "retry": step }), &body);
        let mut fields = json!({
            "url": "http://h", "command": "c", "path": "/p", "name": "n", "port": 80, "json": expect, "size": body,
            "count": body, "length": body, "exists": body, "matches": "a", "owner": "o",
        });
        if let (Value::Object(fields), Value::Object(own)) = (&mut fields, step) {
            fields.extend(own);
        }
        let expect = json!({ "body": expect, "output": { "json": expect, "length": body }, "headers": expect, "any": [expect] });
        run_any(&json!({ kind: fields, "expect": expect }), &body);
    }
}

/// Runs a suite with one step in all places, and gives this body to all requests and commands.
fn run_any(step: &Value, body: &Value) {
    let file = json!({ "name": "s", "setup": [step], "cases": [step], "teardown": [step] });
    let Some(suite) = parse("any.yaml", file.to_string().as_bytes()).suite else {
        return;
    };
    let mut run = Run::new(suite, Scope::default(), "http://b".to_owned(), Retry::default());
    for _ in 0..100 {
        let reply = match run.next(&mut moment(&mut || 0)) {
            Work::End => return,
            Work::Act(Action::Request(_)) => Reply::Response(Response {
                status: 200,
                headers: vec![("content-type".to_owned(), "application/json".to_owned())],
                body: body.to_string().into_bytes(),
                elapsed: Duration::from_millis(1),
            }),
            Work::Act(Action::Container(check)) => {
                let output = CommandOutput {
                    exit_code: 0,
                    stdout: body.to_string(),
                    stderr: String::new(),
                    is_cut: false,
                };
                Reply::Outputs(vec![output; check.commands.len()])
            }
            Work::Pause(_) => continue,
            Work::WaitHealthy(_) | Work::WaitForPort(_) => Reply::Done,
        };
        run.reply(reply, Timestamp(1));
    }
}
