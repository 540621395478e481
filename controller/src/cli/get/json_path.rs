//! Templates of `-o jsonpath=`: the part of kubectl's that selects fields.
//!
//! A template is text with expressions in braces: a path such as `{.services[0].name}` or `{.services[*].name}`, a quoted
//! text such as `{"\n"}`, and `{range .services[*]}` up to `{end}`, in which paths begin at the item.

use serde_json::Value;

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Path(Vec<Step>),
    Range(Vec<Step>, Vec<Part>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    /// Index from the start, or from the end if it is negative.
    Item(i64),
    All,
}

impl Template {
    /// Parses a template. The error says which part is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        // As in kubectl, a path needs no braces.
        if !text.contains('{') {
            return Ok(Self(vec![Part::Path(parse_path(text)?)]));
        }
        let mut open: Vec<(Vec<Step>, Vec<Part>)> = Vec::new();
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            if at > 0 {
                parts.push(Part::Text(rest[..at].to_owned()));
            }
            let (inner, after) = split_expression(&rest[at + 1..])?;
            rest = after;
            let inner = inner.trim();
            if let Some(path) = inner.strip_prefix("range ") {
                open.push((parse_path(path.trim())?, std::mem::take(&mut parts)));
            } else if inner == "end" {
                let (path, outer) = open.pop().ok_or("`{end}` has no `{range}`")?;
                let body = std::mem::replace(&mut parts, outer);
                parts.push(Part::Range(path, body));
            } else if inner.starts_with(['"', '\'']) {
                parts.push(Part::Text(parse_quoted(inner)?));
            } else {
                parts.push(Part::Path(parse_path(inner)?));
            }
        }
        if !open.is_empty() {
            return Err("`{range}` has no `{end}`".to_owned());
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }

    /// Text of a value. Several results of a path are separated by spaces; missing fields give no text.
    pub(crate) fn format(&self, value: &Value) -> String {
        let mut text = String::new();
        write(&self.0, value, &mut text);
        text
    }
}

fn write(parts: &[Part], value: &Value, text: &mut String) {
    for part in parts {
        match part {
            Part::Text(plain) => text.push_str(plain),
            Part::Path(path) => {
                let found: Vec<String> = select(path, value).into_iter().map(format_value).collect();
                text.push_str(&found.join(" "));
            }
            Part::Range(path, body) => {
                for item in select(path, value) {
                    write(body, item, text);
                }
            }
        }
    }
}

fn select<'v>(path: &[Step], value: &'v Value) -> Vec<&'v Value> {
    let mut found = vec![value];
    for step in path {
        found = found
            .into_iter()
            .flat_map(|value| -> Vec<&Value> {
                match (step, value) {
                    (Step::Key(key), Value::Object(fields)) => fields.get(key).into_iter().collect(),
                    (Step::All, Value::Object(fields)) => fields.values().collect(),
                    (Step::All, Value::Array(items)) => items.iter().collect(),
                    (Step::Item(index), Value::Array(items)) => {
                        find_item(items, *index).into_iter().collect()
                    }
                    _ => Vec::new(),
                }
            })
            .collect();
    }
    found
}

fn find_item(items: &[Value], index: i64) -> Option<&Value> {
    let distance = usize::try_from(index.unsigned_abs()).ok()?;
    if index < 0 {
        items.get(items.len().checked_sub(distance)?)
    } else {
        items.get(distance)
    }
}

/// A text without quotes, other values as JSON.
fn format_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Splits after the closing brace, which quotes hide.
fn split_expression(text: &str) -> Result<(&str, &str), String> {
    let (mut quote, mut escaped) = (None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if open == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '}') => return Ok((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    Err("`{` has no `}`".to_owned())
}

fn parse_quoted(text: &str) -> Result<String, String> {
    let is_closed = text.len() > 1 && text.ends_with(&text[..1]);
    let inner = text.get(1..text.len() - 1).filter(|_| is_closed);
    let inner = inner.ok_or_else(|| format!("`{text}` has no closing quote"))?;
    let mut out = String::new();
    let mut letters = inner.chars();
    while let Some(c) = letters.next() {
        match (c, if c == '\\' { letters.next() } else { None }) {
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some('t')) => out.push('\t'),
            ('\\', Some(other)) => out.push(other),
            (c, _) => out.push(c),
        }
    }
    Ok(out)
}

/// Parses `.a.b[0]`, `a['b'][*]`, `@` or `$`.
fn parse_path(text: &str) -> Result<Vec<Step>, String> {
    let wrong = || format!("`{text}` is not a path such as `.services[*].name`");
    let mut steps = Vec::new();
    let mut rest = text.strip_prefix(['$', '@']).unwrap_or(text);
    if rest.is_empty() && !text.is_empty() {
        return Ok(steps);
    }
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (index, after) = inner.split_once(']').ok_or_else(wrong)?;
            let step = match index.strip_prefix('\'').and_then(|key| key.strip_suffix('\'')) {
                Some(key) => Step::Key(key.to_owned()),
                None if index == "*" => Step::All,
                None => Step::Item(index.parse().map_err(|_| wrong())?),
            };
            steps.push(step);
            rest = after;
            continue;
        }
        let name = rest.strip_prefix('.').unwrap_or(rest);
        let end = name.find(['.', '[']).unwrap_or(name.len());
        let (key, after) = name.split_at(end);
        let is_name = !key.is_empty() && !key.contains(|c: char| c.is_whitespace() || "{}()?\"'".contains(c));
        match key {
            "*" => steps.push(Step::All),
            // `.` alone is the value itself.
            "" if after.is_empty() && steps.is_empty() => {}
            _ if is_name => steps.push(Step::Key(key.to_owned())),
            _ => return Err(wrong()),
        }
        rest = after;
    }
    if steps.is_empty() && text != "." {
        return Err(wrong());
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn format(template: &str) -> Result<String, String> {
        let value = json!({
            "phase": "Ready",
            "services": [
                { "name": "web", "restarts": 2, "labels": { "a.b": "c" } },
                { "name": "db", "restarts": 0 },
            ],
            "nothing": null,
        });
        Template::parse(template).map(|template| template.format(&value))
    }

    #[test]
    fn template_selects_fields_as_in_kubectl() {
        for (template, expected) in [
            ("{.phase}", "Ready"),
            (".phase", "Ready"),
            ("phase", "Ready"),
            ("{$.phase}", "Ready"),
            ("phase is {.phase}!", "phase is Ready!"),
            ("{.services[*].name}", "web db"),
            ("{.services[-1].name}", "db"),
            ("{.services[0].restarts}", "2"),
            ("{.services[0].labels['a.b']}", "c"),
            ("{.services[7].name}{.missing.field}", ""),
            ("{.nothing}", "null"),
            ("{.services[1]}", r#"{"name":"db","restarts":0}"#),
            (
                r#"{range .services[*]}{.name}{"\t"}{.restarts}{'}\n'}{end}"#,
                "web\t2}\ndb\t0}\n",
            ),
            ("{range .services[*]}{range .labels.*}{@}{end};{end}", "c;;"),
        ] {
            assert_eq!(format(template).as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn wrong_template_is_refused() {
        for template in [
            "",
            "{.phase",
            "{end}",
            "{range .services[*]}{.name}",
            "{.services[x]}",
            "{.services[?(@.name==\"web\")]}",
            "{\"text}",
            "{}",
            "{a b}",
        ] {
            assert!(format(template).is_err(), "{template}");
        }
    }
}
