//! `argus wait`: waits until environments are ready or gone. It reads their status files. If a controller runs, it first waits until earlier edits are read.

use std::time::Duration;

use argus_reconciler::{Command, clock};
use clap::Args;

use crate::api::wait::goal::{NamedStatus, WaitGoal, wait_until};
use crate::cli::notes;
use crate::client::ControllerClient;
use crate::exit::{Exit, Failure};
use crate::live::image_progress::{self, ProgressThrottle};
use crate::live::screen::LiveBlock;
use crate::output;
use crate::output::Format;
use crate::runtime;
use crate::settings::{Options, Settings, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// Environment names
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    environments: Vec<String>,
    /// Wait for all environments that have a status file
    #[arg(long)]
    all: bool,
    /// Goal of the wait
    #[arg(long = "for", value_enum, default_value = "ready")]
    goal: WaitGoal,
    /// Maximum time to wait
    #[arg(long, default_value = "120s", value_parser = crate::settings::parse_duration)]
    timeout: Duration,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Wait {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let client = ControllerClient::remote(settings);
        notes::note_if_not_running(client.state());
        let which = if self.all {
            None
        } else {
            Some(self.environments.as_slice())
        };
        let (screen, mut paced) = (LiveBlock::for_terminal(), ProgressThrottle::default());
        let show = |all: &[NamedStatus]| {
            let works = image_progress::list_progress(all.iter().filter_map(|(_, status)| status.as_ref()));
            match &screen {
                Some(screen) => screen.draw(image_progress::format_bars(&works, screen.width())),
                None => paced
                    .select_lines(&works, clock::now())
                    .iter()
                    .for_each(|line| output::print_note(line)),
            }
        };
        let result = runtime::block_on(async {
            if client.is_alive() {
                // The sync makes earlier edits effective. Without permission to use the socket, only the files are used.
                drop(client.send(Command::Sync).await);
            }
            wait_until(&client, which, self.goal, self.timeout, show).await
        });
        // Clears the progress bars.
        if let Some(screen) = &screen {
            screen.draw(Vec::new());
        }
        let result = result?;
        for status in result {
            match self.output {
                Some(Format::Json) => output::print_json(&status)?,
                Some(Format::Yaml) => output::print_yaml(&status)?,
                Some(Format::Name) => output::print(&format!("{}\n", status.environment))?,
                Some(Format::Table | Format::Wide) | None => {
                    output::print(&format!(
                        "{} {}\n",
                        status.environment,
                        output::format_phase(status.phase)
                    ))?;
                }
            }
        }
        if self.goal == WaitGoal::Gone && self.output.is_none() {
            output::print("gone\n")?;
        }
        Ok(Exit::Done)
    }
}
