//! `argus stop`: ends the controller of this project, such as that of `argus up --detach`, or stops services.

use std::time::Duration;

use argus_reconciler::state_dir::StateDir;
use clap::Args;

use super::commands::Commands;
use crate::api::commands;
use crate::api::target::{Target, parse_service_target};
use crate::api::wait::goal::WaitGoal;
use crate::process::exit::{Exit, Failure};
use crate::process::runtime;
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::session::end_controller;
use crate::settings::{Options, Settings, SpecOptions};

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
        let pid = runtime::block_on(end_controller(&state, self.timeout))?;
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
