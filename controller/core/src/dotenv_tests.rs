//! Cases of Compose's reader, and round trips.

use proptest::collection::btree_map;
use proptest::prelude::*;

use super::*;

fn read_with(text: &str, outside: &[(&str, &str)]) -> Dotenv {
    let value = |name: &str| {
        let found = outside.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    read(text.as_bytes(), &value)
}

fn place_and_message(problem: &Problem) -> String {
    format!("{}:{}: {}", problem.line, problem.column, problem.message)
}

/// Reads a file without problems as `NAME=value` pairs.
fn pairs(text: &str) -> Vec<String> {
    let file = read_with(text, &[]);
    assert!(file.problems.is_empty(), "{text:?}: {:?}", file.problems);
    let pair = |(name, value): (&String, &String)| format!("{name}={value}");
    file.variables.iter().map(pair).collect()
}

#[test]
fn statement_has_the_value_that_compose_reads() {
    for (text, expected) in [
        ("FOO=bar", "FOO=bar"),
        ("FOO =bar", "FOO=bar"),
        ("FOO= bar ", "FOO=bar"),
        ("\t KEY=value", "KEY=value"),
        ("FOO=", "FOO="),
        ("FOO=bar=", "FOO=bar="),
        ("FOO.BAR=x", "FOO.BAR=x"),
        ("a[1]=c", "a[1]=c"),
        ("VAR-WITH-DASHES=x", "VAR-WITH-DASHES=x"),
        ("456 = ABC", "456=ABC"),
        (
            "\u{e1}rv\u{ed}z=t\u{171}r\u{151}",
            "\u{e1}rv\u{ed}z=t\u{171}r\u{151}",
        ),
        ("OPTION_A: Foo=bar", "OPTION_A=Foo=bar"),
        ("OPTION_A=1:B", "OPTION_A=1:B"),
        // `export` is a prefix only before a blank.
        ("export\tA=2", "A=2"),
        ("  export exportFoo=2", "exportFoo=2"),
        ("exportFOO=2", "exportFOO=2"),
        ("export.FOO= 2", "export.FOO=2"),
        // Comments.
        ("FOO=bar # this is foo", "FOO=bar"),
        ("FOO=bar #", "FOO=bar"),
        ("FOO=bar\t# tab", "FOO=bar"),
        ("FOO=123#not-a-comment", "FOO=123#not-a-comment"),
        ("FOO=#fff", "FOO=#fff"),
        ("FOO=\"bar#baz\"#", "FOO=bar#baz"),
        ("FOO='bar#baz' # comment", "FOO=bar#baz"),
        // Quotes and escapes.
        ("FOO=\"'d'\"", "FOO='d'"),
        ("FOO=it's", "FOO=it's"),
        ("FOO=\"escaped\\\"bar\"", "FOO=escaped\"bar"),
        ("FOO='Let\\'s go!'", "FOO=Let's go!"),
        ("FOO='\\n\\\\'", "FOO=\\n\\\\"),
        ("FOO=a\\tb", "FOO=a\\tb"),
        ("FOO=\"a\\tb\\nc\"", "FOO=a\tb\nc"),
        (
            "FOO=\"Z\\aZ\\bZ\\fZ\\rZ\\vZ\\\\Z\\0123Z\"",
            "FOO=Z\u{7}Z\u{8}Z\u{c}Z\rZ\u{b}Z\\ZSZ",
        ),
        ("FOO=\"bar\\\\\\n\\ b\"", "FOO=bar\\\n\\ b"),
        ("FOO=\"\\x07\\u12e4\\c\\0\\089\"", "FOO=\\x07\\u12e4\\c\\0\\089"),
        ("FOO=\"bar\\nbaz\\\\\"", "FOO=bar\nbaz\\"),
        ("FOO='first line\nsecond line'", "FOO=first line\nsecond line"),
        ("FOO=\"one\ntwo\" # end", "FOO=one\ntwo"),
        // Encoding and line ends.
        ("\u{feff}FOO=1\r\n", "FOO=1"),
        ("FOO=\"1\"\r\n", "FOO=1"),
        // Variables.
        ("FOO='$BAR ${BAR}'", "FOO=$BAR ${BAR}"),
        ("FOO=\"a\\$BAR\\${BAR}$$C\"", "FOO=a$BAR${BAR}$C"),
        ("FOO=a$ $1 $", "FOO=a$ $1 $"),
        ("FOO=${X:-a b}|${X-}|${X+set}|${X:-${Y:-{z}}}", "FOO=a b|||{z}"),
        ("", ""),
        ("# only\n\r\n\t \n  # comments", ""),
    ] {
        assert_eq!(pairs(text).join("\n"), expected, "{text:?}");
    }
}

#[test]
fn variables_come_from_outside_and_from_above() {
    let text = "A=1\nE=\nB=${A}\nC=\"$B-${E:-empty}-${E-unset}-${A:+set}-${E:+set}-${A:?why}\"\nHOME\nGONE\nexport D=$OUT\nA=2\n";
    let outside = [("OUT", "${A}"), ("HOME", "/root")];
    let file = read_with(text, &outside);
    assert!(file.problems.is_empty(), "{:?}", file.problems);
    let expected = [
        ("A", "2"),
        ("B", "1"),
        ("C", "1-empty--set--1"),
        ("D", "${A}"),
        ("E", ""),
        ("HOME", "/root"),
    ];
    let found: Vec<_> = file
        .variables
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(found, expected, "a name without a value outside is not set");
    let overridden = read_with("A=1\nB=$A\n", &[("A", "outside")]);
    assert_eq!(
        (&*overridden.variables["A"], &*overridden.variables["B"]),
        ("1", "outside")
    );
}

#[test]
fn statement_that_is_not_understood_has_a_place_and_no_value() {
    for (text, problem) in [
        ("A=1\nlol$wut\nB=2", "2:4: `$` is not a character of a name"),
        ("INVALID LINE", "1:8: a name contains no blanks"),
        ("=x", "1:1: a name is missing"),
        ("export =x", "1:8: a name is missing"),
        ("B=2\n  KEY=\"x\nC=1\n", "2:7: this quote has no end"),
        ("KEY='value\\'", "1:5: this quote has no end"),
        ("KEY=\"a\" b", "1:9: text follows the closing quote"),
        ("KEY=\"a\nb\"c", "2:3: text follows the closing quote"),
        (
            "\u{e9}=1\nKEY=\u{e9}\u{e9}$X",
            "2:7: the variable `X` has no value",
        ),
        ("KEY=\"a\n\\n${X}\"", "2:3: the variable `X` has no value"),
        ("KEY=${X:?why}", "1:5: the variable `X` has no value"),
        ("KEY=${X", "1:5: `${` has no closing brace"),
        ("KEY=${}", "1:5: `${` is not followed by a name"),
        ("KEY=${X/a/b}", "1:5: the variable `X` has an unknown operator"),
        ("KEY=${X:}", "1:5: the variable `X` has an unknown operator"),
        (
            "DB_PASSWORD=pa$word",
            "1:15: a variable in this value has no value",
        ),
        ("KEY=\"\\0000\"", "1:5: the value contains a NUL character"),
    ] {
        let file = read_with(text, &[]);
        let problems: Vec<_> = file.problems.iter().map(place_and_message).collect();
        assert_eq!(problems, [problem], "{text:?}");
        assert_eq!(file.variables.get("KEY"), None, "{text:?}");
        assert!(!file.problems[0].hint.contains("word"), "{text:?}");
    }
    let file = read(b"A=1\nB=caf\xe9\n", &|_| None);
    assert_eq!(
        place_and_message(&file.problems[0]),
        "2:6: the file is not UTF-8 text"
    );
    assert_eq!(file.variables.len(), 0);
    let file = read_with("A=1\n!\n?\nB=2\n", &[]);
    assert_eq!(
        (file.problems.len(), file.variables.len()),
        (2, 2),
        "the other statements count"
    );
}

#[test]
fn file_has_a_bounded_number_of_variables() {
    let lines = (0..=MAX_VARIABLES).map(|number| format!("A{number}=\n"));
    let text = lines.collect::<Vec<_>>().concat();
    let file = read(text.as_bytes(), &|_| None);
    assert_eq!(file.variables.len(), MAX_VARIABLES);
    let problems: Vec<_> = file.problems.iter().map(place_and_message).collect();
    assert_eq!(problems, ["10001:1: the file sets more than 10000 variables"]);
}

#[test]
fn values_have_a_bounded_size() {
    let mut text = format!("A0={}\n", "x".repeat(1_000));
    for index in 1..40 {
        text.push_str(&["A", &index.to_string(), "="].concat());
        text.push_str(&["$A", &(index - 1).to_string()].concat().repeat(2));
        text.push('\n');
    }
    let file = read_with(&text, &[]);
    let size: usize = file.variables.values().map(String::len).sum();
    assert!(size <= 2 * MAX_INSERTED, "{size}");
    assert!(
        file.problems[0].message.contains("insert more than"),
        "{:?}",
        file.problems
    );
    assert!((1..=MAX_INSERTED).contains(&file.inserted), "{}", file.inserted);
    let long = "x".repeat(100_000);
    let file = read_with(&"LONG\n".repeat(100), &[("LONG", long.as_str())]);
    assert_eq!(file.inserted, 1_000_000, "a name alone inserts its value");
    assert!(file.problems[0].message.contains("insert more than"));
    let nested = format!("A={}x{}", "${N:-".repeat(1_000), "}".repeat(1_000));
    assert!(read_with(&nested, &[]).problems[0].message.contains("nested"));
    let broken = "$\n".repeat(100_000);
    assert_eq!(read_with(&broken, &[]).problems.len(), MAX_PROBLEMS);
}

proptest! {
    #[test]
    fn written_values_are_read_back(
        values in btree_map("[A-Za-z_][A-Za-z0-9_]{0,8}", "([^\0]|[\\\\\"'$#{}\n\r\t =0nrt]){0,24}", 0..6),
        comment in "[^\n\0]{0,8}",
    ) {
        let mut text = format!("# {comment}\n");
        for (name, value) in &values {
            text += &format_statement(name, value);
            text.push('\n');
        }
        let file = read(text.as_bytes(), &|_| None);
        prop_assert!(file.problems.is_empty(), "{:?}", file.problems);
        prop_assert_eq!(file.variables, values);
    }

    #[test]
    fn single_quotes_keep_every_value_without_them(value in "[^\0'\\\\]{0,24}") {
        let file = read(format!("A='{value}'").as_bytes(), &|_| None);
        prop_assert!(file.problems.is_empty(), "{:?}", file.problems);
        prop_assert_eq!(&file.variables["A"], &value);
    }

    #[test]
    fn every_problem_is_in_the_file(text in "([A-C=: #'\"$\\\\{}\n]|\u{e9}){0,40}") {
        let file = read(text.as_bytes(), &|_| None);
        for problem in file.problems {
            let line = text.split('\n').nth(problem.line - 1);
            let length = line.map(|line| line.chars().count());
            prop_assert!(length.is_some_and(|length| problem.column <= length + 1), "{text:?}: {problem:?}");
        }
    }
}
