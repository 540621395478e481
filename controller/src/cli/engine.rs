//! The engine as commands without a controller see and use it.

use std::collections::BTreeSet;
use std::time::Duration;

use argus_backend::Backend as _;
use argus_core::ident::EnvName;
use argus_core::observed::{Object, Sighting, World};
use argus_crds::error::Code;
use argus_docker::Docker;
use futures::StreamExt as _;
use futures::stream::BoxStream;

use crate::exit::Failure;

/// How long a command waits for the engine's first list.
const LOOK: Duration = Duration::from_secs(10);

/// The engine, watched.
pub(crate) struct Eyes {
    sightings: BoxStream<'static, Sighting>,
    endpoint: String,
    /// Only what belongs to these is seen; everything without.
    only: Option<BTreeSet<EnvName>>,
    /// As last seen.
    pub(crate) world: World,
}

impl Eyes {
    /// Opens them and waits for the first complete list.
    pub(crate) async fn open(docker: &Docker, only: Option<BTreeSet<EnvName>>) -> Result<Self, Failure> {
        let (sightings, endpoint) = (docker.watch(), docker.endpoint());
        let mut eyes = Self {
            sightings,
            endpoint,
            only,
            world: World::default(),
        };
        let first = async {
            while !eyes.world.synced() {
                eyes.see().await?;
            }
            Ok(())
        };
        let looked = tokio::time::timeout(LOOK, first).await;
        looked.unwrap_or_else(|_| Err(eyes.away(&format!("no list within {} s", LOOK.as_secs()))))?;
        Ok(eyes)
    }

    /// Takes in what is seen next. May be dropped and called again.
    pub(crate) async fn see(&mut self) -> Result<(), Failure> {
        let Some(sighting) = self.sightings.next().await else {
            return Err(self.away("its events ended"));
        };
        if let Sighting::Lost(_, why) = &sighting {
            return Err(self.away(why));
        }
        if self.counts(&sighting) {
            self.world.apply(sighting);
        }
        Ok(())
    }

    fn counts(&self, sighting: &Sighting) -> bool {
        let (Some(only), Sighting::Saw(object)) = (&self.only, sighting) else {
            return true;
        };
        let owner = match object {
            Object::Container(container) => container.owner(),
            Object::Network(network) => network.owner(),
            Object::Volume(volume) => volume.owner(),
        };
        owner.is_some_and(|owner| only.contains(&owner.environment))
    }

    fn away(&self, why: &str) -> Failure {
        Failure::of(
            Code::DockerUnavailable,
            format!("engine `{}` does not answer: {why}", self.endpoint),
        )
    }
}
