//! Addresses that the instructions `ADD` of a Dockerfile read. The engine reads them in its own network, which is often that of the host.
//!
//! The search does not follow the grammar of Dockerfiles, which the author can bend with an `escape` directive or a here-document. Each
//! line can begin an instruction, and both escape characters continue it. A variable has each value that any line gives it, and can be
//! empty. One that the stage itself does not surely set can also have a value of the base image, which is unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::{iter, mem};

use super::address::check_address;
use super::{Instruction, is_comment};
use crate::budget::Budget;

/// Characters that continue a line at its end.
const ESCAPES: [char; 2] = ['\\', '`'];
/// Maximum number of lines of an `ADD`.
const MAX_LINES: usize = 64;
/// Maximum number of values of all sources with variables.
const MAX_VALUES: u64 = 10_000;
/// Maximum length of these values, in bytes.
const MAX_LENGTH: u64 = 1 << 20;
/// Beginnings of sources that are not files of the context.
const REMOTE: [&str; 5] = ["http://", "https://", "git://", "ssh://", "git@"];
/// Variables that the builder sets.
const PLATFORM: [&str; 9] = [
    "TARGETPLATFORM",
    "TARGETOS",
    "TARGETARCH",
    "TARGETVARIANT",
    "BUILDPLATFORM",
    "BUILDOS",
    "BUILDARCH",
    "BUILDVARIANT",
    "TARGETSTAGE",
];

/// Values of variables by name.
type Variables = BTreeMap<String, BTreeSet<String>>;
/// Values, and the variables that have no others.
type Known<'a> = (&'a Variables, &'a BTreeSet<String>);

/// A source that only an allowed project can use.
#[derive(Debug, PartialEq, Eq)]
pub struct RefusedSource {
    /// Instruction that reads it.
    pub instruction: Instruction,
    /// Reason, which continues a sentence about the instruction.
    pub why: &'static str,
}

const UNKNOWN: &str = "reads an address that depends on an unknown variable";
const TOO_LONG: &str = "has too many lines or values";

/// Returns the first `ADD` whose source is an address of the host or of a private network, or can be one. `args` are the arguments of
/// the build.
///
/// ```
/// use argus_core::dockerfile::find_refused_source;
///
/// let text = "FROM busybox\nADD https://example.com/a.tgz /\nADD http://127.0.0.1:9470/metrics /\n";
/// let found = find_refused_source(text, &Default::default()).unwrap();
/// assert_eq!(found.instruction.line, 3);
/// ```
pub fn find_refused_source(text: &str, args: &BTreeMap<String, String>) -> Option<RefusedSource> {
    let text = text.trim_start_matches('\u{feff}');
    let lines: Vec<(usize, &str)> = iter::zip(1.., text.lines())
        .filter(|(_, line)| !is_comment(line))
        .collect();
    let lines = lines.as_slice();
    let candidates = || {
        let starts = 0..lines.len();
        starts.flat_map(move |at| ESCAPES.map(|escape| (at, escape, join(&lines[at..], escape))))
    };
    let platform = PLATFORM.map(|name| (name.to_owned(), BTreeSet::from(["platform".to_owned()])));
    let mut variables = Variables::from(platform);
    for (_, _, (text, _)) in candidates() {
        add_variables(&text, args, &mut variables);
    }
    let mut stage = Stage {
        is_unsure: has_escape_directive(text),
        ..Stage::default()
    };
    let mut budget = Budget::new(MAX_VALUES, MAX_LENGTH);
    candidates().find_map(|(at, escape, (text, is_complete))| {
        if escape == ESCAPES[0] {
            let is_start = at == 0 || !lines[at - 1].1.trim_end().ends_with(escape);
            stage.read(&text, is_start, is_complete, args);
        }
        let why = check(&text, is_complete, (&variables, &stage.set), &mut budget)?;
        let instruction = Instruction {
            line: lines[at].0,
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
            corrected: None,
            excluded_by: None,
        };
        Some(RefusedSource { instruction, why })
    })
}

/// Returns whether a comment can change the escape character.
fn has_escape_directive(text: &str) -> bool {
    let mut keys = text.lines().filter_map(|line| line.split_once('='));
    keys.any(|(key, _)| is_comment(key) && key.to_ascii_lowercase().contains("escape"))
}

