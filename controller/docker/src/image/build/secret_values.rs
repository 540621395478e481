//! Values of the secrets of a build, and its SSH agent. They are read when the build starts, and exist only until it ends.

use std::collections::BTreeMap;
use std::env;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use argus_backend::host_path::folder;
use argus_core::desired::{Build, BuildOptions, SecretSource};
use argus_core::outcome::ActionError;
use argus_core::secrets::Secrets;

use super::proxies;
use crate::error::build_failed;

/// Maximum size of a secret in bytes, as in `BuildKit`.
const MAX_SECRET_BYTES: u64 = 500 * 1024;
/// Variable with the path of the socket of the SSH agent.
const AGENT: &str = "SSH_AUTH_SOCK";

/// Values of the secrets. It has no `Debug`, because it contains them.
#[derive(Default)]
pub(super) struct SecretValues {
    pub(super) by_id: BTreeMap<String, Vec<u8>>,
    /// Socket of the SSH agent.
    pub(super) agent: Option<PathBuf>,
}

impl SecretValues {
    /// Reads all secrets of a build.
    ///
    /// # Errors
    /// A file cannot be read, or a variable is not set.
    pub(super) fn read(options: &BuildOptions) -> Result<Self, ActionError> {
        let mut by_id = BTreeMap::new();
        for (id, source) in &options.secrets {
            let value = match source {
                // Admission followed the links of the path, so no component is one now.
                SecretSource::File(path) => folder::read(Path::new(path), MAX_SECRET_BYTES)
                    .map_err(|error| build_failed(format!("secret `{id}`: cannot read `{path}`: {error}")))?,
                SecretSource::Environment(name) => {
                    let value = env::var_os(name).map(OsStringExt::into_vec);
                    value.ok_or_else(|| {
                        build_failed(format!(
                            "secret `{id}`: the variable `{name}` is not set in the environment of the controller"
                        ))
                    })?
                }
            };
            by_id.insert(id.clone(), value);
        }
        let agent = env::var_os(AGENT).filter(|path| !path.is_empty());
        if options.ssh && agent.is_none() {
            let message = format!(
                "`build.ssh`: the variable `{AGENT}` is not set in the environment of the controller"
            );
            return Err(build_failed(message));
        }
        Ok(Self {
            by_id,
            agent: agent.filter(|_| options.ssh).map(PathBuf::from),
        })
    }

    /// Values that the log must not show, and their lines: those of secrets, and logins in arguments. `None` without any.
    pub(super) fn redactions(&self, build: &Build) -> Option<Secrets> {
        let mut secrets = Secrets::default();
        for value in self.by_id.values() {
            secrets.add(&String::from_utf8_lossy(value));
        }
        let logins: Vec<&str> = build
            .args
            .values()
            .filter_map(|url| proxies::login(url))
            .collect();
        for login in &logins {
            secrets.add(login);
        }
        (!self.by_id.is_empty() || !logins.is_empty()).then_some(secrets)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use argus_core::desired::excluded::Excluded;
    use argus_core::ident::Hash;

    use super::*;

    /// A build with this proxy.
    fn build(proxy: &str) -> Build {
        Build {
            tag: "web:1".to_owned(),
            context: "/work".to_owned(),
            dockerfile: "Dockerfile".to_owned(),
            target: None,
            args: [("HTTP_PROXY".to_owned(), proxy.to_owned())].into(),
            options: Box::default(),
            digest: Hash::new("1").unwrap(),
            excluded: Excluded::default(),
            allowed: true,
        }
    }

    fn read(source: SecretSource) -> Result<SecretValues, String> {
        let options = BuildOptions {
            secrets: [("key".to_owned(), source)].into(),
            ..BuildOptions::default()
        };
        SecretValues::read(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn secrets_of_files_and_variables_are_read_and_redacted() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let path = root.join("key");
        std::fs::write(&path, "first-line\nsecond-line\n").unwrap();
        let values = read(SecretSource::File(path.display().to_string())).unwrap();
        assert_eq!(values.by_id["key"], b"first-line\nsecond-line\n");
        let redactions = values.redactions(&build("localhost")).unwrap();
        assert_eq!(redactions.redacted("got second-line"), "got [redacted]");
        // Cargo sets this variable for each test.
        let name = "CARGO_PKG_NAME";
        let values = read(SecretSource::Environment(name.to_owned())).unwrap();
        assert_eq!(values.by_id["key"], env::var(name).unwrap().into_bytes());
        let none = SecretValues::default();
        assert!(none.redactions(&build("localhost")).is_none());
        let redactions = none.redactions(&build("http://me:first-line@proxy")).unwrap();
        assert_eq!(redactions.redacted("as me:first-line"), "as [redacted]");
    }

    #[test]
    fn secret_without_a_value_names_its_source() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let refused = |source: SecretSource| read(source).err().unwrap();
        let why = refused(SecretSource::Environment("ARGUS_NOT_SET".to_owned()));
        assert!(why.contains("`ARGUS_NOT_SET` is not set"), "{why}");
        std::fs::write(root.join("other"), "x").unwrap();
        symlink("other", root.join("link")).unwrap();
        std::fs::write(root.join("large"), vec![b'x'; 500 * 1024 + 1]).unwrap();
        for (name, expected) in [
            ("missing", "cannot read"),
            ("link", "it is a link"),
            ("large", "more than 512000 bytes"),
        ] {
            let why = refused(SecretSource::File(root.join(name).display().to_string()));
            assert!(why.contains(expected), "{why}");
        }
    }
}
