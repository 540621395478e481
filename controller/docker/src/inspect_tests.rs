//! Conversion tests with documents as engines send them.

use super::*;
use serde_json::json;

fn id(digit: char) -> String {
    digit.to_string().repeat(64)
}

#[test]
fn a_list_entry_has_all_fields_except_the_details() {
    let summary = serde_json::from_value(json!({
        "Id": id('a'), "Names": ["/other/alias", "/web"], "Image": "web:1", "Created": 1_700_000_000,
        "Labels": {"argusai.managed": "true"}, "State": "running", "Status": "Up 2 minutes (unhealthy)",
        "NetworkSettings": {"Networks": {"net": {"NetworkID": id('b'), "IPAddress": "10.0.0.2", "Aliases": null},
            "gone": {"NetworkID": "", "IPAddress": ""}}},
    }));
    let listed = convert_summary(summary.unwrap()).unwrap();
    let container = listed.container;
    assert_eq!(
        (container.name.as_str(), container.image.as_str()),
        ("web", "web:1")
    );
    assert_eq!(container.created_at, Timestamp(1_700_000_000_000));
    assert_eq!(container.state, ContainerState::Running);
    assert_eq!(container.inspect, None);
    assert_eq!(
        container.networks["net"].network.as_ref().unwrap().as_str(),
        id('b')
    );
    assert_eq!(container.networks["net"].address.as_deref(), Some("10.0.0.2"));
    assert_eq!(
        container.networks["gone"],
        Attachment {
            network: None,
            aliases: vec![],
            address: None
        }
    );
    assert_eq!(listed.health, Some(EngineHealthStatus::Unhealthy));
}

#[test]
fn an_inspect_has_the_details_and_the_same_creation_time() {
    let found = serde_json::from_value(json!({
        "Id": id('a'), "Name": "/web", "Created": "2023-11-14T22:13:20.987654321Z",
        "State": {"Status": "exited", "ExitCode": 137, "OOMKilled": true, "Error": "x",
            "StartedAt": "2023-11-14T22:13:21.5Z", "FinishedAt": "0001-01-01T00:00:00Z",
            "Health": {"Status": "unhealthy", "FailingStreak": 3, "Log": [
                {"Start": "2023-11-14T22:13:22Z", "End": "2023-11-14T22:13:23Z", "ExitCode": 1, "Output": "é".repeat(3000)}]}},
        "Config": {"Image": "web:1", "Env": ["A=1"], "Labels": {"argusai.service": "web"}},
        "HostConfig": {"Memory": 64, "NanoCpus": 500, "RestartPolicy": {"Name": "always"}, "PidsLimit": 100, "Privileged": true,
            "PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8080"}], "53/udp": [{"HostPort": "53"}],
                "9/tcp": null, "7/sctp": [{"HostPort": "7"}], "81/tcp": [{"HostPort": ""}]}},
        "NetworkSettings": {"Networks": {"net": {"NetworkID": id('b'), "Aliases": ["web", "aaaaaaaaaaaa"]}}},
    }));
    let container = convert_inspect(found.unwrap()).unwrap();
    let info = container.inspect.unwrap();
    assert_eq!(container.created_at, Timestamp(1_700_000_000_000));
    assert_eq!(container.state, ContainerState::Exited);
    assert_eq!(container.networks["net"].aliases, ["web", "aaaaaaaaaaaa"]);
    assert_eq!(
        (info.exit_code, info.oom_killed, info.error.as_str()),
        (137, true, "x")
    );
    assert_eq!(info.started_at, Some(Timestamp(1_700_000_001_500)));
    assert_eq!(info.finished_at, None);
    let health = info.health.unwrap();
    assert_eq!(
        (health.status, health.failing_streak),
        (EngineHealthStatus::Unhealthy, 3)
    );
    assert_eq!(health.output.len(), 4096);
    assert_eq!(health.checked_at, Some(Timestamp(1_700_000_003_000)));
    let port = ProtocolPort::new;
    assert_eq!(
        info.config.bindings,
        [
            (port(53, Protocol::Udp), port(53, Protocol::Udp)),
            (port(80, Protocol::Tcp), port(8080, Protocol::Tcp)),
        ]
    );
    assert_eq!(
        info.config.addresses,
        [
            (port(53, Protocol::Udp), "0.0.0.0".parse::<IpAddr>().unwrap()),
            (port(8080, Protocol::Tcp), "127.0.0.1".parse::<IpAddr>().unwrap()),
        ]
    );
    assert_eq!((info.config.memory, info.config.nano_cpus), (64, 500));
    assert_eq!(
        (info.config.pids_limit, info.config.privileged),
        (Some(100), true)
    );
    assert_eq!(info.config.restart_policy, "always");
    assert_eq!(info.config.stop_grace, None);
}

