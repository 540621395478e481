//! Changes of a spec file and of its images since the last good revision.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use argus_crds::diff::{ImageChange, KeyChange};
use argus_crds::yaml::SourceMap;
use serde::{Deserialize, Serialize};

use crate::desired::key_lines::{SpecValues, spec_values};
use crate::desired::secret_values::is_harmless;
use crate::desired::{Desired, Image};
use crate::ident::{Revision, ServiceName};
use crate::secrets::{Secrets, is_secret, replaced};
use crate::time::Timestamp;

/// Images of a good revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GoodImages {
    /// Revision.
    pub revision: Revision,
    /// Time since which the revision is good with these images.
    pub since: Timestamp,
    /// Images by service.
    pub images: BTreeMap<ServiceName, GoodImage>,
}

/// Image of a service in a good revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GoodImage {
    /// Key of the image in the spec: its reference, with the digest of the build for a built image.
    pub key: String,
    /// Id of the image on the engine.
    pub id: String,
}

/// Returns the changed keys of a file, without secrets: neither those in `secrets` nor values under secret names.
pub fn key_changes(before: &SpecValues, source: &SourceMap, secrets: &Secrets) -> Vec<KeyChange> {
    let after = spec_values(source);
    value_changes(before, &after, secrets, |key| Some(source.locate(key)?.line))
}

/// Returns the changed values, like [`key_changes`]. `line` is the line of a key in the later file.
pub(crate) fn value_changes(
    before: &SpecValues,
    after: &SpecValues,
    secrets: &Secrets,
    line: impl Fn(&str) -> Option<usize>,
) -> Vec<KeyChange> {
    let mut secrets = secrets.clone();
    for values in [before, after] {
        for (key, value) in values {
            for part in secret_parts(values, key, value) {
                secrets.add(&value[part]);
            }
        }
    }
    let shown = |values: &SpecValues, key: &str| {
        let value = values.get(key)?;
        // A short secret is not in `secrets`.
        Some(secrets.redacted(&replaced(value, &secret_parts(values, key, value))))
    };
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
    changed
        .map(|key| KeyChange {
            key: secrets.redacted(key),
            line: after.get(key).and_then(|_| line(key)),
            before: shown(before, key),
            after: shown(after, key),
        })
        .collect()
}

/// Returns the parts of a value that are secret because of a name: that of its key, of the option in the list element
/// before it, or of a variable, an option or a header in the value.
fn secret_parts(values: &SpecValues, key: &str, value: &str) -> Vec<Range<usize>> {
    let name = key.rsplit('.').next().unwrap_or(key);
    let follows_option = || previous_element(values, key).is_some_and(is_secret_option);
    let is_hidden = |part: &str| !part.is_empty() && !is_harmless(part);
    if (is_secret(name) || follows_option()) && is_hidden(value) {
        return std::iter::once(0..value.len()).collect();
    }
    let mut parts = Vec::new();
    let (mut start, mut is_value) = (0, false);
    for word in value.split([' ', '\t', '\n', '"', '\'']) {
        if is_value && is_hidden(word) {
            parts.push(start..start + word.len());
        } else {
            let mut at = start;
            for pair in word.split(['&', ';']) {
                let end = at + pair.len();
                if let Some((name, part)) = pair.split_once('=')
                    && is_secret(name)
                    && is_hidden(part)
                {
                    parts.push(end - part.len()..end);
                } else if let Some((name, _)) = pair.split_once(':')
                    && is_secret(name)
                    && !name.contains('/')
                    && !pair.contains("://")
                {
                    // The value of a header is the rest: `Authorization: Bearer …`.
                    parts.push(at + name.len() + 1..value.len());
                    return parts;
                }
                at = end + 1;
            }
        }
        is_value = is_secret_option(word) || is_value && word.is_empty();
        start += word.len() + 1;
    }
    parts
}

/// Returns whether the next argument is a secret, as after `--password`.
fn is_secret_option(word: &str) -> bool {
    word.starts_with('-') && !word.contains('=') && is_secret(word)
}

/// Returns the list element before the one of this key.
fn previous_element<'a>(values: &'a SpecValues, key: &str) -> Option<&'a str> {
    let (list, index) = key.strip_suffix(']')?.rsplit_once('[')?;
    let previous = index.parse::<usize>().ok()?.checked_sub(1)?;
    values.get(&format!("{list}[{previous}]")).map(String::as_str)
}

