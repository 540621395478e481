//! Composition root: builds the engine client, the controller and its interfaces from [`Settings`], and runs them.

pub(crate) mod controller_start;
pub(crate) mod service_manager;
pub(crate) mod telemetry;

use std::net::IpAddr;
use std::sync::Arc;

use argus_backend::{Backend as _, EngineInfo};
use argus_core::ident::EnvName;
use argus_core::journal::Event;
use argus_core::quoting::PathText as _;
use argus_core::status::UNREACHABLE_HINT;
use argus_crds::error::Reason;
use argus_docker::Docker;
use argus_docker::Endpoint;
use argus_reconciler::clock::{self};
use argus_reconciler::lock::LOCK_TASK;
use argus_reconciler::shutdown::Signals;
use argus_reconciler::state_dir::StateDir;
use argus_reconciler::supervise::{Importance, Supervisor, watchdog};
use argus_reconciler::{Controller, Running, Snapshot, TaskDied};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::api::exec;
use crate::app::controller_start::reconciler_options;
use crate::client::{ControllerClient, InProcess};
use crate::engine::{connect_endpoint, endpoint_host, find_endpoint};
use crate::http::address::AddressListener;
use crate::http::{self, Guard};
use crate::local_state::status;
use crate::metrics::Metrics;
use crate::process::exit::state_failure;
use crate::process::exit::{Exit, Failure, format_chain};
use crate::render::live::{self, View, screen::LiveBlock};
use crate::render::output;
use crate::settings::Settings;
use crate::view::http_address::HttpAddress;
use crate::view::{About, StatusBuilder, Statuses};

/// A controller in this process with its interfaces.
pub(crate) struct App {
    client: ControllerClient,
    statuses: watch::Receiver<Arc<Statuses>>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    running: Running,
    endpoint: String,
}

impl App {
    /// Returns a client of the controller.
    pub(crate) fn client(&self) -> ControllerClient {
        self.client.clone()
    }

    /// Returns the token that stops the controller.
    pub(crate) fn stop_token(&self) -> CancellationToken {
        self.running.stop_token()
    }

    /// Waits until the controller has stopped.
    pub(crate) async fn ended(self) -> Result<(), Failure> {
        // A client keeps the command channel open.
        drop(self.client);
        let ended = self.running.ended().await;
        exec::end_commands().await;
        ended.map_err(|task_died| controller_failure(&task_died))
    }
}

/// Runs a controller until it is stopped.
pub(crate) async fn run(settings: Settings, screen: Option<LiveBlock>) -> Result<Exit, Failure> {
    let mut signals = Signals::subscribe()
        .map_err(|error| Failure::operation_failed("cannot subscribe to signals", &error))?;
    let place = settings.specs.display().to_string();
    let app = tokio::select! {
        biased;
        started = start(settings) => started?,
        // A disk that does not answer blocks the start, and nothing is in flight yet.
        () = signals.received() => return Ok(Exit::Done),
    };
    let note = format!(
        "watching `{place}`, engine {}; ctrl-c stops, containers keep running",
        app.endpoint
    );
    if screen.is_none() {
        output::print_note(&note);
    }
    let removed = report_removed(app.snapshots.clone(), app.client.state().clone(), screen.clone());
    let view = View::new(screen, note);
    let show = live::show(app.statuses.clone(), view);
    // The report ends after its notes, and the end of a task is an error.
    let shown = async move {
        tokio::join!(removed, show);
    };
    app.running
        .supervisor()
        .spawn_once("show", Importance::Useful, shown);
    let stop = app.stop_token();
    tokio::select! {
        ended = app.ended() => ended.map(|()| Exit::Done),
        () = signals.wait_for_second(stop) => Ok(Exit::Interrupted),
    }
}

