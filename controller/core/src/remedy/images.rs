//! Well-known images as data: names of hosts that mean them, their ports, variables and paths, and the variables of their clients.

use std::sync::LazyLock;

use super::network::ports;
use crate::desired::{Mount, Service};

/// Facts of images with the same contract. All lists are separated by spaces.
pub(super) struct ImageFacts {
    /// Ends of their repositories.
    pub(super) names: &'static str,
    /// Other names of hosts that mean them.
    hosts: &'static str,
    /// Ports on which they listen by default, the main one first.
    ports: &'static str,
    /// Variables of the user, the password and the database, in order of their use.
    users: &'static str,
    passwords: &'static str,
    databases: &'static str,
    /// Scheme of its addresses; empty for HTTP.
    pub(super) scheme: &'static str,
}

static IMAGES: LazyLock<Vec<ImageFacts>> = LazyLock::new(|| {
    let of_row = |[names, hosts, ports, users, passwords, databases, scheme]: [&'static str; 7]| ImageFacts {
        names,
        hosts,
        ports,
        users,
        passwords,
        databases,
        scheme,
    };
    rows(include_str!("facts/images.txt")).map(of_row).collect()
});

/// Variables of well-known programs for the address of a server.
pub(super) static CLIENTS: LazyLock<Vec<ClientVariable>> = LazyLock::new(|| {
    let of_row = |[client, server, variable, value]: [&'static str; 4]| ClientVariable {
        client,
        server,
        variable,
        value,
    };
    rows(include_str!("facts/clients.txt")).map(of_row).collect()
});

/// Rows of a file of facts, with `;` between their columns. Missing columns are empty.
pub(super) fn rows<const N: usize>(text: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let mut columns = line.split(';').map(str::trim);
        std::array::from_fn(|_| columns.next().unwrap_or_default())
    })
}

/// Text after the name of the image of a service in a file with one image per line.
fn entry(text: &'static str, service: &Service) -> Option<&'static str> {
    let mut known = text.lines().filter_map(|line| line.split_once(' '));
    let (_, entry) = known.find(|(name, _)| is_named(service, name))?;
    Some(entry)
}

/// User id of the process of a well-known image that does not run as root.
pub(super) fn user_of(service: &Service) -> Option<&'static str> {
    if service.image.reference().contains("bitnami") {
        return Some("1001");
    }
    entry(include_str!("facts/users.txt"), service)
}

/// The same for a service of another user, whose volumes have the files of the image.
pub(super) fn own_user(service: &Service) -> Option<&'static str> {
    let has_folder = service
        .mounts
        .iter()
        .any(|mount| matches!(mount, Mount::Bind { .. }));
    service.user.as_ref().filter(|_| !has_folder)?;
    user_of(service)
}

/// Word that means the runtime of an image.
pub(super) fn runtime_of(service: &Service) -> Option<&'static str> {
    entry(include_str!("facts/runtimes.txt"), service)
}

/// Repository of a reference, without its tag.
pub(super) fn repository(reference: &str) -> &str {
    let reference = reference.split('@').next().unwrap_or_default();
    match reference.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        Some(_) | None => reference,
    }
}

/// Returns whether an image has one of these names. A name can have a bound of the version, such as `postgres>=18` or `mysql<8.4`.
pub(super) fn is_named(service: &Service, names: &str) -> bool {
    let repository = repository(service.image.reference());
    names.split(' ').any(|name| {
        let (name, is_version) = match (name.split_once(">="), name.split_once('<')) {
            (Some((name, first)), _) => (name, !is_before(service, first)),
            (None, Some((name, first))) => (name, is_before(service, first)),
            (None, None) => (name, true),
        };
        let before = repository.strip_suffix(name);
        is_version && before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
    })
}

/// Returns whether an image is another distribution of one of these programs that reads the same settings, such as `pgvector` for `postgres`.
pub(super) fn is_flavour(service: &Service, names: &str) -> bool {
    const OTHERS: [&str; 6] = ["bitnami", "redpanda", "dragonfly", "keydb", "stack", "native"];
    let reference = service.image.reference();
    let is_kin = |facts: &ImageFacts| {
        let mut all = names.split(' ');
        all.any(|name| facts.names.split(' ').any(|other| other == name))
    };
    facts_of(service).is_some_and(is_kin) && !OTHERS.iter().any(|other| reference.contains(other))
}

/// Present name of a program that an image does not have, with the options that it requires.
pub(super) fn renamed_program(service: &Service, program: &str) -> Option<&'static str> {
    let mut known = rows(include_str!("facts/programs.txt"));
    let is_of_image = |[image, old, _]: &[&str; 3]| *old == program && is_named(service, image);
    known.find(is_of_image).map(|[_, _, meant]| meant)
}

