//! Preflight checks: one function per check.

use std::time::Duration;

use argus_crds::error::Code;
use argus_crds::status::{CheckName, CheckResult, Orphan};
use serde_json::{Value, json};

use super::CheckOutcome;
use super::host_facts::{DiskFact, EngineFact, Fact, ImageFact, NetworksFact, PortFact};
use super::snapshot::DISK_FULL_MEMORY;
use crate::socket_access::code_of_reason;
use crate::time::Timestamp;

/// Oldest supported API version, the one of Docker 20.10.
pub const MIN_API: (u32, u32) = (1, 41);
/// Minimum number of free inodes; with fewer, no image can be unpacked.
const MIN_FREE_FILES: u64 = 1_000;
/// Number of free inodes below which the check warns.
const FEW_FREE_FILES: u64 = 10_000;
/// Number of networks with free address pools below which the check warns.
const FEW_NETWORKS: u64 = 3;
/// Clock difference that warns, because times in status and logs become hard to compare. Leases and delays each use one clock only.
const CLOCK_WARNING: Duration = Duration::from_secs(2);
/// Maximum number of items that one message names.
const MAX_NAMED: usize = 3;

/// Unwraps a known fact, or returns the skipped outcome.
macro_rules! known {
    ($name:expr, $fact:expr) => {
        match $fact {
            Fact::Known(known) => known,
            Fact::Unknown(why) => return CheckOutcome::unknown($name, why),
            Fact::NotApplicable(why) => return CheckOutcome::skipped($name, why),
        }
    };
}

pub(super) fn engine(fact: &Fact<EngineFact>) -> CheckOutcome {
    let name = CheckName::Engine;
    match fact {
        Fact::Known(engine) => {
            let details =
                json!({ "endpoint": engine.endpoint, "version": engine.version, "osType": engine.os_type });
            if engine.os_type.is_empty() || engine.os_type == "linux" {
                let message = format!("engine {} responds at `{}`", engine.version, engine.endpoint);
                CheckOutcome::pass(name, message).details(details)
            } else {
                let message = format!(
                    "the engine runs {} containers, but Argus needs linux containers",
                    engine.os_type
                );
                CheckOutcome::fail(name, Code::PrereqMissing, message).details(details)
            }
        }
        Fact::Unknown(why) | Fact::NotApplicable(why) => CheckOutcome::fail(
            name,
            code_of_reason(why),
            format!("the engine is unreachable: {why}"),
        ),
    }
}

pub(super) fn api(fact: &Fact<EngineFact>) -> CheckOutcome {
    let name = CheckName::Api;
    let engine = known!(name, fact);
    let (major, minor) = MIN_API;
    let details = json!({ "apiVersion": engine.api_version, "needed": format!("{major}.{minor}") });
    let Some(found) = version(&engine.api_version) else {
        return CheckOutcome::unknown(
            name,
            format!("`{}` is not a valid API version", engine.api_version),
        )
        .details(details);
    };
    if found < MIN_API {
        let message = format!(
            "the engine supports API {}, but Argus needs {major}.{minor}",
            engine.api_version
        );
        return CheckOutcome::fail(name, Code::ApiTooOld, message).details(details);
    }
    CheckOutcome::pass(name, format!("API {}", engine.api_version)).details(details)
}

fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

pub(super) fn disk(
    fact: &Fact<DiskFact>,
    threshold: u64,
    disk_full: Option<Timestamp>,
    now: Timestamp,
) -> CheckOutcome {
    let name = CheckName::Disk;
    let full = disk_full.filter(|at| now.since(*at) < DISK_FULL_MEMORY);
    let disk = match (fact, full) {
        (Fact::Known(disk), _) => disk,
        (Fact::Unknown(_) | Fact::NotApplicable(_), Some(at)) => {
            let ago = now.since(at).as_secs();
            let message = format!("the engine reported {ago} s ago that no space is left on its device");
            return CheckOutcome::fail(name, Code::DiskSpaceLow, message);
        }
        (Fact::Unknown(why), None) => return CheckOutcome::unknown(name, why),
        (Fact::NotApplicable(why), None) => return CheckOutcome::skipped(name, why),
    };
    let details = disk_details(disk, threshold);
    let usage = format!(
        "{} of {} free on `{}`",
        size(disk.free),
        size(disk.total),
        disk.path
    );
    if disk.free < threshold {
        let message = format!("{usage}, but {} are required", size(threshold));
        return CheckOutcome::fail(name, Code::DiskSpaceLow, message).details(details);
    }
    match disk.free_inodes {
        Some(files) if files < MIN_FREE_FILES => {
            let message = format!(
                "only {files} inodes free on `{}`, but {MIN_FREE_FILES} are required",
                disk.path
            );
            return CheckOutcome::fail(name, Code::DiskSpaceLow, message).details(details);
        }
        Some(files) if files < FEW_FREE_FILES => {
            let message = format!("only {files} inodes free on `{}`", disk.path);
            return CheckOutcome::warn(name, Code::DiskSpaceLow, message).details(details);
        }
        Some(_) | None => {}
    }
    if disk.free < threshold.saturating_mul(2) {
        let message = format!("{usage}, less than twice the required {}", size(threshold));
        return CheckOutcome::warn(name, Code::DiskSpaceLow, message).details(details);
    }
    CheckOutcome::pass(name, usage).details(details)
}

