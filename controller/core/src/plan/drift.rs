//! Drift: differences between the requested and the observed configuration of a container.

use core::net::IpAddr;
use std::collections::BTreeSet;
use std::path::Path;

use crate::action::ContainerSpec;
use crate::desired::{Mount, short_reference, substitute_tag, tmpfs_path};
use crate::ident::{ContainerId, NetworkId, ProtocolPort, ResourceName};
use crate::observed::{Attachment, Config, Container, ContainerState, InspectInfo};
use crate::time::Timestamp;

impl ContainerSpec {
    /// The container that an engine creates of this spec, attached to the network of the create request.
    pub fn created(
        &self,
        id: ContainerId,
        name: &ResourceName,
        network: Option<NetworkId>,
        at: Timestamp,
    ) -> Container {
        let attachment = Attachment {
            network,
            aliases: self.aliases.clone(),
            address: None,
        };
        let first = self.attachments().take(1);
        Container {
            id,
            name: name.to_string(),
            labels: self.labels.clone(),
            image: self.image.clone(),
            state: ContainerState::Created,
            created_at: at,
            networks: first
                .map(|(name, _)| (name.to_string(), attachment.clone()))
                .collect(),
            inspect: Some(InspectInfo {
                config: self.configuration(),
                ..InspectInfo::default()
            }),
            stopped_by_other: None,
            oom_at: None,
        }
    }

    /// Observed configuration of an unchanged container with this spec.
    pub fn configuration(&self) -> Config {
        let port = ProtocolPort::new;
        let bindings = self.bindings.iter();
        Config {
            environment: self
                .env_vars
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect(),
            memory: self.memory.unwrap_or(0),
            nano_cpus: self.nano_cpus.unwrap_or(0),
            bindings: bindings
                .clone()
                .map(|b| (port(b.container, b.protocol), port(b.host, b.protocol)))
                .collect(),
            addresses: bindings.map(|b| (port(b.host, b.protocol), b.address)).collect(),
            restart_policy: "no".to_owned(),
            pids_limit: Some(self.container_limits.pids_limit.into()),
            privileged: self.process.privileges.privileged,
            stop_grace: Some(self.stop_grace),
            image: self.image.clone(),
            entrypoint: self.entrypoint.clone().unwrap_or_default(),
            command: self.command.clone().unwrap_or_default(),
            mounts: self.mounts.clone(),
            build: self.build.clone(),
            user: self.user.clone().unwrap_or_default(),
            working_dir: self.working_dir.clone().unwrap_or_default(),
            tmpfs: self
                .tmpfs
                .iter()
                .map(|entry| tmpfs_path(entry).to_owned())
                .collect(),
        }
    }
}

/// First difference that requires a replacement; `None` without a difference or without inspect details.
pub(super) fn first_difference(spec: &ContainerSpec, container: &Container) -> Option<String> {
    let config = &container.inspect.as_ref()?.config;
    let requested = spec.configuration();
    if config.privileged && !requested.privileged {
        return Some("it is privileged".to_owned());
    }
    if !is_same_image(&requested.image, &config.image) && !is_substitute(spec, &config.image) {
        return Some(format!("image is {}", config.image));
    }
    if !spec.build.is_empty() && config.build != requested.build {
        return Some("image is of another build".to_owned());
    }
    // Without them, the engine reports those of the image.
    // Older versions of Podman report the entry point as one text.
    if !requested.entrypoint.is_empty() && config.entrypoint.join(" ") != requested.entrypoint.join(" ") {
        return Some(format!("entrypoint is {:?}", config.entrypoint));
    }
    if !requested.command.is_empty() && config.command != requested.command {
        return Some(format!("command is {:?}", config.command));
    }
    if config.memory != requested.memory {
        return Some(format!("memory limit is {}", config.memory));
    }
    if config.nano_cpus != requested.nano_cpus {
        return Some(format!("cpu limit is {}", config.nano_cpus));
    }
    if let Some(limit) = config
        .pids_limit
        .filter(|_| config.pids_limit != requested.pids_limit)
    {
        return Some(format!("process limit is {limit}"));
    }
    if !matches!(config.restart_policy.as_str(), "" | "no") {
        return Some(format!("restart policy is {}", config.restart_policy));
    }
    let present: BTreeSet<&str> = config.environment.iter().map(String::as_str).collect();
    let missing = spec
        .env_vars
        .iter()
        .find(|(key, value)| !present.contains(format!("{key}={value}").as_str()));
    if let Some((key, _)) = missing {
        return Some(format!("environment variable {key} differs"));
    }
    if let Some(target) = different_mount(&requested.mounts, &config.mounts) {
        return Some(format!("mount of {target} differs"));
    }
    if let Some(difference) = process_difference(spec, config) {
        return Some(difference);
    }
    let has_label = |(key, value): &(&String, &String)| container.labels.get(*key) == Some(*value);
    if let Some((key, _)) = spec.labels.iter().find(|label| !has_label(label)) {
        return Some(format!("label {key} differs"));
    }
    let requested_bindings: BTreeSet<(ProtocolPort, ProtocolPort)> = requested.bindings.into_iter().collect();
    let bound: BTreeSet<(ProtocolPort, ProtocolPort)> = config.bindings.iter().copied().collect();
    if requested_bindings != bound {
        return Some("published ports differ".to_owned());
    }
    let elsewhere = |(port, address): &&(ProtocolPort, IpAddr)| {
        let mut addresses = requested.addresses.iter().filter(|(other, _)| other == port);
        !addresses.any(|(_, other)| is_same_address(*other, *address))
    };
    config
        .addresses
        .iter()
        .find(elsewhere)
        .map(|(port, address)| format!("port {port} is published at {address}"))
}

