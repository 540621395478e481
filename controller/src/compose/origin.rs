//! Places and texts of a translation in its Compose file.

use std::cell::RefCell;
use std::collections::BTreeMap;

use argus_core::secrets::{REDACTED, is_secret};
use argus_crds::compose::compose_key;
use argus_crds::diagnostic::Location;
use argus_crds::yaml::{Original, SourceMap};
use serde_json::json;

use super::variables::{Braced, Variables, is_name_char};
use super::{Document, Place, parts};

/// The Compose file of a translation.
pub(super) struct Origin<'a> {
    document: &'a Document,
    variables: RefCell<Variables>,
}

/// Place of a path of the translation.
enum Found<'a> {
    /// Path in the Compose file; the service with its key, if it is in one.
    Here(String, Option<(&'a str, String)>),
    /// Service of another file, and the key under which the Compose file names it.
    Elsewhere(&'static str),
}

impl<'a> Origin<'a> {
    pub(super) fn new(document: &'a Document, project: &BTreeMap<String, String>) -> Self {
        let variables = Variables {
            project: project.clone(),
            ..Variables::default()
        };
        Self {
            document,
            variables: RefCell::new(variables),
        }
    }

    fn source(&self) -> Option<&'a SourceMap> {
        self.document.files.first().map(|file| &file.source)
    }

    fn find(&self, path: &str) -> Option<Found<'a>> {
        let Some(path) = path.strip_prefix("services.") else {
            let key = match path.split_once('.') {
                None if path == "network" => "networks.default".to_owned(),
                Some(("network", key)) => format!("networks.default.{key}"),
                Some(("project", "name")) => "name".to_owned(),
                Some(("volumes" | "networks", _)) => path.to_owned(),
                _ => String::new(),
            };
            return Some(Found::Here(key, None));
        };
        let services = self.document.value["services"].as_object()?;
        let named = services.keys().filter_map(|name| {
            let key = path.strip_prefix(name.as_str())?;
            (key.is_empty() || key.starts_with(['.', '['])).then(|| (name, key.trim_start_matches('.')))
        });
        let (name, key) = named.max_by_key(|(name, _)| name.len())?;
        let origins = self.document.origins.get(name);
        if origins.is_some_and(|files| !files.contains(&0)) {
            let has_includes = self.document.files[0].has_includes;
            return Some(Found::Elsewhere(if has_includes {
                "include"
            } else {
                "services"
            }));
        }
        let limits = format!("deploy.resources.limits.{key}");
        let full = |key: &str| format!("services.{name}.{key}").trim_end_matches('.').to_owned();
        let is_limit = self.source()?.scalar(&full(&limits)).is_some();
        let key = if is_limit { limits } else { compose_key(key) };
        Some(Found::Here(full(&key), Some((name, key))))
    }

    /// Returns true if a text of the Compose file means a text of the translation.
    fn is_same(&self, written: &str, text: &str) -> bool {
        let mut variables = self.variables.borrow_mut();
        let plain = variables.replace(written);
        let value = json!(plain);
        plain == text
            || variables.replace_in_path(written) == text
            || parts::translate_port(&value).is_some_and(|port| port == text)
            || [parts::translate_size(&value), parts::translate_duration(&value)]
                .iter()
                .flatten()
                .any(|found| parts::scalar_to_text(found).is_some_and(|found| found == text))
    }
}

impl Original for Origin<'_> {
    /// A service of another file has the location of `include`.
    fn locate(&self, path: &str) -> Option<Location> {
        match self.find(path)? {
            Found::Here(path, _) => self.source()?.locate(&path),
            Found::Elsewhere(key) => self.source()?.locate(key),
        }
    }

    fn written(&self, path: &str, text: &str) -> Option<String> {
        let Found::Here(path, service) = self.find(path)? else {
            return None;
        };
        // Another file can decide the value.
        let (name, key) = service?;
        let is_here = self.document.place(name, &key)?.file.is_none();
        let written = self.source()?.scalar(&path).filter(|_| is_here)?;
        (written != text && self.is_same(written, text)).then(|| without_secrets(written))
    }
}

/// Redacts the defaults and alternatives of variables with a secret name.
fn without_secrets(text: &str) -> String {
    let braces = Braced::new(text);
    let (mut shown, mut at) = (String::new(), 0);
    while let Some(open) = text[at..].find("${").map(|index| at + index + 1) {
        let inner = &text[open + 1..];
        let end = inner.find(|c: char| !is_name_char(c)).unwrap_or(inner.len());
        let (name, rest) = inner.split_at(end);
        let value = rest.strip_prefix(':').unwrap_or(rest).strip_prefix(['-', '+']);
        let start = value
            .filter(|_| is_secret(name))
            .map(|value| text.len() - value.len());
        let end = braces.end_of(open).unwrap_or(text.len());
        at = if let Some(start) = start.filter(|start| *start < end) {
            shown.push_str(&text[at..start]);
            shown.push_str(REDACTED);
            end
        } else {
            // The default of another variable can contain one with a secret name.
            shown.push_str(&text[at..=open]);
            open + 1
        };
    }
    shown + &text[at..]
}

