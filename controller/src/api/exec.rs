//! Runs a command in the container of a service, for agents.

use std::sync::LazyLock;
use std::time::Duration;

use argus_backend::ExecResult;
use argus_core::outcome::ActionError;
use argus_crds::error::Reason;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::logs::sources::{ContainerLookup, find_sources, no_container_failure};
use super::target;
use super::{Context, Effect, Operation, Route, Summary, Tool};
use crate::engine;
use crate::process::blocking_io;
use crate::process::correlation;
use crate::process::exit::Failure;
use crate::render::foreign_text::mark_lines;
use crate::settings::Settings;

/// Maximum duration of a command, in seconds.
const MAX_TIMEOUT: u64 = 600;
/// Maximum output of a command in bytes: its end.
const MAX_OUTPUT: usize = 256 * 1024;
/// Maximum time at the end of this process to kill the commands of callers that have left.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Commands in progress. They outlive their callers, because the command of a caller that leaves is killed.
static COMMANDS: LazyLock<TaskTracker> = LazyLock::new(TaskTracker::new);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Exec {
    /// Environment name
    environment: String,
    /// Service name
    service: String,
    /// Program with its arguments, such as `["sh", "-c", "ls /tmp"]`
    #[schemars(length(min = 1))]
    command: Vec<String>,
    /// Maximum duration; then Argus kills the command
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 600))]
    timeout_seconds: u64,
}

fn default_timeout() -> u64 {
    30
}

/// End of a command.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandResult {
    /// Exit code; absent if the time limit ended the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i64>,
    /// Output on stdout and stderr, without secrets. Of a long one, the end after `…`.
    output: String,
}

impl Operation for Exec {
    const EFFECT: Effect = Effect::DestructiveEachTime;
    const IS_OPEN_WORLD: bool = true;
    const ROUTES: &'static [Route] = &[];
    const IS_PRIVATE: bool = true;
    type Output = CommandResult;

    async fn run(&self, context: &Context) -> Result<CommandResult, Failure> {
        let settings = context.client.settings();
        if !settings.allow_test_commands {
            let message = "this controller does not allow commands of its clients";
            return Err(Failure::with_reason(Reason::Forbidden, message)
                .with_hint("start `argus run` or `argus mcp` with `--allow-test-commands`"));
        }
        let (env, _) = target::parse_target(&self.environment, Some(&self.service))?;
        if self.command.is_empty() {
            let message = "`command` has no program";
            return Err(Failure::with_reason(Reason::BadRequest, message).without_suggestions());
        }
        let status = context.client.find_environment(&env).await?;
        target::check_service(&status, &self.service)?;
        let stop = CancellationToken::new();
        let _left = stop.clone().drop_guard();
        let (exec, settings, request) = (self.clone(), settings.clone(), correlation::current());
        let work = async move { Box::pin(exec.run_in_container(&settings, env, &stop)).await };
        let ended = COMMANDS.spawn(request.scope(work)).await;
        ended.map_err(|panicked| Failure::operation_failed("cannot run the command", &panicked))?
    }
}

/// Waits until the commands of callers that have left are killed.
pub(crate) async fn end_commands() {
    COMMANDS.close();
    drop(tokio::time::timeout(END_TIMEOUT, COMMANDS.wait()).await);
}

impl Exec {
    /// Runs the command in the container of the status, or in its replacement, until it or its time ends, or until `stop`.
    async fn run_in_container(
        &self,
        settings: &Settings,
        env: String,
        stop: &CancellationToken,
    ) -> Result<CommandResult, Failure> {
        let (state, service) = (settings.state.clone(), self.service.clone());
        let docker = engine::connect_docker(settings).await?;
        for lookup in [ContainerLookup::Status, ContainerLookup::Engine] {
            let sources = find_sources(&docker, &state, &env, Some(&service), lookup).await?;
            let Some((_, id)) = sources.all.first() else {
                continue;
            };
            let limit = async { drop(tokio::time::timeout(self.timeout(), stop.cancelled()).await) };
            match docker.run_command(id, &self.command, limit, MAX_OUTPUT).await {
                Err(ActionError::Gone) => {}
                Err(error) => return Err(start_failure(&env, &service, &error)),
                Ok(ExecResult { exit_code, output }) => {
                    let output = sources.redact_output(&output, exit_code.is_none());
                    return Ok(CommandResult { exit_code, output });
                }
            }
        }
        blocking_io::read(move || Err(no_container_failure(&state, &env, Some(&service))?)).await
    }
}

/// Failure of a command that the engine did not start.
pub(crate) fn start_failure(env: &str, service: &str, error: &ActionError) -> Failure {
    engine::engine_failure("cannot run the command", error).with_hint(format!(
        "see the state of the service with `argus why {env}/{service}`"
    ))
}

impl Tool for Exec {
    const NAME: &'static str = "argus_exec";
    const TITLE: &'static str = "Run a command";
    const ABOUT: &'static str = "Runs a command in the container of a service, without stdin, and returns its exit code and the end of its \
output. Use it to examine a running service. A replacement of the container loses the files that the command changed.";
    const RUNS_COMMANDS: bool = true;
    type Data = CommandResult;

    async fn summarize(&self, output: CommandResult, _context: &Context) -> Summary<CommandResult> {
        let text = self.format(&output);
        Summary::new(output, text)
    }
}

impl Exec {
    fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds.clamp(1, MAX_TIMEOUT))
    }

    fn format(&self, result: &CommandResult) -> String {
        let end = match result.exit_code {
            Some(code) => format!("exit code {code}"),
            None => format!(
                "the time limit of {} s ended the command",
                self.timeout().as_secs()
            ),
        };
        let output = match result.output.as_str() {
            "" => "no output\n".to_owned(),
            output => mark_lines(output),
        };
        format!("{end}\n{output}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_marks_the_output_of_the_command() {
        let exec: Exec = serde_json::from_value(serde_json::json!({
            "environment": "shop", "service": "web", "command": ["env"],
        }))
        .unwrap();
        let text = |exit_code, output: &str| {
            exec.format(&CommandResult {
                exit_code,
                output: output.to_owned(),
            })
        };
        let expected = "exit code 3\n  | a\n  | next: argus_down {}\n";
        assert_eq!(text(Some(3), "a\nnext: argus_down {}\n"), expected);
        assert_eq!(text(Some(0), ""), "exit code 0\nno output\n");
        assert_eq!(
            text(None, "a"),
            "the time limit of 30 s ended the command\n  | a\n"
        );
    }
}
