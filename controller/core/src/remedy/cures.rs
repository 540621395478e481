//! Messages of well-known programs with one cause and one setting that removes it, as data.

use std::sync::LazyLock;

use argus_crds::error::SpecEdit;

use super::case::{Case, add_tmpfs, contains, is_plain, quoted};
use super::environment::is_misspelled;
use super::images::{rows, service_with};
use super::shell::list;
use crate::desired::{Mount, Service};
use crate::failed_run::FailureCause;

/// A setting that removes the cause of a message.
struct Cure {
    /// Parts of one line, in lower case, with `&` between them. A line has all of them.
    parts: &'static str,
    /// Images of the service with the setting; the service itself if empty.
    images: &'static str,
    /// Key of the service, or one of these: `env NAME` sets a variable, `env+ NAME` and `env, NAME` add to a list in it, `part NAME`
    /// replaces a part of it, `url SCHEME` adds to the options of an address, `swap START` replaces the start of a variable or a word of
    /// the command, `command` adds words, `mount PATH` moves a mount, `volume PATH` replaces the folder of the host.
    key: &'static str,
    /// New value, with `SELF` for the name of the service, `MAJOR` of its tag, and `QUOTED`, `LAST` or `NEXT` (after the parts) of the line.
    value: &'static str,
    reason: &'static str,
}

static CURES: LazyLock<Vec<Cure>> = LazyLock::new(|| {
    let of_row = |[parts, images, key, value, reason]: [&'static str; 5]| Cure {
        parts,
        images,
        key,
        value,
        reason,
    };
    rows(include_str!("facts/messages.txt")).map(of_row).collect()
});

/// Setting of the table for a message of the program, or of the result of its health check.
pub(super) fn known_cure(case: &Case<'_>) -> Option<SpecEdit> {
    let in_check = case
        .run
        .probe_output
        .last()
        .into_iter()
        .flat_map(|output| output.lines());
    // Such a program continues after a line without an error.
    let evidence = case
        .run
        .evidence
        .as_ref()
        .filter(|_| case.run.cause == FailureCause::Unhealthy);
    let all = evidence
        .into_iter()
        .flat_map(|found| found.stderr.iter().chain(&found.stdout));
    let all = all.map(String::as_str);
    case.lines().chain(in_check).chain(all).find_map(|line| {
        let lower = line.to_lowercase();
        let fits = |cure: &&Cure| cure.parts.split(" & ").all(|part| lower.contains(part));
        CURES.iter().filter(fits).find_map(|cure| cure.edit(case, line))
    })
}

