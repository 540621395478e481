//! Drift: differences between the requested and the observed configuration of a container.

use core::net::IpAddr;
use std::collections::BTreeSet;

use crate::action::ContainerSpec;
use crate::desired::{Mount, substitute_tag};
use crate::ident::ProtocolPort;
use crate::observed::{Config, Container};

impl ContainerSpec {
    /// Observed configuration of an unchanged container with this spec.
    pub fn configuration(&self) -> Config {
        let port = |number, protocol| ProtocolPort { number, protocol };
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
            privileged: false,
            stop_grace: Some(self.stop_grace),
            image: self.image.clone(),
            entrypoint: self.entrypoint.clone().unwrap_or_default(),
            command: self.command.clone().unwrap_or_default(),
            mounts: self.mounts.clone(),
        }
    }
}

/// First difference that requires a replacement; `None` without a difference or without inspect details.
pub(super) fn first_difference(spec: &ContainerSpec, container: &Container) -> Option<String> {
    let config = &container.inspect.as_ref()?.config;
    let requested = spec.configuration();
    if config.privileged {
        return Some("it is privileged".to_owned());
    }
    if !is_same_image(&requested.image, &config.image) && !is_substitute(spec, &config.image) {
        return Some(format!("image is {}", config.image));
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

/// Returns whether the image has the substitute for a tag that names another image.
fn is_substitute(spec: &ContainerSpec, present: &str) -> bool {
    !spec.build.is_empty() && is_same_image(&substitute_tag(&spec.image), present)
}

/// Compares two image references. Podman reports the registry and the tag, also if the create request had none.
fn is_same_image(requested: &str, present: &str) -> bool {
    let (requested, present) = (short_name(requested), short_name(present));
    let registry = present.strip_suffix(requested);
    registry.is_some_and(|registry| registry.is_empty() || registry.ends_with('/'))
}

/// Reference without the parts that Docker adds.
fn short_name(reference: &str) -> &str {
    let name = reference.strip_suffix(":latest").unwrap_or(reference);
    let name = name.strip_prefix("docker.io/").unwrap_or(name);
    name.strip_prefix("library/").unwrap_or(name)
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
    use super::*;

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
