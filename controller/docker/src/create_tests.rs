//! The create bodies of a complete and of a minimal spec, as the engine receives them.

use std::time::Duration;

use argus_core::action::Binding;
use argus_core::desired::{ContainerLimits, Privileges, SharedNetwork};
use argus_core::ident::{ContainerId, Protocol, ResourceName, ServiceName};
use serde_json::{Value, json};

use super::*;

fn minimal() -> ContainerSpec {
    ContainerSpec {
        image: "web:1".into(),
        build: String::new(),
        entrypoint: None,
        command: None,
        env_vars: BTreeMap::new(),
        labels: BTreeMap::new(),
        network: ResourceName::new("argus-env").unwrap(),
        aliases: vec!["web".into()],
        further_networks: std::collections::BTreeMap::new(),
        bindings: vec![],
        mounts: vec![],
        tmpfs: vec![],
        extra_hosts: vec![],
        user: None,
        working_dir: None,
        process: Box::default(),
        memory: None,
        nano_cpus: None,
        stop_grace: Duration::from_secs(10),
        container_limits: ContainerLimits::default(),
    }
}

fn body_of(spec: &ContainerSpec) -> Value {
    serde_json::to_value(container_body(spec, true)).unwrap()
}

#[test]
fn shared_network_leaves_no_endpoint_and_no_hosts() {
    let container = Some(ContainerId::new("abc").unwrap());
    let owner = ServiceName::new("vpn").unwrap();
    let spec = ContainerSpec {
        process: Box::new(ProcessOptions {
            shared_network: Some(SharedNetwork { owner, container }),
            ..ProcessOptions::default()
        }),
        ..minimal()
    };
    let body = body_of(&spec);
    assert_eq!(body["HostConfig"]["NetworkMode"], "container:abc");
    assert_eq!(body["HostConfig"]["ExtraHosts"], json!([]));
    assert_eq!(body["NetworkingConfig"]["EndpointsConfig"], json!({}));
}

#[test]
fn a_minimal_container_is_safe_by_default() {
    let body = body_of(&minimal());
    let host = &body["HostConfig"];
    assert_eq!(host["Init"], true);
    assert_eq!(host["RestartPolicy"], json!({"Name": "no"}));
    assert_eq!(host["SecurityOpt"], json!(["no-new-privileges"]));
    assert_eq!(host["PidsLimit"], 512);
    assert_eq!(
        host["LogConfig"],
        json!({"Type": "json-file", "Config": {"max-size": "10000000", "max-file": "3"}})
    );
    assert_eq!(host["NetworkMode"], "argus-env");
    assert_eq!(
        body["NetworkingConfig"]["EndpointsConfig"]["argus-env"]["Aliases"],
        json!(["web"])
    );
    assert_eq!(body["Tty"], false);
    assert_eq!(body["StopTimeout"], 10);
    for absent in [
        "Privileged",
        "Binds",
        "CapAdd",
        "PidMode",
        "Devices",
        "Memory",
        "NanoCpus",
        "CgroupParent",
    ] {
        assert!(host.get(absent).is_none(), "{absent}");
    }
    for absent in ["Cmd", "Entrypoint", "User", "WorkingDir"] {
        assert!(body.get(absent).is_none(), "{absent}");
    }
}

#[test]
fn a_spec_can_set_the_confinement_of_its_containers() {
    let loose = ContainerSpec {
        container_limits: ContainerLimits {
            init: false,
            no_new_privileges: false,
            pids_limit: 64,
            log_max_size: 250_000,
            log_max_files: 1,
        },
        ..minimal()
    };
    let host = &body_of(&loose)["HostConfig"];
    assert_eq!(host["Init"], false);
    assert_eq!(host["SecurityOpt"], json!([]));
    assert_eq!(host["PidsLimit"], 64);
    assert_eq!(
        host["LogConfig"],
        json!({"Type": "json-file", "Config": {"max-size": "250000", "max-file": "1"}})
    );
    assert!(host.get("Privileged").is_none() && host.get("CapAdd").is_none());
}