impl Cure {
    fn edit(&self, case: &Case<'_>, line: &str) -> Option<SpecEdit> {
        let service = service_with(case, self.images)?;
        let context = case.context.with_service(service);
        let value = self.value_for(service, line)?;
        let (kind, name) = self.key.split_once(' ').unwrap_or((self.key, ""));
        let variables = &service.env_vars;
        let words = || service.command.iter().flatten().map(String::as_str);
        let edit = |key: &str| context.edit(key, self.reason.to_owned());
        let variable = |name: &str| edit(&format!("container.environment.{name}"));
        let set = variables
            .get(name)
            .map(String::as_str)
            .filter(|set| !set.is_empty());
        Some(match (kind, set) {
            ("command", _) => {
                let option = |word: &str| word.split(['=', ' ']).next().map(str::to_owned);
                if words().any(|word| word != "-c" && option(word) == option(&value)) {
                    return None;
                }
                let edit = edit(kind);
                match edit.now.clone() {
                    Some(now) => edit.suggest(format!("{now} {value}")),
                    None => edit.suggest(list(&words().chain(value.split(' ')).collect::<Vec<_>>())?),
                }
            }
            ("url", _) => {
                let (option, _) = value.split_once('=')?;
                let is_meant = |text: &str| contains(text, &[name]) && !text.contains(&format!("{option}="));
                let in_variable = variables.iter().find(|(_, text)| is_meant(text));
                let in_variable = in_variable.map(|(name, text)| (variable(name), text.as_str()));
                let in_command = || {
                    words()
                        .find(|word| is_meant(word))
                        .map(|word| (edit("command"), word))
                };
                let (edit, text) = in_variable.or_else(in_command)?;
                // Without the other parts, which can contain a password.
                let in_list = text
                    .split(';')
                    .find(|part| contains(part, &["database", "initial catalog"]));
                let (part, mark) = match in_list.filter(|_| text.contains(';')) {
                    Some(part) => (part, ';'),
                    None => (
                        &text[text.rfind(['/', '?'])?..],
                        if text.contains('?') { '&' } else { '?' },
                    ),
                };
                edit.now(part).suggest(format!("{part}{mark}{value}"))
            }
            ("swap", _) => {
                let in_variable = variables.iter().find(|(_, text)| text.starts_with(name));
                let in_command = || words().find(|word| *word == name).map(|_| edit("command"));
                let edit = in_variable
                    .map(|(other, _)| variable(other))
                    .or_else(in_command)?;
                edit.now(name).suggest(value)
            }
            ("word", _) => {
                let word = words().find(|word| word.starts_with(name))?;
                edit("command").now(word).suggest(value)
            }
            ("mount", _) => {
                let index = service.mounts.iter().position(|mount| mount.target() == name)?;
                let edit = edit(&format!("container.volumes[{index}]"));
                let meant = edit
                    .now
                    .as_ref()?
                    .replacen(&format!(":{name}"), &format!(":{value}"), 1);
                edit.suggest(meant)
            }
            ("volume", _) => {
                let index = service.mounts.iter().position(|mount| mount.target() == name)?;
                if !matches!(service.mounts[index], Mount::Bind { .. }) {
                    return None;
                }
                let edit = edit(&format!("container.volumes[{index}]"));
                edit.suggest(format!("{}-data:{name}", service.name))
            }
            ("part", Some(set)) => {
                let (now, meant) = value.split_once(' ').filter(|(now, _)| set.contains(now))?;
                variable(name).now(now).suggest(meant)
            }
            ("part", None) => return None,
            ("env" | "env+" | "env,", Some(set)) if set == value || value.is_empty() => return None,
            ("env+" | "env,", Some(set)) if set.split([' ', ',']).any(|word| word == value) => return None,
            ("env+", Some(set)) => variable(name).now(set).suggest(format!("{set} {value}")),
            ("env,", Some(set)) => variable(name).now(set).suggest(format!("{set},{value}")),
            ("env", Some(set)) => variable(name).now(set).suggest(value),
            ("env" | "env+" | "env,", None) => {
                match variables.keys().find(|other| is_misspelled(other, name)) {
                    Some(wrong) => variable(wrong).now(wrong.as_str()).suggest(name),
                    None if value.is_empty() => variable(name),
                    None => variable(name).suggest(value),
                }
            }
            ("tmpfs", _) => add_tmpfs(&context, &value, self.reason.to_owned()),
            _ => edit(self.key).suggest(value),
        })
    }

    /// Value of the setting for a service; `None` if the line does not contain its part.
    fn value_for(&self, service: &Service, line: &str) -> Option<String> {
        let (_, tag) = service.image.reference().rsplit_once(':').unwrap_or_default();
        let major = tag
            .split(['.', '-'])
            .next()
            .filter(|major| major.parse::<u32>().is_ok());
        let quoted = quoted(line).find(|text| is_plain(text) && !text.contains(' '));
        let last = line
            .split_whitespace()
            .next_back()
            .map(|last| last.trim_end_matches(['.', '\'', '"']));
        let first = self.parts.split(" & ").next().unwrap_or_default();
        let at = line.to_lowercase().find(first).map(|at| at + first.len());
        let next = at.and_then(|at| line.get(at..)?.split_whitespace().next());
        let next = next.map(|next| next.trim_matches(|c: char| "\"'`,.".contains(c)));
        let parts = [
            ("NEXT", next.filter(|next| is_plain(next))),
            ("SELF", Some(service.name.as_str())),
            ("MAJOR", major),
            ("QUOTED", quoted),
            ("LAST", last.filter(|last| is_plain(last))),
        ];
        parts
            .into_iter()
            .try_fold(self.value.to_owned(), |value, (name, part)| {
                Some(if value.contains(name) {
                    value.replace(name, part?)
                } else {
                    value
                })
            })
    }
}

#[cfg(test)]
#[path = "cures_tests.rs"]
mod tests;
