//! What each fact comes to.

use std::time::Duration;

use argus_crds::error::Code;
use argus_crds::status::{CheckName, CheckResult, Orphan};
use serde_json::{Value, json};

use super::Verdict;
use super::facts::{Disk, Engine, Fact, Image, Networks, Port};
use super::gate::REMEMBERED;
use crate::time::Timestamp;

/// The least API version: Docker 20.10 speaks it.
pub const LEAST_API: (u32, u32) = (1, 41);
/// With fewer files left nothing of use can be unpacked.
const LEAST_FILES: u64 = 1_000;
/// From here on the files that are left are worth a warning.
const FEW_FILES: u64 = 10_000;
/// Room for fewer networks is worth a warning.
const FEW_NETWORKS: u64 = 3;
/// A clock that is further off makes times in status, logs and leases hard to compare.
const CLOCK_WARNS: Duration = Duration::from_secs(2);
/// A clock that is further off makes leases meaningless.
const CLOCK_FAILS: Duration = Duration::from_secs(60);
/// More of a kind in one message help nobody.
const NAMED: usize = 3;

/// The fact, or what is said in its place.
macro_rules! known {
    ($name:expr, $fact:expr) => {
        match $fact {
            Fact::Known(known) => known,
            Fact::Unknown(why) => return Verdict::unknown($name, why),
            Fact::Nothing(why) => return Verdict::idle($name, why),
        }
    };
}

pub(super) fn engine(fact: &Fact<Engine>) -> Verdict {
    let name = CheckName::Engine;
    match fact {
        Fact::Known(engine) => {
            let details =
                json!({ "endpoint": engine.endpoint, "version": engine.version, "osType": engine.os_type });
            if engine.os_type.is_empty() || engine.os_type == "linux" {
                let message = format!("engine {} answers at `{}`", engine.version, engine.endpoint);
                Verdict::pass(name, message).details(details)
            } else {
                let message = format!(
                    "the engine runs {} containers, and linux is needed",
                    engine.os_type
                );
                Verdict::fail(name, Code::PrereqMissing, message).details(details)
            }
        }
        Fact::Unknown(why) | Fact::Nothing(why) => Verdict::fail(
            name,
            Code::DockerUnavailable,
            format!("the engine does not answer: {why}"),
        ),
    }
}

pub(super) fn api(fact: &Fact<Engine>) -> Verdict {
    let name = CheckName::Api;
    let engine = known!(name, fact);
    let (major, minor) = LEAST_API;
    let details = json!({ "apiVersion": engine.api_version, "needed": format!("{major}.{minor}") });
    let Some(found) = version(&engine.api_version) else {
        return Verdict::unknown(name, format!("`{}` is no API version", engine.api_version))
            .details(details);
    };
    if found < LEAST_API {
        let message = format!(
            "the engine speaks API {}, and {major}.{minor} is needed",
            engine.api_version
        );
        return Verdict::fail(name, Code::ApiTooOld, message).details(details);
    }
    Verdict::pass(name, format!("API {}", engine.api_version)).details(details)
}

fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

pub(super) fn disk(
    fact: &Fact<Disk>,
    threshold: u64,
    disk_full: Option<Timestamp>,
    now: Timestamp,
) -> Verdict {
    let name = CheckName::Disk;
    let full = disk_full.filter(|at| now.since(*at) < REMEMBERED);
    let disk = match (fact, full) {
        (Fact::Known(disk), _) => disk,
        (Fact::Unknown(_) | Fact::Nothing(_), Some(at)) => {
            let ago = now.since(at).as_secs();
            let message = format!("the engine said {ago} s ago that no space is left on its device");
            return Verdict::fail(name, Code::DiskSpaceLow, message);
        }
        (Fact::Unknown(why), None) => return Verdict::unknown(name, why),
        (Fact::Nothing(why), None) => return Verdict::idle(name, why),
    };
    let details = disk_details(disk, threshold);
    let room = format!(
        "{} of {} free on `{}`",
        size(disk.free),
        size(disk.total),
        disk.path
    );
    if disk.free < threshold {
        let message = format!("{room}, and {} are needed", size(threshold));
        return Verdict::fail(name, Code::DiskSpaceLow, message).details(details);
    }
    match disk.files_free {
        Some(files) if files < LEAST_FILES => {
            let message = format!(
                "room for {files} more files on `{}`, and {LEAST_FILES} are needed",
                disk.path
            );
            return Verdict::fail(name, Code::DiskSpaceLow, message).details(details);
        }
        Some(files) if files < FEW_FILES => {
            let message = format!("room for only {files} more files on `{}`", disk.path);
            return Verdict::warn(name, Code::DiskSpaceLow, message).details(details);
        }
        Some(_) | None => {}
    }
    if disk.free < threshold.saturating_mul(2) {
        let message = format!(
            "{room}, which is less than twice the {} that are needed",
            size(threshold)
        );
        return Verdict::warn(name, Code::DiskSpaceLow, message).details(details);
    }
    Verdict::pass(name, room).details(details)
}