#[test]
fn image_command_and_mounts_are_read_without_anonymous_volumes() {
    let anonymous = "0123456789abcdef".repeat(4);
    let found = json!({
        "Id": id('a'),
        "Config": {"Image": "app:1", "Entrypoint": ["/init"], "Cmd": ["serve"], "User": "app", "WorkingDir": "/srv",
            "Labels": {"argusai.build-digest": "d1"}},
        "HostConfig": {"Tmpfs": {"/tmp": "size=64m", "/run": ""}},
        "Mounts": [
            {"Type": "bind", "Source": "/src", "Destination": "/app", "RW": false},
            {"Type": "volume", "Name": "data", "Source": "/var/lib/docker/volumes/data/_data", "Destination": "/data", "RW": true},
            {"Type": "volume", "Name": anonymous, "Destination": "/cache", "RW": true},
            {"Type": "tmpfs", "Destination": "/tmp", "RW": true},
        ],
    });
    let found = convert_inspect(serde_json::from_value(found).unwrap()).unwrap();
    let config = found.inspect.unwrap().config;
    let process = [&config.build, &config.user, &config.working_dir];
    assert_eq!(process, ["d1", "app", "/srv"]);
    assert_eq!(config.tmpfs, ["/run", "/tmp"]);
    assert_eq!(
        (config.image.as_str(), config.entrypoint, config.command),
        ("app:1", vec!["/init".to_owned()], vec!["serve".to_owned()])
    );
    let bind = Mount::Bind {
        source: "/src".to_owned(),
        target: "/app".to_owned(),
        read_only: true,
    };
    let volume = Mount::Volume {
        name: ResourceName::new("data").unwrap(),
        target: "/data".to_owned(),
        read_only: false,
    };
    assert_eq!(config.mounts, [bind, volume]);
}

#[test]
fn unlimited_is_known_only_of_an_engine_with_limits() {
    let unlimited = |limit: serde_json::Value| {
        let found = json!({"Id": id('a'), "HostConfig": {"PidsLimit": limit}});
        convert_inspect(serde_json::from_value(found).unwrap()).unwrap()
    };
    let limits = crate::info::EffectiveLimits::default();
    let seen = |limits: &crate::info::EffectiveLimits, limit| {
        let mut container = unlimited(limit);
        limits.complete(&mut container);
        container.inspect.unwrap().config.pids_limit
    };
    for limit in [json!(null), json!(0), json!(-1)] {
        assert_eq!(seen(&limits, limit), None);
    }
    let about = |keeps| models::SystemInfo {
        pids_limit: Some(keeps),
        ..Default::default()
    };
    limits.update(&about(true));
    assert_eq!(
        (seen(&limits, json!(-1)), seen(&limits, json!(7))),
        (Some(0), Some(7))
    );
    limits.update(&about(false));
    assert_eq!(seen(&limits, json!(0)), None);
}

#[test]
fn an_empty_document_is_harmless() {
    assert!(convert_summary(models::ContainerSummary::default()).is_none());
    assert!(convert_inspect(models::ContainerInspectResponse::default()).is_none());
    let bare = models::ContainerInspectResponse {
        id: Some(id('a')),
        ..Default::default()
    };
    let container = convert_inspect(bare).unwrap();
    assert_eq!(container.inspect.unwrap().config.restart_policy, "no");
    let health = models::Health {
        status: Some(models::HealthStatusEnum::NONE),
        ..Default::default()
    };
    assert!(super::convert_health(health).is_none());
}

#[test]
fn every_state_name_is_converted() {
    for (word, state) in [
        ("created", ContainerState::Created),
        ("running", ContainerState::Running),
        ("paused", ContainerState::Paused),
        ("restarting", ContainerState::Restarting),
        ("removing", ContainerState::Removing),
        ("exited", ContainerState::Exited),
        ("dead", ContainerState::Dead),
        ("stopping", ContainerState::Running),
    ] {
        assert_eq!(parse_state(word), state, "{word}");
    }
}
