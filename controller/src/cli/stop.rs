//! `argus stop`: ends the controller of this project, such as that of `argus up --detach`, or stops services.

use std::io::ErrorKind;
use std::time::Duration;

use argus_reconciler::lock;
use argus_reconciler::state_dir::StateDir;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use super::commands::Commands;
use crate::api::commands;
use crate::api::target::{Target, parse_service_target};
use crate::api::wait::goal::WaitGoal;
use crate::process::exit::{Exit, Failure};
use crate::process::runtime;
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::settings::{Options, Settings, SpecOptions};

/// Interval of checks whether the controller has released its lock.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Time until the controller has ended, unless the command has another one.
const END_TIMEOUT: Duration = Duration::from_secs(60);
/// Time until services have stopped, which can have long grace periods.
const STOP_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// Services to stop until `argus start` [default: end the controller]
    #[arg(value_name = "SERVICE")]
    targets: Vec<String>,
    /// Return before the services have stopped
    #[arg(short, long, requires = "targets")]
    detach: bool,
    /// Maximum time of the stop [default: 60s; of services: 10m]
    #[arg(long, value_name = "TIME", value_parser = crate::settings::parse_duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    output: OutputArgs,
}

impl Stop {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        if !self.targets.is_empty() {
            return self.stop_services(options, &settings.state);
        }
        if settings.state != settings.own_state {
            let message = "the controller of this project also serves other folders";
            return Err(Failure::usage(message).with_hint("name its state directory with `--state`"));
        }
        let state = settings.state;
        let pid = runtime::block_on(async {
            let Some(pid) = find_controller(&state).await? else {
                return Ok(None);
            };
            kill_process(pid, Signal::TERM)
                .map_err(|error| Failure::operation_failed("cannot stop the controller", &error))?;
            let limit = self.timeout.unwrap_or(END_TIMEOUT);
            timeout(limit, wait_for_end(&state)).await.map_err(|_| {
                let message = format!("the controller (process {pid}) has not ended");
                Failure::operation_failed("cannot stop the controller", &std::io::Error::other(message))
            })?;
            Ok(Some(pid.as_raw_nonzero().get()))
        })?;
        if pid.is_none() {
            output::print_note("note: controller is not running");
        }
        let stopped = serde_json::json!({ "stopped": pid.is_some(), "pid": pid });
        self.output.print(&stopped, ["controller"], || match pid {
            Some(pid) => format!("controller (process {pid}) stopped\n"),
            None => String::new(),
        })?;
        Ok(Exit::Done)
    }

    /// Stops the containers of services, and holds the services until their start.
    fn stop_services(self, options: &Options, state: &StateDir) -> Result<Exit, Failure> {
        let wait = (WaitGoal::Stopped, self.timeout.unwrap_or(STOP_TIMEOUT));
        let mut all = Commands::default();
        for typed in self.targets {
            let (environment, service) = parse_service_target(state, &typed)?;
            let target = Target {
                environment: environment.clone(),
                service: Some(service.clone()),
            };
            let operation = commands::Hold {
                environment,
                service: Some(service),
                for_seconds: None,
                stops: true,
                reason: "stopped by `argus stop`".to_owned(),
                holder: None,
            };
            let effect = if self.detach { "stops" } else { "stopped" };
            let text = format!("{typed} {effect}; `argus start {typed}` starts it again\n");
            all.add(target, operation, text);
        }
        all.execute(options, (!self.detach).then_some(wait), self.output)
    }
}

/// Process at the other end of the socket: the file with the process id could be older.
async fn find_controller(state: &StateDir) -> Result<Option<Pid>, Failure> {
    let stream = match UnixStream::connect(state.socket()).await {
        Ok(stream) => stream,
        Err(error) if error.kind() == ErrorKind::PermissionDenied || lock::is_held(&state.lock()) => {
            // It starts or stops, or belongs to another user.
            return Err(Failure::operation_failed(
                "cannot connect to the controller",
                &error,
            ));
        }
        Err(_) => return Ok(None),
    };
    let peer = stream.peer_cred();
    let peer = peer.map_err(|error| Failure::operation_failed("cannot find the controller", &error))?;
    // The kernel reports 0 for a process of another container.
    let pid = peer.pid().and_then(Pid::from_raw);
    pid.map(Some).ok_or_else(|| {
        Failure::usage("the controller runs in another container").with_hint("stop its container")
    })
}

/// Waits until no process holds the lock of the state directory.
async fn wait_for_end(state: &StateDir) {
    while lock::is_held(&state.lock()) {
        sleep(CHECK_INTERVAL).await;
    }
}
