//! `argus fix`: shows the change that the first error proposes, and writes it with `--yes`.

use clap::Args;

use super::call;
use crate::api::fix::{self, format_change};
use crate::api::target;
use crate::api::wait::Wait;
use crate::api::wait::goal::WaitGoal;
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::settings::{Options, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Fix {
    /// Environment name [default: the only environment]
    environment: Option<String>,
    /// Write the change, and wait until the environment is ready
    #[arg(short, long)]
    yes: bool,
    /// Also write a change that is only likely
    #[arg(long)]
    likely: bool,
    #[command(flatten)]
    output: OutputArgs,
}

impl Fix {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        let environment = match self.environment {
            Some(environment) => environment,
            None => target::find_only_environment(context.client.state())?,
        };
        let operation = fix::Fix {
            environment,
            dry_run: !self.yes,
            likely: self.likely,
        };
        let fixed = call::run(&context, &operation)?;
        self.output
            .print(&fixed, [&fixed.environment], || format_change(&fixed))?;
        if self.yes {
            let wait = Wait::new(Some(fixed.environment.clone()), WaitGoal::Ready);
            // Its progress ends with `… is Ready`.
            call::run(&context, &wait)?;
        } else {
            let likely = if fixed.is_likely() { " --likely" } else { "" };
            output::print_note(&format!(
                "write it with `argus fix {} --yes{likely}`",
                fixed.environment
            ));
        }
        Ok(Exit::Done)
    }
}
