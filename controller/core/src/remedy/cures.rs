//! Messages of well-known programs with one cause and one setting that removes it, as data.

use std::net::Ipv4Addr;
use std::sync::LazyLock;

use argus_crds::error::SpecEdit;

use super::case::{Case, add_tmpfs, contains, is_plain, quoted};
use super::classes::REFUSED;
use super::images::{is_flavour, is_named, rows, version_and_variant};
use super::network::{siblings, uses};
use super::rule::Scope;
use super::settings::configuration_file;
use crate::desired::Service;
use crate::failed_run::FailureCause;

mod place;

use place::Place;

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
    /// New value, with `SELF` for the name of the service, `WORDS` for its command in the file, `VERSION`, `MAJOR` and `VARIANT` of its tag, and
    /// `QUOTED`, `LAST` or `NEXT` (after the parts) of the line, or `BOUND` for its first IPv4 address; also in the part of `sub`.
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

/// Images with the services of AWS that accept any login.
const EMULATORS: &str = "localstack localstack-pro minio dynamodb-local moto elasticmq elasticmq-native goaws s3mock seaweedfs garage";

/// Setting of the table for a message of the program, or of the result of its health check.
pub(super) fn known_cure(case: &Case<'_>) -> Option<SpecEdit> {
    let in_check = case
        .run
        .last_probe_output()
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

/// Value of a variable that the image of the service, or a program in general, requires.
pub(super) fn known_value(case: &Case<'_>, name: &str) -> Option<String> {
    const FILLED: [&str; 7] = ["NEXT", "QUOTED", "LAST", "BOUND", "VERSION", "MAJOR", "VARIANT"];
    let own = case.context.service;
    let is_meant = |cure: &&Cure| {
        let (kind, variable) = cure.key.split_once(' ').unwrap_or_default();
        let is_filled = FILLED.iter().any(|part| cure.value.contains(part));
        ["env", "default"].contains(&kind) && variable == name && !cure.value.is_empty() && !is_filled
    };
    let is_own = |cure: &&Cure| {
        let images = cure.images.split(" !").next().unwrap_or_default();
        is_named(own, images.trim_start_matches('='))
    };
    let of_image = CURES.iter().filter(is_meant).find(is_own);
    let general = || CURES.iter().filter(is_meant).find(|cure| cure.images.is_empty());
    let cure = of_image.or_else(general)?;
    Some(cure.value.replace("SELF", own.name.as_str()))
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

pub(super) fn output<'a>(case: &Case<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
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
        let images = self.images.trim_start_matches('=');
        let is_own = images.len() < self.images.len();
        // Another image has another name.
        let fits = |service: &&Service| {
            is_named(service, images) || (self.key != "image" && is_flavour(service, images))
        };
        if images.is_empty() || fits(&own) {
            return Some(own);
        }
        let mut found = siblings(case).filter(|_| !is_own).filter(fits);
        found.next().filter(|_| found.next().is_none())
    }

    fn edit_of(&self, case: &Case<'_>, service: &Service, line: &str) -> Option<SpecEdit> {
        let excludes = |name: &str| service.env_vars.contains_key(name);
        let is_unfit = match self.key {
            // Only an emulator accepts any login.
            "env AWS_ACCESS_KEY_ID" => !siblings(case).any(|sibling| is_named(sibling, EMULATORS)),
            // The other part of the login is too short.
            "env MINIO_ROOT_PASSWORD" => service
                .env_vars
                .get("MINIO_ROOT_PASSWORD")
                .is_some_and(|set| set.len() >= 8),
            // Nothing names the command of its image.
            "before" => self.images.is_empty() && service.command.is_none(),
            _ => false,
        };
        if is_unfit || self.images.split(" !").skip(1).any(excludes) {
            return None;
        }
        let context = case.context.with_service(service);
        let value = self.filled(self.value, service, line)?;
        let (kind, name) = self.key.split_once(' ').unwrap_or((self.key, ""));
        // Other names can contain such words.
        let part = if kind == "sub" {
            self.filled(name, service, line)?
        } else {
            name.to_owned()
        };
        let place = Place {
            context,
            name: &part,
            value: &value,
            reason: self.reason,
        };
        let edit = match kind {
            "command" | "word" | "drop" | "before" => place.in_command(kind),
            "env" | "env+" | "env," | "default" | "part" | "rename" | "unset" => place.in_variable(kind),
            "url" => place.in_options(),
            "swap" | "sub" => place.in_text(kind),
            "mount" | "volume" | "bind" => place.in_mount(kind),
            "tmpfs" => Some(add_tmpfs(&context, &value, self.reason.to_owned())),
            "file" => {
                let file = configuration_file(&Case::new(context, case.run, Scope::Facts))?;
                Some(Case::host_edit(file, self.reason, value.as_str()))
            }
            _ => place.in_key(self.key),
        };
        edit.filter(|edit| edit.suggest.is_none() || edit.now != edit.suggest)
    }

    /// Text of the setting for a service; `None` if the line does not contain its part.
    fn filled(&self, text: &str, service: &Service, line: &str) -> Option<String> {
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
        let is_end = |c: char| c.is_whitespace() || "\"'`,;()[]=:".contains(c);
        let is_outside = |word: &&str| {
            let address = word.parse::<Ipv4Addr>();
            address.is_ok_and(|at| !at.is_loopback() && !at.is_unspecified())
        };
        let parts = [
            ("NEXT", next.filter(|next| is_plain(next))),
            ("SELF", Some(service.name.as_str())),
            ("VERSION", Some(version).filter(|version| !version.is_empty())),
            ("MAJOR", major),
            // A tag such as `latest` has no version before it.
            ("VARIANT", Some(if major.is_some() { variant } else { "" })),
            ("QUOTED", quoted),
            ("LAST", last.filter(|last| is_plain(last))),
            ("BOUND", line.split(is_end).find(is_outside)),
        ];
        parts
            .into_iter()
            .try_fold(text.to_owned(), |value, (name, part)| {
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
