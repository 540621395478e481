//! Bind mounts and volumes of a container, with the rules that protect the host.

use std::collections::BTreeSet;

use argus_crds::Diagnostic;

use crate::desired::Mount;
use crate::desired::admit::SpecContext;
use crate::desired::covers;
use crate::desired::host;
use crate::desired::identity::{EnvIdentity, check_resource_name, shown};
use crate::desired::paths::{self, MAX_COMPONENTS, MAX_PATH_BYTES};
use crate::quoting::shell_path;

/// Names of engine sockets. Access to such a socket is root access to the host.
const SOCKETS: [&str; 5] = [
    "docker.sock",
    "podman.sock",
    "containerd.sock",
    "crio.sock",
    "buildkitd.sock",
];
/// Folders that contain engine sockets.
const SOCKET_FOLDERS: [&str; 6] = [
    "/run",
    "/run/docker",
    "/run/podman",
    "/run/containerd",
    "/run/crio",
    "/run/buildkit",
];
/// Mount options that Argus ignores, because they only tune the engine.
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

/// Maximum number of mounts of one container.
const MAX_MOUNTS: usize = 64;

/// Returns the mounts of one container and reports invalid or forbidden ones.
pub(super) fn resolve_mounts(
    texts: &[String],
    path: &str,
    context: &SpecContext,
    identity: &EnvIdentity,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Mount> {
    let mut targets = BTreeSet::new();
    let mut mounts = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if index == MAX_MOUNTS {
            let message = format!("the container has more than {MAX_MOUNTS} mounts");
            diagnostics.push(Diagnostic::error(path, message).hint("mount a common parent directory"));
            break;
        }
        let Some(mount) = resolve_mount(text, &path, context, identity, diagnostics) else {
            continue;
        };
        let target = mount.target();
        if targets.insert(target.to_owned()) {
            mounts.push(mount);
        } else {
            let message = format!("two mounts use the path `{}`", shown(target));
            diagnostics.push(Diagnostic::error(path, message).hint("keep one mount per path"));
        }
    }
    mounts
}

fn resolve_mount(
    text: &str,
    path: &str,
    context: &SpecContext,
    identity: &EnvIdentity,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Mount> {
    let mut reject = |message: String, hint: &str| {
        diagnostics.push(Diagnostic::error(path, message).hint(hint));
        None
    };
    let mut parts = text.trim().split(':');
    let (source, target) = match (parts.next(), parts.next()) {
        (Some(source), Some(target)) if !source.is_empty() && !target.is_empty() => (source, target),
        _ => {
            let message = format!("`{}` is not a valid mount", shown(text));
            return reject(
                message,
                "write `./folder:/path` or `volume:/path`, with the suffix `:ro` for read-only",
            );
        }
    };
    let options: Vec<&str> = parts.next().unwrap_or("rw").split(',').collect();
    if parts.next().is_some() {
        return reject(
            format!("`{}` has more than three parts", shown(text)),
            "write `source:/path` or `source:/path:ro`",
        );
    }
    if let Some(unknown) = options
        .iter()
        .find(|option| !matches!(**option, "ro" | "rw") && !TUNING.contains(option))
    {
        return reject(
            format!("unknown mount option `{}`", shown(unknown)),
            "write `ro` or `rw`",
        );
    }
    if !paths::is_sane(target) || !target.starts_with('/') || target.split('/').any(|part| part == "..") {
        let message = format!("`{}` is not an absolute path in the container", shown(target));
        return reject(message, "write a path that begins with `/`, without `..`");
    }
    let target = paths::to_absolute("/", target);
    if target == "/" {
        return reject(
            "a mount on `/` hides the whole image".to_owned(),
            "mount on a folder below `/`",
        );
    }
    if let Some(folder) = kernel_folder(&target, context.host.allowed) {
        return reject(
            format!(
                "`{}` is in `{folder}`, whose links lead to other places",
                shown(&target)
            ),
            "POLICY_VIOLATION: mount on another folder",
        );
    }
    if let Some(option) = options.iter().find(|option| TUNING.contains(option)) {
        let message = format!("the mount option `{option}` is ignored");
        diagnostics.push(Diagnostic::warning(path, message).hint("remove the option"));
    }
    let read_only = options.contains(&"ro");
    if host::is_bind(source) {
        let text = source;
        let source = bind_source(text, path, context, diagnostics)?;
        if !read_only {
            covers::check_writable(&source, text, path, context, diagnostics);
        }
        Some(Mount::Bind {
            source,
            target,
            read_only,
        })
    } else {
        check_resource_name(source, "volume", path, diagnostics)?;
        let name = identity.volume_name(source)?;
        Some(Mount::Volume {
            name,
            target,
            read_only,
        })
    }
}

/// Folder of the kernel that contains a target. Its links exist only while the engine mounts, such as `/proc/self/root`: a mount would
/// be at another place than its covers.
fn kernel_folder(target: &str, is_allowed: bool) -> Option<&'static str> {
    let mut folders = paths::KERNEL_FOLDERS.into_iter();
    let folder = folders.find(|folder| paths::is_inside(target, folder))?;
    let is_refused = folder == "/proc" || !(is_allowed || paths::is_inside(target, "/dev/shm"));
    is_refused.then_some(folder)
}

