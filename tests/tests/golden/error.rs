//! The words for what comes of a call.

use std::collections::BTreeSet;
use std::time::Duration;

use argus_core::ident::{HostPort, Protocol};
use argus_core::outcome::{ActError, PortOwner, PortRefusal};

/// `port-taken 8080 [free-now] [stale]`, `image-missing`, `name-taken HOLDER`, `rate-limited 90`, …
pub(crate) fn read(words: &[&str]) -> Result<ActError, String> {
    let (kind, rest) = words.split_first().ok_or("no error is named")?;
    let text = rest.join(" ");
    Ok(match *kind {
        "unknown" => ActError::Unknown(text),
        "unreachable" => ActError::Unreachable(text),
        "engine" => ActError::Engine(text),
        "name-taken" => ActError::NameTaken { holder: text },
        "port-taken" => ActError::PortTaken(Box::new(refusal(rest)?)),
        "image-missing" => ActError::ImageMissing,
        "image-not-found" => ActError::ImageNotFound(text),
        "auth-required" => ActError::AuthRequired(text),
        "rate-limited" => ActError::RateLimited {
            message: "slow down".to_owned(),
            retry_after: text.parse().ok().map(Duration::from_secs),
        },
        "pull-failed" => ActError::PullFailed(text),
        "build-failed" => ActError::BuildFailed {
            message: text,
            log: String::new(),
        },
        "entrypoint-not-found" => ActError::EntrypointNotFound(text),
        "bad-mount" => ActError::BadMount(text),
        "start-failed" => ActError::StartFailed(text),
        "gone" => ActError::Gone,
        "network-gone" => ActError::NetworkGone(text),
        "pool-exhausted" => ActError::PoolExhausted(text),
        "network-in-use" => ActError::NetworkInUse(text),
        "busy" => ActError::Busy(text),
        "disk-full" => ActError::DiskFull(text),
        "not-ours" => ActError::NotOurs(text),
        "rejected" => ActError::Rejected(text),
        other => return Err(format!("no error is called `{other}`")),
    })
}

/// `8080`, `free-now`, `stale`.
pub(crate) fn refusal(words: &[&str]) -> Result<PortRefusal, String> {
    let number = words.first().and_then(|word| word.parse().ok());
    let stale = words.contains(&"stale");
    Ok(PortRefusal {
        port: HostPort {
            number: number.ok_or("no port is named")?,
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
        busy: BTreeSet::new(),
    })
}
