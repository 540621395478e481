//! `argus wait`: waits until environments or services are ready or gone.

use std::time::Duration;

use argus_reconciler::clock;
use clap::Args;

use super::{call, notes};
use crate::api::Context;
use crate::api::wait::engine_reports::EngineReports;
use crate::api::wait::goal::{WaitGoal, WaitLimits};
use crate::api::wait::target_status::TargetStatus;
use crate::api::wait::{self, Reached, WaitOutput};
use crate::process::exit::{Exit, Failure};
use crate::process::runtime;
use crate::render::live::image_progress::{self, ProgressThrottle};
use crate::render::live::screen::LiveBlock;
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::render::status_text::format_warnings;
use crate::settings::{Options, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// Environments, or ENVIRONMENT/SERVICE
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    targets: Vec<String>,
    /// Wait for all environments that have a status file
    #[arg(long)]
    all: bool,
    /// Goal of the wait
    #[arg(long = "for", value_enum, default_value = "ready")]
    goal: WaitGoal,
    /// Maximum time to wait
    #[arg(long, default_value = "120s", value_parser = crate::settings::parse_duration)]
    timeout: Duration,
    /// Maximum time without an answer of the engine
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = crate::settings::parse_duration)]
    engine_patience: Duration,
    #[command(flatten)]
    output: OutputArgs,
}

impl Wait {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        let targets = (!self.all).then(|| self.targets.join(","));
        let limits = WaitLimits {
            timeout: self.timeout,
            engine_patience: self.engine_patience,
            ends_at_rejection: true,
        };
        let found = wait_with_progress(&context, targets, self.goal, limits)?;
        for reached in found.targets() {
            if let Reached::Ready(status) = reached {
                for warning in format_warnings(status) {
                    output::print_note(&format!("warning: {warning}"));
                }
            }
        }
        let names = found.targets().iter().map(Reached::target);
        self.output.print(&found, names, || match self.goal {
            WaitGoal::Gone => "gone\n".to_owned(),
            WaitGoal::Ready | WaitGoal::Stopped => {
                let line = |reached: &Reached| match reached {
                    Reached::Ready(status) => Some(format!(
                        "{} {}",
                        status.environment,
                        output::format_phase(status.phase)
                    )),
                    Reached::Service(ready) => Some(format!(
                        "{} {}",
                        reached.target(),
                        output::format_state(ready.status.state)
                    )),
                    Reached::Gone(_) => None,
                };
                output::join_lines(found.targets().iter().filter_map(line))
            }
        })?;
        Ok(Exit::Done)
    }
}

/// Waits until these targets, separated by commas, or all environments reach the goal. Shows the progress of images.
pub(super) fn wait_with_progress(
    context: &Context,
    targets: Option<String>,
    goal: WaitGoal,
    limits: WaitLimits,
) -> Result<WaitOutput, Failure> {
    notes::note_if_safe(context.client.state());
    let operation = wait::Wait::new(targets, goal);
    let (screen, mut paced) = (LiveBlock::for_terminal(), ProgressThrottle::default());
    let mut engine_reports = EngineReports::default();
    let show = |all: &[TargetStatus]| {
        let statuses = || all.iter().filter_map(|seen| seen.status.as_ref());
        if let Some(change) = engine_reports.find_change(all) {
            output::print_note(&format!("note: {change}"));
        }
        let works = image_progress::list_progress(statuses());
        match &screen {
            Some(screen) => screen.draw(image_progress::format_bars(&works, screen.width())),
            None => paced
                .select_lines(&works, clock::now())
                .iter()
                .for_each(|line| output::print_note(line)),
        }
    };
    let result = runtime::block_on(async {
        let waited = Box::pin(operation.wait_within(limits, context, show));
        tokio::select! {
            biased;
            result = waited => result,
            never = notes::note_missing_controller(&context.client) => match never {},
        }
    });
    // Clears the progress bars.
    if let Some(screen) = &screen {
        screen.draw(Vec::new());
    }
    result
}
