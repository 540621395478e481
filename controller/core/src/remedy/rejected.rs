//! Values that a program rejects: the place in the file with the name or the value that a message contains, and the value that the
//! program accepts instead.

use argus_crds::error::SpecEdit;
use argus_crds::suggestion::nearest;

use super::case::{Case, contains, is_plain, quoted};
use super::classes::{
    ADDRESSES, BETWEEN_VALUES, INVALID, KINDS_OF_VALUES, KNOWN_VALUES, NUMBERS, PERMITTED, UNRESOLVED,
};
use super::images::{all_ports, facts_of, main_port};
use super::network::{names_service, ports, siblings};
use super::values::{is_about_json, json_of};
use crate::failed_run::host_view::differs_by_one_error;
use crate::secrets::is_secret;

/// Rank of a place whose name a message contains.
const NAMED: u8 = 9;

/// Place in the file that a message can mean: a variable, or an option of the command, with its value.
#[derive(Clone, Copy)]
struct Place<'a> {
    name: &'a str,
    value: &'a str,
    is_variable: bool,
}

/// Variable or option whose value the program rejects.
pub(super) fn invalid_value(case: &Case<'_>) -> Option<SpecEdit> {
    // A log line in JSON has every text in quotes, and a path has an error of its own.
    let is_meant = |line: &&str| {
        contains(line, &INVALID)
            && !contains(line, &UNRESOLVED)
            && !line.trim_start().starts_with('{')
            && !contains(line, &["invalid argument", "invalid api key", "invalid option"])
    };
    let mut lines = case.lines().filter(is_meant).take(3);
    let of_line = lines.find_map(|line| rejected(case, line)?.edit(case, Some(line)));
    of_line.or_else(|| unresolved(case)?.edit(case, None))
}

/// Place that a message about an invalid value means: the only one with the highest rank, or the first one that it names.
fn rejected<'a>(case: &Case<'a>, line: &'a str) -> Option<Place<'a>> {
    let set = case.context.service.env_vars.iter();
    let variables = set
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| Place {
            name,
            value,
            is_variable: true,
        });
    let words: Vec<&'a str> = case.words().map(String::as_str).collect();
    let is_value = |pair: &&[&'a str]| {
        let option = if pair[1].contains('=') { pair[1] } else { pair[0] };
        option.starts_with('-') && (option == pair[1] || !pair[1].starts_with('-'))
    };
    let options = words.windows(2).filter(is_value).map(|pair| {
        let (name, value) = pair[1].split_once('=').unwrap_or((pair[0], pair[1]));
        Place {
            name,
            value,
            is_variable: false,
        }
    });
    let ranked = variables.chain(options).filter_map(|place| place.ranked(line));
    let mut all: Vec<(u8, Place<'a>)> = ranked.collect();
    let best = all.iter().map(|(rank, _)| *rank).max()?;
    all.retain(|(rank, _)| *rank == best);
    let first = all.iter().min_by_key(|(_, place)| line.find(place.name));
    let (_, place) = first.filter(|_| best == NAMED || all.len() == 1)?;
    Some(*place)
}

impl<'a> Place<'a> {
    /// Change of the place.
    fn edit(self, case: &Case<'_>, line: Option<&str>) -> Option<SpecEdit> {
        let Self { name, value, .. } = self;
        let reason = format!("the process rejects the value of `{name}`");
        let meant = line.and_then(|line| permitted(case, name, value, line));
        if !self.is_variable {
            let edit = case.context.edit(case.command_key(value), reason);
            return Some(edit.now(value).suggest(meant?));
        }
        let edit = case.variable(name, reason);
        // The name itself is the mistake.
        if let Some(meant) = line.and_then(|line| other_setting(name, line)) {
            return Some(edit.now(name).suggest(meant));
        }
        if is_secret(name) && line.is_some_and(|line| is_about_json(&line.to_lowercase())) {
            return Some(edit.hint("write it as JSON, with double quotes around names and texts"));
        }
        if is_secret(name) {
            return Some(edit.hint("write a value that the message permits"));
        }
        let edit = edit.now(value);
        if let Some(meant) = meant {
            return Some(edit.suggest(meant));
        }
        Some(match &ports(case.context.service)[..] {
            [port] if is_port(name) => edit.suggest(port.to_string()),
            // Every image has these two.
            _ if name == "TZ" => edit.suggest("UTC"),
            _ if line.is_some_and(|line| contains(line, &["locale"])) => edit.suggest("C.UTF-8"),
            _ => edit.hint("write a value that the message permits"),
        })
    }

