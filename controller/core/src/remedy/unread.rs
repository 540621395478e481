//! Settings that a program does not read: variables with an earlier name, files at another place, and what its output advises instead.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, is_below, is_plain};
use super::classes::{REFUSED, REFUSED_PASSWORD, UNKNOWN_COMMAND, UNKNOWN_OPTION};
use super::cures::output;
use super::images::{is_named, rows};
use super::network::{siblings, uses};
use super::probe::is_status;
use super::rejected::names_writing;
use super::rule::Scope;
use super::shell::{SHELLS, list};
use super::values::{self, Value};
use crate::desired::{Mount, Service};
use crate::failed_run::FailureCause;

parts! {
    /// Words of advice in front of a setting, in lower case.
    ADVICE: "set " "use " "using " "add " "pass" "specify" "try " "export " "please" "example" "provide" "-e " "run ";
    /// Words of advice against a setting, in lower case.
    AGAINST: "remove" "unset" "without" "instead" "do not " "don't" "deprecated" "ignored" "disabling" "different user" "backtrace"
        "debug" "verbose" "for more" "to display" "to show";
    /// Ends of a text in front of an option that it advises, in lower case.
    BEFORE_OPTION: "use" "using" "with" "pass" "passing" "add" "adding" "specify" "specifying" "set" "setting" "try" "the"
        "supply" "or";
    /// Parts of values that a reader replaces, in lower case.
    PLACEHOLDERS: "<" "$" "{" "your" "xxx" "..." "[";
}

/// Variable or word of the command that this version of the image does not know, with its present name. The last examination needs no line
/// that names it, because such a variable has no effect. A login or database of a server can be missing for the same reason.
pub(super) fn renamed_setting(case: &Case<'_>) -> Option<SpecEdit> {
    parts! {
        /// Parts of a message about what a server would have made from its variables, in lower case.
        NOT_MADE: "does not exist" "doesn't exist" "unknown database";
    }
    let own = case.context.service;
    let of_server = case
        .line_with(&REFUSED_PASSWORD)
        .or_else(|| case.line_with(NOT_MADE));
    let servers = siblings(case).filter(|sibling| of_server.is_some_and(|line| uses(case, sibling, line)));
    renamed_word(case).or_else(|| {
        std::iter::once(own)
            .chain(servers)
            .find_map(|service| renamed_in(case, service))
    })
}

/// Earlier names of settings with the present ones, for an image.
pub(super) fn renamed(service: &Service) -> impl Iterator<Item = [&'static str; 2]> {
    let known = rows(include_str!("facts/renamed.txt"));
    known.filter_map(move |[image, old, new]: [&'static str; 3]| {
        is_named(service, image).then_some([old, new])
    })
}

fn renamed_in(case: &Case<'_>, service: &Service) -> Option<SpecEdit> {
    let set = &service.env_vars;
    let is_needed = case.scope != Scope::Warned && service.name == case.context.service.name;
    renamed(service).find_map(|[old, new]| {
        let is_old = |name: &&String| {
            let rest = name.strip_prefix(old);
            rest.is_some_and(|rest| rest.is_empty() || old.ends_with('_'))
        };
        let name = set.keys().find(is_old)?;
        let meant = format!("{new}{}", &name[old.len()..]);
        let mut lines = case.lines();
        let mut is_reported = || {
            lines.any(|line| {
                line.contains(&meant) || line.contains(name.as_str()) || names_writing(line, name)
            })
        };
        if set.contains_key(&meant) || (is_needed && !is_reported()) {
            return None;
        }
        let reason = format!("this version of `{}` does not read `{name}`", service.name);
        let context = case.context.with_service(service);
        let edit = context.edit(&format!("container.environment.{name}"), reason);
        Some(edit.now(name.as_str()).suggest(meant))
    })
}

fn renamed_word(case: &Case<'_>) -> Option<SpecEdit> {
    let unknown = case.line_with(&UNKNOWN_OPTION);
    let line = unknown.or_else(|| case.line_with(&UNKNOWN_COMMAND))?;
    renamed(case.context.service).find_map(|[old, new]| {
        let old = old.strip_prefix('$')?;
        let mut words = case.words().flat_map(|word| word.split_whitespace());
        let word = words.find(|word| word.split('=').next() == Some(old))?;
        let is_reported = line.contains(old.trim_start_matches('-'));
        let reason = format!("this version of the program does not know `{old}`");
        let edit = case.context.edit(case.command_key(old), reason);
        // A new value replaces the present one.
        let now = if new.contains('=') { word } else { old };
        is_reported.then(|| edit.now(now).suggest(new))
    })
}

