//! Messages of well-known programs with one cause and one setting that removes it, as data.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use argus_crds::error::SpecEdit;

use super::EditContext;
use super::case::{Case, add_tmpfs, add_volume, contains, is_plain, quoted};
use super::classes::REFUSED;
use super::environment::is_misspelled;
use super::images::{is_named, rows, service_with, variable_of, version_and_variant};
use super::network::{siblings, uses};
use super::rule::Scope;
use super::settings::configuration_file;
use super::shell::{SHELLS, list};
use crate::desired::{Mount, Service};
use crate::failed_run::FailureCause;
use crate::quoting::shell_word;

/// A setting that removes the cause of a message.
struct Cure {
    /// Parts of one line, in lower case, with `&` between them. A line has all of them. After `+`, a part can be in another line.
    parts: &'static str,
    /// Images of the service with the setting; the service itself if empty. After `=`, it is no sibling. After `!`, a variable that excludes
    /// the setting.
    images: &'static str,
    /// Key of the service, or one of these: `env NAME` sets a variable, `default NAME` an absent one, `env+ NAME` and `env, NAME` add to a
    /// list in it, `part NAME` replaces a part of it, `rename NAME` and `unset NAME` change a present one; `url SCHEME` adds to the options
    /// of an address, `swap START` replaces the start of a variable or a word of the command, `sub PART` any part; `command` adds words,
    /// `word START` replaces and `drop START` removes one, `before` runs another command first; `mount PATH` moves a mount, `volume PATH`
    /// replaces the folder of the host, `bind PATH` adds one; `file` means the mounted configuration.
    key: &'static str,
    /// New value, with `SELF` for the name of the service, `VERSION`, `MAJOR` and `VARIANT` of its tag, and `QUOTED`, `LAST` or `NEXT` (after the
    /// parts) of the line.
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

/// Line in the place of a message for a process that the kernel killed, although the file sets no limit of memory.
const OUT_OF_MEMORY: &str = "<out of memory>";

/// The same for a client that a server refuses, because by default it accepts connections only from its own container.
const REFUSES: &str = "<refused>";

/// Setting of the table for a message of the program, or of the result of its health check.
pub(super) fn known_cure(case: &Case<'_>) -> Option<SpecEdit> {
    let in_check = case
        .run
        .probe_output
        .last()
        .into_iter()
        .flat_map(|output| output.lines());
    // Such a program continues after a line without an error.
    let is_unhealthy = case.run.cause == FailureCause::Unhealthy;
    let all = output(case).filter(|_| is_unhealthy);
    case.lines()
        .chain(in_check)
        .chain(all)
        .find_map(|line| cure_of(case, line))
}

/// The same for a message that the program logs as a warning.
pub(super) fn known_warning(case: &Case<'_>) -> Option<SpecEdit> {
    output(case).find_map(|line| cure_of(case, line))
}

/// Setting of the table for a program that needs too much memory without a limit.
pub(super) fn known_memory(case: &Case<'_>) -> Option<SpecEdit> {
    cure_of(case, OUT_OF_MEMORY).filter(|_| case.run.memory_limit.is_none())
}

/// Listen address of a sibling that by default accepts connections only from its own container.
pub(super) fn local_default(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&REFUSED)?;
    let mut used = siblings(case).filter(|sibling| uses(case, sibling, line));
    used.find_map(|sibling| {
        let is_of_server = |cure: &&Cure| cure.parts == REFUSES && is_named(sibling, cure.images);
        let mut known = CURES.iter().filter(is_of_server);
        known.find_map(|cure| cure.edit_of(case, sibling, line))
    })
}

fn output<'a>(case: &Case<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    let evidence = case.run.evidence.iter();
    let all = evidence.flat_map(|found| found.stderr.iter().chain(&found.stdout));
    all.map(String::as_str)
}

pub(super) fn cure_of(case: &Case<'_>, line: &str) -> Option<SpecEdit> {
    let lower = line.to_lowercase();
    CURES
        .iter()
        .filter(|cure| cure.fits(case, &lower))
        .find_map(|cure| cure.edit_of(case, cure.service(case)?, line))
}

impl Cure {
    /// Returns whether it is one for a line in lower case.
    fn fits(&self, case: &Case<'_>, lower: &str) -> bool {
        let mut lines = self.parts.split(" + ");
        let parts = lines.next().unwrap_or_default();
        let is_elsewhere = |part: &str| {
            let results = case.run.probe_output.iter().map(String::as_str);
            output(case).chain(results).any(|line| contains(line, &[part]))
        };
        parts.split(" & ").all(|part| lower.contains(part)) && lines.all(is_elsewhere)
    }