/// First difference of user, working directory and tmpfs mounts. Without a request, the engine reports those of the image.
fn process_difference(spec: &ContainerSpec, config: &Config) -> Option<String> {
    if spec.user.as_ref().is_some_and(|user| *user != config.user) {
        return Some(format!("user is {:?}", config.user));
    }
    let is_same_path = |one: &str, other: &str| Path::new(one) == Path::new(other);
    let working_dir = spec.working_dir.as_deref();
    if working_dir.is_some_and(|requested| !is_same_path(requested, &config.working_dir)) {
        return Some(format!("working directory is {:?}", config.working_dir));
    }
    // Podman adds options, and tmpfs mounts of its own to a read-only container.
    let mut requested = spec.tmpfs.iter().map(|entry| tmpfs_path(entry));
    let is_missing = |path: &&str| !config.tmpfs.iter().any(|present| is_same_path(path, present));
    requested
        .find(is_missing)
        .map(|path| format!("tmpfs of {path} is missing"))
}

/// Returns whether the image has the substitute for a tag that names another image.
fn is_substitute(spec: &ContainerSpec, present: &str) -> bool {
    !spec.build.is_empty() && is_same_image(&substitute_tag(&spec.image), present)
}

/// Compares two image references. Podman reports the registry and the tag, also if the create request had none.
fn is_same_image(requested: &str, present: &str) -> bool {
    let (requested, present) = (short_reference(requested), short_reference(present));
    let registry = present.strip_suffix(requested);
    registry.is_some_and(|registry| registry.is_empty() || registry.ends_with('/'))
}

/// Target of the first mount that is missing, differs, or was not requested.
fn different_mount<'m>(requested: &'m [Mount], present: &'m [Mount]) -> Option<&'m str> {
    let is_present = |mount: &Mount| present.iter().any(|other| is_same_mount(mount, other));
    let is_requested = |other: &Mount| requested.iter().any(|mount| is_same_mount(mount, other));
    let missing = requested.iter().find(|mount| !is_present(mount));
    let different = missing.or_else(|| present.iter().find(|other| !is_requested(other)));
    different.map(Mount::target)
}

/// Compares two mounts. Docker Desktop reports the source of a folder with a prefix, or as a path of its own.
fn is_same_mount(requested: &Mount, present: &Mount) -> bool {
    match (requested, present) {
        (
            Mount::Bind {
                source,
                target,
                read_only,
            },
            Mount::Bind {
                source: other_source,
                target: other_target,
                read_only: other_read_only,
            },
        ) => {
            let is_same_source = other_source.ends_with(source) || other_source.starts_with("/run/desktop/");
            is_same_source && (target, read_only) == (other_target, other_read_only)
        }
        _ => requested == present,
    }
}