/// Mounted configuration at a place that its image does not read: of a server that refuses a connection, or of the service itself.
pub(super) fn unread_file(case: &Case<'_>) -> Option<SpecEdit> {
    let is_of_table = |line: &&str| {
        contains(line, &["relation \"", "no such table", "table '"])
            && contains(line, &["not exist", "doesn't exist", "no such"])
    };
    let no_table = || case.lines().find(is_of_table);
    let refused = case.line_with(&REFUSED).or_else(no_table);
    let servers = siblings(case).filter(|sibling| refused.is_some_and(|line| uses(case, sibling, line)));
    let own = Some(case.context.service).filter(|_| case.scope == Scope::Warned);
    servers
        .chain(own)
        .find_map(|service| unread_file_of(case, service))
}

/// The same for the service itself, whose program reports that it has no configuration.
pub(super) fn default_configuration(case: &Case<'_>) -> Option<SpecEdit> {
    parts! {
        DEFAULT: "starting in local only mode" "using default config" "using built-in default" "no config file found"
            "no configuration file found" "config file not found" "configuration file not found" "running with default";
    }
    let is_meant = |line: &&str| contains(line, DEFAULT);
    if case.run.cause == FailureCause::Unhealthy {
        output(case).find(is_meant)?;
    } else {
        case.lines().find(is_meant)?;
    }
    unread_file_of(case, case.context.service)
}

/// The same for the service itself, which answers with an error of the request.
pub(super) fn unread_mount(case: &Case<'_>) -> Option<SpecEdit> {
    let last = case.run.last_probe_output()?;
    let is_meant = ["403", "404"].iter().any(|status| is_status(last, status));
    unread_file_of(case, case.context.service).filter(|_| is_meant && !case.context.was_healthy())
}

fn unread_file_of(case: &Case<'_>, service: &Service) -> Option<SpecEdit> {
    let texts = || {
        let words = service.entrypoint.iter().chain(&service.command).flatten();
        words.chain(service.env_vars.values())
    };
    let known = rows(include_str!("facts/configs.txt"));
    let known: Vec<[&str; 3]> = known
        .filter(|[image, ..]: &[&str; 3]| is_named(service, image))
        .collect();
    let reads = |place: &str, target: &str| is_below(place, target) || is_below(target, place);
    let is_present = |place: &str| service.mounts.iter().any(|mount| reads(place, mount.target()));
    let mut mounts = service.mounts.iter().map(Mount::target).enumerate();
    let (index, target, meant) = mounts.find_map(|(index, target)| {
        let is_read = known.iter().any(|[_, place, _]| reads(place, target));
        let is_used = texts().any(|text| text.contains(target));
        let mut absent = known.iter().filter(|[_, place, _]| !is_present(place));
        let meant = absent.find_map(|row| place_for(target, row, &known, &is_present))?;
        (!is_read && !is_used).then_some((index, target, meant))
    })?;
    let reason = format!("the image reads `{meant}`, and the mount is at `{target}`");
    let context = case.context.with_service(service);
    let edit = context.edit(&format!("container.volumes[{index}]"), reason);
    let now = edit.now.as_ref()?;
    let meant = now.replacen(&format!(":{target}"), &format!(":{meant}"), 1);
    Some(edit.suggest(meant))
}

/// Place of a mount in a row of facts: the file with its name, or the folder for files with its ending, or with a similar name.
fn place_for(
    target: &str,
    [_, place, end]: &[&str; 3],
    known: &[[&str; 3]],
    is_present: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let (parent, name) = target.rsplit_once('/')?;
    let Some(folder) = place.strip_suffix('/') else {
        let (folder, file) = place.rsplit_once('/')?;
        if file == name {
            return Some((*place).to_owned());
        }
        let (other, usual) = folder.rsplit_once('/')?;
        // An abbreviation of the folder, such as `conf` for `config`.
        let is_short = parent == other && name.len() >= 4 && usual.starts_with(name) && !other.is_empty();
        return is_short.then(|| folder.to_owned());
    };
    let (other, usual) = folder.rsplit_once('/')?;
    let [name_start, usual_start] = [name, usual].map(|name| name.trim_end_matches(".d"));
    let is_similar = name_start.starts_with(usual_start) || usual_start.starts_with(name_start);
    if parent == other && name_start.len() >= 4 && is_similar {
        return Some(folder.to_owned());
    }
    // Another file with this ending can name it.
    let mut files = known.iter().filter(|[_, file, _]| file.ends_with(*end));
    let has_file = files.any(|[_, file, _]| is_present(file));
    let is_only = known.iter().filter(|[.., other]| other == end).count() == 1;
    let is_meant = is_only || target.contains(usual.trim_end_matches('s'));
    (target.ends_with(*end) && is_meant && !has_file).then(|| format!("{place}{name}"))
}

