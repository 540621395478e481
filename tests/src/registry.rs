//! A registry next to the engine, from Debian's docker-registry, for real pulls without a network.

use std::fs::{self, File};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::{PrivateEngine, wait};

/// A running registry. The engine accepts it without TLS because it is on loopback.
#[derive(Debug)]
pub struct Registry {
    process: Child,
    /// `127.0.0.1:PORT`, the first part of image names.
    pub address: String,
}

impl Registry {
    /// Starts a registry inside the engine's network namespace, on `port`.
    #[must_use]
    pub fn start(engine: &PrivateEngine, port: u16) -> Self {
        let home = engine.scratch(&format!("registry{port}"));
        let address = format!("127.0.0.1:{port}");
        let data = home.join("data");
        let config = format!(
            "version: 0.1\nlog: {{ level: warn }}\nstorage: {{ filesystem: {{ rootdirectory: {} }} }}\nhttp: {{ addr: \"{address}\" }}\n",
            data.display()
        );
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
        let registry = Self { process, address };
        wait::until(Duration::from_secs(20), "the registry answers", || {
            let mut client = engine.command_in_netns("busybox");
            let url = format!("http://{}/v2/", registry.address);
            let output = client.args(["wget", "-q", "-O", "-", &url]).output().ok()?;
            output.status.success().then_some(())
        });
        registry
    }

    /// Pushes a local image to the registry and removes it from the engine. Returns its name there.
    #[must_use]
    pub fn push(&self, engine: &PrivateEngine, image: &str) -> String {
        let name = format!("{}/{image}", self.address);
        engine.docker_ok(&["tag", image, &name]);
        engine.docker_ok(&["push", "-q", &name]);
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
