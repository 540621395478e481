//! Files with their content in a spec file, which Argus copies into the container of a service before its first start.
//!
//! The engine writes them into the file system of the container, so that no file of the host is mounted, and a value of a variable is
//! in no file of the project. A mount would hide such a file or receive it, so a path in one is refused.

use argus_crds::{ContainerFile, Diagnostic, Service as ServiceSpec};
use serde::{Deserialize, Serialize};

use crate::desired::identity::shown;
use crate::desired::template::{TemplateResolver, fill_known};
use crate::desired::{Mount, hash, paths, tmpfs_path};
use crate::ident::Hash;

/// File that Argus copies into a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InjectedFile {
    /// Absolute path in the container. The engine creates missing folders above it.
    pub path: String,
    /// Contents of the file.
    pub text: String,
    /// Permissions and owner. The default is not serialized, so that hashes stay the same.
    #[serde(default, skip_serializing_if = "crate::desired::is_default")]
    pub access: FileAccess,
    /// Address to which a mock forwards requests. The renderer replaces a host port in it that was reassigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl InjectedFile {
    /// Returns the hash of all files together.
    pub fn digest_of(files: &[Self]) -> Hash {
        hash::hash_of(files)
    }
}

/// Permissions and owner of a file; the default is readable by all users of the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileAccess {
    /// Permission bits.
    pub mode: u32,
    /// Numeric user ID of the owner.
    pub uid: u32,
    /// Numeric group ID.
    pub gid: u32,
}

impl Default for FileAccess {
    fn default() -> Self {
        Self {
            mode: 0o444,
            uid: 0,
            gid: 0,
        }
    }
}

/// Returns the files of a service with resolved templates, and reports invalid ones.
pub(super) fn resolve_files(
    spec: &ServiceSpec,
    mounts: &[Mount],
    path: &str,
    resolver: &TemplateResolver<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<InjectedFile> {
    let written = spec
        .container
        .as_ref()
        .map_or(&[][..], |container| &container.files);
    let path = format!("{path}.container.files");
    if spec.read_only && !written.is_empty() {
        let message = "a container with `readOnly` cannot receive files";
        let hint = if resolver.context.is_compose {
            "give each secret and config a `file`, or remove `read_only`"
        } else {
            "mount each file under `volumes`, or remove `readOnly`"
        };
        diagnostics.push(Diagnostic::error(&path, message).hint(hint));
    }
    let tmpfs = spec.tmpfs.iter().map(|entry| tmpfs_path(entry));
    let mounted: Vec<String> = mounts
        .iter()
        .map(Mount::target)
        .chain(tmpfs)
        .chain(paths::KERNEL_FOLDERS)
        .chain(paths::FILES_OF_ENGINE)
        .map(|target| paths::to_absolute("/", target))
        .collect();
    let mut files: Vec<InjectedFile> = Vec::new();
    for (index, file) in written.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let problem = find_problem(file, &mounted, &files);
        if let Some((key, message, hint)) = problem {
            diagnostics.push(Diagnostic::error(format!("{path}.{key}"), message).hint(hint));
            continue;
        }
        files.push(InjectedFile {
            path: paths::to_absolute("/", &file.path),
            text: fill_known(resolver, &file.content, &format!("{path}.content"), diagnostics),
            access: FileAccess {
                mode: file
                    .mode
                    .as_deref()
                    .and_then(parse_mode)
                    .unwrap_or(FileAccess::default().mode),
                uid: file.uid.unwrap_or_default(),
                gid: file.gid.unwrap_or_default(),
            },
            target: None,
        });
    }
    files
}

/// Returns the key of an invalid value with its message and its hint.
fn find_problem(
    file: &ContainerFile,
    mounted: &[String],
    others: &[InjectedFile],
) -> Option<(&'static str, String, &'static str)> {
    let written = &file.path;
    let path = paths::to_absolute("/", written);
    let is_file = written.starts_with('/') && !written.ends_with('/') && path != "/";
    if !is_file || !paths::is_sane(written) || written.split('/').any(|part| part == "..") {
        let message = format!("`{}` is not the path of a file in the container", shown(written));
        return Some(("path", message, "write a path that begins with `/`, without `..`"));
    }
    let meets = |other: &str| paths::is_inside(&path, other) || paths::is_inside(other, &path);
    if let Some(mount) = mounted.iter().find(|mount| meets(mount)) {
        let message = format!("the file `{}` is in the mount `{}`", shown(written), shown(mount));
        return Some((
            "path",
            message,
            "choose a path outside of the mounts of the container",
        ));
    }
    if others.iter().any(|other| meets(&other.path)) {
        let message = format!("two files of the container use the path `{}`", shown(written));
        return Some(("path", message, "keep one file per path"));
    }
    let mode = file.mode.as_deref().filter(|mode| parse_mode(mode).is_none())?;
    let message = format!("`{}` is not a file mode", shown(mode));
    Some(("mode", message, "write three octal digits, such as `0400`"))
}

