//! Classification of an engine's refusals: by operation and status, then by known phrases, else by a safe default.
//!
//! [`classify_response`] classifies a response of the engine, [`classify_transport`] a call without a response, and [`classify_pull`] the message of
//! a registry. The safe default is [`ActionError::Unknown`]: the effect of the call is not known.

mod build;

use std::collections::BTreeMap;

use argus_backend::http1::format_chain;
use argus_core::ident::{Protocol, ProtocolPort};
use argus_core::outcome::{ActionError, PortOwner, PortRefusal};
use bollard::errors::Error;

pub(crate) use self::build::{build_failed, build_interrupted};
use crate::bridges::missing_bridge;

/// Kind of a call. The same status has different meanings in different calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Ping,
    List,
    Inspect,
    Info,
    Logs,
    Exec,
    CreateContainer,
    CopyFile,
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

/// Classifies an error response of the engine.
pub(crate) fn classify_response(op: Op, status: u16, message: &str) -> ActionError {
    let text = message.to_ascii_lowercase();
    let trimmed = || message.trim().to_owned();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));

    if matches!(status, 502..=504)
        || (status >= 500 && has(&["containerd.sock", "containerd is not running"]))
    {
        return ActionError::Engine(trimmed());
    }
    if has(&["no space left on device", "disk quota exceeded"]) {
        return ActionError::DiskFull(trimmed());
    }
    // An exhausted pool has status 404 on older engines, and 400 or 500 on newer ones.
    if op == Op::CreateNetwork && has(&["non-overlapping ipv4 address pool", "fully subnetted"]) {
        return ActionError::PoolExhausted(trimmed());
    }
    if op == Op::Pull {
        return classify_pull(message);
    }
    if op == Op::Build {
        return build::classify(message);
    }
    if status == 404 {
        return classify_not_found(op, message);
    }
    // The container exists for a moment longer, but its logs do not.
    if matches!(op, Op::Logs) && has(&["dead or marked for removal"]) {
        return ActionError::Gone;
    }
    if has(&[
        "is already in progress",
        "is marked for removal",
        "device or resource busy",
        "too many open files",
        "resource temporarily unavailable",
    ]) {
        return ActionError::Busy(trimmed());
    }
    if matches!(op, Op::StartContainer | Op::ConnectNetwork) && missing_bridge(message).is_some() {
        return ActionError::NetworkGone(trimmed());
    }
    match op {
        Op::StartContainer => classify_start(status, message),
        Op::CreateContainer if status == 409 && has(&["is already in use"]) => name_taken(message),
        Op::CreateContainer if has(&["invalid mount config", "bind source path", "invalid volume spec"]) => {
            ActionError::BadMount(trimmed())
        }
        // Podman responds with 500 where Docker responds with 409.
        Op::CreateContainer
            if has(&["name is already in use", "name \"", "already in use by"]) && status >= 409 =>
        {
            name_taken(message)
        }
        Op::RenameContainer if has(&["already in use"]) => name_taken(message),
        Op::CreateNetwork if status == 409 || has(&["already exists"]) => name_taken(message),
        Op::RemoveNetwork if has(&["has active endpoints", "associated containers"]) => {
            ActionError::NetworkInUse(trimmed())
        }
        Op::RemoveVolume if status == 409 => ActionError::Busy(trimmed()),
        _ if matches!(status, 408 | 429) => ActionError::Busy(trimmed()),
        _ if (400..500).contains(&status) => ActionError::Rejected(trimmed()),
        _ if has(&["unavailable"]) => ActionError::Engine(trimmed()),
        // A 500 of one resource does not describe the engine, and the call may have had an effect.
        _ => ActionError::Unknown(trimmed()),
    }
}

/// Classifies a failure of a call whose answer is a stream.
pub(crate) fn classify(op: Op, failure: &Error) -> ActionError {
    match failure {
        Error::DockerResponseServerError { status_code, message } => {
            classify_response(op, *status_code, message)
        }
        other => classify_transport(other),
    }
}

/// Classifies a failure without a response.
pub(crate) fn classify_transport(error: &Error) -> ActionError {
    match error {
        Error::HyperLegacyError { err } if err.is_connect() => ActionError::Unreachable(format_chain(err)),
        Error::SocketNotFoundError(_) => ActionError::Unreachable(error.to_string()),
        Error::DockerResponseServerError { status_code, message } => {
            ActionError::Unknown(format!("status {status_code}: {message}"))
        }
        Error::URLParseError { .. }
        | Error::InvalidURIError { .. }
        | Error::InvalidURIPartsError { .. }
        | Error::URLEncodedError { .. }
        | Error::UnsupportedURISchemeError { .. } => ActionError::Rejected(format_chain(error)),
        // After all other failures the call may have had its effect: a cut connection, a truncated or invalid body.
        _ => ActionError::ConnectionLost(format_chain(error)),
    }
}

