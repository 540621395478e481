//! Temporary environment of a selftest: a name, a folder with spec and state, and an image built from this program.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use argus_core::desired::namespace::NamespaceFrom;
use argus_core::ident::EnvName;
use argus_core::quoting::PathText as _;
use argus_crds::error::Reason;
use argus_reconciler::state_dir::StateDir;
use argus_reconciler::{clock, identity};

use crate::process::exit::{Exit, Failure};
use crate::process::own_image;
use crate::settings::Settings;

/// Preferred host port. If it is taken, the controller chooses another.
const PORT: u16 = 18_990;

/// Temporary environment. Its folder is removed on drop.
pub(super) struct TestEnvironment {
    env: EnvName,
    folder: PathBuf,
    settings: Settings,
}

impl TestEnvironment {
    /// Creates the folder with the spec and the build context of the image.
    pub(super) fn create(given: &Settings) -> Result<Self, Failure> {
        if !cfg!(target_os = "linux") {
            let message =
                "cannot run the selftest: its image is built from this program, which must be a Linux binary";
            return Err(Failure::with_reason(Reason::MissingPrerequisite, message)
                .with_exit(Exit::Unexpected)
                .with_hint(
                    "run `argus selftest` on a Linux host, or in a container with the engine's socket",
                ));
        }
        let fresh = identity::new_ulid(clock::now()).to_lowercase();
        let name = format!("argus-selftest-{}", &fresh[fresh.len() - 6..]);
        let env = EnvName::new(name.clone())
            .map_err(|error| Failure::operation_failed("cannot name the selftest", &error))?;
        let folder = std::env::temp_dir().join(&name);
        let settings = Settings {
            namespace_from: NamespaceFrom::File,
            specs: folder.join("specs"),
            state: StateDir::at(folder.join("state")),
            strict: true,
            env_allow: Vec::new(),
            allow_mount: Vec::new(),
            // Images of helper containers would remain on the engine.
            helpers: false,
            debug: false,
            ..given.clone()
        };
        let test_env = Self {
            env,
            folder,
            settings,
        };
        test_env.create_files().map_err(|error| {
            let doing = format!("cannot create `{}`", test_env.folder.shown());
            Failure::operation_failed(&doing, &error)
        })?;
        Ok(test_env)
    }

    /// Name of the environment and of its project.
    pub(super) fn env(&self) -> &EnvName {
        &self.env
    }

    /// Environment of the foreign container that takes the host port.
    pub(super) fn foreign_env(&self) -> EnvName {
        EnvName::slug(&format!("{}-foreign", self.env)).unwrap_or_else(|_| self.env.clone())
    }

    /// All environments of the selftest.
    pub(super) fn environments(&self) -> BTreeSet<EnvName> {
        [self.env.clone(), self.foreign_env()].into()
    }

    /// Settings of the selftest's controller.
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Name of the image.
    pub(super) fn image(&self) -> String {
        format!("{}:local", self.env)
    }

    /// Removes the folder.
    pub(super) fn remove(&self) {
        // A failure leaves only temporary files.
        drop(fs::remove_dir_all(&self.folder));
    }

    fn create_files(&self) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(&self.folder)?;
        let home = self.settings.specs.join("selftest");
        let image = home.join("image");
        own_image::fill_context(&image)?;
        fs::write(home.join("e2e.yaml"), self.spec())
    }

    /// Spec with two services and the default restart budget. Requests make `web` exit or exhaust its memory.
    fn spec(&self) -> String {
        let (env, image) = (&self.env, self.image());
        let service = format!(
            "build: {{ image: \"{image}\", context: ./image, dockerfile: ./image/Dockerfile }}\n    \
             command: [\"demo-service\", \"--breakable\"]\n    stopGrace: 1s\n    memory: 96m"
        );
        let health = "{ path: /healthz, port: 8080, interval: 500ms, timeout: 1s, startPeriod: 5s }";
        format!(
            r#"version: "1"
project: {{ name: {env} }}
resilience: {{ container: {{ restartDelay: 500ms }} }}
services:
  db:
    {service}
    container: {{ name: {env}-db, healthcheck: {health} }}
  web:
    {service}
    dependsOn: [db]
    container: {{ name: {env}-web, ports: ["{PORT}:8080"], healthcheck: {health} }}
"#
        )
    }
}

impl Drop for TestEnvironment {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selftest_spec_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let test_env = TestEnvironment {
            env: EnvName::new("argus-selftest-abc123").unwrap(),
            folder: dir.path().join("selftest"),
            settings: Settings {
                specs: dir.path().join("specs"),
                specs_given: true,
                state: StateDir::at(dir.path().join("state")),
                own_state: StateDir::at(dir.path().join("state")),
                docker_host: None,
                publish_address: [127, 0, 0, 1].into(),
                strict: true,
                env_allow: Vec::new(),
                compose: std::collections::BTreeMap::new(),
                allow_mount: Vec::new(),
                build_cache_limit: None,
                allow_external: Vec::new(),
                git_writable: false,
                namespace_from: NamespaceFrom::File,
                ceiling: argus_core::desired::ceiling::Ceiling::default(),
                log_format: crate::settings::LogFormat::Human,
                listen: None,
                allow_test_commands: false,
                allowed: None,
                ignored_keys: Vec::new(),
                helpers: false,
                debug: false,
                color: crate::settings::Colour::Auto,
                times: crate::settings::times::Times::default(),
            },
        };
        let read = argus_crds::yaml::read("e2e.yaml", test_env.spec().as_bytes());
        assert!(read.diagnostics.is_empty(), "{:?}", read.diagnostics);
        let spec = read.spec.unwrap();
        assert_eq!(spec.argus.restart, argus_crds::RestartPolicy::default());
        let (written, default) = (
            spec.resilience.container,
            argus_crds::ContainerResilience::default(),
        );
        assert_eq!(written.max_restarts, default.max_restarts);
        assert_eq!(test_env.foreign_env().as_str(), "argus-selftest-abc123-foreign");
    }
}