impl Document {
    /// Returns the place of the value that names a variable, before others the one that requires it.
    pub(super) fn place_of_variable(&self, name: &str) -> Option<Place> {
        let required = |text: &str| {
            let mut rests = text.split("${").filter_map(|rest| rest.strip_prefix(name));
            rests.any(|rest| rest.starts_with(":?") || rest.starts_with('?'))
        };
        let named = |text: &str| text.split(|c| !is_name_char(c)).any(|word| word == name);
        let find = |is_meant: &dyn Fn(&str) -> bool| {
            self.files.iter().enumerate().find_map(|(index, file)| {
                let scalars = file.source.scalars().into_iter();
                let line = scalars
                    .filter(|scalar| is_meant(scalar.text))
                    .map(|it| it.line)
                    .next()?;
                let (column, length) = (1, 1);
                Some(Place {
                    file: (index > 0).then(|| file.path.clone()),
                    location: Location { line, column, length },
                })
            })
        };
        find(&required).or_else(|| find(&named))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use argus_crds::yaml::ParsedSpec;
    use argus_reconciler::specs::parsed_file::ComposeSource;

    use super::without_secrets;
    use crate::compose::translate;

    fn translated(text: &str, over: &str) -> ParsedSpec {
        let read = |path: &Path| match path.to_str() {
            Some("/shop/compose.override.yaml") => Ok(over.as_bytes().to_vec()),
            _ => Err("no such file".to_owned()),
        };
        let source = ComposeSource {
            name: "compose.yaml",
            file: Path::new("/shop/compose.yaml"),
            bytes: text.as_bytes(),
            read: &read,
            variables: &[("PORT".to_owned(), "80".to_owned())].into(),
        };
        translate(&source).unwrap().contents
    }

    #[test]
    fn values_have_the_text_of_the_file() {
        let text = "services:
  web:
    image: a:${TAG:-1}
    mem_limit: 64m
    user: ${U:-root}
    ports: [\"${PORT:-8080}:80\", \"81:81\"]
    volumes: [\"${D:-./d}:/d\"]
";
        let found = translated(text, "services: { web: { user: \"1\", ports: [\"82:82\"] } }").source;
        for (path, expected) in [
            ("image", Some("a:${TAG:-1}")),
            ("memory", Some("64m")),
            ("user", None),
            ("container.ports[1]", None),
            ("container.volumes[0]", Some("${D:-./d}:/d")),
        ] {
            assert_eq!(found.written(&format!("services.web.{path}")), expected, "{path}");
        }
        let found = translated(text, "{}").source;
        let port = found.written("services.web.container.ports[0]");
        assert_eq!(port, Some("${PORT:-8080}:80"));
        assert_eq!(
            found.scalar("services.web.container.ports[0]"),
            Some("{{env.PORT}}:80")
        );
    }

    #[test]
    fn default_of_a_secret_variable_is_redacted() {
        for (text, expected) in [
            ("a:${TAG:-1}", "a:${TAG:-1}"),
            ("-p ${TOKEN:-hunter2} é", "-p ${TOKEN:-[redacted]} é"),
            ("${TOKEN-x}$TOKEN", "${TOKEN-[redacted]}$TOKEN"),
            ("${TOKEN:+x}${TOKEN+y}", "${TOKEN:+[redacted]}${TOKEN+[redacted]}"),
            ("${TOKEN:?set it}${TOKEN:-}", "${TOKEN:?set it}${TOKEN:-}"),
            ("${A:-${TOKEN:-x}}b", "${A:-${TOKEN:-[redacted]}}b"),
            ("${TOKEN:-${B:-x}y}b", "${TOKEN:-[redacted]}b"),
            ("${TOKEN:-open", "${TOKEN:-[redacted]"),
        ] {
            assert_eq!(without_secrets(text), expected, "{text}");
        }
        let text = "services:\n  web:\n    image: a\n    command: run --pw=${DB_PASSWORD:-hunter2}\n";
        let written = translated(text, "{}").source;
        let written = written.written("services.web.command");
        assert_eq!(written, Some("run --pw=${DB_PASSWORD:-[redacted]}"));
    }

    #[test]
    fn key_of_an_anchor_is_noted_once_with_all_services() {
        let text = "x-a: &a\n  image: x\n  logging: { driver: local }\nservices:\n  web: *a\n  db: { <<: *a }\n  c: { image: x, logging: {} }\n";
        let notes = translated(text, "{}").diagnostics.into_iter();
        let notes: Vec<String> = notes.map(|note| note.message).collect();
        let expected = ["left out of `web`, `db`: `logging`", "left out of `c`: `logging`"];
        assert_eq!(notes, expected);
    }

    #[test]
    fn missing_variable_has_the_line_that_requires_it() {
        let text = "# MUST\nx-a: &a\n  B: $MUST\n  A: ${MUST:?set it}\nservices:\n  web: { image: x, environment: *a }\n";
        let errors: Vec<_> = translated(text, "{}").diagnostics;
        let first = errors.first().and_then(|error| error.location);
        assert_eq!(first.map(|at| at.line), Some(4), "{errors:?}");
        let text = "services:\n  web:\n    image: x\n    volumes: [\"$HOME/x:/x\"]\n";
        let errors: Vec<_> = translated(text, "{}").diagnostics;
        let first = errors.first().and_then(|error| error.location);
        assert_eq!(first.map(|at| at.line), Some(4), "{errors:?}");
    }
}
