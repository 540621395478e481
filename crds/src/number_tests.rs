//! Numbers that keep their digits: JSON, YAML and comparisons.

use serde_json::json;

use super::*;

#[test]
fn numbers_keep_their_spelling() {
    for text in [
        r#"{"id":123456789012345678901234567890,"price":2.50,"whole":3.0}"#,
        "[18446744073709551616,-9223372036854775809,1e5,1E400,-0,0.10000000000000001]",
        r#"["1.50 \" 2.50","\\",1.50]"#,
        "9007199254740993.5",
        r#"{"2.50":[]}"#,
    ] {
        let value = parse(text, Keep::Spelling).unwrap();
        assert_eq!(to_json(&value), text);
        // The type of a stored configuration is JSON too.
        let stored: Value = serde_json::from_str(&value.to_string()).unwrap();
        assert_eq!(to_json(&stored), text);
    }
}

#[test]
fn values_keep_only_the_digits_that_a_double_loses() {
    let value = parse("[2.50,3.0,1e2,18446744073709551616,0.1]", Keep::Value).unwrap();
    assert_eq!(to_json(&value), "[2.5,3.0,100.0,18446744073709551616,0.1]");
    assert_eq!(value[0], json!(2.5));
    assert_eq!(spelled(&value[3]), Some("18446744073709551616"));
}

#[test]
fn invalid_json_stays_an_error_at_its_place() {
    for text in [
        "[01]",
        "[1.]",
        "[--1.50]",
        "{\"a\":2.50,}",
        "2.50 2.50",
        "\"2.50",
        "[1e]",
        "-",
        "\"\\",
    ] {
        let wanted = serde_json::from_str::<Value>(text).unwrap_err().to_string();
        assert_eq!(
            parse(text, Keep::Spelling).unwrap_err().to_string(),
            wanted,
            "{text}"
        );
    }
}

#[test]
fn numbers_compare_exactly() {
    use Ordering::{Equal, Greater, Less};
    let value = |text: &str| parse(text, Keep::Spelling).unwrap();
    for (left, right, wanted) in [
        ("738421905561190401", "738421905561190402", Less),
        ("9007199254740993", "9007199254740992.0", Greater),
        (
            "123456789012345678901234567890",
            "123456789012345678901234567891",
            Less,
        ),
        (
            "-123456789012345678901234567890",
            "-123456789012345678901234567891",
            Greater,
        ),
        ("1", "1.0", Equal),
        ("2.50", "2.5", Equal),
        ("100", "1e2", Equal),
        ("0", "-0.0", Equal),
        ("-1", "0.5", Less),
        ("0.05", "0.5", Less),
        ("0.1", "0.10000000000000001", Equal),
        ("12345678901234567.89", "12345678901234567.90", Less),
        ("1e400", "1e401", Less),
        ("1e-400", "0", Equal),
    ] {
        assert_eq!(
            compare(&value(left), &value(right)),
            Some(wanted),
            "{left} {right}"
        );
        assert_eq!(
            compare(&value(right), &value(left)),
            Some(wanted.reverse()),
            "{right} {left}"
        );
    }
    assert_eq!(compare(&json!("1"), &json!(1)), None);
}

#[test]
fn text_of_yaml_becomes_a_number() {
    let cases = [
        ("+5", "5"),
        ("007", "7"),
        (".5", "0.5"),
        ("5.", "5"),
        ("-.50", "-0.50"),
        (
            "+123456789012345678901234567890",
            "123456789012345678901234567890",
        ),
    ];
    for (text, wanted) in cases {
        assert_eq!(
            to_json(&from_text(text, Keep::Spelling).unwrap()),
            wanted,
            "{text}"
        );
    }
    for text in ["", ".", "1.2.3", "e5", "1e", "0x1", "--1", "1_000", "."] {
        assert_eq!(from_text(text, Keep::Spelling), None, "{text}");
    }
}

#[test]
fn rounded_value_has_only_doubles() {
    let value = parse("[1.50,{\"a\":1e400}]", Keep::Spelling).unwrap();
    assert_eq!(*rounded(&value), json!([1.5, { "a": f64::MAX }]));
    assert!(matches!(rounded(&json!([1, "x"])), Cow::Borrowed(_)));
}

#[test]
fn text_with_the_mark_that_is_no_number_stays_a_text() {
    let text = json!(format!("{MARK}x"));
    assert!(!is_number(&text));
    let plain = serde_json::to_string(&text).unwrap();
    assert_eq!(to_json(&text), plain);
}

#[test]
fn text_of_a_document_is_no_kept_number() {
    for document in [
        format!("[\"{MARK}5\"]"),
        r#"["\udbff\udffe5"]"#.to_owned(),
        r#"["\uDBFF\uDFFE5", 2.50]"#.to_owned(),
    ] {
        let value = parse(&document, Keep::Spelling).unwrap();
        assert_eq!(value[0], json!("\u{fffd}5"), "{document}");
    }
}

#[test]
fn half_of_a_surrogate_pair_becomes_the_replacement_character() {
    let read = |text: &str| parse(text, Keep::Value).map(|value| to_json(&value));
    assert_eq!(read(r#"{"a":"x\ud83d","b":1}"#).unwrap(), r#"{"a":"x�","b":1}"#);
    assert_eq!(read(r#"["\uDE00\ud83d\uDE00\ud83d"]"#).unwrap(), r#"["�😀�"]"#);
    assert_eq!(
        read(r#"["\\ud83d", "\\\ud83d é"]"#).unwrap(),
        r#"["\\ud83d","\\� é"]"#
    );
    assert!(read(r#"["\ud83"]"#).is_err(), "an incomplete escape");
    assert!(read(r#"["\ud83d"#).is_err());
}
