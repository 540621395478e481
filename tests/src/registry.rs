//! A registry next to the engine, from Debian's docker-registry, for real pulls without a network.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::{PrivateEngine, wait};

/// A running registry. The engine accepts it without TLS if it is on loopback.
#[derive(Debug)]
pub struct Registry {
    process: Child,
    /// `HOST:PORT`, the first part of image names.
    pub address: String,
    /// Folder with the configuration of a client that is logged in.
    login: Option<PathBuf>,
}

/// User of a registry with a login.
pub const USER: &str = "reader";
/// Password of [`USER`].
pub const PASSWORD: &str = "opens-7f3a";
/// `USER:PASSWORD` in Base64.
const LOGIN: &str = "cmVhZGVyOm9wZW5zLTdmM2E=";
/// Hash of [`PASSWORD`] for the registry.
const PASSWORD_HASH: &str = "$2b$05$abcdefghijklmnopqrstuukFc4kKAc75kgKwA5wdHDUh9jdbkWLvG";

impl Registry {
    /// Starts a registry inside the engine's network namespace, on `port`.
    #[must_use]
    pub fn start(engine: &PrivateEngine, port: u16) -> Self {
        Self::run(engine, format!("127.0.0.1:{port}"), false, None)
    }

    /// Starts a registry that requires a login as [`USER`].
    #[must_use]
    pub fn start_with_login(engine: &PrivateEngine, port: u16) -> Self {
        Self::run(engine, format!("127.0.0.1:{port}"), true, None)
    }

    /// Starts a registry that requires a login as [`USER`], at the address of the engine, where no engine accepts it without TLS. The
    /// folder contains `server-cert.pem` and `server-key.pem`. A registry at the port of an earlier one has its images.
    #[must_use]
    pub fn start_with_tls(engine: &PrivateEngine, port: u16, certificates: &Path) -> Self {
        Self::run(
            engine,
            format!("{}:{port}", engine.address()),
            true,
            Some(certificates),
        )
    }

    fn run(engine: &PrivateEngine, address: String, has_login: bool, certificates: Option<&Path>) -> Self {
        let at: SocketAddr = address.parse().expect("an address");
        let home = engine.scratch(&format!("registry{}", at.port()));
        let data = home.join("data");
        let tls = certificates.map_or_else(String::new, |folder| {
            let file = |name: &str| folder.join(name).display().to_string();
            let (certificate, key) = (file("server-cert.pem"), file("server-key.pem"));
            format!(", tls: {{ certificate: \"{certificate}\", key: \"{key}\" }}")
        });
        let mut config = format!(
            "version: 0.1\nlog: {{ level: warn }}\nstorage: {{ filesystem: {{ rootdirectory: {} }} }}\nhttp: {{ addr: \"{address}\"{tls} }}\n",
            data.display()
        );
        if has_login {
            let users = home.join("htpasswd");
            fs::write(&users, format!("{USER}:{PASSWORD_HASH}\n")).expect("a file of users");
            let users = users.display();
            let auth = format!("auth: {{ htpasswd: {{ realm: tests, path: {users} }} }}\n");
            config += &auth;
        }
        fs::write(home.join("config.yml"), config).expect("a configuration file");
        let log = File::create(home.join("log")).expect("a log file");
        let mut command = engine.command_in_netns("docker-registry");
        command
            .arg("serve")
            .arg(home.join("config.yml"))
            .stdin(Stdio::null());
        command
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log);
        let process = command
            .spawn()
            .expect("docker-registry starts; hint: ./scripts/setup");
        let login = has_login.then(|| {
            let config = serde_json::json!({ "auths": { &address: { "auth": LOGIN } } });
            fs::write(home.join("config.json"), config.to_string()).expect("a configuration file");
            home
        });
        let registry = Self {
            process,
            address,
            login,
        };
        wait::until(Duration::from_secs(20), "the registry listens", || {
            engine.connect(at).ok().map(drop)
        });
        registry
    }

    /// Folder with the configuration of a client that is logged in; `None` without a login.
    #[must_use]
    pub fn login(&self) -> Option<&Path> {
        self.login.as_deref()
    }

    /// Pushes a local image to the registry and removes it from the engine. Returns its name there.
    #[must_use]
    pub fn push(&self, engine: &PrivateEngine, image: &str) -> String {
        let name = format!("{}/{image}", self.address);
        engine.docker_ok(&["tag", image, &name]);
        let login = self.login.as_ref().map(|folder| folder.display().to_string());
        let config = login.iter().flat_map(|folder| ["--config", folder.as_str()]);
        let push: Vec<&str> = config.chain(["push", "-q", &name]).collect();
        engine.docker_ok(&push);
        engine.docker_ok(&["rmi", &name]);
        name
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