    fn service<'a>(&self, case: &Case<'a>) -> Option<&'a Service> {
        let own = case.context.service;
        match self.images.strip_prefix('=') {
            Some(images) => is_named(own, images).then_some(own),
            None => service_with(case, self.images),
        }
    }

    fn edit_of(&self, case: &Case<'_>, service: &Service, line: &str) -> Option<SpecEdit> {
        let excludes = |name: &str| service.env_vars.contains_key(name);
        if self.images.split(" !").skip(1).any(excludes) {
            return None;
        }
        let context = case.context.with_service(service);
        let value = self.value_for(service, line)?;
        let (kind, name) = self.key.split_once(' ').unwrap_or((self.key, ""));
        let place = Place {
            context,
            name,
            value: &value,
            reason: self.reason,
        };
        match kind {
            "command" | "word" | "drop" | "before" => place.in_command(kind),
            "env" | "env+" | "env," | "default" | "part" | "rename" | "unset" => place.in_variable(kind),
            "url" => place.in_options(),
            "swap" | "sub" => place.in_text(kind),
            "mount" | "volume" | "bind" => place.in_mount(kind),
            "tmpfs" => Some(add_tmpfs(&context, &value, self.reason.to_owned())),
            "file" => {
                let file = configuration_file(&Case::new(context, case.run, Scope::Facts))?;
                Some(Case::host_edit(
                    file,
                    self.reason,
                    format!("{value}, then `argus_retry`"),
                ))
            }
            _ => place.in_key(self.key),
        }
    }

    /// Value of the setting for a service; `None` if the line does not contain its part.
    fn value_for(&self, service: &Service, line: &str) -> Option<String> {
        let (version, variant) = version_and_variant(service);
        let major = version.split('.').next().filter(|major| !major.is_empty());
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
            ("VERSION", Some(version).filter(|version| !version.is_empty())),
            ("MAJOR", major),
            // A tag such as `latest` has no version before it.
            ("VARIANT", Some(if major.is_some() { variant } else { "" })),
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

/// Place of a setting: the name of a variable, or a part of a text or path, of a service.
struct Place<'a> {
    context: EditContext<'a>,
    name: &'a str,
    value: &'a str,
    reason: &'a str,
}

impl<'a> Place<'a> {
    fn edit(&self, key: &str) -> SpecEdit {
        self.context.edit(key, self.reason.to_owned())
    }

    fn variable(&self, name: &str) -> SpecEdit {
        self.edit(&format!("container.environment.{name}"))
    }