/// True for a message that the container, network or volume itself does not exist, not something that it needs.
pub(crate) fn is_gone(message: &str) -> bool {
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

fn classify_not_found(op: Op, message: &str) -> ActionError {
    let text = message.to_ascii_lowercase();
    let trimmed = || message.trim().to_owned();
    if text.contains("no such image") || text.contains("image not known") {
        return ActionError::ImageMissing;
    }
    if text.contains("no such container") || text.contains("no container with") {
        return ActionError::Gone;
    }
    let is_network = text.contains("network") && text.contains("not found");
    match op {
        Op::StartContainer | Op::ConnectNetwork | Op::DisconnectNetwork | Op::CreateContainer
            if is_network =>
        {
            ActionError::NetworkGone(trimmed())
        }
        Op::RemoveNetwork | Op::Inspect if is_network => ActionError::Gone,
        Op::Inspect | Op::RemoveVolume if text.contains("no such") => ActionError::Gone,
        Op::StartContainer if is_command_error(&text) => ActionError::EntrypointNotFound(trimmed()),
        Op::StartContainer => ActionError::StartFailed(trimmed()),
        // Also `page not found`, from something else than a Docker engine or from one that is too old.
        _ => ActionError::Rejected(trimmed()),
    }
}

fn classify_start(status: u16, message: &str) -> ActionError {
    let text = message.to_ascii_lowercase();
    let trimmed = || message.trim().to_owned();
    if text.contains("cannot assign requested address") {
        return ActionError::Rejected(trimmed());
    }
    if let Some(port) = refused_port(message) {
        return ActionError::PortTaken(Box::new(PortRefusal {
            port,
            free_now: false,
            owner: PortOwner::Unknown,
            busy: BTreeMap::new(),
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
        return ActionError::BadMount(trimmed());
    }
    if text.contains("exec format error") {
        const WHY: &str =
            "the image or its program is built for another architecture than that of the engine";
        return ActionError::EntrypointNotFound(format!("{WHY}: {}", trimmed()));
    }
    if is_command_error(&text) {
        return ActionError::EntrypointNotFound(trimmed());
    }
    match status {
        // The state of the container has changed since it was observed: another client paused it, for example.
        409 => ActionError::Busy(trimmed()),
        _ if text.contains("unavailable") && text.contains("connection error") => {
            ActionError::Engine(trimmed())
        }
        _ => ActionError::StartFailed(trimmed()),
    }
}

/// True for a message of runc or crun about a command that does not exist or cannot be executed.
fn is_command_error(text: &str) -> bool {
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

/// The host port in the message of a failed start. The wording differs between Docker 20 to 29 and Podman.
pub(crate) fn refused_port(message: &str) -> Option<ProtocolPort> {
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
    Some(ProtocolPort {
        number,
        protocol: if udp { Protocol::Udp } else { Protocol::Tcp },
    })
}

/// The numbers that follow a colon.
fn ports_in(text: &str) -> impl Iterator<Item = u16> + '_ {
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
    ports_in(text).next()
}

fn last_port(text: &str) -> Option<u16> {
    ports_in(text).last()
}

/// The holder is the id in quotes when there is one, else the whole message.
fn name_taken(message: &str) -> ActionError {
    let quoted = message.split('"').map(str::trim).find(|part| is_id(part));
    ActionError::NameTaken {
        holder: quoted.unwrap_or(message).to_owned(),
    }
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Phrases of registries for an image that does not exist.
const NOT_FOUND_PHRASES: [&str; 7] = [
    "repository does not exist",
    "manifest unknown",
    "no matching manifest",
    "name unknown",
    "invalid reference format",
    "not found: manifest",
    "repository name must be",
];
/// Phrases of registries for missing or wrong credentials.
const ACCESS_DENIED_PHRASES: [&str; 5] = [
    "unauthorized",
    "authentication required",
    "no basic auth",
    "denied",
    "forbidden",
];

/// Classifies the message of a registry, from a response or from the stream of a pull.
pub(crate) fn classify_pull(message: &str) -> ActionError {
    let text = message.to_ascii_lowercase();
    let trimmed = message.trim().to_owned();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["no space left on device"]) {
        ActionError::DiskFull(trimmed)
    } else if has(&["toomanyrequests", "too many requests", "rate limit"]) {
        rate_limited(message)
    } else if has(&NOT_FOUND_PHRASES) || (text.contains("manifest for") && text.contains("not found")) {
        ActionError::ImageNotFound(trimmed)
    } else if has(&ACCESS_DENIED_PHRASES) {
        ActionError::AuthRequired(trimmed)
    } else {
        ActionError::PullFailed(with_authority(trimmed))
    }
}

/// Adds the place for the authority of a registry whose certificate the engine does not trust.
fn with_authority(message: String) -> String {
    if !message.contains("x509: ") {
        return message;
    }
    let host = message
        .split_once("https://")
        .and_then(|(_, rest)| rest.split('/').next());
    let host = host.unwrap_or("HOST");
    format!(
        "the engine does not trust the certificate of the registry, whose authority belongs in `/etc/docker/certs.d/{host}/ca.crt` on the \
         host of the engine: {message}"
    )
}

/// The rate limit of a registry, with the delay that its message requests.
pub(crate) fn rate_limited(message: &str) -> ActionError {
    ActionError::RateLimited {
        message: message.trim().to_owned(),
        retry_after: retry_after(&message.to_ascii_lowercase()),
    }
}

/// The delay in a message such as `retry-after: 30` or `retry after 30s`.
fn retry_after(text: &str) -> Option<std::time::Duration> {
    let at = ["retry-after", "retry after"]
        .iter()
        .find_map(|word| Some(text.find(word)? + word.len()))?;
    let rest = text.get(at..)?.trim_start_matches([':', ' ', '=', '"']);
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().map(std::time::Duration::from_secs)
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