    /// Strength of the link to a message, and the place with the part of its value that the message means.
    fn ranked(self, line: &'a str) -> Option<(u8, Self)> {
        let Self {
            name,
            value,
            is_variable,
        } = self;
        let is_named = || {
            let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let is_assigned = || value.len() >= 2 && line.contains(&format!("{name}={value}"));
            is_assigned()
                || (name.len() >= 3 && words.any(|word| word == name))
                || (name.contains('.') && line.contains(name))
        };
        let is_bool = value.parse::<bool>().is_ok();
        // Databases and servers quote the values of their clients.
        let is_quoted = || {
            let is_text = value.len() >= 2 && !is_bool && !contains(line, &["input syntax", "media type"]);
            is_text && quoted(line).any(|text| text == value)
        };
        // Without its value, the message can only mean a port that is not a number.
        let is_bad_port = || {
            is_port(name) && value.parse::<u16>().is_err() && contains(line, &["bad_port", "invalid port"])
        };
        let is_listener = || {
            let is_address = contains(line, &["addrparse", "socket address", "ip address"]);
            is_address && value.contains(':') && contains(name, &["bind", "listen"])
        };
        let is_last = || {
            let last = line.split_whitespace().next_back();
            let is_text = value.len() >= 3 && !is_bool && value.parse::<f64>().is_err();
            is_text && last.is_some_and(|last| last.trim_end_matches('.') == value)
        };
        let rank = if is_variable && is_named() {
            NAMED
        } else if is_quoted() {
            7
        } else if has_token(line, value) {
            6
        } else if is_variable && names_writing(line, name) {
            5
        } else if is_variable && is_bad_port() {
            4
        } else if is_variable && is_listener() {
            3
        } else if is_last() {
            2
        } else {
            let is_part = |text: &&str| {
                text.len() >= 4 && is_plain(text) && value.split([' ', '=']).any(|part| part == *text)
            };
            let value = quoted(line).find(is_part).filter(|_| is_variable)?;
            return Some((1, Self { value, ..self }));
        };
        Some((rank, self))
    }
}

/// Returns whether a line about its form contains an address, or a number with its unit, as a whole.
fn has_token(line: &str, value: &str) -> bool {
    parts! {
        OF_FORM: "parse" "colons" "missing port" "scheme" "malformed" "invalid" "unit" "convert";
    }
    let is_of_form = contains(line, OF_FORM);
    let is_number = value.starts_with(|c: char| c.is_ascii_digit()) && value.ends_with(char::is_alphabetic);
    let is_apart = |(before, after): (&str, &str)| {
        !before.ends_with(char::is_alphanumeric)
            && !after.starts_with(|c: char| c.is_alphanumeric() || c == '/')
    };
    let is_token = value.len() >= 3 && (value.contains(':') || is_number);
    is_token && is_of_form && line.split_once(value).is_some_and(is_apart)
}

/// Returns whether a line contains a name, or its end, in another writing, such as `server.port` for `SERVER_PORT`.
pub(super) fn names_writing(line: &str, name: &str) -> bool {
    let name = name.to_uppercase();
    let mut words = line.split(|c: char| c.is_whitespace() || "\"'`,;:=()[]".contains(c));
    words.any(|word| {
        let word = word.trim_end_matches('.');
        let is_setting = word.len() >= 6
            && word.contains(['.', '-', '_'])
            && word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        let written = word.replace(['.', '-'], "_").to_uppercase();
        let bare = name.replace('_', "");
        let is_end = || name.ends_with(&format!("_{written}")) || bare.ends_with(&written.replace('_', ""));
        is_setting && is_end()
    })
}

