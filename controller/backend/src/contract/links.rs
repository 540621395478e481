//! What a look from inside a container's network shows, on every backend.

use argus_core::connectivity::{LinkError, Target};
use argus_core::ident::{ContainerId, ServiceName};

use super::observer::{Violation, breach, holds};
use crate::Backend;

/// From a container that runs, is on its network, and is called `a` there.
pub(super) async fn drive<B: Backend>(backend: &B, id: &ContainerId) -> Result<(), Violation> {
    let to = ServiceName::new("a").map_err(|bad| breach("a name", &bad))?;
    let target = |host: &str| Target {
        to: to.clone(),
        host: host.to_owned(),
        port: None,
    };
    let came = backend
        .check_links(id, &[target("argus-contract-nobody"), target("a")])
        .await;
    let Ok([nobody, somebody]) = came.as_deref() else {
        return Err(breach("a look from a container that runs", &came));
    };
    let unknown = nobody.error.as_ref().is_some_and(LinkError::is_dns_error);
    holds("a name of nobody is not known", &came, unknown)?;
    holds(
        "the name of somebody on the network is known",
        &came,
        somebody.error.is_none(),
    )?;
    let stranger = ContainerId::new("0".repeat(64)).map_err(|bad| breach("an id", &bad))?;
    let came = backend.check_links(&stranger, &[target("a")]).await;
    holds("nobody looks from where no container is", &came, came.is_err())
}
