//! Addresses that only an allowed project can read: those of the host, of private networks and of special purposes.

use std::net::{Ipv4Addr, Ipv6Addr};

pub(super) const PRIVATE: &str = "reads an address of the host or of a private network";
pub(super) const UNUSUAL: &str = "reads an address with an unusual spelling";

/// Returns why only an allowed project can read this address.
pub(super) fn check_address(source: &str) -> Option<&'static str> {
    let host = host_of(source)?.to_ascii_lowercase();
    let host = host.trim_end_matches('.');
    if let Some(inner) = host.strip_prefix('[') {
        return match inner.trim_end_matches(']').parse::<Ipv6Addr>() {
            Ok(address) => is_private_v6(address).then_some(PRIVATE),
            Err(_) => Some(UNUSUAL),
        };
    }
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = |text: &str| text.starts_with("0x") || text.chars().all(|c| c.is_ascii_digit());
    if !last.is_empty() && is_number(last) {
        return match host.parse::<Ipv4Addr>() {
            Ok(address) => is_private_v4(address).then_some(PRIVATE),
            // Such as `127.1`, which some resolvers read as an address.
            Err(_) => Some(UNUSUAL),
        };
    }
    // Some resolvers read other digits and percent encodings as ASCII.
    let is_usual = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if !host.chars().all(is_usual) {
        return Some(UNUSUAL);
    }
    // The host and its network resolve names without a dot, such as their own.
    let is_local = matches!(last, "localhost" | "local" | "internal") || last == host && !host.is_empty();
    is_local.then_some(PRIVATE)
}

/// Host of a URL or of a git address such as `git@host:path`; `None` for a file.
fn host_of(source: &str) -> Option<&str> {
    let Some((_, rest)) = source.split_once("://") else {
        let (user, rest) = source.split_once('@')?;
        let (host, _) = rest.split_once(':')?;
        return Some(host).filter(|_| !user.contains('/'));
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    match host.find(']') {
        Some(end) => Some(&host[..=end]),
        None => host.split(':').next(),
    }
}

/// Returns true for a multicast address, and for one of the special-purpose registry of IANA (RFC 6890).
fn is_private_v4(address: Ipv4Addr) -> bool {
    matches!(
        address.octets(),
        [0 | 10 | 127 | 224..=255, ..]
            | [100, 64..=127, ..]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 168, ..]
            | [192, 0, 0 | 2, _]
            | [192, 31, 196, _]
            | [192, 52, 193, _]
            | [192, 88, 99, _]
            | [192, 175, 48, _]
            | [198, 18 | 19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
    )
}

/// Returns true for an address outside of the global unicast addresses, and for one of the special-purpose registry, which also has those
/// that contain another address.
fn is_private_v6(address: Ipv6Addr) -> bool {
    matches!(
        address.segments(),
        [0..=0x1fff | 0x2002 | 0x4000..=0xffff, ..]
            | [0x2001, 0..=0x1ff | 0xdb8, ..]
            | [0x2620, 0x4f, 0x8000, ..]
            | [0x3fff, 0..=0xfff, ..]
    )
}
