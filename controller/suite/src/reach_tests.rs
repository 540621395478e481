//! Addresses that a suite may reach, in each spelling of a host.

use std::net::IpAddr;

use argus_crds::error::Code;
use proptest::prelude::*;
use url::{Host, Url};

use crate::{AllowedHost, PublishedPort, Reach, parse_host};

fn port(service: &str, address: &str, actual: u16) -> PublishedPort {
    PublishedPort {
        service: service.to_owned(),
        address: address.parse().unwrap(),
        requested: actual,
        actual,
    }
}

/// `web` on the loopback, `open` on all IPv4 addresses, `six` on all IPv6 addresses, and `lan` on an address of this host.
fn reach() -> Reach {
    Reach {
        ports: vec![
            port("web", "127.0.0.1", 8080),
            port("open", "0.0.0.0", 8081),
            port("six", "::", 8082),
            port("lan", "192.0.2.1", 8083),
        ],
        engine: None,
        allowed: Some(Vec::new()),
    }
}

fn allowing(hosts: &[&str]) -> Reach {
    Reach {
        ports: Vec::new(),
        allowed: Some(hosts.iter().map(|host| host.parse().unwrap()).collect()),
        ..reach()
    }
}

/// This host has one address except the loopback.
fn is_own(address: IpAddr) -> bool {
    address == IpAddr::from([192, 0, 2, 1])
}

/// Addresses of the chosen connections. A name has the addresses that a resolver returns for `localhost`.
fn choose(reach: &Reach, host: &str, port: u16) -> Vec<String> {
    let host = parse_host(host).unwrap();
    let addresses: Vec<IpAddr> = match &host {
        Host::Domain(_) => vec!["::1".parse().unwrap(), "127.0.0.1".parse().unwrap()],
        Host::Ipv4(address) => vec![(*address).into()],
        Host::Ipv6(address) => vec![(*address).into()],
    };
    let chosen = reach.choose(&host, port, &addresses, is_own);
    chosen.iter().map(ToString::to_string).collect()
}

#[test]
fn published_port_is_reached_in_each_spelling() {
    for (host, port, address) in [
        ("127.0.0.1", 8080, "127.0.0.1:8080"),
        ("localhost", 8080, "127.0.0.1:8080"),
        ("LOCALHOST.", 8080, "127.0.0.1:8080"),
        ("shop.example", 8080, "127.0.0.1:8080"),
        ("2130706433", 8080, "127.0.0.1:8080"),
        ("0177.0.0.1", 8080, "127.0.0.1:8080"),
        ("0x7f.1", 8080, "127.0.0.1:8080"),
        ("0.0.0.0", 8080, "127.0.0.1:8080"),
        ("[::ffff:127.0.0.1]", 8080, "127.0.0.1:8080"),
        ("127.0.0.2", 8081, "127.0.0.2:8081"),
        ("192.0.2.1", 8081, "192.0.2.1:8081"),
        ("[::1]", 8082, "[::1]:8082"),
        ("::1", 8082, "[::1]:8082"),
        ("[::]", 8082, "[::1]:8082"),
        ("localhost", 8082, "[::1]:8082"),
        ("192.0.2.1", 8083, "192.0.2.1:8083"),
    ] {
        assert_eq!(choose(&reach(), host, port), [address], "{host}:{port}");
    }
}

#[test]
fn other_addresses_and_ports_are_refused() {
    for (host, port) in [
        // Another port of this host.
        ("127.0.0.1", 22),
        ("localhost", 9470),
        // A port that another program can have on an address where the service is not published.
        ("[::1]", 8080),
        ("127.0.0.2", 8080),
        ("192.0.2.1", 8080),
        ("[::1]", 8081),
        ("127.0.0.1", 8082),
        ("127.0.0.1", 8083),
        ("localhost", 8083),
        // Other hosts.
        ("169.254.169.254", 80),
        ("169.254.169.254", 8081),
        ("2852039166", 8081),
        ("[::ffff:169.254.169.254]", 8081),
        ("[fd00:ec2::254]", 8082),
        ("192.0.2.9", 8081),
    ] {
        assert_eq!(choose(&reach(), host, port), [""; 0], "{host}:{port}");
    }
}

#[test]
fn service_on_a_foreign_address_reaches_nothing() {
    // The engine cannot publish a port there, but the file can name it.
    let reach = Reach {
        ports: vec![port("web", "169.254.169.254", 80)],
        ..reach()
    };
    assert_eq!(choose(&reach, "169.254.169.254", 80), [""; 0]);
}

#[test]
fn userinfo_is_no_host() {
    let url = Url::parse("http://127.0.0.1:8080@192.0.2.9/").unwrap();
    let host = url.host_str().unwrap();
    assert_eq!(host, "192.0.2.9");
    assert_eq!(
        choose(&reach(), host, url.port_or_known_default().unwrap()),
        [""; 0]
    );
}

#[test]
fn name_reaches_only_its_checked_addresses() {
    let host = parse_host("shop.example").unwrap();
    let found = ["169.254.169.254", "127.0.0.1"].map(|address| address.parse().unwrap());
    let chosen = reach().choose(&host, 8081, &found, is_own);
    assert_eq!(chosen, ["127.0.0.1:8081".parse().unwrap()]);
}

