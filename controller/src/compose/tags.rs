//! The tags `!reset` and `!override` of a file that is merged into another one, or whose services extend others. The merge starts from
//! the other file without the values at their keys. `!reset` also removes the value of its own file.

use argus_crds::yaml::Tag;
use serde_json::Value;

const RESET: &str = "!reset";
const OVERRIDE: &str = "!override";

/// Keys from the top of a file.
pub(super) type Keys = Vec<String>;

/// Removes the values with `!reset`. Returns the keys that the merge removes from the other file.
pub(super) fn apply(tags: &[Tag], value: &mut Value) -> Vec<Keys> {
    let tags = tags.iter().filter(|tag| problem(tag).is_none());
    let cleared = tags.filter_map(|tag| {
        let keys = tag.keys.as_ref()?;
        if tag.name == RESET {
            remove(value, keys);
        }
        Some(keys.clone())
    });
    cleared.collect()
}

/// Returns the reason why Argus rejects a file with this tag.
pub(super) fn problem(tag: &Tag) -> Option<String> {
    let name = &tag.name;
    if ![RESET, OVERRIDE].contains(&name.as_str()) {
        return Some(format!(
            "the tag `{name}` is not a tag of Compose files, which have `{RESET}` and `{OVERRIDE}`"
        ));
    }
    let is_of_key = tag.keys.as_ref().is_some_and(|keys| !keys.is_empty());
    (!is_of_key)
        .then(|| format!("the tag `{name}` is not after a key, such as `ports: {name} []`, or the keys of all tags are too long"))
}

/// Removes the values at keys that another file clears.
pub(super) fn clear(base: &mut Value, cleared: &[Keys]) {
    for keys in cleared {
        remove(base, keys);
    }
}

/// Removes the values at keys that a service clears in the one that it extends.
pub(super) fn clear_service(base: &mut Value, name: &str, cleared: &[Keys]) {
    for keys in cleared {
        if let [section, service, rest @ ..] = keys.as_slice()
            && section == "services"
            && service == name
        {
            remove(base, rest);
        }
    }
}

fn remove(value: &mut Value, keys: &[String]) {
    let Some((last, parents)) = keys.split_last() else {
        return;
    };
    let mut parents = parents.iter();
    let found = parents.try_fold(value, |value, key| value.get_mut(key));
    if let Some(fields) = found.and_then(Value::as_object_mut) {
        fields.shift_remove(last);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use argus_reconciler::specs::parsed_file::{ComposeSource, Translation};

    use crate::compose::translate;

    const BASE: &str = "services:
  a:
    image: x
    ports: [\"8000:8000\"]
    environment: [A=1, B=2]
    depends_on: [b]
    healthcheck: { test: check, retries: 3 }
  b: { image: y }
  c: { image: z }
";

    fn translated(text: &str, files: &[(&str, &str)]) -> Translation {
        let read = |path: &Path| {
            let named = files
                .iter()
                .find(|(name, _)| path == Path::new("/shop").join(name));
            let (_, text) = named.ok_or_else(|| "no such file".to_owned())?;
            Ok(text.as_bytes().to_vec())
        };
        let source = ComposeSource {
            name: "compose.yaml",
            file: Path::new("/shop/compose.yaml"),
            bytes: text.as_bytes(),
            read: &read,
            variables: &BTreeMap::new(),
        };
        translate(&source).unwrap()
    }

    fn text_of(text: &str, files: &[(&str, &str)]) -> String {
        let found = translated(text, files);
        assert!(found.contents.spec.is_some(), "{:?}", found.contents.diagnostics);
        found.text
    }

    fn override_of(over: &str) -> String {
        text_of(BASE, &[("compose.override.yaml", over)])
    }

    #[test]
    fn override_replaces_the_value_of_the_other_file() {
        let found = override_of(
            "services: { a: { ports: !override [\"18000:8000\"], environment: !override { C: 3 }, healthcheck: !override { test: new } } }",
        );
        for (part, count) in [("8000:8000", 1), ("A:", 0), ("C:", 1), ("retries", 0), ("new", 1)] {
            assert_eq!(found.matches(part).count(), count, "{part}: {found}");
        }
        let found = override_of("x-c: &c\n  image: !override w\nservices: !override\n  d: { <<: *c }\n");
        assert_eq!(found.matches("image:").count(), 1, "{found}");
    }

    #[test]
    fn reset_removes_the_value_of_both_files() {
        let found = override_of(
            "services: { a: { ports: !reset [\"1:1\"], environment: { A: !reset null, C: 3 }, depends_on: !reset [], healthcheck: !reset null }, c: !reset null }",
        );
        for (part, count) in [
            ("ports", 0),
            ("A:", 0),
            ("B:", 1),
            ("C:", 1),
            ("dependsOn", 0),
            ("healthcheck", 0),
            ("image:", 2),
        ] {
            assert_eq!(found.matches(part).count(), count, "{part}: {found}");
        }
    }

    #[test]
    fn tags_count_in_extends_and_in_included_files() {
        let own = "services: { d: { extends: { file: base.yaml, service: a }, ports: !override [\"1:1\"], depends_on: !reset [] } }";
        let found = text_of(own, &[("base.yaml", BASE)]);
        assert!(found.contains("1:1") && !found.contains("8000") && !found.contains("dependsOn"));
        let over = "services: { a: { ports: !reset [] }, b: { image: !override w } }";
        let files = [("base.yaml", BASE), ("over.yaml", over)];
        let found = text_of("include: [{ path: [base.yaml, over.yaml] }]", &files);
        assert!(!found.contains("ports") && found.contains("image: w"), "{found}");
    }

    #[test]
    fn other_tags_reject_the_file_with_their_line() {
        for (text, expected) in [
            (
                "services:\n  a:\n    image: !env x",
                "3: the tag `!env` is not a tag of Compose files, which have `!reset` and `!override`",
            ),
            (
                "services:\n  a:\n    image: x\n    ports:\n      - !reset \"1:1\"",
                "5: the tag `!reset` is not after a key, such as `ports: !reset []`, or the keys of all tags are too long",
            ),
        ] {
            let diagnostics = translated(text, &[]).contents.diagnostics.into_iter();
            let errors = diagnostics.filter(argus_crds::Diagnostic::is_error);
            let errors: Vec<String> = errors
                .map(|it| format!("{}: {}", it.location.map_or(0, |at| at.line), it.message))
                .collect();
            assert_eq!(errors, [expected]);
        }
    }
}