/// Starts a controller and its interfaces.
pub(crate) async fn start(settings: Settings) -> Result<App, Failure> {
    let endpoint = find_endpoint(&settings)?;
    let engine_host = endpoint_host(&endpoint).await;
    if let Some(host) = engine_host
        && settings.publish_address.is_loopback()
    {
        let address = settings.publish_address;
        tracing::warn!(%host, %address, hint = UNREACHABLE_HINT, "clients cannot reach the loopback address of the engine's host");
    }
    let controller = open(&settings, &endpoint, engine_host).await?;
    let docker = connect_endpoint(&settings, endpoint);
    let journal = controller.journal();
    docker.record_changes(Box::new(move |change| {
        journal.record_event(Event::EngineChange(change));
    }));
    let endpoint = docker.endpoint();
    let state = controller.state().clone();
    tracing::info!(specs = %settings.specs.shown(), state = %state.root().shown(), engine = endpoint, "argus run");

    let (status_sender, statuses) = watch::channel(Arc::<Statuses>::default());
    let (engine_info, engine) = watch::channel(None);
    let (listening, http) = watch::channel(HttpAddress::Unbound);
    let (measured, build_cache) = watch::channel(None);
    let changed = Arc::<Notify>::default();
    let about = About {
        started_at: clock::now(),
        // Readers of the status files can have another working directory.
        specs: std::path::absolute(&settings.specs).unwrap_or_else(|_| settings.specs.clone()),
        state: std::path::absolute(state.root())
            .unwrap_or_else(|_| state.root().to_path_buf())
            .display()
            .to_string(),
        endpoint: endpoint.clone(),
        engine_host,
        engine,
        http,
        build_cache,
        changed: changed.clone(),
        namespace_from: settings.namespace_from.clone(),
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
    start_http(supervisor, &client, &stop);
    if let Some(wanted) = settings.listen {
        let listener = AddressListener {
            wanted,
            state: client.state().clone(),
            reports: listening,
            reported: changed.clone(),
            stop: stop.clone(),
        };
        start_http_address(supervisor, &client, listener);
    }
    start_clean_up(supervisor, &docker, (measured, changed), &stop);
    supervisor.spawn_once(
        "about",
        Importance::Useful,
        report_engine_info(docker, handle.snapshots(), engine_info),
    );
    let watched = watchdog::run(
        supervisor.heartbeats().clone(),
        service_manager::heartbeat_interval(),
        service_manager::ping_watchdog,
        stop.clone(),
    );
    supervisor.spawn_once("watchdog", Importance::Critical, watched);
    supervisor.spawn_once(
        "service",
        Importance::Useful,
        service_manager::report(handle.snapshots(), statuses.clone(), stop.clone()),
    );
    let snapshots = handle.snapshots();
    drop(handle);
    Ok(App {
        client,
        statuses,
        snapshots,
        running,
        endpoint,
    })
}

/// Prints a note about each environment that stays removed although a spec file defines it, once after the first scan.
async fn report_removed(
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    state: StateDir,
    screen: Option<LiveBlock>,
) {
    let (specs, desired) = match snapshots.wait_for(|snapshot| snapshot.specs.scanned).await {
        Ok(snapshot) => (snapshot.specs.clone(), snapshot.desired.clone()),
        Err(_) => return,
    };
    let names = status::list_removed(&state).into_iter();
    // An edit in the meantime has brought the others back.
    let removed = names.filter(|(name, _)| {
        let is_down = |env: &EnvName| env.as_str() == name && !desired.contains_key(env);
        specs.environments.keys().any(is_down)
    });
    for (name, message) in removed {
        let note = status::format_removal(&name, &message);
        match &screen {
            Some(screen) => screen.print_above(format!("{note}\n").as_bytes()),
            None => output::print_note(&note),
        }
    }
}

/// Opens the state directory on another thread, because a read can hang.
async fn open(
    settings: &Settings,
    endpoint: &Endpoint,
    engine_host: Option<IpAddr>,
) -> Result<Controller, Failure> {
    let options = reconciler_options(settings, endpoint, engine_host);
    let opened = tokio::task::spawn_blocking(move || Controller::open(options)).await;
    opened
        .map_err(|error| Failure::internal("cannot open the state directory", &error))?
        .map_err(|error| state_failure(&error))
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

/// Removes what builds leave, as long as the controller runs. Publishes the size of the unused build cache, with a notification.
fn start_clean_up(
    supervisor: &Supervisor,
    docker: &Docker,
    (measured, changed): (watch::Sender<Option<u64>>, Arc<Notify>),
    stop: &CancellationToken,
) {
    let report = move |bytes| {
        measured.send_replace(Some(bytes));
        changed.notify_one();
    };
    let (docker, report, stop) = (docker.clone(), Arc::new(report), stop.clone());
    supervisor.spawn("clean-up", Importance::Useful, move || {
        let (docker, report, stop) = (docker.clone(), report.clone(), stop.clone());
        async move {
            let cleaning = docker.clean_up_builds(|bytes| report(bytes));
            let _stopped = stop.run_until_cancelled(cleaning).await;
        }
    });
}

/// Serves HTTP on the socket in the state directory.
fn start_http(supervisor: &Supervisor, client: &ControllerClient, stop: &CancellationToken) {
    let path = client.state().socket();
    // Clients that read the published address also expect the socket.
    let mut first_listener = Some(http::listen::bind_socket(&path));
    supervisor.spawn("http-socket", Importance::Useful, {
        let (client, stop) = (client.clone(), stop.clone());
        move || {
            let bound = first_listener
                .take()
                .unwrap_or_else(|| http::listen::bind_socket(&path));
            let app = http::routes(client.clone(), Guard::Socket, stop.clone());
            let (path, stop) = (path.clone(), stop.clone());
            async move {
                match bound {
                    Ok(listener) => http::listen::listen_on_socket(listener, &path, app, stop).await,
                    Err(error) => {
                        let error = format_chain(&error);
                        tracing::error!(socket = %path.shown(), error, "cannot serve commands");
                    }
                }
            }
        }
    });
}

/// Serves HTTP on the listen address.
fn start_http_address(supervisor: &Supervisor, client: &ControllerClient, listener: AddressListener) {
    let client = client.clone();
    supervisor.spawn("http", Importance::Useful, move || {
        let (client, stop) = (client.clone(), listener.stop.clone());
        listener
            .clone()
            .run(move |guard| http::routes(client.clone(), guard, stop.clone()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::exit::describe_end;

    /// Values of a key of the unit for systemd.
    fn unit_values(key: &str) -> Vec<&'static str> {
        let unit = include_str!("../../charts/systemd/argus.service");
        let lines = unit.lines();
        let values = lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        values.flat_map(str::split_whitespace).collect()
    }

    #[test]
    fn service_manager_restarts_a_controller_that_is_stuck() {
        let task_died = TaskDied {
            task: "watchdog",
            restarts: 0,
            reason: "the loop makes no progress".to_owned(),
        };
        let (exit, _) = describe_end(&Err(controller_failure(&task_died)));
        let prevented = unit_values("RestartPreventExitStatus");
        let prevented: Vec<u8> = prevented.iter().map(|code| code.parse().unwrap()).collect();
        assert_eq!(unit_values("Restart"), ["on-failure"]);
        assert_eq!(prevented, [Exit::Usage.number(), Exit::LeaseHeld.number()]);
        assert_ne!(exit.number(), 0);
        assert!(!prevented.contains(&exit.number()), "{exit:?}");
    }
}
