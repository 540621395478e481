//! Values of changes in the notation of a Compose file. Remedies compute them from its translation, whose variables are templates or
//! have their values.

use argus_crds::SpecEdit;

use super::KeyLines;

impl KeyLines {
    /// Returns a change with its values as the file writes them.
    pub(crate) fn as_written(&self, edit: SpecEdit) -> SpecEdit {
        if !self.is_compose {
            return edit;
        }
        let known = self.written(&edit);
        let suggest = edit.suggest.map(|value| {
            let variable = known.filter(|(_, written)| written.contains('$'));
            let changed = variable.and_then(|(now, written)| change_in(written, now, &value));
            changed.unwrap_or_else(|| with_variables(&value))
        });
        let now = match known {
            Some((_, written)) => Some(written.to_owned()),
            None => edit.now.as_deref().map(with_variables),
        };
        SpecEdit { now, suggest, ..edit }
    }

    /// The whole value that a change names, in the translation and in the file.
    fn written(&self, edit: &SpecEdit) -> Option<(&str, &str)> {
        let now = edit.now.as_deref()?;
        let services = self.services.iter();
        let services = services.filter(|(_, service)| edit.key.starts_with(&service.path));
        let keys = services.flat_map(|(name, service)| service.keys.iter().map(move |key| (name, key)));
        let mut found = keys.filter_map(|(name, (key, found))| {
            let pair = (found.now.as_deref()?, found.written.as_deref()?);
            (pair.0 == now && self.service_key(name, key) == edit.key).then_some(pair)
        });
        found.next()
    }
}

/// Makes the change from `now` to `meant` in the text of which `now` is the translation. `None` if it changes the translation of a variable.
fn change_in(written: &str, now: &str, meant: &str) -> Option<String> {
    let pairs = || now.chars().zip(meant.chars());
    let start: usize = pairs()
        .take_while(|(a, b)| a == b)
        .map(|(c, _)| c.len_utf8())
        .sum();
    if let Some(before) = written.strip_suffix(&now[start..])
        && !is_in_variable(before)
    {
        return Some(format!("{before}{}", &meant[start..]));
    }
    let pairs = now.chars().rev().zip(meant.chars().rev());
    let end: usize = pairs.take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum();
    let after = written.strip_prefix(&now[..now.len() - end])?;
    Some(format!("{}{after}", &meant[..meant.len() - end]))
}

/// Returns true if a text ends in a variable without braces, or in one with open braces.
fn is_in_variable(text: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.trim_end_matches(is_name).ends_with('$') || text.matches("${").count() > text.matches('}').count()
}

/// Writes templates of variables as a Compose file does.
fn with_variables(text: &str) -> String {
    let mut parts = text.split("{{env.");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| match part.split_once("}}") {
        Some((name, rest)) => format!("{all}${{{name}}}{rest}"),
        None => format!("{all}{{{{env.{part}"),
    })
}

#[cfg(test)]
mod tests {
    use argus_crds::yaml::{Original, read_translated};
    use argus_crds::{Location, SpecEdit};

    use super::*;

    struct Shop;

    impl Original for Shop {
        fn locate(&self, _path: &str) -> Option<Location> {
            let (line, column, length) = (7, 1, 1);
            Some(Location { line, column, length })
        }

        fn written(&self, path: &str, _text: &str) -> Option<String> {
            let written = match path {
                "services.web.container.ports[0]" => "${WEB_PORT:-8080}:80",
                "services.web.container.volumes[0]" => "${DATA:-./data}:/data",
                "services.web.image" => "$IMAGE",
                "services.web.memory" => "64m",
                _ => return None,
            };
            Some(written.to_owned())
        }
    }

    #[test]
    fn values_are_those_of_the_compose_file() {
        let text = "project: { name: p }\nservices:\n  web:\n    image: a:1\n    memory: 64MiB\n    container:\n      name: w\n      \
                    ports: [\"{{env.WEB_PORT}}:80\"]\n      volumes: [\"./data:/data\"]\n";
        let read = read_translated("compose.yaml", text, &Shop);
        let lines = KeyLines::from_spec(&read.spec.unwrap(), &read.source);
        for (key, suggest, now, expected) in [
            (
                "container.ports[0]",
                "{{env.WEB_PORT}}:8080",
                "${WEB_PORT:-8080}:80",
                "${WEB_PORT:-8080}:8080",
            ),
            (
                "container.volumes[0]",
                "./data:/var/data",
                "${DATA:-./data}:/data",
                "${DATA:-./data}:/var/data",
            ),
            (
                "container.volumes[0]",
                "./date:/data",
                "${DATA:-./data}:/data",
                "./date:/data",
            ),
            ("image", "a:2", "$IMAGE", "a:2"),
            ("memory", "128MiB", "64m", "128MiB"),
        ] {
            let edit = lines
                .edit_service("compose.yaml", "web", key, "")
                .suggest(suggest);
            let edit = lines.as_written(edit);
            assert_eq!(
                (edit.now.as_deref(), edit.suggest.as_deref()),
                (Some(now), Some(expected)),
                "{key}"
            );
        }
        let part = SpecEdit::new("compose.yaml", "services.web.environment.A", "");
        let part = lines.as_written(part.now("{{env.A}}:1").suggest("{{env.A}}:2 {{env."));
        assert_eq!(part.now.as_deref(), Some("${A}:1"));
        assert_eq!(part.suggest.as_deref(), Some("${A}:2 {{env."));
    }
}