/// Variables that a stage surely sets itself, up to an instruction.
#[derive(Default)]
struct Stage {
    set: BTreeSet<String>,
    /// Arguments before the first stage.
    global: Option<BTreeSet<String>>,
    /// True after a line that can hide those after it, such as the start of a here-document.
    is_unsure: bool,
}

impl Stage {
    /// Reads an instruction. `is_start` is false if its first line can continue another one.
    fn read(&mut self, text: &str, is_start: bool, is_complete: bool, args: &BTreeMap<String, String>) {
        if !is_complete {
            self.set.clear();
        } else if after_keyword(text, "FROM").is_some() {
            let former = mem::take(&mut self.set);
            self.global.get_or_insert(former);
        }
        let keyword = split_word(text).0;
        let is_arg = keyword.eq_ignore_ascii_case("ARG");
        let is_sure = is_start
            && !self.is_unsure
            && (is_arg || keyword.eq_ignore_ascii_case("ENV"))
            && text.is_ascii()
            && text.split_whitespace().all(is_whole);
        let change = |(name, value): (&str, Option<&str>)| {
            let is_given = is_arg && args.contains_key(name);
            let is_global = || self.global.as_ref().is_some_and(|global| global.contains(name));
            let is_known = match value {
                Some(value) => value
                    .split('$')
                    .skip(1)
                    .all(|part| self.set.contains(split_name(part).0)),
                None => PLATFORM.contains(&name) || is_global(),
            };
            // The builder keeps the arguments of its scanner out of the environment.
            let is_name = name.chars().all(is_part_of_name) && !name.starts_with("BUILDKIT_");
            (without_quotes(name), is_sure && is_name && (is_given || is_known))
        };
        let changes: Vec<_> = assignments(text).into_iter().map(change).collect();
        for (name, is_known) in changes {
            if name.contains('$') {
                self.set.clear();
            } else if is_known {
                self.set.insert(name);
            } else {
                self.set.remove(&name);
            }
        }
        self.is_unsure |= !is_complete || text.contains("<<");
    }
}

/// Returns whether a word ends outside of quotes and does not escape the space after it.
fn is_whole(word: &str) -> bool {
    let count = |quote: char| word.matches(quote).count();
    let is_closed = matches!((count('"'), count('\'')), (0, n) | (n, 0) if n % 2 == 0);
    is_closed && !word.contains(ESCAPES)
}

/// Joins the lines of an instruction. Returns whether it is complete.
fn join(lines: &[(usize, &str)], escape: char) -> (String, bool) {
    let mut text = String::new();
    for (_, line) in lines.iter().take(MAX_LINES) {
        let Some(part) = line.trim_end().strip_suffix(escape) else {
            text.push_str(line);
            return (text, true);
        };
        text.push_str(part);
    }
    (text, lines.len() <= MAX_LINES)
}

/// Splits off the first word.
fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}

/// Text after a keyword and the triggers before it; `None` for another instruction.
fn after_keyword<'a>(text: &'a str, keyword: &str) -> Option<&'a str> {
    let (mut word, mut rest) = split_word(text);
    while word.eq_ignore_ascii_case("ONBUILD") {
        (word, rest) = split_word(rest);
    }
    word.eq_ignore_ascii_case(keyword).then_some(rest)
}

/// Adds the values that an `ARG` or `ENV` gives its variables.
fn add_variables(text: &str, args: &BTreeMap<String, String>, variables: &mut Variables) {
    let mut add = |name: &str, value: &str| {
        let values = variables.entry(without_quotes(name)).or_default();
        values.insert(without_quotes(value));
        values.insert(String::new());
        values.extend(args.get(name).cloned());
    };
    for (name, value) in assignments(text) {
        add(name, value.unwrap_or_default());
    }
}

