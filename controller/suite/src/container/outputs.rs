//! Assertions on the outputs of commands in a container.

use argus_crds::number::{self, Keep};
use serde_json::{Map, Value};

use super::CommandOutput;
use crate::check::{Check, Checked};
use crate::comparison::{check_count, check_lines};
use crate::evaluate::check_fields;
use crate::pattern;
use crate::value::{is_number, is_truthy, list_of, shortened, shown, to_text};

pub(super) fn check_exec(output: &CommandOutput, expect: Option<&Value>) -> Checked {
    let code = shown(Some(&Value::from(output.exit_code)));
    let text = output.shown();
    let found = if text.is_empty() {
        code.clone()
    } else {
        format!("{code} with the output `{}`", shortened(text))
    };
    let Some(expect) = expect else {
        let check = Check::new("exitCode", output.exit_code == 0, "to be `0`", found);
        return Ok(vec![check]);
    };
    let mut checks = Vec::new();
    if let Some(wanted) = expect.get("exitCode") {
        #[allow(clippy::cast_precision_loss, reason = "exit codes are small")]
        let holds = is_number(wanted, output.exit_code as f64);
        let wanted = format!("to be {}", shown(Some(wanted)));
        checks.push(Check::new("exitCode", holds, wanted, found));
    }
    match expect.get("output").filter(|wanted| is_truthy(wanted)) {
        None => {}
        Some(Value::Object(wanted)) => {
            checks.extend(check_output(text, wanted)?);
            // The missing end can contain the unwanted text.
            if output.is_cut && wanted.get("notContains").is_some_and(is_truthy) {
                let found = "only its beginning";
                checks.push(Check::new("output", false, "to be complete", found));
            }
        }
        Some(other) => {
            let other = shown(Some(other));
            return Err(format!("`output` is a map such as `contains: …`, not {other}"));
        }
    }
    Ok(checks)
}

fn check_output(output: &str, wanted: &Map<String, Value>) -> Checked {
    let mut checks = check_content(output, wanted, "output")?;
    if let Some(length) = wanted.get("length").filter(|length| !length.is_null()) {
        let lines = if output.is_empty() {
            0
        } else {
            output.split('\n').count() as u64
        };
        checks.extend(check_lines(lines, length, "output.length"));
    }
    Ok(checks)
}

/// Checks a text with the keys that files and outputs have in common.
fn check_content(text: &str, wanted: &Map<String, Value>, at: &str) -> Checked {
    let mut checks = Vec::new();
    let found = format!("`{}`", shortened(text));
    for (key, is_wanted) in [("contains", true), ("notContains", false)] {
        for part in wanted
            .get(key)
            .into_iter()
            .flat_map(list_of)
            .filter(|part| is_truthy(part))
        {
            let holds = text.contains(&to_text(part)) == is_wanted;
            let verb = if is_wanted { "to contain" } else { "not to contain" };
            let wanted = format!("{verb} {}", shown(Some(part)));
            checks.push(Check::new(at, holds, wanted, found.clone()));
        }
    }
    if let Some(pattern) = wanted.get("matches").filter(|pattern| is_truthy(pattern)) {
        let holds = pattern::is_match(&to_text(pattern), text)?;
        let wanted = format!("to match {}", shown(Some(pattern)));
        checks.push(Check::new(at, holds, wanted, found.clone()));
    }
    if let Some(fields) = wanted.get("json").filter(|fields| is_truthy(fields)) {
        match number::parse(text, Keep::Value) {
            Ok(value) => checks.extend(check_fields(Some(&value), fields, &format!("{at}.json"))?),
            Err(_) => checks.push(Check::new(at, false, "to be JSON", found)),
        }
    }
    Ok(checks)
}

pub(super) const STAT_KEYS: [&str; 3] = ["permissions", "owner", "size"];
pub(super) const CONTENT_KEYS: [&str; 4] = ["contains", "notContains", "matches", "json"];

