//! What is seen and what came of it, compared with what the contract says.

use std::fmt::Debug;
use std::time::Duration;

use argus_core::ident::ContainerId;
use argus_core::observed::{Container, Store, WatchEvent};
use futures::StreamExt;
use futures::stream::BoxStream;

/// An effect shows within this time.
const SHOWN_WITHIN: Duration = Duration::from_secs(30);

/// Where a backend did other than the contract says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {came}")]
pub struct Violation {
    what: String,
    came: String,
}

pub(super) struct Observer {
    stream: BoxStream<'static, WatchEvent>,
    pub(super) store: Store,
}

impl Observer {
    pub(super) fn open(stream: BoxStream<'static, WatchEvent>) -> Self {
        Self {
            stream,
            store: Store::default(),
        }
    }

    /// Takes sightings in until the world is as it shall be.
    pub(super) async fn see(&mut self, what: &str, holds: impl Fn(&Store) -> bool) -> Result<(), Violation> {
        let seeing = async {
            while !holds(&self.store) {
                let Some(seen) = self.stream.next().await else {
                    return Err("sightings ended");
                };
                self.store.apply(seen);
            }
            Ok(())
        };
        match tokio::time::timeout(SHOWN_WITHIN, seeing).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(ended)) => Err(breach(what, &ended)),
            Err(_elapsed) => Err(breach(what, &"it was not seen")),
        }
    }

    pub(super) async fn sees(
        &mut self,
        what: &str,
        id: &ContainerId,
        holds: impl Fn(&Container) -> bool,
    ) -> Result<(), Violation> {
        self.see(what, |store| {
            store.container(id).is_some_and(|container| holds(container))
        })
        .await
    }
}

pub(super) fn breach(what: &str, came: &impl Debug) -> Violation {
    Violation {
        what: what.to_owned(),
        came: format!("{came:?}"),
    }
}

pub(super) fn holds(what: &str, came: &impl Debug, holds: bool) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(breach(what, came)) }
}

pub(super) fn is<T: Debug + PartialEq>(what: &str, came: &T, wanted: &T) -> Result<(), Violation> {
    holds(what, came, came == wanted)
}