/// Variable with the value that the output advises, such as `ALLOW_EMPTY_PASSWORD=yes`.
pub(super) fn advised_variable(case: &Case<'_>) -> Option<SpecEdit> {
    let set = &case.context.service.env_vars;
    let mut lines = case.lines().filter(|line| is_advice(line));
    lines.find_map(|line| {
        let is_end = |c: char| c.is_whitespace() || "\"'`(),;".contains(c);
        let words: Vec<&str> = line.split(is_end).filter(|word| !word.is_empty()).collect();
        words.iter().enumerate().find_map(|(index, word)| {
            let (name, value) = word.split_once('=')?;
            let is_letter = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            if name.len() < 4 || !name.contains('_') || !name.chars().all(is_letter) {
                return None;
            }
            // A quote can be between both.
            let next = || words.get(index + 1).copied().unwrap_or_default();
            let value = if value.is_empty() { next() } else { value };
            let value = value.trim_end_matches(['.', ':', '!']);
            let edit = case.variable(name, "the output advises this setting");
            let present = set.get(name).map(String::as_str);
            if present == Some(value) {
                return None;
            }
            let edit = match present {
                Some(present) => edit.now(present),
                None => edit,
            };
            if !value.is_empty() && !contains(value, PLACEHOLDERS) {
                return Some(edit.suggest(value));
            }
            match values::missing(case, name)? {
                Value::Text(text) => Some(edit.suggest(text)),
                Value::Any(text) => Some(edit.suggest(text)),
                Value::Of(other, owner) => {
                    Some(edit.hint(format!("write the value of `{other}` of `{owner}`")))
                }
            }
        })
    })
}

fn is_advice(line: &str) -> bool {
    contains(line, ADVICE) && !contains(line, AGAINST)
}

/// Option of its program that the output advises. Options of the engine are other keys.
pub(super) fn advised_option(case: &Case<'_>) -> Option<SpecEdit> {
    parts! {
        OF_ENGINE: "--env" "--volume" "--network" "--security-opt" "--mount" "--publish" "--help" "--version" "--cap-add"
            "--entrypoint" "--platform" "--privileged" "--device" "--user" "--ulimit" "--sysctl" "--memory" "--shm-size";
    }
    let words = case.command_words();
    let is_shell = case.program().is_none_or(|program| SHELLS.contains(&program));
    let is_set = |option: &str| {
        words
            .iter()
            .any(|word| word.split(['=', ' ']).any(|part| part == option))
    };
    let mut lines = case.lines().filter(|line| is_advice(line));
    let option = lines.find_map(|line| {
        line.match_indices("--").find_map(|(at, _)| {
            let is_end = |c: char| c.is_whitespace() || "\"'`,;)".contains(c);
            let option = line[at..].split(is_end).next()?.trim_end_matches('.');
            let before = line[..at].to_lowercase();
            let before = before.trim_end_matches(|c: char| c.is_whitespace() || "\"'`(".contains(c));
            let is_advised = BEFORE_OPTION.iter().any(|word| before.ends_with(word));
            let name = option.split('=').next().filter(|name| name.len() > 4)?;
            let is_own = !OF_ENGINE.contains(&name) && !is_set(name) && option[2..].split('=').all(is_plain);
            (is_advised && is_own).then_some(option)
        })
    })?;
    if words.is_empty() || is_shell || contains(option, PLACEHOLDERS) {
        return None;
    }
    let edit = case
        .context
        .edit("command", "the output advises this option".to_owned());
    match edit.now.clone() {
        Some(now) => Some(edit.suggest(format!("{now} {option}"))),
        None => Some(edit.suggest(list(&[&words[..], &[option]].concat())?)),
    }
}

#[cfg(test)]
#[path = "unread_tests.rs"]
mod tests;
