//! Free capacity of an engine's address pools: the number of networks that can still be created.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use bollard::models::{Network, SystemInfo, SystemVersion};

/// A range of addresses that the engine divides into networks with a prefix of `size` bits.
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

/// The configured pools of an engine, or Docker's defaults; `None` for Podman, which has other defaults and does not
/// report them.
pub(super) fn read_pools(info: &SystemInfo, version: &SystemVersion) -> Option<Vec<Pool>> {
    let configured = info.default_address_pools.as_deref().unwrap_or_default();
    if configured.is_empty() {
        let components = version.components.as_deref().unwrap_or_default();
        let podman = components
            .iter()
            .any(|component| component.name.contains("Podman"));
        return (!podman).then(default_pools);
    }
    let read = |base: Option<&String>, size: Option<i64>| {
        let base = Cidr::read(base?)?;
        let size = u8::try_from(size?)
            .ok()
            .filter(|size| *size >= base.bits && *size <= 32)?;
        Some(Pool { base, size })
    };
    // IPv6 pools do not matter, because every network has an IPv4 range.
    Some(
        configured
            .iter()
            .filter_map(|pool| read(pool.base.as_ref(), pool.size))
            .collect(),
    )
}

/// Docker's default pools: 172.17.0.0/16 to 172.31.0.0/16, then 192.168.0.0/16 in networks of 4,096 addresses.
fn default_pools() -> Vec<Pool> {
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

/// The address ranges of existing networks.
pub(super) fn used_ranges(networks: &[Network]) -> Vec<Cidr> {
    let configs = networks
        .iter()
        .filter_map(|network| network.ipam.as_ref()?.config.as_ref())
        .flatten();
    configs
        .filter_map(|config| Cidr::read(config.subnet.as_deref()?))
        .collect()
}

/// Number of subnets in the pools that do not overlap with an existing network.
pub(super) fn count_free(pools: &[Pool], used: &[Cidr]) -> u64 {
    pools.iter().map(|pool| count_free_in(*pool, used)).sum()
}

fn count_free_in(pool: Pool, used: &[Cidr]) -> u64 {
    let all = 1_u64 << (pool.size - pool.base.bits);
    let subnet = |address: u32| {
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
            taken.extend(subnet(first)..=subnet(last));
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

    fn with_pool(base: &str, size: i64) -> SystemInfo {
        SystemInfo {
            default_address_pools: Some(vec![SystemInfoDefaultAddressPools {
                base: Some(base.to_owned()),
                size: Some(size),
            }]),
            ..SystemInfo::default()
        }
    }

    fn free_networks(info: &SystemInfo, subnets: &[&str]) -> u64 {
        let networks: Vec<Network> = subnets.iter().map(|subnet| network(subnet)).collect();
        let pools = read_pools(info, &SystemVersion::default()).unwrap();
        count_free(&pools, &used_ranges(&networks))
    }

    #[test]
    fn docker_has_31_networks_by_default() {
        let defaults = SystemInfo::default();
        assert_eq!(free_networks(&defaults, &[]), 31);
        assert_eq!(
            free_networks(&defaults, &["172.17.0.0/16", "10.0.0.0/8", "fd00::/64"]),
            30
        );
        assert_eq!(free_networks(&defaults, &["172.16.0.0/12"]), 16);
        assert_eq!(free_networks(&defaults, &["172.16.0.0/12", "192.168.0.0/16"]), 0);
    }

    #[test]
    fn a_pool_is_full_when_every_subnet_overlaps_with_a_network() {
        let small = with_pool("172.30.0.0/16", 24);
        assert_eq!(free_networks(&small, &[]), 256);
        assert_eq!(
            free_networks(&small, &["172.30.0.0/24", "172.30.0.128/25", "172.30.2.0/23"]),
            253
        );
        assert_eq!(
            free_networks(&with_pool("172.30.0.0/24", 24), &["172.30.0.8/29"]),
            0
        );
        assert_eq!(free_networks(&with_pool("0.0.0.0/0", 8), &["10.0.0.0/8"]), 255);
    }

    #[test]
    fn an_invalid_pool_has_no_capacity() {
        assert_eq!(free_networks(&with_pool("172.30.0.0/24", 16), &[]), 0);
        assert_eq!(free_networks(&with_pool("nonsense", 24), &[]), 0);
        assert_eq!(free_networks(&with_pool("172.30.0.0/99", 24), &[]), 0);
    }
}
