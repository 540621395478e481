//! `argus plan`: shows the planned actions with their causes.

use clap::Args;

use super::call;
use crate::api::plan;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::OutputArgs;
use crate::settings::{Options, SpecOptions};
use crate::table;

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Environment name [default: all]
    environment: Option<String>,
    #[command(flatten)]
    specs: SpecOptions,
    #[command(flatten)]
    output: OutputArgs,
}

impl Plan {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &self.specs)?;
        let environment = self.environment;
        let report = call::run(&context, &plan::Plan { environment })?;
        let names = report.environments.iter().map(|plan| &plan.environment);
        self.output.print(&report, names, || {
            table::format_prose(&report.format_text(), output::terminal_width())
        })?;
        Ok(if report.rejected {
            Exit::SpecRejected
        } else {
            Exit::Done
        })
    }
}
