//! What an engine's refusal means: by the operation and the status first, then by a few words, and else a safe default.

use std::collections::BTreeSet;

use argus_core::ident::{HostPort, Protocol};
use argus_core::outcome::{ActionError, PortOwner, PortRefusal};
use bollard::errors::Error;

/// What was asked of the engine; the same status means different things in different calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Ping,
    List,
    Inspect,
    About,
    Logs,
    Exec,
    CreateContainer,
    PlaceFile,
    StartContainer,
    StopContainer,
    PauseContainer,
    UnpauseContainer,
    RenameContainer,
    RemoveContainer,
    CreateNetwork,
    RemoveNetwork,
    ConnectNetwork,
    DisconnectNetwork,
    CreateVolume,
    RemoveVolume,
    RemoveImage,
    Pull,
    Build,
}

/// Sorts an answer of the engine.
pub(crate) fn answered(op: Op, status: u16, message: &str) -> ActionError {
    let text = message.to_ascii_lowercase();
    let said = || message.trim().to_owned();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));

    if matches!(status, 502..=504)
        || (status >= 500 && has(&["containerd.sock", "containerd is not running"]))
    {
        return ActionError::Engine(said());
    }
    if has(&["no space left on device", "disk quota exceeded"]) {
        return ActionError::DiskFull(said());
    }
    // Pools run out with a 404 on older engines and a 400 or 500 on newer ones.
    if op == Op::CreateNetwork && has(&["non-overlapping ipv4 address pool", "fully subnetted"]) {
        return ActionError::PoolExhausted(said());
    }
    if op == Op::Pull {
        return pull(message);
    }
    if op == Op::Build {
        return ActionError::BuildFailed {
            message: said(),
            log: String::new(),
        };
    }
    if status == 404 {
        return not_found(op, message);
    }
    if has(&[
        "is already in progress",
        "is marked for removal",
        "device or resource busy",
    ]) {
        return ActionError::Busy(said());
    }
    match op {
        Op::StartContainer => start(status, message),
        Op::CreateContainer if status == 409 && has(&["is already in use"]) => name_taken(message),
        Op::CreateContainer if has(&["invalid mount config", "bind source path", "invalid volume spec"]) => {
            ActionError::BadMount(said())
        }
        // Podman says 500 where Docker says 409.
        Op::CreateContainer
            if has(&["name is already in use", "name \"", "already in use by"]) && status >= 409 =>
        {
            name_taken(message)
        }
        Op::RenameContainer if has(&["already in use"]) => name_taken(message),
        Op::CreateNetwork if status == 409 || has(&["already exists"]) => name_taken(message),
        Op::RemoveNetwork if has(&["has active endpoints", "associated containers"]) => {
            ActionError::NetworkInUse(said())
        }
        Op::RemoveVolume if status == 409 => ActionError::Busy(said()),
        _ if matches!(status, 408 | 429) => ActionError::Busy(said()),
        _ if (400..500).contains(&status) => ActionError::Rejected(said()),
        _ if has(&["unavailable"]) => ActionError::Engine(said()),
        // A 500 about one resource says nothing of the engine, and whether anything was done is not told.
        _ => ActionError::Unknown(said()),
    }
}

/// Sorts a failure without an answer.
pub(crate) fn transport(error: &Error) -> ActionError {
    match error {
        Error::HyperLegacyError { err } if err.is_connect() => ActionError::Unreachable(chain(err)),
        Error::SocketNotFoundError(_) => ActionError::Unreachable(error.to_string()),
        Error::DockerResponseServerError { status_code, message } => {
            ActionError::Unknown(format!("status {status_code}: {message}"))
        }
        Error::URLParseError { .. }
        | Error::InvalidURIError { .. }
        | Error::InvalidURIPartsError { .. }
        | Error::URLEncodedError { .. }
        | Error::UnsupportedURISchemeError { .. } => ActionError::Rejected(chain(error)),
        // Everything else may have been carried out: cut connections, bodies that ended early or are not understood.
        _ => ActionError::ConnectionLost(chain(error)),
    }
}

/// The container, network or volume itself is gone, not something that it needs.
pub(crate) fn says_gone(message: &str) -> bool {
    let text = message.to_ascii_lowercase();
    let words = [
        "no such container",
        "no container with",
        "no such volume",
        "no such exec",
        "no such network",
    ];
    words.iter().any(|word| text.contains(word))
        || (text.starts_with("network ") && text.contains(" not found"))
}

fn not_found(op: Op, message: &str) -> ActionError {
    let text = message.to_ascii_lowercase();
    let said = || message.trim().to_owned();
    if text.contains("no such image") || text.contains("image not known") {
        return ActionError::ImageMissing;
    }
    if text.contains("no such container") || text.contains("no container with") {
        return ActionError::Gone;
    }
    let about_network = text.contains("network") && text.contains("not found");
    match op {
        Op::StartContainer | Op::ConnectNetwork | Op::DisconnectNetwork | Op::CreateContainer
            if about_network =>
        {
            ActionError::NetworkGone(said())
        }
        Op::RemoveNetwork | Op::Inspect if about_network => ActionError::Gone,
        Op::Inspect | Op::RemoveVolume if text.contains("no such") => ActionError::Gone,
        Op::StartContainer if cannot_run(&text) => ActionError::EntrypointNotFound(said()),
        Op::StartContainer => ActionError::StartFailed(said()),
        // Also `page not found`: not a Docker engine, or one that is too old.
        _ => ActionError::Rejected(said()),
    }
}