/// Permission bits without those that change the user of a program.
fn parse_mode(text: &str) -> Option<u32> {
    let is_octal = (3..=4).contains(&text.len()) && text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    let mode = u32::from_str_radix(text, 8).ok()?;
    (is_octal && mode <= 0o777).then_some(mode)
}

#[cfg(test)]
mod tests {
    use crate::desired::Desired;
    use crate::desired::admit::{SpecContext, admit};

    /// Admits a service whose container has these files; returns the messages of all diagnostics.
    fn admitted(service: &str, files: &str) -> (Option<Desired>, Vec<String>) {
        let text = format!(
            "project: {{ name: shop }}\nservice:\n  image: x\n  {service}\n  container: {{ name: api, volumes: [\"data:/data\"], files: [{files}] }}"
        );
        let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let context = SpecContext {
            env_vars: [("PIN".to_owned(), "424242".to_owned())].into(),
            ..SpecContext::default()
        };
        let admission = admit(&spec, &context);
        let messages = admission.diagnostics.into_iter().map(|found| found.message);
        (admission.desired, messages.collect())
    }

    #[test]
    fn file_has_its_content_and_its_permissions() {
        let files = "{ path: //etc/./app.conf, content: '{{env.PIN}} {{ .Values.x }} {{uuid' }, { path: /run/key, content: k, mode: 0400, uid: 5, gid: 6 }";
        let (desired, messages) = admitted("", files);
        assert_eq!(messages, [""; 0]);
        let files = &desired.unwrap().services["api"].process.files;
        assert_eq!(files[0].path, "/etc/app.conf");
        assert_eq!(files[0].text, "424242 {{ .Values.x }} {{uuid");
        assert_eq!(files[0].access.mode, 0o444);
        let access = files[1].access;
        assert_eq!((access.mode, access.uid, access.gid), (0o400, 5, 6));
    }

    #[test]
    fn path_in_a_mount_or_another_file_is_refused() {
        for (service, path, message) in [
            ("", "etc/x", "`etc/x` is not the path of a file in the container"),
            (
                "",
                "/a/../x",
                "`/a/../x` is not the path of a file in the container",
            ),
            ("", "/x/", "`/x/` is not the path of a file in the container"),
            ("", "/data/x", "the file `/data/x` is in the mount `/data`"),
            (
                "tmpfs: [\"/run:size=1m\"]",
                "/run/x",
                "the file `/run/x` is in the mount `/run`",
            ),
            ("", "/proc/x", "the file `/proc/x` is in the mount `/proc`"),
            ("", "/etc", "the file `/etc` is in the mount `/etc/hosts`"),
            (
                "",
                "/first/x",
                "two files of the container use the path `/first/x`",
            ),
            (
                "readOnly: true",
                "/x",
                "a container with `readOnly` cannot receive files",
            ),
        ] {
            let files = format!("{{ path: /first, content: x }}, {{ path: {path}, content: x }}");
            let (desired, messages) = admitted(service, &files);
            assert_eq!(messages, [message]);
            assert!(desired.is_none(), "{path}");
        }
        for mode in ["4755", "888", "7", "\"\""] {
            let (desired, _) = admitted("", &format!("{{ path: /x, content: x, mode: {mode} }}"));
            assert!(desired.is_none(), "{mode}");
        }
    }

    #[test]
    fn content_of_a_secret_file_is_secret() {
        let files = "{ path: /run/secrets/pin, content: '{{env.PIN}}' }, { path: /run/secrets/word, content: swordfish }";
        let desired = admitted("", files).0.unwrap();
        let secrets = desired.secret_values();
        assert_eq!(
            secrets.redacted("424242 and swordfish"),
            "[redacted] and [redacted]"
        );
        let files = "{ path: /etc/plain, content: swordfish }";
        let desired = admitted("", files).0.unwrap();
        assert_eq!(desired.secret_values().redacted("swordfish"), "swordfish");
    }
}