#[test]
fn engine_on_another_host_has_the_ports() {
    let remote = Reach {
        engine: Some(vec!["198.51.100.7".parse().unwrap()]),
        ..reach()
    };
    assert_eq!(choose(&remote, "198.51.100.7", 8081), ["198.51.100.7:8081"]);
    for (host, port) in [
        // This host does not have the ports of the engine.
        ("127.0.0.1", 8080),
        ("127.0.0.1", 8081),
        ("localhost", 8081),
        // The port is bound to another address.
        ("198.51.100.7", 8080),
        ("198.51.100.7", 8082),
        ("198.51.100.8", 8081),
    ] {
        assert_eq!(choose(&remote, host, port), [""; 0], "{host}:{port}");
    }
    let refused = remote.refuse(&parse_host("localhost").unwrap(), 22).message;
    assert!(refused.contains("`open` at `198.51.100.7:8081`"), "{refused}");
}

#[test]
fn allowed_host_is_reached_by_name_or_address() {
    let reach = allowing(&[
        "auth.example",
        "db.example:5432",
        "192.0.2.9",
        "[2001:db8::1]:80",
        "::1",
    ]);
    for (host, port, count) in [
        ("auth.example", 1, 2),
        ("AUTH.example.", 443, 2),
        ("db.example", 5432, 2),
        ("192.0.2.9", 22, 1),
        ("3221225993", 22, 1),
        ("[2001:db8::1]", 80, 1),
        ("[::1]", 22, 1),
        // A name has the address that is allowed.
        ("localhost", 22, 1),
    ] {
        assert_eq!(choose(&reach, host, port).len(), count, "{host}:{port}");
    }
    for (host, port) in [
        ("db.example", 5433),
        ("[2001:db8::1]", 81),
        ("evil.auth.example", 80),
        ("auth.example.evil", 80),
        ("127.0.0.1", 80),
    ] {
        let reach = allowing(&["auth.example", "db.example:5432", "192.0.2.9", "[2001:db8::1]:80"]);
        assert_eq!(choose(&reach, host, port), [""; 0], "{host}:{port}");
    }
    let client = Reach {
        allowed: None,
        ..reach
    };
    assert_eq!(choose(&client, "auth.example", 1), [""; 0]);
}

#[test]
fn allowed_host_is_a_host_with_or_without_a_port() {
    for text in [
        "a",
        "a:1",
        "a-b.example:80",
        "127.0.0.1",
        "127.0.0.1:65535",
        "::1",
        "[::1]",
        "[::1]:80",
    ] {
        assert!(text.parse::<AllowedHost>().is_ok(), "{text}");
    }
    for text in [
        "",
        ":80",
        "a:",
        "a:0",
        "a:65536",
        "a:x",
        "http://a",
        "http://a:80",
        "a/b",
        "u@a",
        "*",
        "*.example",
        "a b",
        "a;b",
        "$(a)",
        "10.0.0.0/8",
        "[::1",
        "::1]:80",
    ] {
        assert!(text.parse::<AllowedHost>().is_err(), "{text}");
    }
}

#[test]
fn refusal_names_the_flag_or_the_published_ports() {
    let host = parse_host("metadata.example").unwrap();
    let refused = reach().refuse(&host, 80);
    assert_eq!(
        refused.message,
        "`metadata.example:80` is not a published port of a running service: allow it with `--allow-test-hosts HOST`, \
         or use `web` at `127.0.0.1:8080`, `open` at `127.0.0.1:8081`, `six` at `[::1]:8082`, `lan` at `192.0.2.1:8083`"
    );
    assert_eq!(refused.code, Some(Code::PolicyViolation));
    assert_eq!(refused.address.as_deref(), Some("metadata.example:80"));
    let client = Reach {
        ports: vec![port("web", "127.0.0.1", 8080)],
        allowed: None,
        ..reach()
    };
    assert_eq!(
        client.refuse(&host, 80).message,
        "`metadata.example:80` is not a published port of a running service: use `web` at `127.0.0.1:8080`"
    );
    // A suggested command contains no text for a shell.
    let strange = parse_host("$(id)").unwrap();
    let refused = reach().refuse(&strange, 80);
    assert!(!refused.message.contains("--allow"), "{}", refused.message);
    assert_eq!(refused.address, None);
}

proptest! {
    #[test]
    fn chosen_address_is_always_published(
        bytes in any::<[u8; 4]>(), wide in any::<[u8; 16]>(), port in prop_oneof![8079_u16..8085, any::<u16>()]
    ) {
        let reach = reach();
        let addresses = [
            bytes.into(), wide.into(), IpAddr::from([127, 0, 0, bytes[3]]), "::1".parse().unwrap(),
        ];
        for chosen in reach.choose(&parse_host("any.example").unwrap(), port, &addresses, is_own) {
            prop_assert!(chosen.ip().is_loopback() || is_own(chosen.ip()));
            prop_assert!(reach.ports.iter().any(|published| published.actual == chosen.port()));
        }
    }
}