/// Returns the usage of a disk as structured data.
pub(crate) fn disk_details(disk: &DiskFact, threshold: u64) -> Value {
    let mut details = json!({
        "dataRoot": disk.path,
        "freeBytes": disk.free,
        "totalBytes": disk.total,
        "thresholdBytes": threshold,
    });
    let fields = details.as_object_mut();
    if let (Some(fields), Some(files)) = (fields, disk.free_inodes) {
        fields.insert("freeFiles".to_owned(), json!(files));
    }
    let fields = details.as_object_mut();
    if let (Some(fields), Some(reclaimable)) = (fields, &disk.reclaimable) {
        fields.insert(
            "reclaimable".to_owned(),
            json!({ "imagesBytes": reclaimable.images, "buildCacheBytes": reclaimable.build_cache }),
        );
    }
    details
}

/// Warns about orphans.
pub(super) fn orphans(fact: &Fact<Vec<Orphan>>) -> CheckOutcome {
    let name = CheckName::Orphans;
    let found: Vec<&Orphan> = known!(name, fact).iter().filter(|it| !it.is_kept()).collect();
    let details = json!({ "orphans": found });
    if found.is_empty() {
        return CheckOutcome::pass(name, "no orphans").details(details);
    }
    let named = list(
        found
            .iter()
            .map(|orphan| format!("{} `{}`", orphan.kind, orphan.name)),
    );
    let message = format!("{} orphaned: {named}", found.len());
    CheckOutcome::warn(name, Code::OrphanDetected, message).details(details)
}

pub(super) fn ports(fact: &Fact<Vec<PortFact>>) -> CheckOutcome {
    let name = CheckName::Ports;
    let requested = known!(name, fact);
    let taken: Vec<&PortFact> = requested.iter().filter(|port| port.owner.is_some()).collect();
    let details = json!({ "wanted": requested.len(), "taken": taken });
    let named = |ports: &[&PortFact]| {
        list(ports.iter().map(|taken| {
            let owner = taken.owner.as_ref().map(ToString::to_string).unwrap_or_default();
            format!(
                "{} of `{}/{}` is held by {owner}",
                taken.port, taken.environment, taken.service
            )
        }))
    };
    let stuck: Vec<&PortFact> = taken.iter().copied().filter(|port| !port.may_move).collect();
    if !stuck.is_empty() {
        return CheckOutcome::fail(name, Code::PortConflict, named(&stuck)).details(details);
    }
    let shared = requested
        .iter()
        .find_map(|port| Some((port, port.other_owner.as_ref()?)));
    if let (true, Some((port, other))) = (taken.is_empty(), shared) {
        let message = format!(
            "{} of `{}/{}` has another listener: {other}; `localhost` can lead to it, so stop it, or use the address of the port",
            port.port, port.environment, port.service
        );
        let details = json!({ "wanted": requested.len(), "taken": taken, "shared": [port] });
        return CheckOutcome::warn(name, Code::PortConflict, message).details(details);
    }
    let at_risk = requested
        .iter()
        .find(|port| !port.may_move && port.outgoing.is_some());
    if let (true, Some((port, (first, last)))) = (
        taken.is_empty(),
        at_risk.and_then(|port| Some((port, port.outgoing?))),
    ) {
        let message = format!(
            "{} of `{}/{}` is fixed, but the host gives ports {first} to {last} to outgoing connections; choose a port below {first}",
            port.port, port.environment, port.service
        );
        return CheckOutcome::warn(name, Code::PortConflict, message).details(details);
    }
    if taken.is_empty() {
        return CheckOutcome::pass(
            name,
            format!(
                "{} requested, all free or in use by their own service",
                requested.len()
            ),
        )
        .details(details);
    }
    let message = format!("{}; Argus assigns another port", named(&taken));
    CheckOutcome::warn(name, Code::PortConflict, message).details(details)
}