/// Variable with a template that nothing replaced, and that a line repeats.
fn unresolved<'a>(case: &Case<'a>) -> Option<Place<'a>> {
    let is_repeated = |value: &str| case.lines().any(|line| line.contains(value));
    let is_template = |value: &str| value.contains("{{") || value.contains("${");
    let mut variables = case.context.service.env_vars.iter();
    let (name, value) = variables.find(|(_, value)| is_template(value) && is_repeated(value))?;
    Some(Place {
        name,
        value,
        is_variable: true,
    })
}

/// Name that the program proposes instead of the one that it does not know.
fn other_setting<'a>(name: &str, line: &'a str) -> Option<&'a str> {
    let (before, rest) = line.split_once("did you mean")?;
    let is_about_name =
        before.contains(name) && contains(before, &["setting", "option", "property", "key", "variable"]);
    let mut words = rest.split(|c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c));
    let meant = words.find(|word| word.len() >= 3 && *word != "any" && *word != "one")?;
    (is_about_name && meant != name).then_some(meant)
}

fn is_port(name: &str) -> bool {
    name.rsplit('_').next() == Some("PORT")
}

/// Value that a program accepts instead of a rejected one: from the values or the type in its message.
fn permitted(case: &Case<'_>, name: &str, value: &str, line: &str) -> Option<String> {
    listed(value, line)
        .or_else(|| {
            case.lines()
                .skip_while(|other| *other != line)
                .skip(1)
                .take(2)
                .find_map(|next| listed(value, next))
        })
        .or_else(|| typed(case, name, value, &line.to_lowercase()))
        .or_else(|| {
            let has_own = is_port(name) && ports(case.context.service).len() == 1;
            bounded(value, &line.to_lowercase()).filter(|_| !has_own)
        })
        .or_else(|| {
            // The output can name it elsewhere, and many programs know the same words.
            let is_end = |c: char| !(c.is_alphanumeric() || "_-".contains(c));
            let mut words = case.lines().flat_map(|line| line.split(is_end));
            let named = words.find(|word| word.len() >= 5 && differs_by_one_error(value, word));
            let known = || nearest(&value.to_lowercase(), KNOWN_VALUES.iter().copied());
            named
                .or_else(known)
                .filter(|meant| *meant != value)
                .map(str::to_owned)
        })
}

/// The nearest number within the bounds that a message in lower case names.
fn bounded(value: &str, line: &str) -> Option<String> {
    const BOUNDS: [(&str, i64); 10] = [
        ("at least ", 0),
        ("at most ", 0),
        ("minimum of ", 0),
        ("maximum of ", 0),
        ("between ", 0),
        (" and ", 0),
        ("or equal to ", 0),
        ("greater than ", 1),
        ("less than ", -1),
        (">= ", 0),
    ];
    let number = i64::from(value.parse::<i32>().ok()?);
    let bounds = BOUNDS.iter().filter_map(|(part, shift)| {
        let (_, rest) = line.split_once(part)?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let bound = i64::from(rest[..end].parse::<u32>().ok()?);
        // Such as `3 is less than 10` for a minimum.
        let is_beyond = (bound - number) * shift > 0;
        Some(if is_beyond { bound } else { bound + shift })
    });
    let nearest = bounds
        .filter(|bound| *bound != number)
        .min_by_key(|bound| (bound - number).abs());
    nearest.map(|bound| bound.to_string())
}

