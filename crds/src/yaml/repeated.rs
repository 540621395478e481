//! Diagnostics of a block that an alias uses in several places.

use std::collections::BTreeMap;

use crate::diagnostic::{Diagnostic, Location, RelatedPlace};

use super::SourceMap;

/// Merges equal diagnostics of one place into one that lists the keys that use the place.
pub(super) fn merge(diagnostics: Vec<Diagnostic>, source: &SourceMap) -> Vec<Diagnostic> {
    let mut merged: Vec<Diagnostic> = Vec::new();
    let mut known: BTreeMap<(Location, String), usize> = BTreeMap::new();
    let mut paths: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for diagnostic in diagnostics {
        let Some(location) = diagnostic.location else {
            merged.push(diagnostic);
            continue;
        };
        let at = *known
            .entry((location, diagnostic.message.clone()))
            .or_insert(merged.len());
        let all = paths.entry(at).or_default();
        if at == merged.len() {
            all.push(diagnostic.path.clone());
            merged.push(diagnostic);
        } else if !all.contains(&diagnostic.path) {
            all.push(diagnostic.path);
        }
    }
    for (at, paths) in paths.into_iter().filter(|(_, paths)| paths.len() > 1) {
        // Without a key in the file, the location is that of a parent, and no alias.
        let uses = find_uses(&paths, source).into_iter();
        let correction = merged[at].correction.get_or_insert_default();
        correction
            .related
            .extend(uses.filter(|place| !place.path.is_empty()));
    }
    merged
}

/// Nearest keys above these paths that are in different places.
fn find_uses(paths: &[String], source: &SourceMap) -> Vec<RelatedPlace> {
    let mut keys: Vec<&str> = paths.iter().map(String::as_str).collect();
    loop {
        let places: Vec<_> = keys.iter().map(|key| source.locate_key(key)).collect();
        let is_shared = places
            .iter()
            .enumerate()
            .any(|(at, place)| places[..at].contains(place));
        if !is_shared || keys.iter().any(|key| key.is_empty()) {
            let use_of = |(key, place): (&str, Option<Location>)| RelatedPlace {
                path: key.to_owned(),
                message: format!("`{key}` uses this block"),
                line: place.map(|place| place.line),
            };
            return keys.into_iter().zip(places).map(use_of).collect();
        }
        keys = keys.into_iter().map(parent).collect();
    }
}

fn parent(path: &str) -> &str {
    path.rfind(['.', '[']).map_or("", |at| &path[..at])
}

#[cfg(test)]
mod tests {
    use crate::diagnostic::Diagnostic;
    use crate::yaml::read;

    const FILE: &str = r"project: { name: shop }
x-check: &check { path: /, retries: 0 }
services:
  one: { image: a, container: { name: one, healthcheck: *check } }
  two: { image: a, container: { name: two, healthcheck: { <<: *check, port: 80 } } }
  three: { image: a, container: { name: three, healthcheck: { path: /, retries: 0 } } }
";

    const MERGED: &str = r"project: { name: shop }
x-base: &base { image: a, criticality: huge }
services:
  one: { <<: *base, container: { name: one } }
  two: { <<: *base, container: { name: two } }
  three: { <<: [*base], container: { name: three } }
";

    const NESTED: &str = r"project: { name: shop }
x-box: &box { name: box, healthcheck: { path: /, timeout: 5x } }
services:
  one: { image: a, container: *box }
  two: { image: b, container: *box }
";

    fn uses(diagnostic: &Diagnostic) -> Vec<(String, Option<usize>)> {
        let related = diagnostic.correction.iter().flat_map(|it| &it.related);
        related.map(|place| (place.path.clone(), place.line)).collect()
    }

    #[test]
    fn mistake_in_an_anchor_is_one_error_with_its_uses() {
        let parsed = read("e2e.yaml", FILE.as_bytes());
        let errors: Vec<_> = parsed.diagnostics.iter().filter(|it| it.is_error()).collect();
        let [anchor, plain] = errors.as_slice() else {
            panic!("{errors:#?}");
        };
        assert_eq!(anchor.location.map(|at| at.line), Some(2));
        let all = uses(anchor);
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all[0].0.ends_with("container.healthcheck"), "{all:?}");
        assert_eq!((all[0].1, all[1].1), (Some(4), Some(5)));
        assert_eq!(
            (plain.location.map(|at| at.line), uses(plain)),
            (Some(6), Vec::new())
        );
    }

    #[test]
    fn merged_and_nested_blocks_have_their_uses() {
        for (file, key, expected) in [
            (
                MERGED,
                "criticality",
                &[("services.one", 4), ("services.two", 5), ("services.three", 6)][..],
            ),
            (
                NESTED,
                "timeout",
                &[("services.one.container", 4), ("services.two.container", 5)],
            ),
        ] {
            let diagnostics = read("e2e.yaml", file.as_bytes()).diagnostics;
            let of_key = |it: &&Diagnostic| it.is_error() && it.path.ends_with(key);
            let errors: Vec<_> = diagnostics.iter().filter(of_key).collect();
            let [only] = errors.as_slice() else {
                panic!("{diagnostics:#?}");
            };
            assert_eq!(only.location.map(|at| at.line), Some(2));
            let expected = expected
                .iter()
                .map(|(path, line)| ((*path).to_owned(), Some(*line)));
            assert_eq!(uses(only), expected.collect::<Vec<_>>());
        }
    }
}
