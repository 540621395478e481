//! Foreign objects on the same engine: they must survive the run, and no request may name them.

use std::time::Duration;

use argus_tests::wait;
use serde_json::{Value, json};

use crate::world::World;

const CONTAINER: &str = "chaos1-web-foreign";
const NETWORK: &str = "chaos1-network-foreign";
const VOLUME: &str = "chaos1-data-foreign";

/// Identities at the start.
pub(crate) struct Foreign(Value);

impl Foreign {
    /// Creates the objects. The engine itself restarts the container after its own restarts.
    /// The container obeys SIGTERM, so that it does not delay a stop of the engine.
    pub(crate) fn create(world: &World<'_>) -> Self {
        let engine = world.engine;
        engine.docker_ok(&["network", "create", NETWORK]);
        engine.docker_ok(&["volume", "create", VOLUME]);
        let mount = format!("{VOLUME}:/data");
        engine.docker_ok(&[
            "run",
            "-d",
            "--init",
            "--restart",
            "always",
            "--name",
            CONTAINER,
            "--network",
            NETWORK,
            "-v",
            &mount,
            "busybox:local",
        ]);
        engine.docker_ok(&["exec", CONTAINER, "touch", "/data/mark"]);
        Self(identity(world))
    }

    /// Notes every request of a controller that names one of the objects, and forgets the others.
    pub(crate) fn check_requests(&self, world: &World<'_>) {
        let ids =
            [&self.0["container"], &self.0["network"]].map(|id| id.as_str().unwrap_or("none").to_owned());
        for write in world.proxy.writes() {
            if write.request.contains("foreign") || ids.iter().any(|id| write.request.contains(id.as_str())) {
                world.board.violate(format!("foreign object: {}", write.request));
            }
        }
        world.proxy.reset_counts();
    }

    /// Notes every object that is not the same as at the start.
    pub(crate) fn check_objects(&self, world: &World<'_>) {
        let found = identity(world);
        if found != self.0 {
            world
                .board
                .violate(format!("foreign objects: {} became {found}", self.0));
        }
        // The last fault can be a killed containerd: the engine then fails every `exec` for some seconds.
        let has_mark = || world.docker(&["exec", CONTAINER, "test", "-f", "/data/mark"]);
        if wait::poll(Duration::from_secs(30), || has_mark().then_some(())).is_none() {
            world
                .board
                .violate("the foreign container does not run with its volume".to_owned());
        }
    }
}

fn identity(world: &World<'_>) -> Value {
    let container = world
        .query(&format!("/containers/{CONTAINER}/json"))
        .unwrap_or_default();
    let network = world.query(&format!("/networks/{NETWORK}")).unwrap_or_default();
    let volume = world.query(&format!("/volumes/{VOLUME}")).unwrap_or_default();
    json!({
        "container": container["Id"], "networks": container["HostConfig"]["NetworkMode"], "labels": container["Config"]["Labels"],
        "network": network["Id"], "volume": volume["CreatedAt"],
    })
}
