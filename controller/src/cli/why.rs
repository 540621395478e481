//! `argus why`: explains a state as a chain of causes, on one screen.

use clap::Args;

use super::target::Target;
use super::{call, notes};
use crate::api::why;
use crate::api::why::report::format_report;
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::render::table;
use crate::settings::{Options, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Why {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    output: OutputArgs,
}

impl Why {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        let (env, service) = self.target.resolve(context.client.state())?;
        notes::note_if_not_running(context.client.state());
        let operation = why::Why {
            environment: env,
            service,
        };
        let report = call::run(&context, &operation)?;
        let services = report.chains.iter().filter_map(|chain| chain.service.as_ref());
        let names = services.map(|name| format!("{}/{name}", report.environment));
        self.output.print(&report, names, || {
            table::format_prose(&format_report(&report), output::terminal_width())
        })?;
        Ok(Exit::Done)
    }
}