fn start(status: u16, message: &str) -> ActionError {
    let text = message.to_ascii_lowercase();
    let said = || message.trim().to_owned();
    if text.contains("cannot assign requested address") {
        return ActionError::Rejected(said());
    }
    if let Some(port) = refused_port(message) {
        return ActionError::PortTaken(Box::new(PortRefusal {
            port,
            free_now: false,
            owner: PortOwner::Unknown,
            busy: BTreeSet::new(),
        }));
    }
    let mount = [
        "bind source path",
        "error mounting",
        "invalid mount config",
        "rootfs_linux.go",
        "mount through procfd",
    ];
    if mount.iter().any(|word| text.contains(word)) {
        return ActionError::BadMount(said());
    }
    if cannot_run(&text) {
        return ActionError::EntrypointNotFound(said());
    }
    match status {
        409 => ActionError::Rejected(said()),
        _ if text.contains("unavailable") && text.contains("connection error") => ActionError::Engine(said()),
        _ => ActionError::StartFailed(said()),
    }
}

/// runc's words for a command that is not there or may not be run.
fn cannot_run(text: &str) -> bool {
    let starting = [
        "oci runtime create failed",
        "oci runtime error",
        "unable to start container process",
        "crun:",
    ];
    let why = [
        "executable file not found",
        "no such file or directory",
        "permission denied",
        "exec format error",
        "is a directory",
        "not a directory",
    ];
    starting.iter().any(|word| text.contains(word)) && why.iter().any(|word| text.contains(word))
}

/// The host port that a failed start names. Docker 20 to 29 and Podman word it differently.
pub(crate) fn refused_port(message: &str) -> Option<HostPort> {
    let text = message.to_ascii_lowercase();
    let end = ["port is already allocated", "address already in use"]
        .iter()
        .find_map(|word| text.find(word))?;
    let before = text.get(..end)?;
    // `failed to bind host port for 127.0.0.1:8080:172.17.0.3:80/tcp: address already in use`
    let begin = ["host port for ", "bind host port ", "bind for ", "listen "].iter();
    let begin = begin.filter_map(|word| before.rfind(word)).max().unwrap_or(0);
    let named = before.get(begin..)?;
    let number = if named.starts_with("host port for ") {
        first_port(named)
    } else {
        last_port(named)
    }?;
    let udp = named.contains("/udp")
        || named.contains("udp4")
        || named.contains("udp6")
        || named.contains("listen udp");
    Some(HostPort {
        number,
        protocol: if udp { Protocol::Udp } else { Protocol::Tcp },
    })
}

/// Numbers that follow a colon.
fn ports(text: &str) -> impl Iterator<Item = u16> + '_ {
    text.split(':').skip(1).filter_map(|part| {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let ended = part
            .as_bytes()
            .get(digits)
            .is_none_or(|next| !next.is_ascii_alphanumeric() && *next != b'.');
        part.get(..digits)
            .filter(|_| ended)?
            .parse()
            .ok()
            .filter(|number| *number > 0)
    })
}

fn first_port(text: &str) -> Option<u16> {
    ports(text).next()
}

fn last_port(text: &str) -> Option<u16> {
    ports(text).last()
}

fn name_taken(message: &str) -> ActionError {
    let quoted = message.split('"').map(str::trim).find(|part| is_id(part));
    ActionError::NameTaken {
        holder: quoted.unwrap_or(message).to_owned(),
    }
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Words of registries for an image that is not there.
const NOT_THERE: [&str; 7] = [
    "repository does not exist",
    "manifest unknown",
    "no matching manifest",
    "name unknown",
    "invalid reference format",
    "not found: manifest",
    "repository name must be",
];
/// Words of registries for missing or wrong credentials.
const NOT_ALLOWED: [&str; 5] = [
    "unauthorized",
    "authentication required",
    "no basic auth",
    "denied",
    "forbidden",
];

/// Sorts what a registry said, by status or inside the stream of a pull.
pub(crate) fn pull(message: &str) -> ActionError {
    let text = message.to_ascii_lowercase();
    let said = message.trim().to_owned();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["no space left on device"]) {
        ActionError::DiskFull(said)
    } else if has(&["toomanyrequests", "too many requests", "rate limit"]) {
        limited(message)
    } else if has(&NOT_THERE) || (text.contains("manifest for") && text.contains("not found")) {
        ActionError::ImageNotFound(said)
    } else if has(&NOT_ALLOWED) {
        ActionError::AuthRequired(said)
    } else {
        ActionError::PullFailed(said)
    }
}

/// A registry that is asked too often, with the time that it asks for.
pub(crate) fn limited(message: &str) -> ActionError {
    ActionError::RateLimited {
        message: message.trim().to_owned(),
        retry_after: retry_after(&message.to_ascii_lowercase()),
    }
}

/// `retry-after: 30`, `retry after 30s`, as registries and proxies put it.
fn retry_after(text: &str) -> Option<std::time::Duration> {
    let at = ["retry-after", "retry after"]
        .iter()
        .find_map(|word| Some(text.find(word)? + word.len()))?;
    let rest = text.get(at..)?.trim_start_matches([':', ' ', '=', '"']);
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().map(std::time::Duration::from_secs)
}

/// An error with its causes; `hyper` keeps the reason in the source.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