    fn words(&self) -> Vec<&'a str> {
        let words = self.context.service.command.iter().flatten();
        words.map(String::as_str).collect()
    }

    fn in_key(&self, key: &str) -> Option<SpecEdit> {
        let edit = self.edit(key);
        // A tag such as `3-management-alpine` already has the part `management`.
        let parts = |text: &str| -> BTreeSet<String> { text.split(['-', ':']).map(str::to_owned).collect() };
        let now = edit.now.as_deref().unwrap_or_default();
        let has_all = key == "image" && parts(self.value).is_subset(&parts(now));
        (!has_all && now != self.value).then(|| edit.suggest(self.value))
    }

    fn in_command(&self, kind: &str) -> Option<SpecEdit> {
        let (words, value) = (self.words(), self.value);
        let edit = self.edit("command");
        let at = words.iter().position(|word| word.starts_with(self.name));
        match kind {
            "word" => Some(edit.now(words[at?]).suggest(value)),
            "drop" => {
                let at = at?;
                let start = at - usize::from(at > 0 && words[at - 1] == "-c");
                Some(edit.suggest(list(&[&words[..start], &words[at + 1..]].concat())?))
            }
            "before" => {
                let (first, usual) = value.split_once(" && ")?;
                let text = match &words[..] {
                    [] => usual.to_owned(),
                    [shell, .., text] if SHELLS.contains(&shell.rsplit('/').next()?) => (*text).to_owned(),
                    all => all
                        .iter()
                        .map(|word| shell_word(word))
                        .collect::<Vec<_>>()
                        .join(" "),
                };
                // A job of the environment does it.
                let mut services = self.context.accepted.desired.services.values();
                let is_run = text.contains(first) || services.any(|service| service.one_shot);
                (!is_run).then(|| Some(edit.suggest(list(&["sh", "-c", &format!("{first} && {text}")])?)))?
            }
            _ => {
                // Such as `-c max_connections=300`.
                if let Some((name, _)) = value.strip_prefix("-c ").and_then(|set| set.split_once('='))
                    && let Some(word) = words.iter().find(|word| word.split('=').next() == Some(name))
                {
                    let meant = &value["-c ".len()..];
                    return (*word != meant).then(|| edit.now(*word).suggest(meant));
                }
                let option = |word: &str| word.split(['=', ' ']).next().map(str::to_owned);
                if words
                    .iter()
                    .any(|word| *word != "-c" && option(word) == option(value))
                {
                    return None;
                }
                Some(if let Some(now) = edit.now.clone() {
                    edit.suggest(format!("{now} {value}"))
                } else {
                    let all = words.iter().copied().chain(value.split(' '));
                    edit.suggest(list(&all.collect::<Vec<_>>())?)
                })
            }
        }
    }

    fn in_variable(&self, kind: &str) -> Option<SpecEdit> {
        let variables = &self.context.service.env_vars;
        let name = &variable_of(self.context.service, self.name);
        let value = self.value;
        let set = variables.get(name).map(String::as_str);
        let set = set.filter(|set| !set.is_empty());
        Some(match (kind, set) {
            ("part", Some(set)) => {
                let (now, meant) = value.split_once(' ').filter(|(now, _)| set.contains(now))?;
                self.variable(name).now(now).suggest(meant)
            }
            ("rename", Some(_)) => self.variable(name).now(name).suggest(value),
            ("unset", Some(_)) => self.variable(name).suggest("\"\"").hint("or remove it"),
            ("part" | "rename" | "unset", None) | ("default", Some(_)) => return None,
            (_, Some(set)) if set == value || value.is_empty() => return None,
            ("env+" | "env,", Some(set)) if set.split([' ', ',']).any(|word| word == value) => return None,
            ("env+", Some(set)) => self.variable(name).now(set).suggest(format!("{set} {value}")),
            ("env,", Some(set)) => self.variable(name).now(set).suggest(format!("{set},{value}")),
            (_, Some(set)) => self.variable(name).now(set).suggest(value),
            (_, None) => match variables.keys().find(|other| is_misspelled(other, name)) {
                Some(wrong) => self.variable(wrong).now(wrong.as_str()).suggest(name),
                None if value.is_empty() => self.variable(name),
                None => self.variable(name).suggest(value),
            },
        })
    }

    /// Options of an address.
    fn in_options(&self) -> Option<SpecEdit> {
        let value = self.value;
        let (option, _) = value.split_once('=')?;
        let is_meant = |text: &str| contains(text, &[self.name]) && !text.contains(&format!("{option}="));
        let mut variables = self.context.service.env_vars.iter();
        let in_variable = variables.find(|(_, text)| is_meant(text));
        let in_variable = in_variable.map(|(name, text)| (self.variable(name), text.as_str()));
        let in_command = || {
            let found = self.words().into_iter().find(|word| is_meant(word))?;
            Some((self.edit("command"), found))
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
        Some(edit.now(part).suggest(format!("{part}{mark}{value}")))
    }

    fn in_text(&self, kind: &str) -> Option<SpecEdit> {
        let name = self.name;
        let is_part = |text: &str| kind == "sub" && text.contains(name);
        let mut variables = self.context.service.env_vars.iter();
        let in_variable = variables.find(|(_, text)| text.starts_with(name) || is_part(text));
        let in_command = || {
            let words = self.words();
            let is_meant = |word: &&str| *word == name || is_part(word);
            words.into_iter().find(is_meant).map(|_| self.edit("command"))
        };
        let edit = in_variable.map(|(other, _)| self.variable(other));
        Some(edit.or_else(in_command)?.now(name).suggest(self.value))
    }

    fn in_mount(&self, kind: &str) -> Option<SpecEdit> {
        let (service, name) = (self.context.service, self.name);
        let mut mounts = service.mounts.iter();
        let index = mounts.position(|mount| mount.target().trim_end_matches('/') == name);
        if kind == "bind" {
            let add = || add_volume(&self.context, self.value, self.reason.to_owned());
            return index.is_none().then(add);
        }
        let index = index?;
        let edit = self.edit(&format!("container.volumes[{index}]"));
        if kind == "mount" {
            let now = edit.now.as_ref()?;
            let meant = now.replacen(&format!(":{name}"), &format!(":{}", self.value), 1);
            return Some(edit.suggest(meant));
        }
        let is_folder = matches!(service.mounts[index], Mount::Bind { .. });
        is_folder.then(|| edit.suggest(format!("{}-data:{name}", service.name)))
    }
}

#[cfg(test)]
#[path = "cures_tests.rs"]
mod tests;