/// Compares two addresses. Engines report either the IPv4 or the IPv6 wildcard for all addresses of a host.
fn is_same_address(one: IpAddr, other: IpAddr) -> bool {
    one == other || (one.is_unspecified() && other.is_unspecified())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::desired::ContainerLimits;
    use crate::labels;

    #[test]
    fn image_is_the_same_with_and_without_its_defaults() {
        for (requested, present) in [
            ("redis", "redis"),
            ("redis", "docker.io/library/redis:latest"),
            ("docker.io/redis:7", "docker.io/library/redis:7"),
            ("app:local", "localhost/app:local"),
        ] {
            assert!(is_same_image(requested, present), "{requested} {present}");
        }
        for (requested, present) in [
            ("redis:7", "redis:8"),
            ("redis:7", "myredis:7"),
            ("r.io/a:1", "a:1"),
        ] {
            assert!(!is_same_image(requested, present), "{requested} {present}");
        }
    }

    fn requested() -> ContainerSpec {
        ContainerSpec {
            image: "web:1".to_owned(),
            build: "d1".to_owned(),
            entrypoint: None,
            command: None,
            env_vars: BTreeMap::new(),
            labels: [(labels::SERVICE.to_owned(), "web".to_owned())].into(),
            network: ResourceName::new("net").unwrap(),
            aliases: Vec::new(),
            further_networks: BTreeMap::new(),
            bindings: Vec::new(),
            mounts: Vec::new(),
            tmpfs: vec!["/cache/:size=64m".to_owned()],
            extra_hosts: Vec::new(),
            user: Some("app".to_owned()),
            working_dir: Some("/srv/app/".to_owned()),
            process: Box::default(),
            memory: None,
            nano_cpus: None,
            stop_grace: Duration::from_secs(10),
            container_limits: ContainerLimits::default(),
        }
    }

    fn present(spec: &ContainerSpec, change: impl FnOnce(&mut Config)) -> Container {
        let mut config = spec.configuration();
        change(&mut config);
        Container {
            id: ContainerId::new("c1").unwrap(),
            name: "shop-web".to_owned(),
            labels: spec.labels.clone(),
            image: spec.image.clone(),
            state: ContainerState::Running,
            created_at: Timestamp(1),
            networks: BTreeMap::new(),
            inspect: Some(InspectInfo {
                config,
                ..InspectInfo::default()
            }),
            stopped_by_other: None,
            oom_at: None,
        }
    }

    #[test]
    fn container_made_by_hand_differs_in_image_and_process() {
        let spec = requested();
        let check = |change: fn(&mut Config), expected: Option<&str>| {
            let found = first_difference(&spec, &present(&spec, change));
            assert_eq!(found.as_deref(), expected);
        };
        check(|_| (), None);
        check(|config| config.working_dir = "/srv/app".to_owned(), None);
        check(
            |config| config.tmpfs = vec!["/run".to_owned(), "/cache".to_owned()],
            None,
        );
        let another_build = Some("image is of another build");
        check(|config| config.build = "d2".to_owned(), another_build);
        check(|config| config.build.clear(), another_build);
        check(|config| config.user.clear(), Some("user is \"\""));
        check(
            |config| config.working_dir = "/".to_owned(),
            Some("working directory is \"/\""),
        );
        check(|config| config.tmpfs.clear(), Some("tmpfs of /cache/ is missing"));
    }

    #[test]
    fn user_and_folder_of_the_image_are_no_difference() {
        let spec = ContainerSpec {
            build: String::new(),
            user: None,
            working_dir: None,
            tmpfs: Vec::new(),
            ..requested()
        };
        let of_image = |config: &mut Config| {
            config.build = "d1".to_owned();
            config.user = "app".to_owned();
            config.working_dir = "/srv".to_owned();
            config.tmpfs = vec!["/run".to_owned()];
        };
        assert_eq!(first_difference(&spec, &present(&spec, of_image)), None);
    }

    #[test]
    fn missing_or_changed_label_is_a_difference() {
        let spec = requested();
        let mut container = present(&spec, |_| ());
        container.labels.insert("added".to_owned(), "by hand".to_owned());
        assert_eq!(first_difference(&spec, &container), None);
        let differs = Some("label argusai.service differs".to_owned());
        container
            .labels
            .insert(labels::SERVICE.to_owned(), "db".to_owned());
        assert_eq!(first_difference(&spec, &container), differs);
        container.labels.remove(labels::SERVICE);
        assert_eq!(first_difference(&spec, &container), differs);
    }

    #[test]
    fn mounts_differ_by_target_source_and_access() {
        let bind = |source: &str, target: &str, read_only| Mount::Bind {
            source: source.to_owned(),
            target: target.to_owned(),
            read_only,
        };
        let requested = [bind("/a", "/x", true)];
        for present in [bind("/a", "/x", true), bind("/host_mnt/a", "/x", true)] {
            assert_eq!(different_mount(&requested, &[present]), None);
        }
        for present in [
            bind("/b", "/x", true),
            bind("/a", "/y", true),
            bind("/a", "/x", false),
        ] {
            assert_eq!(different_mount(&requested, &[present]), Some("/x"));
        }
        assert_eq!(different_mount(&[], &requested), Some("/x"));
    }
}
