//! Variables of a compose file: `${NAME:-default}` becomes its default, else `{{env.NAME}}`.

use std::collections::BTreeSet;

/// Replaces the variables in a text. Names of variables without a default are added to `read`, because the spec file reads
/// them from the `.env` next to it.
pub(super) fn replace_variables(text: &str, read: &mut BTreeSet<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let braced = rest
            .strip_prefix('{')
            .and_then(|inner| Some((inner, find_closing_brace(inner)?)));
        if let Some((inner, end)) = braced {
            out.push_str(&resolve_variable(&inner[..end], read));
            rest = &inner[end + 1..];
            continue;
        }
        let end = rest.find(|c: char| !is_name_char(c)).unwrap_or(rest.len());
        if end == 0 {
            out.push('$');
        } else {
            out.push_str(&resolve_variable(&rest[..end], read));
        }
        rest = &rest[end..];
    }
    out + rest
}

/// Position of the closing brace. Defaults may contain pairs of braces.
fn find_closing_brace(inner: &str) -> Option<usize> {
    let mut depth = 0_u32;
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn resolve_variable(inner: &str, read: &mut BTreeSet<String>) -> String {
    let end = inner.find(|c: char| !is_name_char(c)).unwrap_or(inner.len());
    let (name, rest) = inner.split_at(end);
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    if let Some(default) = rest.strip_prefix('-') {
        return replace_variables(default, read);
    }
    read.insert(name.to_owned());
    format!("{{{{env.{name}}}}}")
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_becomes_its_default_or_an_env_reference() {
        for (text, expected) in [
            ("plain", "plain"),
            ("a$$b $", "a$b $"),
            ("postgres:${TAG:-16}", "postgres:16"),
            ("${A-x}${B:-${C:-y}}", "xy"),
            (
                "${KEY}/$KEY2-${MUST:?why}",
                "{{env.KEY}}/{{env.KEY2}}-{{env.MUST}}",
            ),
            ("${open", "${open"),
        ] {
            assert_eq!(replace_variables(text, &mut BTreeSet::new()), expected, "{text}");
        }
        let mut read = BTreeSet::new();
        replace_variables("${B} $A ${C:-1}", &mut read);
        assert_eq!(read, BTreeSet::from(["A".to_owned(), "B".to_owned()]));
    }
}
