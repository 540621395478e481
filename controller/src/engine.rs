//! Client of the engine that the settings name. [`observer`] reads the engine without a controller; [`offline`] changes it without one.

use std::net::IpAddr;
use std::sync::Arc;

use argus_core::outcome::ActionError;
use argus_core::status::code_of;
use argus_crds::error::Code;
use argus_docker::{Docker, Endpoint, OwnImageBuilder};
use argus_reconciler::clock;

use crate::blocking_io;
use crate::exit::{Exit, Failure};
use crate::own_image;
use crate::settings::Settings;

mod breaker_check;
pub(crate) mod observer;
pub(crate) mod offline;

/// Creates a client for the engine of the settings, without connecting. Fails while a live controller has the engine's
/// breaker open.
pub(crate) async fn connect_docker(settings: &Settings) -> Result<Docker, Failure> {
    let settings = settings.clone();
    blocking_io::read(move || {
        breaker_check::check_engine_breaker(&settings.state)?;
        Ok(connect_endpoint(&settings, find_endpoint(&settings)?))
    })
    .await
}

/// Creates a client that can build an image of this program for helper containers, unless the settings disable helpers.
pub(crate) fn connect_endpoint(settings: &Settings, endpoint: Endpoint) -> Docker {
    let state = settings.state.clone();
    let own_image: OwnImageBuilder = Arc::new(move || own_image::build(&state));
    Docker::with_own_image(
        endpoint,
        Arc::new(clock::now),
        Some(own_image).filter(|_| settings.helpers),
        settings.times.deadlines.long,
        settings.times.waits.list_interval,
    )
}

pub(crate) fn find_endpoint(settings: &Settings) -> Result<Endpoint, Failure> {
    Endpoint::discover(settings.docker_host.as_deref()).map_err(|error| {
        let details = serde_json::json!({ "endpoint": settings.docker_host, "reason": error.to_string() });
        Failure::with_code(Code::DockerUnavailable, error.to_string())
            .with_details(details)
            .with_exit(Exit::Usage)
    })
}

/// Converts a failed engine call into the failure of a command; `doing` names the operation.
pub(crate) fn engine_failure(doing: &str, error: &ActionError) -> Failure {
    let details = serde_json::json!({ "operation": doing, "reason": error.to_string() });
    Failure::with_code(code_of(error), format!("{doing}: {error}")).with_details(details)
}

/// Resolves the address of published ports on a remote engine; `None` for a local engine.
pub(crate) async fn endpoint_host(endpoint: &Endpoint) -> Option<IpAddr> {
    let mut found = tokio::net::lookup_host(endpoint.address()?).await.ok()?;
    found
        .next()
        .map(|address| address.ip())
        .filter(|ip| !ip.is_loopback())
}
