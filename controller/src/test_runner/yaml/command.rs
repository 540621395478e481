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

/// Runs a command in the container that `find` returns. It is found again if it was replaced. Without a container, the
/// output is the failure.
///
/// # Errors
/// The engine cannot run the command, or the command exceeds its time limit.
pub(super) async fn run<F>(
    docker: &Docker,
    find: impl Fn() -> F,
    name: &str,
    command: &ContainerCommand,
) -> Result<CommandOutput, String>
where
    F: Future<Output = Option<ContainerId>>,
{
    let attempts = async {
        for _ in 0..2 {
            let Some(id) = find().await else { break };
            match run_in(docker, &id, command).await {
                Err(ActionError::Gone) => {}
                Err(error) => return Err(error.to_string()),
                Ok(output) => return Ok(output),
            }
        }
        Ok(CommandOutput::failed(format!(
            "the container `{name}` does not exist"
        )))
    };
    let ended = tokio::time::timeout(command.limit, attempts).await;
    ended.unwrap_or_else(|_| {
        let limit = humantime::format_duration(command.limit);
        Err(format!("the command did not end within {limit}"))
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
    let mut streams = Streams::default();
    let mut ended = None;
    while ended.is_none() {
        match tokio::time::timeout(SILENCE, output.next()).await {
            Ok(None) => break,
            Ok(Some(part)) => {
                let part = part?;
                if !streams.push(part.stderr, &part.bytes) {
                    return Ok(streams.exceeded());
                }
            }
            // A running command has no exit code.
            Err(_) => ended = exec.exit_code().await.ok(),
        }
    }
    let exit_code = match ended {
        Some(code) => code,
        None => exec.exit_code().await?,
    };
    Ok(streams.into_output(exit_code))
}

/// Output of a command until now.
#[derive(Default)]
struct Streams {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Streams {
    /// Adds a part. Returns false if the stream is larger than [`MAX_OUTPUT`].
    fn push(&mut self, is_stderr: bool, bytes: &[u8]) -> bool {
        let stream = if is_stderr {
            &mut self.stderr
        } else {
            &mut self.stdout
        };
        let free = MAX_OUTPUT - stream.len();
        stream.extend_from_slice(&bytes[..free.min(bytes.len())]);
        bytes.len() <= free
    }

    fn into_output(self, exit_code: i64) -> CommandOutput {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        CommandOutput {
            exit_code,
            stdout: text(self.stdout),
            stderr: text(self.stderr),
            is_cut: false,
        }
    }

    /// A partial output fails, because a condition on missing text would hold.
    fn exceeded(self) -> CommandOutput {
        CommandOutput {
            stderr: "the output exceeds 1 MiB".to_owned(),
            is_cut: true,
            ..self.into_output(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_above_the_limit_fails_with_its_beginning() {
        let mut streams = Streams::default();
        assert!(streams.push(true, b"warning"));
        assert!(streams.push(false, &vec![b'x'; MAX_OUTPUT]));
        assert!(!streams.push(false, b"y"));
        let output = streams.exceeded();
        assert_eq!((output.exit_code, output.stdout.len()), (1, MAX_OUTPUT));
        assert!(output.is_cut);
        assert_eq!(output.stderr, "the output exceeds 1 MiB");
    }
}
