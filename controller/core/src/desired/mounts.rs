//! Mounts as people write them, and which of them a file may have.

use std::collections::BTreeSet;

use argus_crds::Diagnostic;

use crate::desired::Mount;
use crate::desired::admit::SpecContext;
use crate::desired::host;
use crate::desired::identity::{Identity, resource, shown};
use crate::desired::paths;

/// Sockets of engines: whoever has one has root on the host.
const SOCKETS: [&str; 5] = [
    "docker.sock",
    "podman.sock",
    "containerd.sock",
    "crio.sock",
    "buildkitd.sock",
];
/// Folders that hold the sockets of engines.
const SOCKET_FOLDERS: [&str; 6] = [
    "/run",
    "/run/docker",
    "/run/podman",
    "/run/containerd",
    "/run/crio",
    "/run/buildkit",
];
/// Options that only tune what the engine does anyway.
const TUNING: [&str; 8] = [
    "z",
    "Z",
    "cached",
    "delegated",
    "consistent",
    "nocopy",
    "rprivate",
    "private",
];

/// All mounts of one container; complains about those that it cannot have.
pub(super) fn all(
    written: &[String],
    path: &str,
    context: &SpecContext,
    identity: &Identity,
    to: &mut Vec<Diagnostic>,
) -> Vec<Mount> {
    let mut targets = BTreeSet::new();
    let mut mounts = Vec::new();
    for (index, text) in written.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let Some(mount) = one(text, &path, context, identity, to) else {
            continue;
        };
        let (Mount::Bind { target, .. } | Mount::Volume { target, .. }) = &mount;
        if targets.insert(target.clone()) {
            mounts.push(mount);
        } else {
            let message = format!("`{}` is mounted on twice", shown(target));
            to.push(Diagnostic::error(path, message).hint("keep one mount for each path"));
        }
    }
    mounts
}

fn one(
    text: &str,
    path: &str,
    context: &SpecContext,
    identity: &Identity,
    to: &mut Vec<Diagnostic>,
) -> Option<Mount> {
    let mut refuse = |message: String, hint: &str| {
        to.push(Diagnostic::error(path, message).hint(hint));
        None
    };
    let mut parts = text.trim().split(':');
    let (source, target) = match (parts.next(), parts.next()) {
        (Some(source), Some(target)) if !source.is_empty() && !target.is_empty() => (source, target),
        _ => {
            let message = format!("`{}` does not say what is mounted where", shown(text));
            return refuse(
                message,
                "write `./folder:/path`, or `volume:/path`, with `:ro` behind it for read-only",
            );
        }
    };
    let options: Vec<&str> = parts.next().unwrap_or("rw").split(',').collect();
    if parts.next().is_some() {
        return refuse(
            format!("`{}` has more than three parts", shown(text)),
            "write `source:/path` or `source:/path:ro`",
        );
    }
    if let Some(unknown) = options
        .iter()
        .find(|option| !matches!(**option, "ro" | "rw") && !TUNING.contains(option))
    {
        return refuse(
            format!("the mount option `{}` is not known", shown(unknown)),
            "write `ro` or `rw`",
        );
    }
    if !paths::is_sane(target) || !target.starts_with('/') || target.split('/').any(|part| part == "..") {
        let message = format!("`{}` is no absolute path in the container", shown(target));
        return refuse(message, "begin it with `/`, and leave `..` out");
    }
    let target = paths::absolute("/", target);
    if target == "/" {
        return refuse(
            "a mount on `/` would hide the whole image".to_owned(),
            "mount a folder below it",
        );
    }
    if let Some(option) = options.iter().find(|option| TUNING.contains(option)) {
        let message = format!("the mount option `{option}` is not acted on");
        to.push(Diagnostic::warning(path, message).hint("leave it out"));
    }
    let read_only = options.contains(&"ro");
    if host::is_bind(source) {
        let source = bind_source(source, path, context, to)?;
        Some(Mount::Bind {
            source,
            target,
            read_only,
        })
    } else {
        resource(source, "volume", path, to)?;
        let name = resource(&identity.on_engine(source), "volume", path, to)?;
        Some(Mount::Volume {
            name,
            target,
            read_only,
        })
    }
}

/// The absolute path of a bind mount, if the file may have it.
pub(super) fn bind_source(
    written: &str,
    path: &str,
    context: &SpecContext,
    to: &mut Vec<Diagnostic>,
) -> Option<String> {
    let mut refuse = |message: String, hint: &str| {
        to.push(Diagnostic::error(path, message).hint(hint));
        None
    };
    if !paths::is_sane(written) {
        return refuse(
            format!("`{}` is no path", shown(written)),
            "write a path of at most 4096 bytes",
        );
    }
    if written.starts_with('~') {
        let message = format!("`{}` is not expanded: there is no shell", shown(written));
        return refuse(message, "write the path out, relative to the file");
    }
    let source = paths::absolute(&context.directory, written);
    if gives_engine(&source) {
        return hands_over(written, path, to);
    }
    if !is_allowed(&source, context) {
        let message = format!("`{}` lies outside the folder of this file", shown(written));
        let hint = format!(
            "POLICY_VIOLATION: move it beside the file, or start the controller with `--allow-mount {source}`"
        );
        return refuse(message, &hint);
    }
    let real = host::lead(source, written, path, context, to)?;
    if gives_engine(&real) {
        return hands_over(written, path, to);
    }
    if !context.host.state.is_empty() && paths::lies_in(&real, &context.host.state) {
        let message = format!("`{}` lies in the state directory of Argus", shown(written));
        let hint = "POLICY_VIOLATION: who reads it can command the controller; mount another directory";
        to.push(Diagnostic::error(path, message).hint(hint));
        return None;
    }
    Some(real)
}

fn hands_over(written: &str, path: &str, to: &mut Vec<Diagnostic>) -> Option<String> {
    let message = format!(
        "`{}` would hand the engine's socket to the container",
        shown(written)
    );
    let hint = "POLICY_VIOLATION: the engine's socket is root on the host; mount something else";
    to.push(Diagnostic::error(path, message).hint(hint));
    None
}

/// Whether the path lies in the folder of the file, or in one that the controller was told to allow.
pub(super) fn is_allowed(path: &str, context: &SpecContext) -> bool {
    let own = match context.host.project.as_str() {
        "" => paths::absolute("/", &context.directory),
        project => project.to_owned(),
    };
    let allowed = context
        .allow_mounts
        .iter()
        .map(|root| paths::absolute(&context.directory, root));
    std::iter::once(own)
        .chain(allowed)
        .any(|root| paths::lies_in(path, &root))
}

fn gives_engine(path: &str) -> bool {
    let real = match path.strip_prefix("/var/run") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("/run{rest}"),
        _ => path.to_owned(),
    };
    let name = real.rsplit('/').next().unwrap_or_default();
    SOCKETS.contains(&name) || SOCKET_FOLDERS.contains(&real.as_str()) || real == "/" || real == "/var"
}