/// The listed value that is similar to a rejected one, or else the first.
fn listed(value: &str, line: &str) -> Option<String> {
    let lower = line.to_lowercase();
    let (start, part) = PERMITTED
        .iter()
        .find_map(|part| Some((lower.find(part)?, part)))?;
    let rest = line.get(start + part.len()..)?.trim_start_matches([':', ' ']);
    let rest = rest.split(". ").next()?;
    let words = rest.split(|c: char| c.is_whitespace() || "\"'`,;|[](){}<>".contains(c));
    let known: Vec<&str> = words
        .map(|word| word.trim_matches(['.', ':', '?']))
        .filter(|word| {
            !word.is_empty() && is_plain(word) && !BETWEEN_VALUES.contains(&word.to_lowercase().as_str())
        })
        .collect();
    let first = known
        .first()
        .filter(|first| !KINDS_OF_VALUES.contains(&first.to_lowercase().as_str()))?;
    let is_list =
        known.len() > 1 || line.contains(&format!("'{first}'")) || line.contains(&format!("[{first}]"));
    let same = known.iter().find(|known| known.eq_ignore_ascii_case(value));
    let start = known.iter().find(|known| known.starts_with(value));
    let meant = same
        .or(start)
        .copied()
        .or_else(|| nearest(value, known.iter().copied()));
    let common = |known: &str| {
        known
            .bytes()
            .zip(value.bytes())
            .take_while(|(a, b)| a == b)
            .count()
    };
    let alike = known
        .iter()
        .max_by_key(|known| (common(known), std::cmp::Reverse(known.len())));
    let alike = alike.filter(|known| common(known) >= 4);
    let meant = meant
        .or(alike.copied())
        .or_else(|| Some(*first).filter(|_| is_list))?;
    (meant != value).then(|| meant.to_owned())
}

/// The value in the form of its type.
fn typed(case: &Case<'_>, name: &str, value: &str, line: &str) -> Option<String> {
    let is_about = |parts: &[&str]| parts.iter().any(|part| line.contains(part));
    let number: String = value
        .chars()
        .filter(|c| *c != ',' && *c != '_')
        .skip_while(|c| !c.is_ascii_digit())
        .take_while(char::is_ascii_digit)
        .collect();
    let has_scheme = value.contains("://");
    let server = || siblings(case).find(|sibling| names_service(value, sibling));
    let changed = if let Some(json) = json_of(value, line) {
        json
    } else if is_about(&["too many colons"]) && has_scheme {
        let (_, rest) = value.split_once("://")?;
        rest.split('/').next()?.to_owned()
    } else if is_about(&["missing port"]) {
        format!("{value}:{}", main_port(server()?)?)
    } else if is_about(&["heap size"]) && value.to_lowercase().ends_with('b') {
        value[..value.len() - 1].to_owned()
    } else if is_about(&["duration", "missing unit"]) && !number.is_empty() {
        let unit = value
            .trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ')
            .to_lowercase();
        match unit.get(..1) {
            Some("d") => format!("{}h", number.parse::<u64>().ok()? * 24),
            Some("m") if unit.starts_with("ms") || unit.starts_with("milli") => format!("{number}ms"),
            Some("m") => format!("{number}m"),
            Some("h") => format!("{number}h"),
            _ => format!("{number}s"),
        }
    } else if is_about(&["bool", "true or false", "truthy"]) {
        let is_true =
            ["yes", "on", "1", "enabled", "y", "t", "true"].contains(&value.to_lowercase().as_str());
        is_true.to_string()
    } else if is_about(&["email"]) {
        "admin@example.com".to_owned()
    } else if is_about(&["level"]) && name.to_uppercase().contains("LEVEL") {
        let known = ["debug", "info", "warn", "error", "trace"];
        let lower = value.to_lowercase();
        let meant = known.into_iter().find(|known| lower.starts_with(known));
        meant.unwrap_or("info").to_owned()
    } else if is_about(&["addrparse", "socket address", "ip address"]) {
        format!("0.0.0.0:{}", value.rsplit_once(':')?.1)
    } else if is_about(&NUMBERS) {
        number
    } else if !has_scheme && is_about(&ADDRESSES) {
        let of_server = server().and_then(facts_of).map_or("", |facts| facts.scheme);
        let (before, _) = line.split_once("://").unwrap_or((of_server, ""));
        let scheme = before.rsplit(|c: char| !c.is_ascii_alphanumeric()).next()?;
        format!("{}://{value}", if scheme.is_empty() { "http" } else { scheme })
    } else {
        return None;
    };
    let services = || case.context.accepted.desired.services.values();
    let is_known = |port: &str| {
        port.parse()
            .is_ok_and(|port| services().any(|service| all_ports(service).contains(&port)))
    };
    let is_useful = !changed.is_empty() && changed != value;
    // A port of the service is better than any other number.
    let has_own = ports(case.context.service).len() == 1;
    let is_port = name.ends_with("PORT") && has_own && !is_known(&changed);
    (is_useful && !is_port).then_some(changed)
}
