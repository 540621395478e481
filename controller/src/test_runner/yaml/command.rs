//! Commands of suites in containers.

use std::future::Future;
use std::time::Duration;

use argus_core::ident::ContainerId;
use argus_core::outcome::ActionError;
use argus_docker::{Docker, ExecCommand, ExecSession};
use argus_suite::{CommandOutput, ContainerCommand};
use futures::StreamExt as _;

/// Maximum size of each output stream, in bytes.
const MAX_OUTPUT: usize = 1 << 20;
/// Silence of the output after which the end of the command is checked, because background processes can keep the output
/// open.
const SILENCE: Duration = Duration::from_millis(500);

/// Runs a command in the container that `find` returns. It is found again if it was replaced.
pub(super) async fn run<F>(
    docker: &Docker,
    find: impl Fn() -> F,
    name: &str,
    command: &ContainerCommand,
) -> CommandOutput
where
    F: Future<Output = Option<ContainerId>>,
{
    let failed = |reason: String| CommandOutput {
        exit_code: 1,
        stdout: String::new(),
        stderr: reason,
    };
    let attempts = async {
        for _ in 0..2 {
            let Some(id) = find().await else { break };
            match run_in(docker, &id, command).await {
                Err(ActionError::Gone) => {}
                Err(error) => return failed(error.to_string()),
                Ok(output) => return output,
            }
        }
        failed(format!("the container `{name}` does not exist"))
    };
    let ended = tokio::time::timeout(command.limit, attempts).await;
    ended.unwrap_or_else(|_| {
        let limit = humantime::format_duration(command.limit);
        failed(format!("the command did not end within {limit}"))
    })
}

async fn run_in(
    docker: &Docker,
    id: &ContainerId,
    command: &ContainerCommand,
) -> Result<CommandOutput, ActionError> {
    let command = ExecCommand {
        words: command.words.clone(),
        stdin: false,
        tty: false,
    };
    let ExecSession {
        exec,
        input: _input,
        mut output,
    } = docker.start_exec(id, &command).await?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut ended = None;
    while ended.is_none() {
        match tokio::time::timeout(SILENCE, output.next()).await {
            Ok(None) => break,
            Ok(Some(part)) => {
                let part = part?;
                let stream: &mut Vec<u8> = if part.stderr { &mut stderr } else { &mut stdout };
                let free = MAX_OUTPUT.saturating_sub(stream.len()).min(part.bytes.len());
                stream.extend_from_slice(&part.bytes[..free]);
            }
            // A running command has no exit code.
            Err(_) => ended = exec.exit_code().await.ok(),
        }
    }
    let exit_code = match ended {
        Some(code) => code,
        None => exec.exit_code().await?,
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(CommandOutput {
        exit_code,
        stdout: text(stdout),
        stderr: text(stderr),
    })
}