/// How full a disk is, for programs.
pub(crate) fn disk_details(disk: &Disk, threshold: u64) -> Value {
    let mut details = json!({
        "dataRoot": disk.path,
        "freeBytes": disk.free,
        "totalBytes": disk.total,
        "thresholdBytes": threshold,
    });
    let fields = details.as_object_mut();
    if let (Some(fields), Some(files)) = (fields, disk.files_free) {
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

/// What was left behind.
pub(super) fn orphans(fact: &Fact<Vec<Orphan>>) -> Verdict {
    let name = CheckName::Orphans;
    let found = known!(name, fact);
    let details = json!({ "orphans": found });
    if found.is_empty() {
        return Verdict::pass(name, "nothing was left behind").details(details);
    }
    let named = list(
        found
            .iter()
            .map(|orphan| format!("{} `{}`", orphan.kind, orphan.name)),
    );
    let message = format!("{} left behind: {named}", found.len());
    Verdict::warn(name, Code::OrphanDetected, message).details(details)
}

pub(super) fn ports(fact: &Fact<Vec<Port>>) -> Verdict {
    let name = CheckName::Ports;
    let wanted = known!(name, fact);
    let taken: Vec<&Port> = wanted.iter().filter(|port| port.holder.is_some()).collect();
    let details = json!({ "wanted": wanted.len(), "taken": taken });
    let named = |ports: &[&Port]| {
        list(ports.iter().map(|taken| {
            let holder = taken
                .holder
                .as_ref()
                .map(crate::status::port_holder)
                .unwrap_or_default();
            format!(
                "{} of `{}/{}` is held by {holder}",
                taken.port, taken.environment, taken.service
            )
        }))
    };
    let stuck: Vec<&Port> = taken.iter().copied().filter(|port| !port.may_move).collect();
    if !stuck.is_empty() {
        return Verdict::fail(name, Code::PortConflict, named(&stuck)).details(details);
    }
    if taken.is_empty() {
        return Verdict::pass(
            name,
            format!("{} wanted, all free or with their service", wanted.len()),
        )
        .details(details);
    }
    let message = format!("{}; another is taken in its place", named(&taken));
    Verdict::warn(name, Code::PortConflict, message).details(details)
}

pub(super) fn networks(engine: &Fact<Engine>, fact: &Fact<Networks>) -> Verdict {
    let name = CheckName::Networks;
    let networks = known!(name, fact);
    let details = json!({ "networks": networks.there, "room": networks.room });
    let drivers = engine.known().map(|engine| &engine.network_drivers);
    if drivers.is_some_and(|drivers| !drivers.is_empty() && !drivers.contains("bridge")) {
        let message = "the engine has no network driver `bridge`";
        return Verdict::fail(name, Code::PrereqMissing, message).details(details);
    }
    match networks.room {
        Some(0) => {
            let message = format!(
                "{} networks, and no address pool is left for another",
                networks.there
            );
            Verdict::fail(name, Code::NetworkPoolExhausted, message).details(details)
        }
        Some(room) if room < FEW_NETWORKS => {
            let message = format!(
                "{} networks, and address pools for only {room} more",
                networks.there
            );
            Verdict::warn(name, Code::NetworkPoolExhausted, message).details(details)
        }
        Some(room) => {
            let message = format!("{} networks, address pools for {room} more", networks.there);
            Verdict::pass(name, message).details(details)
        }
        None => Verdict::unknown(name, "the engine does not tell its address pools").details(details),
    }
}

pub(super) fn images(fact: &Fact<Vec<Image>>) -> Verdict {
    let name = CheckName::Images;
    let wanted = known!(name, fact);
    let pulled: Vec<&Image> = wanted
        .iter()
        .filter(|image| !image.present && !image.built)
        .collect();
    let built = wanted
        .iter()
        .filter(|image| !image.present && image.built)
        .count();
    let absent: Vec<&Image> = wanted.iter().filter(|image| !image.present).collect();
    let details = json!({ "wanted": wanted.len(), "absent": absent });
    if !pulled.is_empty() {
        let named = list(pulled.iter().map(|image| format!("`{}`", image.reference)));
        return Verdict::warn(
            name,
            Code::ImageNotFound,
            format!("not on the engine, to be pulled: {named}"),
        )
        .details(details);
    }
    let message = match built {
        0 => format!("all {} are on the engine", wanted.len()),
        built => format!("{} are on the engine, {built} to be built", wanted.len() - built),
    };
    Verdict::pass(name, message).details(details)
}

pub(super) fn journal(fact: &Fact<Result<(), String>>) -> Verdict {
    let name = CheckName::Journal;
    match known!(name, fact) {
        Ok(()) => Verdict::pass(name, "the state directory takes what is written to it"),
        Err(why) => {
            let message = format!("the state directory cannot be written: {why}");
            Verdict::fail(name, Code::JournalUnwritable, message)
        }
    }
}

pub(super) fn clock(fact: &Fact<Engine>) -> Verdict {
    let name = CheckName::Clock;
    let engine = known!(name, fact);
    let Some(ahead) = engine.clock_ahead else {
        return Verdict::unknown(name, "the engine does not tell the time");
    };
    let off = Duration::from_millis(ahead.unsigned_abs());
    let details = json!({ "aheadMs": ahead });
    let way = if ahead < 0 { "behind" } else { "ahead of" };
    let message = format!("the engine's clock is {:.1} s {way} ours", off.as_secs_f64());
    if off >= CLOCK_FAILS {
        Verdict::new(name, CheckResult::Fail, message).details(details)
    } else if off >= CLOCK_WARNS {
        Verdict::new(name, CheckResult::Warn, message).details(details)
    } else {
        // To the millisecond no two looks agree, and nobody wants to know.
        Verdict::pass(name, "the engine's clock agrees with ours")
    }
}

fn list(items: impl ExactSizeIterator<Item = String>) -> String {
    let more = items.len().saturating_sub(NAMED);
    let mut named: Vec<String> = items.take(NAMED).collect();
    if more > 0 {
        named.push(format!("{more} more"));
    }
    named.join(", ")
}

/// Bytes for people, as files write them.
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
