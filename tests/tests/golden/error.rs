//! The vocabulary for results of a call.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::ident::{Protocol, ProtocolPort};
use argus_core::outcome::{ActionError, PortOwner, PortRefusal};

/// `port-taken 8080 [free-now] [stale]`, `image-missing`, `name-taken HOLDER`, `rate-limited 90`, …
pub(crate) fn read(words: &[&str]) -> Result<ActionError, String> {
    let (kind, rest) = words.split_first().ok_or("missing name of an error")?;
    let text = rest.join(" ");
    Ok(match *kind {
        "unknown" => ActionError::Unknown(text),
        "unreachable" => ActionError::Unreachable(text),
        "engine" => ActionError::Engine(text),
        "name-taken" => ActionError::NameTaken { holder: text },
        "port-taken" => ActionError::PortTaken(Box::new(refusal(rest)?)),
        "image-missing" => ActionError::ImageMissing,
        "image-not-found" => ActionError::ImageNotFound(text),
        "auth-required" => ActionError::AuthRequired(text),
        "rate-limited" => ActionError::RateLimited {
            message: "slow down".to_owned(),
            retry_after: text.parse().ok().map(Duration::from_secs),
        },
        "pull-failed" => ActionError::PullFailed(text),
        "build-failed" => ActionError::BuildFailed {
            message: text,
            log: String::new(),
            instruction: None,
        },
        "entrypoint-not-found" => ActionError::EntrypointNotFound(text),
        "bad-mount" => ActionError::BadMount(text),
        "volume-not-found" => ActionError::VolumeNotFound(text),
        "network-not-found" => ActionError::NetworkNotFound(text),
        "mount-refused" => ActionError::MountRefused(text),
        "start-failed" => ActionError::StartFailed(text),
        "gone" => ActionError::Gone,
        "network-gone" => ActionError::NetworkGone(text),
        "pool-exhausted" => ActionError::PoolExhausted(text),
        "network-in-use" => ActionError::NetworkInUse(text),
        "busy" => ActionError::Busy(text),
        "disk-full" => ActionError::DiskFull(text),
        "not-owned" => ActionError::NotOwned(text),
        "rejected" => ActionError::Rejected(text),
        other => return Err(format!("`{other}` is not an error")),
    })
}

/// `8080`, `free-now`, `stale`.
pub(crate) fn refusal(words: &[&str]) -> Result<PortRefusal, String> {
    let number = words.first().and_then(|word| word.parse().ok());
    let stale = words.contains(&"stale");
    Ok(PortRefusal {
        port: ProtocolPort {
            number: number.ok_or("missing port number")?,
            protocol: if words.contains(&"udp") {
                Protocol::Udp
            } else {
                Protocol::Tcp
            },
        },
        free_now: words.contains(&"free-now"),
        owner: if stale {
            PortOwner::StaleAllocation
        } else {
            PortOwner::Process {
                pid: 42,
                command: "nc".to_owned(),
            }
        },
        busy: BTreeMap::new(),
    })
}
