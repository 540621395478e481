//! Composition root: builds the engine client, the controller and its interfaces from [`Settings`], and runs them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use argus_backend::{Backend as _, EngineInfo};
use argus_core::outcome::ActionError;
use argus_core::status::code_of;
use argus_crds::error::{Code, Reason, StructuredError};
use argus_docker::{Docker, Endpoint, OwnImageBuilder};
use argus_reconciler::clock::{self, Clock};
use argus_reconciler::lock::{LOCK_TASK, LockError};
use argus_reconciler::shutdown::Signals;
use argus_reconciler::state_dir::{StateDir, StateError};
use argus_reconciler::supervise::{Importance, Supervisor, watchdog};
use argus_reconciler::{Controller, Handle, Running, Snapshot, TaskDied};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::client::{self, ControllerClient, InProcess};
use crate::exit::{Exit, Failure, format_chain};
use crate::http::{self, Guard};
use crate::live::{self, screen::LiveBlock};
use crate::metrics::Metrics;
use crate::output;
use crate::own_image;
use crate::service;
use crate::settings::Settings;
use crate::spec_files;
use crate::view::{About, StatusBuilder, Statuses};

/// Creates a client for the engine of the settings, without connecting.
pub(crate) fn connect_docker(settings: &Settings) -> Result<Docker, Failure> {
    Ok(connect_endpoint(settings, find_endpoint(settings)?))
}

/// Creates a client that can build an image of this program for helper containers, unless the settings disable helpers.
fn connect_endpoint(settings: &Settings, endpoint: Endpoint) -> Docker {
    let state = StateDir::at(settings.state.clone());
    let own_image: OwnImageBuilder = Arc::new(move || own_image::build(&state));
    Docker::with_own_image(
        endpoint,
        Arc::new(clock::now),
        Some(own_image).filter(|_| settings.helpers),
        settings.times.deadlines.long,
    )
}

