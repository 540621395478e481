//! Tables of paths, patterns and their meaning.

use std::fmt::Write;

use proptest::prelude::*;

use super::*;

fn params(pattern: &str, path: &str) -> Option<Vec<(String, String)>> {
    Pattern::new(pattern).matches(&segments(path))
}

#[test]
fn patterns_match_paths() {
    type Case = (
        &'static str,
        &'static str,
        Option<&'static [(&'static str, &'static str)]>,
    );
    let cases: &[Case] = &[
        ("/", "/", Some(&[])),
        ("/users", "/users", Some(&[])),
        ("/users", "/users/", Some(&[])),
        ("/users/", "/users", Some(&[])),
        ("users", "/users", Some(&[])),
        ("/users", "/Users", None),
        ("/users", "/users/1", None),
        ("/users/:id", "/users/1", Some(&[("id", "1")])),
        ("/users/{id}", "/users/1", Some(&[("id", "1")])),
        ("/users/:id", "/users/", None),
        ("/users/:id", "/users/a%20b", Some(&[("id", "a b")])),
        ("/a%20b", "/a b", Some(&[])),
        (
            "/users/:id/posts/:post",
            "/users/1/posts/2",
            Some(&[("id", "1"), ("post", "2")]),
        ),
        ("/files/{name}.json", "/files/a.b.json", Some(&[("name", "a.b")])),
        ("/files/:name.json", "/files/a.json", Some(&[("name", "a")])),
        ("/files/{name}.json", "/files/.json", None),
        (
            "/compare/{base}...{head}",
            "/compare/main...dev",
            Some(&[("base", "main"), ("head", "dev")]),
        ),
        ("/things/x:cancel", "/things/x:cancel", Some(&[])),
        ("/a/*/c", "/a/b/c", Some(&[])),
        ("/a/*/c", "/a/b/d/c", None),
        ("/a/*", "/a", Some(&[("0", "")])),
        ("/a/*", "/a/b/c", Some(&[("0", "b/c")])),
        ("/a/*rest", "/a/b/c", Some(&[("rest", "b/c")])),
        ("*", "/anything/at/all", Some(&[("0", "anything/at/all")])),
        ("/users/:id(\\d+)", "/users/7", Some(&[("id", "7")])),
        ("/users?active=1", "/users", Some(&[])),
    ];
    for (pattern, path, wanted) in cases {
        let wanted = wanted.map(|pairs| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            pairs.iter().map(owned).collect::<Vec<_>>()
        });
        assert_eq!(params(pattern, path), wanted, "{pattern} on {path}");
    }
}

#[test]
fn unusual_paths_have_one_meaning() {
    let cases = [
        ("/a%2Fb", &["a/b"][..]),
        ("/a/./b", &["a", "b"]),
        ("/a/../b", &["b"]),
        ("/../../b", &["b"]),
        ("/a/%2e%2E/b", &["b"]),
        ("/a/..%2Fb", &["a", "../b"]),
        ("//a", &["", "a"]),
        ("/a//b", &["a", "", "b"]),
        ("/a/", &["a"]),
        ("/a//", &["a", ""]),
        ("/%zz%4", &["%zz%4"]),
        ("/%ff", &["\u{fffd}"]),
        ("/a%00b", &["a\0b"]),
        ("", &[]),
    ];
    for (path, wanted) in cases {
        assert_eq!(segments(path), wanted, "{path}");
    }
}

#[test]
fn more_specific_pattern_has_the_lower_rank() {
    let ordered = [
        "/users/me/posts",
        "/users/me/{post}.json",
        "/users/me/:post",
        "/users/me/*x",
        "/users/{id}.json/posts",
        "/users/:id/posts",
        "/users/*/posts",
        "/users/*rest",
        "/:kind/me/posts",
        "*",
    ];
    let mut sorted = ordered.to_vec();
    sorted.reverse();
    sorted.sort_by_key(|pattern| Pattern::new(pattern).rank());
    assert_eq!(sorted, ordered);
}

#[test]
fn mismatch_names_the_first_difference() {
    let why = |pattern: &str, path: &str| Pattern::new(pattern).distance(&segments(path)).1;
    assert_eq!(why("/users/:id", "/user/1"), "segment 1 is `user`, not `users`");
    assert_eq!(why("/users/:id", "/users"), "the path has 1 segments, not 2");
    assert_eq!(why("/a/b/*", "/a"), "the path has 1 segments, not at least 2");
    assert_eq!(why("/users", "//users"), "segment 1 is ``, not `users`");
}

proptest! {
    #[test]
    fn pattern_built_from_a_path_matches_it(
        parts in prop::collection::vec(("[a-z]{1,6}", "[^/%.:*{}\u{0}]{1,8}", any::<bool>()), 0..6),
    ) {
        let mut pattern = String::new();
        let mut path = String::new();
        let mut wanted = Vec::new();
        for (index, (literal, value, is_param)) in parts.iter().enumerate() {
            if *is_param {
                write!(pattern, "/:p{index}").unwrap();
                write!(path, "/{value}").unwrap();
                wanted.push((format!("p{index}"), value.clone()));
            } else {
                write!(pattern, "/{literal}").unwrap();
                write!(path, "/{literal}").unwrap();
            }
        }
        prop_assert_eq!(Pattern::new(&pattern).matches(&segments(&path)), Some(wanted));
    }

    #[test]
    fn arbitrary_text_never_panics_or_leaves_the_root(pattern in ".{0,40}", path in ".{0,40}") {
        let found = segments(&path);
        prop_assert!(found.iter().all(|segment| segment != ".."));
        let pattern = Pattern::new(&pattern);
        let _ = (pattern.matches(&found), pattern.distance(&found), pattern.rank());
    }
}
