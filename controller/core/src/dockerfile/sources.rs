//! Addresses that the instructions `ADD` of a Dockerfile read. The engine reads them in its own network, which is often that of the host.
//!
//! The search does not follow the grammar of Dockerfiles, which the author can bend with an `escape` directive or a here-document. Each
//! line can begin an instruction, and both escape characters continue it. A variable has each value that any line gives it, and can be
//! empty. Values of base images are unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::net::{Ipv4Addr, Ipv6Addr};

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

/// A source that only an allowed project can use.
#[derive(Debug, PartialEq, Eq)]
pub struct RefusedSource {
    /// Instruction that reads it.
    pub instruction: Instruction,
    /// Reason, which continues a sentence about the instruction.
    pub why: &'static str,
}

const PRIVATE: &str = "reads an address of the host or of a private network";
const UNKNOWN: &str = "reads an address that depends on an unknown variable";
const UNUSUAL: &str = "reads an address with an unusual spelling";
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
        starts.flat_map(move |at| ESCAPES.map(|escape| (lines[at].0, join(&lines[at..], escape))))
    };
    let platform = PLATFORM.map(|name| (name.to_owned(), BTreeSet::from(["platform".to_owned()])));
    let mut variables = Variables::from(platform);
    for (_, (text, _)) in candidates() {
        add_variables(&text, args, &mut variables);
    }
    let mut budget = Budget::new(MAX_VALUES, MAX_LENGTH);
    candidates().find_map(|(line, (text, is_complete))| {
        let why = check(&text, is_complete, &variables, &mut budget)?;
        let instruction = Instruction {
            line,
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
            corrected: None,
        };
        Some(RefusedSource { instruction, why })
    })
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
    if let Some(rest) = after_keyword(text, "ARG") {
        for word in rest.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            add(name, value);
        }
    } else if let Some(rest) = after_keyword(text, "ENV") {
        let (first, others) = split_word(rest);
        if !first.contains('=') {
            return add(first, others.trim());
        }
        for (name, value) in rest.split_whitespace().filter_map(|word| word.split_once('=')) {
            add(name, value);
        }
    }
}

/// Text without the characters that the builder removes from words.
fn without_quotes(text: &str) -> String {
    text.replace(|c: char| ESCAPES.contains(&c) || matches!(c, '"' | '\''), "")
}

/// Returns why only an allowed project can use this instruction.
fn check(text: &str, is_complete: bool, variables: &Variables, budget: &mut Budget) -> Option<&'static str> {
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

fn check_source(word: &str, variables: &Variables, budget: &mut Budget) -> Option<&'static str> {
    let mut open = vec![without_quotes(word)];
    while let Some(source) = open.pop() {
        let why = match find_variable(&source) {
            Some((before, name, after)) => match variables.get(name) {
                Some(values) => {
                    let mut fits =
                        |value: &String| budget.steps(1).is_ok() && budget.bytes(value.len() as u64).is_ok();
                    let replaced = values.iter().map(|value| format!("{before}{value}{after}"));
                    open.extend(replaced.take_while(|value| fits(value)));
                    budget.exceeded().map(|_| TOO_LONG)
                }
                None => can_be_address(before, after).then_some(UNKNOWN),
            },
            None => check_address(&source),
        };
        if why.is_some() {
            return why;
        }
    }
    None
}

/// Splits a source at the first variable that can change its address. The name of one with an operator is no name.
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
    let (name, after) = if let Some(inner) = rest.strip_prefix('{') {
        inner.split_once('}').unwrap_or((inner, ""))
    } else {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()))
    };
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

/// Returns why only an allowed project can read this address.
fn check_address(source: &str) -> Option<&'static str> {
    let host = host_of(source)?.to_ascii_lowercase();
    let host = host.trim_end_matches('.');
    if let Some(inner) = host.strip_prefix('[') {
        return match inner.trim_end_matches(']').parse::<Ipv6Addr>() {
            Ok(address) => is_private_v6(address).then_some(PRIVATE),
            Err(_) => Some(UNUSUAL),
        };
    }
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = |text: &str| text.starts_with("0x") || text.chars().all(|c| c.is_ascii_digit());
    if !last.is_empty() && is_number(last) {
        return match host.parse::<Ipv4Addr>() {
            Ok(address) => is_private_v4(address).then_some(PRIVATE),
            // Such as `127.1`, which some resolvers read as an address.
            Err(_) => Some(UNUSUAL),
        };
    }
    // Some resolvers read other digits and percent encodings as ASCII.
    let is_usual = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if !host.chars().all(is_usual) {
        return Some(UNUSUAL);
    }
    // The host and its network resolve names without a dot, such as their own.
    let is_local = matches!(last, "localhost" | "local" | "internal") || last == host && !host.is_empty();
    is_local.then_some(PRIVATE)
}