/// Returns the absolute path of a bind mount if the file is allowed to use it.
pub(super) fn bind_source(
    text: &str,
    path: &str,
    context: &SpecContext,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<String> {
    let mut reject = |message: String, hint: &str| {
        diagnostics.push(Diagnostic::error(path, message).hint(hint));
        None
    };
    if !paths::is_sane(text) {
        return reject(
            format!("`{}` is not a valid path", shown(text)),
            &format!("write a path of at most {MAX_PATH_BYTES} bytes and {MAX_COMPONENTS} components"),
        );
    }
    if text.starts_with('~') {
        let message = format!("`{}` is not expanded, because no shell is involved", shown(text));
        return reject(message, "write a path relative to the file");
    }
    let source = paths::to_absolute(&context.directory, text);
    if gives_engine_access(&source) {
        return reject_engine_socket(text, path, diagnostics);
    }
    if !is_allowed(&source, context) {
        let message = format!("`{}` is outside the folder of this file", shown(text));
        let hint = format!(
            "POLICY_VIOLATION: move it next to the file, or start the controller with `--allow-mount {}`",
            shell_path(&source)
        );
        return reject(message, &hint);
    }
    let written = source.clone();
    let real = host::resolve_host_path(host::PathUse::Mount, source, text, path, context, diagnostics)?;
    if gives_engine_access(&real) {
        return reject_engine_socket(text, path, diagnostics);
    }
    if context.host.missing.contains_key(&written) {
        // The program of another service, or a person, can create it before the container starts.
        let message = format!("the source `{}` of the mount does not exist", shown(text));
        diagnostics.push(context.host.with_similar(
            Diagnostic::warning(path, message),
            &context.directory,
            text,
            "create it, or fix the path",
        ));
    }
    Some(real)
}

fn reject_engine_socket(text: &str, path: &str, diagnostics: &mut Vec<Diagnostic>) -> Option<String> {
    let message = format!(
        "`{}` gives the container access to the engine socket",
        shown(text)
    );
    let hint =
        "POLICY_VIOLATION: mount another path, because the engine socket gives root access to the host";
    diagnostics.push(Diagnostic::error(path, message).hint(hint));
    None
}

/// Returns whether the path is in the folder of the file, or in one that `--allow-mount` names.
pub(super) fn is_allowed(path: &str, context: &SpecContext) -> bool {
    let own = match context.host.project.as_str() {
        "" => paths::to_absolute("/", &context.directory),
        project => project.to_owned(),
    };
    let allowed = context
        .allow_mounts
        .iter()
        .map(|root| paths::to_absolute(&context.directory, root));
    std::iter::once(own)
        .chain(allowed)
        .any(|root| paths::is_inside(path, &root))
}

fn gives_engine_access(path: &str) -> bool {
    let real = match path.strip_prefix("/var/run") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("/run{rest}"),
        _ => path.to_owned(),
    };
    let name = real.rsplit('/').next().unwrap_or_default();
    SOCKETS.contains(&name) || SOCKET_FOLDERS.contains(&real.as_str()) || real == "/" || real == "/var"
}
