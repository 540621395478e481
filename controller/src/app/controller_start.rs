//! Start of a controller in this process: its options, and the failures of a start.

use std::net::IpAddr;
use std::sync::Arc;

use argus_docker::Endpoint;
use argus_reconciler::clock::{self, Clock};
use argus_reconciler::{Controller, Handle, Running};
use tokio::sync::watch;

use crate::compose;
use crate::engine::{connect_endpoint, endpoint_host, find_endpoint};
use crate::process::exit::{Failure, state_failure};
use crate::process::own_image;
use crate::settings::{Settings, private_folders};
use crate::spec_files;
use crate::view::http_address::HttpAddress;
use crate::view::{About, StatusBuilder};

/// Starts a controller for the selftest. It serves no HTTP and shows nothing; only the returned [`Handle`] commands it.
pub(crate) async fn start_for_selftest(settings: &Settings) -> Result<(Handle, Running), Failure> {
    let endpoint = find_endpoint(settings)?;
    let engine_host = endpoint_host(&endpoint).await;
    let options = reconciler_options(settings, &endpoint, engine_host);
    let docker = connect_endpoint(settings, endpoint);
    let controller = Controller::open(options).map_err(|error| state_failure(&error))?;
    let about = About {
        started_at: clock::now(),
        specs: settings.specs.clone(),
        state: settings.state.root().display().to_string(),
        endpoint: docker.endpoint(),
        engine_host,
        engine: watch::channel(None).1,
        http: watch::channel(HttpAddress::Unbound).1,
        build_cache: watch::channel(None).1,
        changed: Arc::default(),
        namespace_from: settings.namespace_from.clone(),
        debug: settings.debug,
    };
    let view = StatusBuilder::new(about, watch::channel(Arc::default()).0, controller.journal());
    Ok(controller.start(docker, Arc::new(view)))
}

pub(crate) fn reconciler_options(
    settings: &Settings,
    endpoint: &Endpoint,
    engine_host: Option<IpAddr>,
) -> argus_reconciler::Options {
    let times = settings.times;
    argus_reconciler::Options {
        specs: settings.specs.clone(),
        state: settings.state.clone(),
        strict: settings.strict,
        env_allow: settings.env_allow.clone(),
        namespace_from: settings.namespace_from.clone(),
        process_env: spec_files::create_process_env(settings),
        allow_mounts: spec_files::allowed_mounts(settings),
        allowed: settings.allowed.clone(),
        allow_external: settings.allow_external.clone(),
        git_writable: settings.git_writable,
        private_folders: private_folders(),
        ceiling: settings.ceiling,
        engine_socket: spec_files::find_engine_socket(settings),
        own_image: own_image::lazy_build(&settings.state),
        publish_address: settings.publish_address,
        translate: Some(compose::translate),
        engine_host,
        helpers: settings.helpers,
        deadlines: times.deadlines,
        engine_breaker: times.engine_breaker(endpoint.socket().is_some()),
        retries: times.retries,
        delays: times.delays,
        stop_grace: times.stop_grace,
        journal_limit: argus_reconciler::journal::handle::DEFAULT_MAX_SIZE,
        lease_ttl: times.lease_ttl,
        clock: Clock::system(),
    }
}