/// Host of a URL or of a git address such as `git@host:path`; `None` for a file.
fn host_of(source: &str) -> Option<&str> {
    let Some((_, rest)) = source.split_once("://") else {
        let (user, rest) = source.split_once('@')?;
        let (host, _) = rest.split_once(':')?;
        return Some(host).filter(|_| !user.contains('/'));
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    match host.find(']') {
        Some(end) => Some(&host[..=end]),
        None => host.split(':').next(),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let is_this_network = address.octets()[0] == 0;
    address.is_loopback() || address.is_private() || address.is_link_local() || is_this_network
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    address.is_loopback()
        || address.is_unspecified()
        || address.is_unique_local()
        || address.is_unicast_link_local()
        || address.to_ipv4_mapped().is_some_and(is_private_v4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Option<(usize, &'static str)> {
        let args = BTreeMap::from([("GIVEN".to_owned(), "10.0.0.1".to_owned())]);
        let found = find_refused_source(text, &args)?;
        Some((found.instruction.line, found.why))
    }

    #[test]
    fn address_of_the_host_is_refused_in_each_spelling() {
        for source in [
            "http://127.0.0.1:9470/metrics",
            "HTTP://LocalHost/",
            "https://user:word@[::1]:8080/a",
            "http://[::ffff:10.0.0.1]/",
            "http://[fe80::1]/",
            "http://169.254.169.254/latest/meta-data",
            "http://0.0.0.0:80",
            "http://192.168.1.1?x",
            "http://a.local/x",
            "http://host.docker.internal./x",
            "http://build-machine:9470/metrics",
            "git@mirror:a/b.git",
            "git@127.0.0.1:repo.git",
            "https://172.16.0.1/repo.git#main",
            "\"http://127.0.0.1/\"",
            "ht\\tp://12'7.0'.0.1/",
        ] {
            let text = format!("FROM busybox\nADD --checksum=x file {source} /x");
            assert_eq!(refused(&text), Some((2, PRIVATE)), "{source}");
        }
        for source in [
            "http://127.1/",
            "http://0x7f.1/",
            "http://2130706433/",
            "http://１27.0.0.1/",
        ] {
            assert_eq!(
                refused(&format!("ADD {source} /x")),
                Some((1, UNUSUAL)),
                "{source}"
            );
        }
    }

    #[test]
    fn public_addresses_and_files_are_accepted() {
        for line in [
            "ADD https://example.com/v$VERSION/x-${TARGETARCH}.tgz?a=${X:-1} /x",
            "ADD https://8.8.8.8/x https://[2001:db8::1]/x /x",
            "ADD app-${VERSION}.jar target/$NAME ./$NAME $HOME/",
            "ADD git@github.com:a/b.git /x",
            "ADD http://localhost/",
            "RUN curl http://127.0.0.1/ /x",
            "COPY http://127.0.0.1/ /x",
            "# ADD http://127.0.0.1/ /x",
            "ARG URL=https://example.com\nENV PAGE=${URL}/a\nADD $PAGE $URL/b /x",
            "ARG JAR=target/*.jar\nADD ${JAR} app.jar",
        ] {
            assert_eq!(refused(line), None, "{line}");
        }
    }

    #[test]
    fn address_behind_a_variable_is_refused() {
        for (text, why) in [
            ("ARG A=127.0.0.1\nADD http://$A/ /x", PRIVATE),
            ("ARG GIVEN\nADD http://${GIVEN}/ /x", PRIVATE),
            ("ENV A http://localhost/\nADD $A /x", PRIVATE),
            ("ENV A=x B='http://localhost/'\nENV C=$B\nADD $C /x", PRIVATE),
            ("ENV A=http://localhost/\nENV A=b\nFROM c\nADD $A /x", PRIVATE),
            ("ARG A=.example.com\nFROM b\nADD http://127.0.0.1$A/ /x", PRIVATE),
            ("ADD $OTHER /x", UNKNOWN),
            ("ADD http://$OTHER/ /x", UNKNOWN),
            ("ADD h${OTHER}ttp://127.0.0.1/ /x", UNKNOWN),
            ("ADD ${A:-http://127.0.0.1/} /x", UNKNOWN),
            ("ENV A=$A$A\nADD $A /x", TOO_LONG),
        ] {
            assert_eq!(refused(text).map(|found| found.1), Some(why), "{text}");
        }
    }

    #[test]
    fn instruction_is_found_in_each_form() {
        let long = "\\\n".repeat(70);
        for (text, line) in [
            ("onbuild add http://127.0.0.1/ /x", 1),
            ("\u{feff}  ADD [\"\\u0068ttp://127.0.0.1/\", \"/x\"]", 1),
            ("FROM a\nAD\\\n# comment\n\nD http://127.0.\\\n0.1/ /x", 2),
            ("# escape=`\nCOPY a \\\nADD http://127.0.0.1/ `\n /x", 3),
            ("RUN <<'X\\'\nX\\\nADD \\\n http://127.0.0.1/ /x", 3),
            ("RUN <<A\n A\nRUN <<B\nA\nADD http://127.0.0.1/ /x", 5),
            (&*format!("A{long}DD http://127.0.0.1/ /x"), 1),
            (&*format!("ADD {long}http://127.0.0.1/ /x"), 1),
            (&*format!("ONBUILD {long}ADD http://127.0.0.1/ /x"), 1),
        ] {
            assert_eq!(refused(text).map(|found| found.0), Some(line), "{text}");
        }
        let run = format!("RUN true {}", "&& true \\\n".repeat(100));
        assert_eq!(refused(&run), None);
    }
}
