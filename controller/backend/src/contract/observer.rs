//! Comparison of watch events and results with the contract.

use std::fmt::Debug;
use std::time::Duration;

use argus_core::ident::ContainerId;
use argus_core::observed::{Container, Store, WatchEvent};
use futures::StreamExt;
use futures::stream::BoxStream;

/// Maximum time until the watch reports an effect.
const REPORTED_WITHIN: Duration = Duration::from_secs(30);

/// A difference between the contract and the behaviour of a backend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {actual}")]
pub struct Violation {
    what: String,
    actual: String,
}

/// The consumer of the watch under test, with the store that its events build up.
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

    /// Applies watch events to the store until the condition holds.
    pub(super) async fn wait_for(
        &mut self,
        what: &str,
        holds: impl Fn(&Store) -> bool,
    ) -> Result<(), Violation> {
        let waiting = async {
            while !holds(&self.store) {
                let Some(event) = self.stream.next().await else {
                    return Err("the watch ended");
                };
                self.store.apply(event);
            }
            Ok(())
        };
        match tokio::time::timeout(REPORTED_WITHIN, waiting).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(ended)) => Err(violation(what, &ended)),
            Err(_elapsed) => Err(violation(what, &"the watch did not report it")),
        }
    }

    pub(super) async fn wait_for_container(
        &mut self,
        what: &str,
        id: &ContainerId,
        holds: impl Fn(&Container) -> bool,
    ) -> Result<(), Violation> {
        self.wait_for(what, |store| {
            store.container(id).is_some_and(|container| holds(container))
        })
        .await
    }
}

pub(super) fn violation(what: &str, actual: &impl Debug) -> Violation {
    Violation {
        what: what.to_owned(),
        actual: format!("{actual:?}"),
    }
}

pub(super) fn expect(what: &str, actual: &impl Debug, holds: bool) -> Result<(), Violation> {
    if holds {
        Ok(())
    } else {
        Err(violation(what, actual))
    }
}

pub(super) fn expect_eq<T: Debug + PartialEq>(what: &str, actual: &T, wanted: &T) -> Result<(), Violation> {
    expect(what, actual, actual == wanted)
}
