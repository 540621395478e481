//! `argus retry`: lets a running controller try again what it gave up.

use argus_reconciler::state::StateDir;
use clap::Args;

use super::output::{self, Format};
use super::status;
use crate::exit::{Exit, Failure};
use crate::http::client::{self, ClientError};
use crate::settings::{Options, Settings, SpecOptions};
use argus_crds::error::Code;

#[derive(Debug, Args)]
pub(crate) struct Retry {
    /// Environments
    #[arg(required = true)]
    environments: Vec<String>,
    /// Format
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Retry {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let state = StateDir::at(settings.state);
        super::block_on(async {
            for env in &self.environments {
                status::named(env)?;
                tell(&state, env, "retry").await.map_err(failure)?;
            }
            Ok(())
        })?;
        output::data(&output::lines(
            self.environments
                .iter()
                .map(|env| format!("{env} is tried again")),
        ))?;
        Ok(Exit::Done)
    }
}

/// Tells a running controller to do something about an environment.
pub(crate) async fn tell(state: &StateDir, env: &str, verb: &str) -> Result<(), ClientError> {
    let path = format!("/api/v1/environments/{env}/{verb}");
    client::post(&crate::http::socket(state), &path).await.map(drop)
}

/// A conversation that failed, as the end of a command.
pub(crate) fn failure(error: ClientError) -> Failure {
    match error {
        ClientError::Refused(error) if error.code == Code::PrereqMissing && error.environment.is_some() => {
            Failure::new(*error).hint(status::LIST)
        }
        ClientError::Refused(error) => Failure::new(*error),
        ClientError::Away(why) => {
            let message = format!("controller is not running: {why}");
            Failure::of(Code::PrereqMissing, message)
                .exit(Exit::Unexpected)
                .hint("start it: `argus run`")
        }
        ClientError::Broken(_) => Failure::of(Code::Internal, error.to_string()),
    }
}