/// Version at the start of the tag of a service, and the rest of the tag, such as `-alpine`.
pub(super) fn version_and_variant(service: &Service) -> (&str, &str) {
    let reference = service.image.reference();
    let tag = reference
        .get(repository(reference).len() + 1..)
        .unwrap_or_default();
    let tag = tag.split('@').next().unwrap_or_default().trim_start_matches('v');
    let end = tag.find(|c: char| !c.is_ascii_digit() && c != '.');
    tag.split_at(end.unwrap_or(tag.len()))
}

/// Returns whether the version of a service is earlier than another one. A tag without a number means the latest version.
fn is_before(service: &Service, version: &str) -> bool {
    let numbers = |text: &str| -> Vec<u32> { text.split('.').map_while(|part| part.parse().ok()).collect() };
    let (own, first) = (numbers(version_and_variant(service).0), numbers(version));
    // The tag `15` means the last version of all that begin with it.
    !own.is_empty() && own[..] < first[..first.len().min(own.len())]
}

/// Name of a variable as the image of a service reads it. Some publishers have other names for the same settings.
pub(super) fn variable_of(service: &Service, name: &str) -> String {
    let mut dialects = rows(include_str!("facts/dialects.txt"));
    let is_own = |[image, from, to]: &[&str; 3]| {
        is_named(service, image) && name.starts_with(from) && !name.starts_with(to)
    };
    match dialects.find(is_own) {
        Some([_, from, to]) => format!("{to}{}", &name[from.len()..]),
        None => name.to_owned(),
    }
}

/// Facts of the image of a service.
pub(super) fn facts_of(service: &Service) -> Option<&'static ImageFacts> {
    IMAGES.iter().find(|facts| is_named(service, facts.names))
}

/// Path of a well-known image for health checks.
pub(super) fn health_path(service: &Service) -> Option<&'static str> {
    entry(include_str!("facts/paths.txt"), service)
}

/// Ports of a service: those in the file, and those of its image.
pub(super) fn all_ports(service: &Service) -> Vec<u16> {
    let mut all = ports(service);
    all.extend(facts_of(service).into_iter().flat_map(ImageFacts::ports));
    all
}

/// Ports of an image by its name.
pub(super) fn default_ports(name: &str) -> Vec<u16> {
    let facts = IMAGES.iter().find(|facts| facts.speaks(name));
    facts.into_iter().flat_map(ImageFacts::ports).collect()
}

/// Returns whether a host means one of the images.
pub(super) fn is_of_kind(host: &str) -> bool {
    IMAGES.iter().any(|facts| facts.is_meant_by(host))
}

/// Main port of a service: that of its image, else the only one in the file.
pub(super) fn main_port(service: &Service) -> Option<u16> {
    let of_image = || facts_of(service)?.ports().next();
    match ports(service)[..] {
        [port] => Some(port),
        _ => of_image(),
    }
}

impl ImageFacts {
    pub(super) fn ports(&self) -> impl Iterator<Item = u16> + use<> {
        self.ports.split(' ').filter_map(|port| port.parse().ok())
    }

    /// Returns whether a host means such an image.
    pub(super) fn is_meant_by(&self, host: &str) -> bool {
        let host = host.to_lowercase();
        let mut known = self.names.split(' ').chain(self.hosts.split(' '));
        known.any(|name| {
            let is_part = |part: &str| part == name;
            !name.is_empty() && host.split(['-', '_', '.']).any(is_part)
        })
    }

    /// Variables of the password, and of the user.
    pub(super) fn login(&self) -> [impl Iterator<Item = &'static str> + Clone + use<>; 2] {
        [self.passwords, self.users].map(|names| names.split(' ').filter(|name| !name.is_empty()))
    }

    /// Returns whether it has the protocol of an image. `MariaDB` has that of `MySQL`.
    pub(super) fn speaks(&self, name: &str) -> bool {
        let has = |name: &str| self.names.split(' ').any(|other| other == name);
        has(name) || (name == "mysql" && has("mariadb"))
    }
}

/// Variables of all images for one purpose.
fn all_of(list: fn(&ImageFacts) -> &'static str) -> Vec<&'static str> {
    let mut all: Vec<&str> = IMAGES.iter().flat_map(|facts| list(facts).split(' ')).collect();
    all.retain(|name| !name.is_empty());
    all.dedup();
    all
}

pub(super) fn user_variables() -> Vec<&'static str> {
    all_of(|facts| facts.users)
}

pub(super) fn password_variables() -> Vec<&'static str> {
    all_of(|facts| facts.passwords)
}

pub(super) fn database_variables() -> Vec<&'static str> {
    all_of(|facts| facts.databases)
}

/// Variable of a well-known program for the address of a server.
pub(super) struct ClientVariable {
    /// Image, program or part of a line, in lower case.
    pub(super) client: &'static str,
    /// Name of the image of the server.
    pub(super) server: &'static str,
    pub(super) variable: &'static str,
    /// Value with `NAME`, `PORT` and `DATABASE` of the server.
    pub(super) value: &'static str,
}