#[test]
#[allow(clippy::too_many_lines, reason = "it has a line per field")]
fn the_body_contains_every_field_of_the_spec() {
    let binding = |host, container, protocol| Binding {
        address: "127.0.0.1".parse().unwrap(),
        host,
        container,
        protocol,
    };
    let spec = ContainerSpec {
        entrypoint: Some(vec!["/bin/sh".into()]),
        command: Some(vec!["-c".into(), "true".into()]),
        env_vars: BTreeMap::from([("A".into(), "1=2".into()), ("B".into(), String::new())]),
        labels: BTreeMap::from([("argusai.managed".into(), "true".into())]),
        bindings: vec![
            binding(8080, 80, Protocol::Tcp),
            binding(8081, 80, Protocol::Tcp),
            binding(53, 53, Protocol::Udp),
        ],
        mounts: vec![
            Mount::Bind {
                source: "/a".into(),
                target: "/b".into(),
                read_only: true,
            },
            Mount::Volume {
                name: ResourceName::new("v").unwrap(),
                target: "/v".into(),
                read_only: false,
            },
        ],
        tmpfs: vec!["/tmp".into(), "/run/cache:size=64m,mode=1777".into()],
        extra_hosts: vec!["h:1.2.3.4".into()],
        user: Some("1000:1000".into()),
        working_dir: Some("/w".into()),
        process: Box::new(ProcessOptions {
            stop_signal: Some("SIGINT".into()),
            hostname: Some("web-1".into()),
            read_only: true,
            init: None,
            no_new_privileges: None,
            stdin_open: true,
            ulimits: [("nofile".into(), (1, 2))].into(),
            cap_drop: vec!["ALL".into()],
            sysctls: [("net.core.somaxconn".into(), "9".into())].into(),
            files: vec![],
            shared_network: None,
            privileges: Privileges {
                privileged: true,
                cap_add: vec!["NET_ADMIN".into()],
                devices: vec![Device {
                    host: "/dev/a".into(),
                    container: "/dev/b".into(),
                    permissions: "r".into(),
                }],
            },
        }),
        memory: Some(64 << 20),
        nano_cpus: Some(500_000_000),
        stop_grace: Duration::from_millis(1500),
        ..minimal()
    };
    let body = body_of(&spec);
    let host = &body["HostConfig"];
    assert_eq!(body["Entrypoint"], json!(["/bin/sh"]));
    assert_eq!(body["Cmd"], json!(["-c", "true"]));
    assert_eq!(body["Env"], json!(["A=1=2", "B="]));
    assert_eq!(body["Labels"], json!({"argusai.managed": "true"}));
    assert_eq!(body["ExposedPorts"], json!({"53/udp": {}, "80/tcp": {}}));
    assert_eq!(
        (&body["User"], &body["WorkingDir"]),
        (&json!("1000:1000"), &json!("/w"))
    );
    assert_eq!(body["StopTimeout"], 2);
    assert_eq!(
        (&body["StopSignal"], &body["Hostname"], &body["OpenStdin"]),
        (&json!("SIGINT"), &json!("web-1"), &json!(true))
    );
    assert_eq!(
        (&host["ReadonlyRootfs"], &host["CapDrop"]),
        (&json!(true), &json!(["ALL"]))
    );
    assert_eq!(
        (&host["Privileged"], &host["CapAdd"]),
        (&json!(true), &json!(["NET_ADMIN"]))
    );
    assert_eq!(
        host["Devices"],
        json!([{"PathOnHost": "/dev/a", "PathInContainer": "/dev/b", "CgroupPermissions": "r"}])
    );
    assert_eq!(host["Ulimits"], json!([{"Name": "nofile", "Soft": 1, "Hard": 2}]));
    assert_eq!(host["Sysctls"], json!({"net.core.somaxconn": "9"}));
    let at = |port: &str| json!({"HostIp": "127.0.0.1", "HostPort": port});
    assert_eq!(
        host["PortBindings"],
        json!({"53/udp": [at("53")], "80/tcp": [at("8080"), at("8081")]})
    );
    assert_eq!(
        (&host["Memory"], &host["MemorySwap"]),
        (&json!(64 << 20), &json!(64 << 20))
    );
    assert_eq!(host["NanoCpus"], 500_000_000);
    assert_eq!(
        host["Tmpfs"],
        json!({"/tmp": "", "/run/cache": "size=64m,mode=1777"})
    );
    let gateway = "host.docker.internal:host-gateway";
    assert_eq!(host["ExtraHosts"], json!(["h:1.2.3.4", gateway]));
    assert_eq!(
        host["Mounts"],
        json!([
            {"Type": "bind", "Source": "/a", "Target": "/b", "ReadOnly": true},
            {"Type": "volume", "Source": "v", "Target": "/v", "ReadOnly": false,
                "VolumeOptions": {"DriverConfig": {"Name": "local"}}},
        ])
    );
}

#[test]
fn engine_host_is_added_unless_the_file_defines_it() {
    let of = |given: &[&str], host_gateway: bool| {
        let spec = ContainerSpec {
            extra_hosts: given.iter().map(ToString::to_string).collect(),
            ..minimal()
        };
        let body = serde_json::to_value(container_body(&spec, host_gateway)).unwrap();
        body["HostConfig"]["ExtraHosts"].clone()
    };
    let gateway = "host.docker.internal:host-gateway";
    assert_eq!(of(&[], true), json!([gateway]));
    assert_eq!(of(&[gateway], true), json!([gateway]));
    let own = "host.docker.internal:10.0.0.5";
    assert_eq!(of(&[own], true), json!([own]));
    let other = "host.docker.internal.test:10.0.0.5";
    assert_eq!(of(&[other], true), json!([other, gateway]));
    assert_eq!(of(&[], false), json!([]), "the engine has no gateway");
}

#[test]
fn covers_are_mounted_below_the_mount_of_the_file() {
    let bind = |source: &str, target: &str, read_only| Mount::Bind {
        source: source.into(),
        target: target.into(),
        read_only,
    };
    let spec = ContainerSpec {
        mounts: vec![
            bind("/p", "/app", false),
            bind("/p/lib", "/app/lib", false),
            bind("/p/lib/.git", "/app/lib/.git", true),
        ],
        tmpfs: vec!["/app/.argus:ro,mode=0555".into()],
        ..minimal()
    };
    let host = &body_of(&spec)["HostConfig"];
    let bind = |source: &str, target: &str, read_only: bool| json!({"Type": "bind", "Source": source, "Target": target, "ReadOnly": read_only});
    assert_eq!(
        host["Mounts"],
        json!([
            bind("/p", "/app", false),
            bind("/p/lib", "/app/lib", false),
            bind("/p/lib/.git", "/app/lib/.git", true),
        ])
    );
    assert_eq!(host["Tmpfs"], json!({"/app/.argus": "ro,mode=0555"}));
}
