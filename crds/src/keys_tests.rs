//! Explanations of keys.

use super::*;
use crate::yaml;

#[test]
fn key_has_its_inner_keys_with_types_and_defaults() {
    let page = explain("services.*.container.healthcheck").unwrap();
    assert_eq!(page.note, None);
    let of = |name: &str| page.keys.iter().find(|key| key.name == name).unwrap();
    assert_eq!(of("timeout").default, Some(json!("5s")));
    assert_eq!(of("timeout").kind, "a time, such as `10s`");
    assert_eq!(of("retries").kind, "a number from 1 to 1000");
    assert!(of("type").kind.contains("`exec`"), "{}", of("type").kind);
    assert_eq!(of("type").default, Some(json!("http")));
    assert!(
        page.example.contains("timeout: 5s") && page.example.contains("path: "),
        "{}",
        page.example
    );
    assert_eq!(explain("services.shop.container.healthcheck").unwrap(), page);
    assert_eq!(explain("services[3].container.healthcheck").unwrap(), page);
    let policy = explain("argus.policy").unwrap();
    assert!(
        policy
            .keys
            .iter()
            .any(|key| key.name == "pidsLimit" && key.default == Some(json!(512)))
    );
}

#[test]
fn misplaced_key_is_explained_at_its_place() {
    for (path, place) in [
        ("services.*.healthcheck", "services.*.container.healthcheck"),
        ("services.web.pidsLimit", "argus.policy.pidsLimit"),
        ("pidsLimit", "argus.policy.pidsLimit"),
        ("services.web.container.memory", "services.*.memory"),
    ] {
        let page = explain(path).unwrap();
        assert_eq!(page.key, place, "{path}");
        assert!(
            page.note.as_deref().unwrap().contains(&format!("`{place}`")),
            "{path}: {:?}",
            page.note
        );
    }
}

#[test]
fn unknown_key_has_a_hint() {
    for (path, message, hint) in [
        (
            "services.web.comand",
            "`comand` is not a key of `services.*`",
            "did you mean `services.*.command`?",
        ),
        (
            "servces",
            "`servces` is not a key of a spec file",
            "did you mean `services`?",
        ),
        (
            "argus.policy.zzz",
            "`zzz` is not a key of `argus.policy`",
            "use one of `",
        ),
        (
            "services.web.memory.zzz",
            "`zzz` is not a key of `services.*.memory`",
            "explain `services.*.memory` itself",
        ),
    ] {
        let error = explain(path).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert!(error.hint.starts_with(hint), "{path}: {}", error.hint);
    }
}

/// All paths of keys, without those inside of themselves.
fn all_paths() -> Vec<String> {
    let mut paths = vec!["services".to_owned(), "mocks".to_owned()];
    let mut open = vec![(String::new(), key_schema::root())];
    while let Some((path, schema)) = open.pop() {
        if path.split('.').count() > 6 {
            continue;
        }
        for (name, schema) in key_schema::keys(schema).into_iter().flatten() {
            let path = join(&path, name);
            paths.push(path.clone());
            open.push((path, schema));
        }
        if let Some(each) = key_schema::items(schema) {
            open.push((join(&path, ANY), each));
        }
    }
    paths
}

#[test]
fn every_example_is_yaml_that_the_schema_permits() {
    let paths = all_paths();
    assert!(paths.len() > 100, "{}", paths.len());
    for path in paths {
        let page = explain(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!((page.key.as_str(), page.note.as_deref()), (path.as_str(), None));
        assert!(
            !page.kind.is_empty() && !page.description.is_empty(),
            "{path}: {page:?}"
        );
        let read = yaml::read("e2e.yaml", page.example.as_bytes());
        for diagnostic in read.diagnostics {
            let message = diagnostic.message.clone();
            // A part of a file has not all required keys of its parents, and some keys have no effect.
            let is_incomplete = ["is missing", " has no `", " needs `", "has no effect"];
            let is_incomplete = is_incomplete.iter().any(|part| message.contains(part));
            assert!(is_incomplete, "{path}: {message}\n{}", page.example);
        }
    }
}