fn find_endpoint(settings: &Settings) -> Result<Endpoint, Failure> {
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

/// Converts an unusable state directory into the failure of a command.
pub(crate) fn state_failure(error: &StateError) -> Failure {
    match error {
        StateError::Held(LockError::Held { holder, .. }) => {
            let details = serde_json::json!({
                "pid": holder.pid, "host": holder.host, "since": holder.since, "run": holder.run,
            });
            Failure::new(StructuredError::new(Code::LeaseHeld, format_chain(error)).details(details))
        }
        StateError::InsideSpecs { .. } => Failure::with_reason(Reason::NotPossible, format_chain(error))
            .with_exit(Exit::Usage)
            .with_hint("choose another folder with `--state`"),
        StateError::Held(LockError::Io { .. }) | StateError::Io { .. } => {
            Failure::with_reason(Reason::Unreadable, format_chain(error))
                .with_exit(Exit::Unexpected)
                .with_hint("make the folder writable for this user, or choose another one with `--state`")
        }
    }
}

/// Runs a controller until it is stopped.
pub(crate) async fn run(settings: Settings, screen: Option<LiveBlock>) -> Result<Exit, Failure> {
    let signals = Signals::subscribe()
        .map_err(|error| Failure::operation_failed("cannot subscribe to signals", &error))?;
    let endpoint = find_endpoint(&settings)?;
    let engine_host = endpoint_host(&endpoint).await;
    let docker = connect_endpoint(&settings, endpoint);
    let endpoint = docker.endpoint();
    let controller = Controller::open(reconciler_options(&settings, engine_host))
        .map_err(|error| state_failure(&error))?;
    let state = controller.state().clone();
    tracing::info!(specs = %settings.specs.display(), state = %state.root().display(), engine = endpoint, "argus run");

    let (status_sender, statuses) = watch::channel(Arc::<Statuses>::default());
    let (engine_info, engine) = watch::channel(None);
    let (listening, http) = watch::channel(None);
    let about = About {
        started_at: clock::now(),
        // Readers of the status files can have another working directory.
        specs: std::path::absolute(&settings.specs).unwrap_or_else(|_| settings.specs.clone()),
        state: std::path::absolute(state.root())
            .unwrap_or_else(|_| state.root().to_path_buf())
            .display()
            .to_string(),
        endpoint: endpoint.clone(),
        engine,
        http,
        debug: settings.debug,
    };
    let feed = controller.journal().feed();
    let view = StatusBuilder::new(about, status_sender, controller.journal());
    let task_metrics = controller.journal().metrics().clone();
    // Earlier records belong to previous runs.
    let previous_newest = *feed.newest().borrow();
    let (handle, running) = controller.start(docker.clone(), Arc::new(view));
    let (supervisor, stop) = (running.supervisor(), running.stop_token());
    let metrics = Metrics::new(&task_metrics, handle.snapshots(), statuses.clone());
    let meter = metrics.journal_consumer(feed.clone(), previous_newest);
    supervisor.spawn("metrics", Importance::Useful, {
        let stop = stop.clone();
        move || meter.clone().run(stop.clone())
    });
    let client = ControllerClient::in_process(
        settings.clone(),
        InProcess {
            handle: handle.clone(),
            statuses: statuses.clone(),
            feed,
            metrics,
        },
    );
    start_http(supervisor, &client, &settings, &listening, &stop);
    supervisor.spawn_once(
        "about",
        Importance::Useful,
        report_engine_info(docker, handle.snapshots(), engine_info),
    );
    let watched = watchdog::run(
        supervisor.heartbeats().clone(),
        service::heartbeat_interval(),
        service::ping_watchdog,
        stop.clone(),
    );
    supervisor.spawn_once("watchdog", Importance::Critical, watched);
    supervisor.spawn_once(
        "service",
        Importance::Useful,
        service::report(handle.snapshots(), statuses.clone(), stop.clone()),
    );
    let place = settings.specs.display();
    let note = format!("watching `{place}`, engine {endpoint}; ctrl-c stops, containers keep running");
    if screen.is_none() {
        output::print_note(&note);
    }
    supervisor.spawn_once("show", Importance::Useful, live::show(statuses, screen, note));
    drop(handle);
    tokio::select! {
        ended = running.ended() => match ended {
            Ok(()) => Ok(Exit::Done),
            Err(task_died) => Err(controller_failure(&task_died)),
        },
        () = signals.wait_for_second(stop) => Ok(Exit::Interrupted),
    }
}

/// Starts a controller for one command. It serves no HTTP and shows nothing; only the returned [`Handle`] commands it.
pub(crate) async fn run_offline(settings: &Settings) -> Result<(Handle, Running), Failure> {
    let endpoint = find_endpoint(settings)?;
    let engine_host = endpoint_host(&endpoint).await;
    let docker = connect_endpoint(settings, endpoint);
    let controller =
        Controller::open(reconciler_options(settings, engine_host)).map_err(|error| state_failure(&error))?;
    let about = About {
        started_at: clock::now(),
        specs: settings.specs.clone(),
        state: settings.state.display().to_string(),
        endpoint: docker.endpoint(),
        engine: watch::channel(None).1,
        http: watch::channel(None).1,
        debug: settings.debug,
    };
    let view = StatusBuilder::new(about, watch::channel(Arc::default()).0, controller.journal());
    Ok(controller.start(docker, Arc::new(view)))
}

fn reconciler_options(settings: &Settings, engine_host: Option<IpAddr>) -> argus_reconciler::Options {
    let times = settings.times;
    argus_reconciler::Options {
        specs: settings.specs.clone(),
        state: settings.state.clone(),
        strict: settings.strict,
        env_allow: settings.env_allow.clone(),
        process_env: spec_files::read_process_env(),
        allow_mounts: spec_files::allowed_mounts(settings),
        engine_socket: spec_files::find_engine_socket(settings),
        own_image: own_image::lazy_build(&StateDir::at(settings.state.clone())),
        publish_address: settings.publish_address,
        engine_host,
        helpers: settings.helpers,
        deadlines: times.deadlines,
        engine_breaker: times.breaker,
        stop_grace: times.stop_grace,
        journal_limit: argus_reconciler::journal::handle::DEFAULT_MAX_SIZE,
        lease_ttl: times.lease_ttl,
        clock: Clock::system(),
    }
}

/// Converts a failed task into the failure of the controller.
fn controller_failure(task_died: &TaskDied) -> Failure {
    if task_died.task != LOCK_TASK {
        return Failure::operation_failed("controller stopped", task_died);
    }
    let message = format!(
        "controller stopped: {}; containers keep running",
        task_died.reason
    );
    Failure::with_reason(Reason::NotPossible, message)
        .with_exit(Exit::Unexpected)
        .with_hint("start it again with `argus run`, which adopts the running containers")
}

/// Resolves the address of published ports on a remote engine; `None` for a local engine.
async fn endpoint_host(endpoint: &Endpoint) -> Option<IpAddr> {
    let Endpoint::Tcp(address) = endpoint else {
        return None;
    };
    let mut found = tokio::net::lookup_host(address.as_str()).await.ok()?;
    found
        .next()
        .map(|address| address.ip())
        .filter(|ip| !ip.is_loopback())
}

/// Serves HTTP on the socket in the state directory, and on the listen address if one is configured.
fn start_http(
    supervisor: &Supervisor,
    client: &ControllerClient,
    settings: &Settings,
    listening: &watch::Sender<Option<SocketAddr>>,
    stop: &CancellationToken,
) {
    let path = client::socket_path(client.state());
    supervisor.spawn("http-socket", Importance::Useful, {
        let (client, stop) = (client.clone(), stop.clone());
        move || {
            let app = http::routes(client.clone(), Guard::Socket, stop.clone());
            let (path, stop) = (path.clone(), stop.clone());
            async move {
                if let Err(error) = http::listen::listen_on_socket(path.clone(), app, stop).await {
                    tracing::error!(socket = %path.display(), error = format_chain(&error), "cannot serve commands");
                }
            }
        }
    });
    let Some(wanted) = settings.listen else { return };
    let token = match http::load_token(client.state()) {
        Ok(token) => token,
        Err(error) => {
            tracing::error!(
                error = format_chain(&error),
                "cannot create the token; HTTP is served on the unix socket only"
            );
            return;
        }
    };
    supervisor.spawn("http", Importance::Useful, {
        let (client, stop, listening) = (client.clone(), stop.clone(), listening.clone());
        move || {
            let (client, stop, token) = (client.clone(), stop.clone(), token.clone());
            let app = {
                let stop = stop.clone();
                move |at| {
                    let token = token.clone();
                    http::routes(client.clone(), Guard::Address { at, token }, stop.clone())
                }
            };
            http::listen::listen_on_address(wanted, app, listening.clone(), stop)
        }
    });
}

/// Reads the engine's version each time the engine becomes reachable.
async fn report_engine_info(
    docker: Docker,
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    engine_info: watch::Sender<Option<EngineInfo>>,
) {
    loop {
        if snapshots
            .wait_for(|snapshot| snapshot.store.is_reachable())
            .await
            .is_err()
        {
            return;
        }
        match docker.info().await {
            Ok(about) => drop(engine_info.send_replace(Some(about))),
            Err(error) => tracing::debug!(%error, "cannot read the version of the engine"),
        }
        if snapshots
            .wait_for(|snapshot| !snapshot.store.is_reachable())
            .await
            .is_err()
        {
            return;
        }
    }
}
