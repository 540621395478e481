//! The body of a create call. Argus sets every field itself, so that no part of a spec is passed through unchecked.

use std::collections::{BTreeMap, HashMap};

use argus_core::action::ContainerSpec;
use argus_core::desired::{Device, Mount, ProcessOptions};
use bollard::models;

/// Name of the engine's host in every container.
const HOST_NAME: &str = "host.docker.internal";

/// The create body for a container spec. With `host_gateway`, [`HOST_NAME`] leads to the engine's host.
pub(crate) fn container_body(spec: &ContainerSpec, host_gateway: bool) -> models::ContainerCreateBody {
    // A container in the network namespace of another one has no endpoint.
    let endpoints = spec.attachments().take(1).map(|(network, aliases)| {
        let endpoint = models::EndpointSettings {
            aliases: Some(aliases.clone()),
            ..Default::default()
        };
        (network.to_string(), endpoint)
    });
    let exposed = spec
        .bindings
        .iter()
        .map(|binding| format!("{}/{}", binding.container, binding.protocol));
    let mut exposed: Vec<String> = exposed.collect();
    exposed.sort_unstable();
    exposed.dedup();
    models::ContainerCreateBody {
        image: Some(spec.image.clone()),
        entrypoint: spec.entrypoint.clone(),
        cmd: spec.command.clone(),
        env: Some(
            spec.env_vars
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect(),
        ),
        labels: Some(to_hash_map(&spec.labels)),
        exposed_ports: Some(exposed),
        user: spec.user.clone(),
        working_dir: spec.working_dir.clone(),
        stop_signal: spec.process.stop_signal.clone(),
        hostname: spec.process.hostname.clone(),
        open_stdin: spec.process.stdin_open.then_some(true),
        // Logs of a terminal are not framed, and the client loses parts of them.
        tty: Some(false),
        stop_timeout: Some(i64::try_from(round_up_to_seconds(spec.stop_grace)).unwrap_or(i64::MAX)),
        host_config: Some(host_config(spec, host_gateway)),
        networking_config: Some(models::NetworkingConfig {
            endpoints_config: Some(endpoints.collect()),
        }),
        ..Default::default()
    }
}

fn host_config(spec: &ContainerSpec, host_gateway: bool) -> models::HostConfig {
    let memory = spec.memory.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    let (confined, privileges) = (&spec.container_limits, &spec.process.privileges);
    models::HostConfig {
        // Without an init, a PID 1 that ignores SIGTERM delays each restart of the engine by ten seconds.
        init: Some(confined.init),
        restart_policy: Some(models::RestartPolicy {
            name: Some(models::RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        security_opt: Some(
            confined
                .no_new_privileges
                .then(|| "no-new-privileges".to_owned())
                .into_iter()
                .collect(),
        ),
        pids_limit: Some(confined.pids_limit.into()),
        log_config: Some(models::HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(HashMap::from([
                ("max-size".to_owned(), confined.log_max_size.to_string()),
                ("max-file".to_owned(), confined.log_max_files.to_string()),
            ])),
        }),
        memory,
        // Equal to `memory`, which disables swap; otherwise the limit would not hold.
        memory_swap: memory,
        nano_cpus: spec.nano_cpus.map(|cpus| i64::try_from(cpus).unwrap_or(i64::MAX)),
        network_mode: Some(spec.network_mode()),
        port_bindings: Some(port_bindings(spec)),
        mounts: Some(spec.mounts.iter().map(mount).collect()),
        tmpfs: Some(
            spec.tmpfs
                .iter()
                .map(|mount| {
                    let (path, options) = mount.split_once(':').unwrap_or((mount, ""));
                    (path.to_owned(), options.to_owned())
                })
                .collect(),
        ),
        // The hosts file is that of the owner of the network.
        extra_hosts: Some(extra_hosts(
            spec,
            host_gateway && spec.process.shared_network.is_none(),
        )),
        readonly_rootfs: spec.process.read_only.then_some(true),
        ulimits: Some(ulimits(&spec.process)).filter(|ulimits| !ulimits.is_empty()),
        cap_drop: Some(spec.process.cap_drop.clone()).filter(|names| !names.is_empty()),
        cap_add: Some(privileges.cap_add.clone()).filter(|names| !names.is_empty()),
        privileged: privileges.privileged.then_some(true),
        devices: Some(privileges.devices.iter().map(device).collect::<Vec<_>>())
            .filter(|devices| !devices.is_empty()),
        sysctls: Some(to_hash_map(&spec.process.sysctls)).filter(|sysctls| !sysctls.is_empty()),
        ..Default::default()
    }
}

fn device(device: &Device) -> models::DeviceMapping {
    models::DeviceMapping {
        path_on_host: Some(device.host.clone()),
        path_in_container: Some(device.container.clone()),
        cgroup_permissions: Some(device.permissions.clone()),
    }
}

fn ulimits(process: &ProcessOptions) -> Vec<models::ResourcesUlimits> {
    let one = |(name, (soft, hard)): (&String, &(i64, i64))| models::ResourcesUlimits {
        name: Some(name.clone()),
        soft: Some(*soft),
        hard: Some(*hard),
    };
    process.ulimits.iter().map(one).collect()
}

/// Extra hosts of the file, and the engine's host unless the file defines it. They are not part of the hash of the
/// configuration, so containers of earlier versions stay.
fn extra_hosts(spec: &ContainerSpec, host_gateway: bool) -> Vec<String> {
    let mut all = spec.extra_hosts.clone();
    let is_defined = |host: &String| {
        host.strip_prefix(HOST_NAME)
            .is_some_and(|rest| rest.starts_with([':', '=']))
    };
    if host_gateway && !all.iter().any(is_defined) {
        all.push(format!("{HOST_NAME}:host-gateway"));
    }
    all
}

fn port_bindings(spec: &ContainerSpec) -> models::PortMap {
    let mut map = models::PortMap::new();
    for binding in &spec.bindings {
        let published = models::PortBinding {
            host_ip: Some(binding.address.to_string()),
            host_port: Some(binding.host.to_string()),
        };
        let key = format!("{}/{}", binding.container, binding.protocol);
        map.entry(key)
            .or_default()
            .get_or_insert_default()
            .push(published);
    }
    map
}

/// A mount. `Binds` is never used: with it the engine would create a missing source folder as root.
fn mount(mount: &Mount) -> models::Mount {
    match mount {
        Mount::Bind {
            source,
            target,
            read_only,
        } => models::Mount {
            typ: Some(models::MountType::BIND),
            source: Some(source.clone()),
            target: Some(target.clone()),
            read_only: Some(*read_only),
            ..Default::default()
        },
        Mount::Volume {
            name,
            target,
            read_only,
        } => models::Mount {
            typ: Some(models::MountType::VOLUME),
            source: Some(name.as_str().to_owned()),
            target: Some(target.clone()),
            read_only: Some(*read_only),
            // The driver is set explicitly, so that no engine default can turn a volume into a bind mount of the host.
            volume_options: Some(models::MountVolumeOptions {
                driver_config: Some(models::MountVolumeOptionsDriverConfig {
                    name: Some("local".to_owned()),
                    options: None,
                }),
                ..Default::default()
            }),
            ..Default::default()
        },
    }
}

/// Converts labels to the client's type.
pub(crate) fn to_hash_map(labels: &BTreeMap<String, String>) -> HashMap<String, String> {
    labels
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Rounds up to whole seconds, which is all that the engine supports: 0.5 s becomes 1, 0 s stays 0.
pub(crate) fn round_up_to_seconds(span: std::time::Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

#[cfg(test)]
#[path = "create_tests.rs"]
mod tests;