pub(super) fn check_file(file: &Map<String, Value>, outputs: &[CommandOutput]) -> Checked {
    let path = file.get("path").map(to_text).unwrap_or_default();
    let mut outputs = outputs.iter();
    let mut checks = Vec::new();
    if let Some(exists) = file.get("exists").filter(|exists| !exists.is_null()) {
        let is_wanted = is_truthy(exists);
        let output = outputs.next();
        let is_there = output.is_some_and(|output| output.exit_code == 0);
        // `test` exits with 1 for an absent file. Other codes mean that it did not run.
        if let Some(output) = output.filter(|output| ![0, 1].contains(&output.exit_code)) {
            let found = format!("`{}`", shortened(output.reason()));
            checks.push(Check::new(&path, false, "to be testable", found));
            return Ok(checks);
        }
        let wanted = if is_wanted { "to exist" } else { "not to exist" };
        let found = match output.map(|output| output.stderr.trim()) {
            _ if is_there => "a file".to_owned(),
            Some(reason) if !reason.is_empty() => format!("nothing: {}", shortened(reason)),
            _ => "nothing".to_owned(),
        };
        checks.push(Check::new(&path, is_there == is_wanted, wanted, found));
        if !is_there || !is_wanted {
            return Ok(checks);
        }
    }
    let is_set = |key: &str| file.get(key).is_some_and(is_truthy);
    if STAT_KEYS.iter().any(|key| is_set(key)) {
        let output = outputs.next().map(CommandOutput::shown).unwrap_or_default();
        let words: Vec<&str> = output.split_whitespace().collect();
        for (position, key) in ["permissions", "owner"].into_iter().enumerate() {
            if let Some(expected) = file.get(key).filter(|expected| is_truthy(expected)) {
                let found = (words.len() == 3).then(|| words[position]);
                let wanted = format!("to have the {key} {}", shown(Some(expected)));
                let shown = format!("`{}`", shortened(found.unwrap_or(output)));
                checks.push(Check::new(&path, found == expected.as_str(), wanted, shown));
            }
        }
        if let Some(expected) = file.get("size").filter(|expected| is_truthy(expected)) {
            let at = format!("{path}.size");
            checks.push(match words.get(2).and_then(|size| size.parse().ok()) {
                Some(size) => check_count(size, expected, &at),
                None => Check::new(&at, false, "to be known", format!("`{}`", shortened(output))),
            });
        }
    }
    if CONTENT_KEYS.iter().any(|key| is_set(key)) {
        match outputs.next() {
            Some(output) if output.exit_code == 0 => {
                checks.extend(check_content(&output.stdout, file, &path)?);
            }
            output => {
                let reason = output.map(CommandOutput::reason).unwrap_or_default();
                let found = format!("`{}`", shortened(reason));
                checks.push(Check::new(&path, false, "to be readable", found));
            }
        }
    }
    Ok(checks)
}

pub(super) fn check_process(output: &CommandOutput, process: &Map<String, Value>) -> Vec<Check> {
    let name = process.get("name").map(to_text).unwrap_or_default();
    let at = format!("process {name}");
    if output.exit_code != 0 {
        let found = format!("`{}`", shortened(output.shown()));
        return vec![Check::new(&at, false, "to be listed by `ps`", found)];
    }
    let lines = output.stdout.lines();
    let lines: Vec<&str> = lines
        .filter(|line| line.contains(&name) && !line.contains("grep"))
        .collect();
    let found = format!("{} lines", lines.len());
    let mut checks = Vec::new();
    if let Some(running) = process.get("running").filter(|running| !running.is_null()) {
        let is_wanted = is_truthy(running);
        let wanted = if is_wanted { "to run" } else { "not to run" };
        let holds = lines.is_empty() != is_wanted;
        checks.push(Check::new(&at, holds, wanted, found.as_str()));
    }
    if let Some(count) = process.get("count").filter(|count| is_truthy(count)) {
        checks.push(check_count(lines.len() as u64, count, &format!("{at} count")));
    }
    if let Some(user) = process.get("user").filter(|user| is_truthy(user))
        && !lines.is_empty()
    {
        let user = to_text(user);
        let holds = lines
            .iter()
            .any(|line| line.split_whitespace().next() == Some(user.as_str()));
        let wanted = format!("to run as `{}`", shortened(&user));
        let found = format!("`{}`", shortened(lines[0]));
        checks.push(Check::new(&at, holds, wanted, found));
    }
    checks
}

/// Finds a listening port in the output of `ss` or `netstat`, or in `/proc/net/tcp`.
pub(super) fn is_listening(output: &str, port: u16) -> bool {
    let (decimal, hexadecimal) = (format!(":{port}"), format!(":{port:04X}"));
    output.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // The columns of `/proc/net/tcp`: number, local address, remote address, state.
        let is_kernel = words.first().is_some_and(|number| number.ends_with(':'));
        if is_kernel {
            return words.get(1).is_some_and(|local| local.ends_with(&hexadecimal))
                && words.get(3) == Some(&"0A");
        }
        words.iter().any(|word| word.ends_with(&decimal))
    })
}
