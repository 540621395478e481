//! `argus plan`: shows the planned actions with their causes.

use clap::Args;

use super::call;
use crate::api::plan;
use crate::api::plan::report::EnvironmentPlan;
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::render::table;
use crate::settings::{Options, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Environment, or ENVIRONMENT/SERVICE [default: all]
    target: Option<String>,
    #[command(flatten)]
    specs: SpecOptions,
    #[command(flatten)]
    output: OutputArgs,
}

impl Plan {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_file_context(options, &self.specs)?;
        let operation = plan::Plan {
            environment: self.target,
            service: None,
        };
        let report = call::run(&context, &operation)?;
        let names = report.environments.iter().map(EnvironmentPlan::target);
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
