//! Changes at the place of a known setting: a key, the command, a variable, an address or a mount.

use std::collections::BTreeSet;

use argus_crds::error::SpecEdit;

use crate::desired::Mount;
use crate::remedy::EditContext;
use crate::remedy::case::{add_volume, contains};
use crate::remedy::environment::is_misspelled;
use crate::remedy::images::{own_user, variable_of};
use crate::remedy::shell::{after, list};
use crate::secrets::{REDACTED, is_secret};

/// Place of a setting: the name of a variable, or a part of a text or path, of a service.
pub(super) struct Place<'a> {
    pub(super) context: EditContext<'a>,
    pub(super) name: &'a str,
    pub(super) value: &'a str,
    pub(super) reason: &'a str,
}

impl<'a> Place<'a> {
    fn edit(&self, key: &str) -> SpecEdit {
        self.context.edit(key, self.reason.to_owned())
    }

    fn variable(&self, name: &str) -> SpecEdit {
        self.edit(&format!("container.environment.{name}"))
    }

    /// Word of the command or of the entry point, with its key.
    fn word(&self, fits: impl Fn(&str) -> bool) -> Option<(&'static str, &'a str)> {
        let service = self.context.service;
        let all = [("command", &service.command), ("entrypoint", &service.entrypoint)];
        all.into_iter().find_map(|(key, words)| {
            let word = words.iter().flatten().find(|word| fits(word))?;
            Some((key, word.as_str()))
        })
    }

    fn words(&self) -> Vec<&'a str> {
        let words = self.context.service.command.iter().flatten();
        words.map(String::as_str).collect()
    }

    pub(super) fn in_key(&self, key: &str) -> Option<SpecEdit> {
        let edit = self.edit(key);
        if key == "container.healthcheck" && self.context.accepted.lines.is_compose() {
            return Some(edit.hint("write a test that does it"));
        }
        // A tag such as `3-management-alpine` already has the part `management`.
        let parts = |text: &str| -> BTreeSet<String> { text.split(['-', ':']).map(str::to_owned).collect() };
        let now = edit.now.as_deref().unwrap_or_default();
        if let Some(user) = own_user(self.context.service).filter(|user| key == "user" && now != *user) {
            return Some(edit.suggest(user));
        }
        let has_variant = self.value.rsplit(':').next().is_some_and(|tag| tag.contains('-'));
        let has_all = key == "image" && has_variant && parts(self.value).is_subset(&parts(now));
        (!has_all && now != self.value).then(|| edit.suggest(self.value))
    }

    pub(super) fn in_command(&self, kind: &str) -> Option<SpecEdit> {
        let (words, value) = (self.words(), self.value);
        let edit = self.edit("command");
        let at = words.iter().position(|word| word.starts_with(self.name));
        match kind {
            "word" => {
                let (key, word) = self.word(|word| word.starts_with(self.name))?;
                Some(self.edit(key).now(word).suggest(value))
            }
            "drop" => {
                let at = at?;
                let start = at - usize::from(at > 0 && words[at - 1] == "-c");
                Some(edit.suggest(list(&[&words[..start], &words[at + 1..]].concat())?))
            }
            "before" => {
                let (first, usual) = value.rsplit_once(" && ")?;
                after(&self.context, first, usual, self.reason)
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

    pub(super) fn in_variable(&self, kind: &str) -> Option<SpecEdit> {
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
            (_, Some(_)) if is_secret(name) => self.variable(name).now(REDACTED).suggest(value),
            (_, Some(set)) => self.variable(name).now(set).suggest(value),
            (_, None) => match variables.keys().find(|other| is_misspelled(other, name)) {
                Some(wrong) => self.variable(wrong).now(wrong.as_str()).suggest(name),
                None if value.is_empty() => self.variable(name),
                None => self.variable(name).suggest(value),
            },
        })
    }

    /// Options of an address.
    pub(super) fn in_options(&self) -> Option<SpecEdit> {
        let value = self.value;
        let (option, _) = value.split_once('=')?;
        let is_meant = |text: &str| contains(text, &[self.name]) && !text.contains(&format!("{option}="));
        let mut variables = self.context.service.env_vars.iter();
        let in_variable = variables.find(|(_, text)| is_meant(text));
        let in_variable = in_variable.map(|(name, text)| (self.variable(name), text.as_str()));
        let in_command = || {
            let (key, found) = self.word(is_meant)?;
            Some((self.edit(key), found))
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

    pub(super) fn in_text(&self, kind: &str) -> Option<SpecEdit> {
        let name = self.name;
        let is_part = |text: &str| kind == "sub" && text.contains(name);
        let mut variables = self.context.service.env_vars.iter();
        let in_variable = variables.find(|(_, text)| text.starts_with(name) || is_part(text));
        let in_command = || {
            let (key, _) = self.word(|word| word == name || is_part(word))?;
            Some(self.edit(key))
        };
        let edit = in_variable.map(|(other, _)| self.variable(other));
        Some(edit.or_else(in_command)?.now(name).suggest(self.value))
    }

    pub(super) fn in_mount(&self, kind: &str) -> Option<SpecEdit> {
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