/// Returns the changed images: other ids, and builds with other inputs. `running` are the image ids of the current containers.
pub fn image_changes(
    good: &GoodImages,
    desired: &Desired,
    running: &BTreeMap<String, String>,
    secrets: &Secrets,
) -> Vec<ImageChange> {
    let change = |(name, before): (&ServiceName, &GoodImage)| {
        let image = &desired.services.get(name)?.image;
        let after = running.get(name.as_str());
        let build_changed = matches!(image, Image::Built(_)) && image.key() != before.key;
        let is_changed = build_changed || after.is_some_and(|after| *after != before.id);
        is_changed.then(|| ImageChange {
            service: name.to_string(),
            image: secrets.redacted(image.reference()),
            before: before.id.clone(),
            after: after.cloned(),
            build_changed,
        })
    };
    good.images.iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::admit::{SpecContext, admit};

    const GOOD: &str = "version: \"1\"
project: { name: shop }
services:
  web:
    image: web:1
    command: [serve, --verbose]
    container:
      name: shop-web
      environment:
        MODE: fast
        DB_PASSWORD: hunter2
        DB_URL: postgres://shop:hunter2@db/shop
";

    fn changes(after: &str) -> Vec<(String, Option<usize>, String, String)> {
        let source = |text: &str| argus_crds::read("e2e.yaml", text.as_bytes()).source;
        let changes = key_changes(&spec_values(&source(GOOD)), &source(after), &Secrets::default());
        let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        changes
            .into_iter()
            .map(|change| (change.key, change.line, text(change.before), text(change.after)))
            .collect()
    }

    fn change(
        key: &str,
        line: Option<usize>,
        before: &str,
        after: &str,
    ) -> (String, Option<usize>, String, String) {
        (key.to_owned(), line, before.to_owned(), after.to_owned())
    }

    #[test]
    fn each_changed_key_has_its_values_and_its_line() {
        assert_eq!(changes(GOOD), []);
        let after = GOOD
            .replace("web:1", "web:2")
            .replace("        MODE: fast\n", "        LEVEL: debug\n")
            .replace(", --verbose", "");
        assert_eq!(
            changes(&after),
            [
                change("services.web.command[1]", None, "--verbose", "-"),
                change("services.web.container.environment.LEVEL", Some(10), "-", "debug"),
                change("services.web.container.environment.MODE", None, "fast", "-"),
                change("services.web.image", Some(5), "web:1", "web:2"),
            ]
        );
    }

    #[test]
    fn changed_secrets_are_redacted_in_all_values() {
        let after = GOOD
            .replace("hunter2", "correct-horse")
            .replace("--verbose", "--token=staple99")
            .replace("MODE: fast", "MODE: \"{{env.MODE}}\"");
        let found = changes(&after);
        let text = format!("{found:?}");
        for secret in ["hunter2", "correct-horse", "staple99"] {
            assert!(!text.contains(secret), "{text}");
        }
        assert_eq!(
            found,
            [
                change(
                    "services.web.command[1]",
                    Some(6),
                    "--verbose",
                    "--token=[redacted]"
                ),
                change(
                    "services.web.container.environment.DB_PASSWORD",
                    Some(11),
                    "[redacted]",
                    "[redacted]"
                ),
                change(
                    "services.web.container.environment.DB_URL",
                    Some(12),
                    "postgres://shop:[redacted]@db/shop",
                    "postgres://shop:[redacted]@db/shop"
                ),
                change(
                    "services.web.container.environment.MODE",
                    Some(10),
                    "fast",
                    "{{env.MODE}}"
                ),
            ]
        );
    }

    #[test]
    fn secrets_in_commands_and_headers_are_redacted() {
        let shown = |key: &str, previous: &str, value: &str| {
            let values: SpecValues = [("a[0]".to_owned(), previous.to_owned())].into();
            replaced(value, &secret_parts(&values, key, value))
        };
        for (value, expected) in [
            ("A=1 B_TOKEN=abc C=2", "A=1 B_TOKEN=[redacted] C=2"),
            (
                "serve --password abc --port 1",
                "serve --password [redacted] --port 1",
            ),
            ("serve --password  'a&c'", "serve --password  '[redacted]'"),
            ("X_SECRET=a Y_SECRET=b", "X_SECRET=[redacted] Y_SECRET=[redacted]"),
            (
                "curl -H 'Authorization: Bearer abc' u",
                "curl -H 'Authorization:[redacted]",
            ),
            (
                "http://a/login?token=abc&x=1",
                "http://a/login?token=[redacted]&x=1",
            ),
            ("--private true", "--private true"),
            ("https://token.example:80/a", "https://token.example:80/a"),
        ] {
            assert_eq!(shown("a", "", value), expected);
        }
        assert_eq!(shown("a[1]", "--api-key", "abc"), "[redacted]");
        assert_eq!(shown("a[1]", "--level", "abc"), "abc");
        let header = "mocks.m.routes[0].response.headers.Set-Cookie";
        assert_eq!(shown(header, "", "sid=1"), "[redacted]");
    }

    #[test]
    fn long_values_are_compared_by_their_hash() {
        let long = |letter: &str| format!("{GOOD}        TEXT: {}\n", letter.repeat(300));
        let source = |text: &str| argus_crds::read("e2e.yaml", text.as_bytes()).source;
        let before = spec_values(&source(&long("a")));
        let found = key_changes(&before, &source(&long("b")), &Secrets::default());
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0]
                .after
                .as_ref()
                .unwrap()
                .starts_with("(300 bytes, sha256 "),
            "{found:?}"
        );
        assert_eq!(key_changes(&before, &source(&long("a")), &Secrets::default()), []);
    }

    #[test]
    fn image_changes_with_its_id_or_its_build() {
        let spec = argus_crds::read("e2e.yaml", GOOD.as_bytes()).spec.unwrap();
        let desired = admit(&spec, &SpecContext::default()).desired.unwrap();
        let name = ServiceName::new("web").unwrap();
        let image = GoodImage {
            key: desired.services[&name].image.key(),
            id: "sha256:old".to_owned(),
        };
        let good = GoodImages {
            revision: desired.revision.clone(),
            since: Timestamp(1),
            images: [(name, image)].into(),
        };
        let found = |running: &[(&str, &str)]| {
            let running = running
                .iter()
                .map(|(name, id)| ((*name).to_owned(), (*id).to_owned()));
            image_changes(&good, &desired, &running.collect(), &Secrets::default())
        };
        assert_eq!(found(&[]), [], "without a container, nothing is known");
        assert_eq!(found(&[("web", "sha256:old")]), []);
        let changed = found(&[("web", "sha256:new")]);
        assert_eq!(changed[0].after.as_deref(), Some("sha256:new"));
        assert_eq!(
            (changed[0].image.as_str(), changed[0].build_changed),
            ("web:1", false)
        );
    }
}
