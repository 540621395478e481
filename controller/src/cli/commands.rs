//! Commands on several targets, and the wait for their effects.

use std::time::Duration;

use super::call;
use super::wait::wait_with_progress;
use crate::api::Operation;
use crate::api::target::Target;
use crate::api::wait::goal::{ENGINE_PATIENCE, WaitGoal, WaitLimits};
use crate::client::command_reply::CommandReply;
use crate::process::exit::{Exit, Failure};
use crate::render::output::{self, OutputArgs};
use crate::settings::{Options, SpecOptions};

/// Commands on targets, each with the text of its effect.
pub(super) struct Commands<T>(Vec<(Target, T, String)>);

impl<T> Default for Commands<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Operation<Output = CommandReply>> Commands<T> {
    pub(super) fn add(&mut self, target: Target, operation: T, text: String) {
        self.0.push((target, operation, text));
    }

    /// Sends the commands, waits until all targets reach the goal within its time, if there is one, and prints the replies. After a failure,
    /// notes name the commands that have an effect.
    pub(super) fn execute(
        self,
        options: &Options,
        wait: Option<(WaitGoal, Duration)>,
        output: OutputArgs,
    ) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        let mut replies = Vec::new();
        let sent: Result<(), Failure> = self.0.iter().try_for_each(|(_, operation, _)| {
            replies.push(call::run(&context, operation)?);
            Ok(())
        });
        let ended = sent.and_then(|()| {
            let Some((goal, timeout)) = wait else {
                return Ok(());
            };
            let targets: Vec<String> = self.0.iter().map(|(target, ..)| target.to_string()).collect();
            let limits = WaitLimits {
                timeout,
                engine_patience: ENGINE_PATIENCE,
                ends_at_rejection: false,
            };
            wait_with_progress(&context, Some(targets.join(",")), goal, limits).map(drop)
        });
        if let Err(failure) = ended {
            for (_, (target, ..)) in replies.iter().zip(&self.0) {
                output::print_note(&format!("note: the command for `{target}` was accepted"));
            }
            return Err(failure);
        }
        for (reply, (target, _, text)) in replies.iter().zip(self.0) {
            output.print(reply, [target.environment], || text)?;
        }
        Ok(Exit::Done)
    }
}
