//! `argus env`: prints the addresses of an environment as variables for a shell.

use argus_core::quoting::shell_quoted;
use clap::Args;

use super::{call, notes};
use crate::api::environments::GetEnvironment;
use crate::api::target::{parse_target, select_service};
use crate::local_state::status;
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::settings::{Options, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Env {
    /// Environment, or ENVIRONMENT/SERVICE
    target: String,
    #[command(flatten)]
    output: OutputArgs,
}

impl Env {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let (environment, service) = parse_target(&self.target, None)?;
        let context = call::create_context(options, &SpecOptions::default())?;
        notes::note_if_not_running(context.client.state());
        let status = call::run(&context, &GetEnvironment { environment })?;
        let status = select_service(status, service.as_deref())?;
        let variables = status::list_variables(&status);
        self.output.print(&variables, variables.keys(), || {
            let export = |(name, value): (&String, &String)| format!("export {name}={}", shell_quoted(value));
            output::join_lines(variables.iter().map(export))
        })?;
        Ok(Exit::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_value_is_one_word_for_a_shell() {
        for value in ["", "http://127.0.0.1:8080", "it's $(here) \"and\" `there`\\\n;"] {
            let script = format!("printf %s {}", shell_quoted(value));
            let output = std::process::Command::new("sh").args(["-c", &script]).output();
            assert_eq!(String::from_utf8(output.unwrap().stdout).unwrap(), value);
        }
    }
}
