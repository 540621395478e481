//! Joins everything: settings, engine, controller, what people see.

use std::sync::Arc;
use std::time::Duration;

use argus_backend::Backend as _;
use argus_core::observed::{Sighting, World};
use argus_core::outcome::ActError;
use argus_core::status::code_of;
use argus_crds::error::Code;
use argus_docker::{Docker, Endpoint};
use argus_reconciler::clock;
use futures::StreamExt as _;

use crate::exit::{Exit, Failure};
use crate::settings::Settings;

/// How long a command waits for the engine's first list.
const LOOK: Duration = Duration::from_secs(10);

/// The engine that the settings name; nothing is connected yet.
pub(crate) fn docker(settings: &Settings) -> Result<Docker, Failure> {
    let endpoint = Endpoint::discover(settings.docker_host.as_deref())
        .map_err(|error| Failure::of(Code::DockerUnavailable, error.to_string()).exit(Exit::Usage))?;
    Ok(Docker::new(endpoint, Arc::new(clock::now)))
}

/// One complete list of what carries our labels.
pub(crate) async fn look(docker: &Docker) -> Result<World, Failure> {
    let list = async {
        let mut world = World::default();
        let mut sightings = docker.watch();
        while let Some(sighting) = sightings.next().await {
            let lost = match &sighting {
                Sighting::Lost(_, why) => Some(why.clone()),
                _ => None,
            };
            world.apply(sighting);
            if let Some(why) = lost {
                return Err(away(docker, &why));
            }
            if world.synced() && world.last_complete() > 0 {
                return Ok(world);
            }
        }
        Err(away(docker, "its events ended"))
    };
    let looked = tokio::time::timeout(LOOK, list).await;
    looked.unwrap_or_else(|_| Err(away(docker, &format!("no list within {} s", LOOK.as_secs()))))
}

fn away(docker: &Docker, why: &str) -> Failure {
    let message = format!("engine `{}` does not answer: {why}", docker.endpoint());
    Failure::of(Code::DockerUnavailable, message)
}

/// A call on the engine that failed, as the end of a command.
pub(crate) fn engine_failure(doing: &str, error: &ActError) -> Failure {
    Failure::of(code_of(error), format!("{doing}: {error}"))
}
