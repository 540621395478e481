//! How many more networks an engine's address pools have room for.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use bollard::models::{Network, SystemInfo, SystemVersion};

/// Addresses that networks are cut out of, each of them with a prefix of `size` bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pool {
    base: Cidr,
    size: u8,
}

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cidr {
    first: u32,
    bits: u8,
}

impl Cidr {
    fn read(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let bits: u8 = bits.parse().ok().filter(|bits| *bits <= 32)?;
        let first = u32::from(address.parse::<Ipv4Addr>().ok()?) & mask(bits);
        Some(Self { first, bits })
    }

    fn last(self) -> u32 {
        self.first | !mask(self.bits)
    }
}

fn mask(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)
}

/// The pools that an engine was told to use, or Docker's own; `None` for an engine that has others and does not tell them.
pub(super) fn of(info: &SystemInfo, version: &SystemVersion) -> Option<Vec<Pool>> {
    let told = info.default_address_pools.as_deref().unwrap_or_default();
    if told.is_empty() {
        let components = version.components.as_deref().unwrap_or_default();
        let podman = components
            .iter()
            .any(|component| component.name.contains("Podman"));
        return (!podman).then(usual);
    }
    let read = |base: Option<&String>, size: Option<i64>| {
        let base = Cidr::read(base?)?;
        let size = u8::try_from(size?)
            .ok()
            .filter(|size| *size >= base.bits && *size <= 32)?;
        Some(Pool { base, size })
    };
    // Pools of IPv6 are beside the point: every network has an IPv4 range.
    Some(
        told.iter()
            .filter_map(|pool| read(pool.base.as_ref(), pool.size))
            .collect(),
    )
}

/// What Docker uses unless it is told otherwise: 172.17.0.0/16 to 172.31.0.0/16, then 192.168.0.0/16 in pieces of 4,096.
fn usual() -> Vec<Pool> {
    let pool = |a: u8, b: u8, bits: u8, size: u8| Pool {
        base: Cidr {
            first: u32::from(Ipv4Addr::new(a, b, 0, 0)),
            bits,
        },
        size,
    };
    let mut pools: Vec<Pool> = (17..=31).map(|b| pool(172, b, 16, 16)).collect();
    pools.push(pool(192, 168, 16, 20));
    pools
}

/// The ranges that networks have.
pub(super) fn used(networks: &[Network]) -> Vec<Cidr> {
    let configs = networks
        .iter()
        .filter_map(|network| network.ipam.as_ref()?.config.as_ref())
        .flatten();
    configs
        .filter_map(|config| Cidr::read(config.subnet.as_deref()?))
        .collect()
}

/// How many pieces are left that overlap with no network.
pub(super) fn room(pools: &[Pool], used: &[Cidr]) -> u64 {
    pools.iter().map(|pool| room_in(*pool, used)).sum()
}

fn room_in(pool: Pool, used: &[Cidr]) -> u64 {
    let all = 1_u64 << (pool.size - pool.base.bits);
    let piece = |address: u32| {
        let within = u64::from(address - pool.base.first);
        within >> (32 - u32::from(pool.size))
    };
    let mut taken: BTreeSet<u64> = BTreeSet::new();
    for range in used {
        let (first, last) = (
            range.first.max(pool.base.first),
            range.last().min(pool.base.last()),
        );
        if first <= last {
            taken.extend(piece(first)..=piece(last));
        }
    }
    all.saturating_sub(taken.len() as u64)
}

#[cfg(test)]
mod tests {
    use bollard::models::{Ipam, IpamConfig, SystemInfoDefaultAddressPools};

    use super::*;

    fn network(subnet: &str) -> Network {
        let config = IpamConfig {
            subnet: Some(subnet.to_owned()),
            ..IpamConfig::default()
        };
        Network {
            ipam: Some(Ipam {
                config: Some(vec![config]),
                ..Ipam::default()
            }),
            ..Network::default()
        }
    }

    fn told(base: &str, size: i64) -> SystemInfo {
        SystemInfo {
            default_address_pools: Some(vec![SystemInfoDefaultAddressPools {
                base: Some(base.to_owned()),
                size: Some(size),
            }]),
            ..SystemInfo::default()
        }
    }

    fn left(info: &SystemInfo, subnets: &[&str]) -> u64 {
        let networks: Vec<Network> = subnets.iter().map(|subnet| network(subnet)).collect();
        let pools = of(info, &SystemVersion::default()).unwrap();
        room(&pools, &used(&networks))
    }

    #[test]
    fn docker_has_room_for_31_networks_unless_it_is_told_otherwise() {
        let usual = SystemInfo::default();
        assert_eq!(left(&usual, &[]), 31);
        assert_eq!(left(&usual, &["172.17.0.0/16", "10.0.0.0/8", "fd00::/64"]), 30);
        assert_eq!(left(&usual, &["172.16.0.0/12"]), 16);
        assert_eq!(left(&usual, &["172.16.0.0/12", "192.168.0.0/16"]), 0);
    }

    #[test]
    fn a_pool_is_full_when_every_piece_overlaps_with_a_network() {
        let small = told("172.30.0.0/16", 24);
        assert_eq!(left(&small, &[]), 256);
        assert_eq!(
            left(&small, &["172.30.0.0/24", "172.30.0.128/25", "172.30.2.0/23"]),
            253
        );
        assert_eq!(left(&told("172.30.0.0/24", 24), &["172.30.0.8/29"]), 0);
        assert_eq!(left(&told("0.0.0.0/0", 8), &["10.0.0.0/8"]), 255);
    }

    #[test]
    fn what_makes_no_sense_gives_no_room() {
        assert_eq!(left(&told("172.30.0.0/24", 16), &[]), 0);
        assert_eq!(left(&told("nonsense", 24), &[]), 0);
        assert_eq!(left(&told("172.30.0.0/99", 24), &[]), 0);
    }
}
