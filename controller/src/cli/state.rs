//! `argus state`: the folders of the state that the current folder uses.

use clap::Args;
use serde_json::json;

use crate::process::exit::{Exit, Failure};
use crate::render::output::OutputArgs;
use crate::settings::{Options, Settings, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct State {
    #[command(flatten)]
    output: OutputArgs,
}

impl State {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let state = Settings::resolve(options, &SpecOptions::default())?.state;
        let absolute = |path: &std::path::Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let status = absolute(state.root()).display().to_string();
        let private = absolute(&state.private()).display().to_string();
        let document = json!({ "status": status, "private": private });
        self.output.print(&document, std::slice::from_ref(&private), || {
            format!("status   {status}\nprivate  {private}\n")
        })?;
        Ok(Exit::Done)
    }
}