/// Variables of an `ARG` or `ENV`, with their values.
fn assignments(text: &str) -> Vec<(&str, Option<&str>)> {
    if let Some(rest) = after_keyword(text, "ARG") {
        let words = rest.split_whitespace();
        let split = words.map(|word| (word, word.split_once('=')));
        return split
            .map(|(word, pair)| pair.map_or((word, None), |(name, value)| (name, Some(value))))
            .collect();
    }
    let Some(rest) = after_keyword(text, "ENV") else {
        return Vec::new();
    };
    let (first, others) = split_word(rest);
    let single = (!first.contains('=')).then_some((first, Some(others.trim())));
    // A name in quotes can contain a space, and begins pairs then.
    let has_pairs = single.is_none() || without_quotes(first) != first;
    let words = rest.split_whitespace().filter(|_| has_pairs);
    let pairs = words.filter_map(|word| word.split_once('='));
    let pairs = pairs.map(|(name, value)| (name, Some(value)));
    single.into_iter().chain(pairs).collect()
}

/// Text without the characters that the builder removes from words. Names of variables get braces, because a quote ends them.
fn without_quotes(text: &str) -> String {
    let strip = |part: &str| part.replace(|c: char| ESCAPES.contains(&c) || matches!(c, '"' | '\''), "");
    let mut parts = text.split('$');
    let mut plain = strip(parts.next().unwrap_or_default());
    for part in parts {
        let (name, after) = split_name(part);
        plain.extend(["${", name, "}", &strip(after)]);
    }
    plain
}

fn is_part_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Splits the text after a `$` at the end of the name. The name of one with an operator is no name.
fn split_name(rest: &str) -> (&str, &str) {
    match rest.strip_prefix('{') {
        Some(inner) => inner.split_once('}').unwrap_or((inner, "")),
        None => rest.split_at(rest.find(|c| !is_part_of_name(c)).unwrap_or(rest.len())),
    }
}

/// Returns why only an allowed project can use this instruction.
fn check(text: &str, is_complete: bool, variables: Known<'_>, budget: &mut Budget) -> Option<&'static str> {
    let rest = after_keyword(text, "ADD");
    if !is_complete {
        // The keyword itself can have too many lines.
        let start = text.trim().to_ascii_uppercase();
        let can_be_add = ["ADD", "ONBUILD"]
            .iter()
            .any(|keyword| keyword.starts_with(&start));
        return (rest.is_some() || can_be_add || start.starts_with("ONBUILD")).then_some(TOO_LONG);
    }
    let rest = rest?;
    let mut rest = rest.trim_start();
    while rest.starts_with("--") {
        rest = split_word(rest).1.trim_start();
    }
    let listed = serde_json::from_str::<Vec<String>>(rest.trim());
    let mut words = listed.unwrap_or_else(|_| rest.split_whitespace().map(str::to_owned).collect());
    // The last word is the target.
    words.pop();
    words
        .iter()
        .find_map(|word| check_source(word, variables, budget))
}

fn check_source(word: &str, (variables, set): Known<'_>, budget: &mut Budget) -> Option<&'static str> {
    let mut unknown = None;
    let mut open = vec![without_quotes(word)];
    while let Some(source) = open.pop() {
        let why = match find_variable(&source) {
            Some((before, name, after)) => {
                if !set.contains(name) && can_be_address(before, after) {
                    unknown = Some(UNKNOWN);
                }
                variables.get(name).and_then(|values| {
                    let mut fits =
                        |value: &String| budget.steps(1).is_ok() && budget.bytes(value.len() as u64).is_ok();
                    let replaced = values.iter().map(|value| format!("{before}{value}{after}"));
                    open.extend(replaced.take_while(|value| fits(value)));
                    budget.exceeded().map(|_| TOO_LONG)
                })
            }
            None => check_address(&source),
        };
        if why.is_some() {
            return why;
        }
    }
    unknown
}

/// Splits a source at the first variable that can change its address.
fn find_variable(source: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = source.split_once('$')?;
    let is_after_host = match before.split_once("://") {
        Some((_, host)) => host.contains(['/', '?', '#']),
        // A scheme contains no slash.
        None => before
            .split_once('/')
            .is_some_and(|(scheme, _)| !scheme.ends_with(':')),
    };
    if is_after_host {
        return None;
    }
    let (name, after) = split_name(rest);
    Some((before, name, after))
}

/// Returns whether a source with an unknown variable between these texts can be an address.
fn can_be_address(before: &str, after: &str) -> bool {
    let before = before.to_ascii_lowercase();
    let is_remote = REMOTE
        .iter()
        .any(|start| start.starts_with(&before) || before.starts_with(start));
    is_remote || before.contains("://") || [before.as_str(), after].iter().any(|part| part.contains('@'))
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