pub(super) fn networks(engine: &Fact<EngineFact>, fact: &Fact<NetworksFact>) -> CheckOutcome {
    let name = CheckName::Networks;
    let networks = known!(name, fact);
    let details = json!({ "networks": networks.count, "room": networks.free });
    let drivers = engine.known().map(|engine| &engine.network_drivers);
    if drivers.is_some_and(|drivers| !drivers.is_empty() && !drivers.contains("bridge")) {
        let message = "the engine has no network driver `bridge`";
        return CheckOutcome::fail(name, Code::PrereqMissing, message).details(details);
    }
    match networks.free {
        Some(0) => {
            let message = format!("{} networks, no free address pool", networks.count);
            CheckOutcome::fail(name, Code::NetworkPoolExhausted, message).details(details)
        }
        Some(free) if free < FEW_NETWORKS => {
            let message = format!("{} networks, address pools for only {free} more", networks.count);
            CheckOutcome::warn(name, Code::NetworkPoolExhausted, message).details(details)
        }
        Some(free) => {
            let message = format!("{} networks, address pools for {free} more", networks.count);
            CheckOutcome::pass(name, message).details(details)
        }
        None => CheckOutcome::unknown(name, "the engine does not report its address pools").details(details),
    }
}

pub(super) fn images(fact: &Fact<Vec<ImageFact>>) -> CheckOutcome {
    let name = CheckName::Images;
    let requested = known!(name, fact);
    let pulled: Vec<&ImageFact> = requested
        .iter()
        .filter(|image| !image.present && !image.built)
        .collect();
    let built = requested
        .iter()
        .filter(|image| !image.present && image.built)
        .count();
    let absent: Vec<&ImageFact> = requested.iter().filter(|image| !image.present).collect();
    let details = json!({ "wanted": requested.len(), "absent": absent });
    if !pulled.is_empty() {
        let named = list(pulled.iter().map(|image| format!("`{}`", image.reference)));
        return CheckOutcome::warn(
            name,
            Code::ImageNotFound,
            format!("not on the engine, will be pulled: {named}"),
        )
        .details(details);
    }
    let message = match built {
        0 => format!("all {} are on the engine", requested.len()),
        built => format!(
            "{} are on the engine, {built} to be built",
            requested.len() - built
        ),
    };
    CheckOutcome::pass(name, message).details(details)
}

pub(super) fn journal(fact: &Fact<Result<(), String>>) -> CheckOutcome {
    let name = CheckName::Journal;
    match known!(name, fact) {
        Ok(()) => CheckOutcome::pass(name, "the state directory is writable"),
        Err(why) => {
            let message = format!("cannot write to the state directory: {why}");
            CheckOutcome::fail(name, Code::JournalUnwritable, message)
        }
    }
}

pub(super) fn clock(fact: &Fact<EngineFact>) -> CheckOutcome {
    let name = CheckName::Clock;
    let engine = known!(name, fact);
    let Some(ahead) = engine.clock_ahead else {
        return CheckOutcome::unknown(name, "the engine does not report its time");
    };
    let off = Duration::from_millis(ahead.unsigned_abs());
    let details = json!({ "aheadMs": ahead });
    let relation = if ahead < 0 { "behind" } else { "ahead of" };
    let message = format!(
        "the engine clock is {:.1} s {relation} the local clock",
        off.as_secs_f64()
    );
    if off >= CLOCK_WARNING {
        CheckOutcome::new(name, CheckResult::Warn, message).details(details)
    } else {
        // Millisecond differences are noise.
        CheckOutcome::pass(name, "the engine clock matches the local clock")
    }
}

fn list(items: impl ExactSizeIterator<Item = String>) -> String {
    let more = items.len().saturating_sub(MAX_NAMED);
    let mut named: Vec<String> = items.take(MAX_NAMED).collect();
    if more > 0 {
        named.push(format!("{more} more"));
    }
    named.join(", ")
}

/// Formats bytes for display, with the units of spec files.
///
/// ```
/// use argus_core::preflight::size;
///
/// assert_eq!(size(999), "999 B");
/// assert_eq!(size(1_500), "1.5 kB");
/// assert_eq!(size(2_000_000_000), "2 GB");
/// ```
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] = [
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1_000),
    ];
    for (unit, one) in UNITS {
        if bytes >= one {
            let tenths = bytes / (one / 10);
            return if tenths.is_multiple_of(10) || tenths >= 1_000 {
                format!("{} {unit}", tenths / 10)
            } else {
                format!("{}.{} {unit}", tenths / 10, tenths % 10)
            };
        }
    }
    format!("{bytes} B")
}
