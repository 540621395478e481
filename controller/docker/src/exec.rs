//! Execution of a command inside a container.

use std::pin::Pin;
use std::sync::Arc;

use argus_backend::ExecResult;
use argus_core::ident::ContainerId;
use argus_core::outcome::ActionError;
use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, ResizeExecOptions, StartExecOptions, StartExecResults};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::io::AsyncWrite;

use crate::Shared;
use crate::call::{self, READ_TIMEOUT, WRITE_TIMEOUT};
use crate::error::{self, Op};

/// Maximum stored output, in bytes; the rest is read and discarded.
const MAX_OUTPUT_BYTES: usize = 4096;

/// Command to run in a container.
#[derive(Debug, Clone)]
pub struct ExecCommand {
    /// Program and its arguments.
    pub words: Vec<String>,
    /// True to attach stdin.
    pub stdin: bool,
    /// True to allocate a terminal.
    pub tty: bool,
}

/// A running command with its streams.
pub struct ExecSession {
    /// Reference to the command.
    pub exec: Exec,
    /// Stdin of the command. A shutdown closes it.
    pub input: Pin<Box<dyn AsyncWrite + Send>>,
    /// Output of the command, until it ends.
    pub output: BoxStream<'static, Result<ExecOutput, ActionError>>,
}

/// A part of the output.
#[derive(Debug, Clone)]
pub struct ExecOutput {
    /// True for stderr. A terminal has only stdout.
    pub stderr: bool,
    /// Bytes as the command wrote them.
    pub bytes: Bytes,
}

/// Reference to a started command.
#[derive(Clone)]
pub struct Exec {
    shared: Arc<Shared>,
    id: String,
}

impl Exec {
    /// Sets the size of the terminal.
    pub async fn resize(&self, columns: u16, rows: u16) -> Result<(), ActionError> {
        let client = self.shared.connection.client()?;
        let size = ResizeExecOptions {
            height: rows,
            width: columns,
        };
        call::run(Op::Exec, READ_TIMEOUT, client.resize_exec(&self.id, size)).await
    }

    /// Exit code of the command after its end.
    pub async fn exit_code(&self) -> Result<i64, ActionError> {
        let client = self.shared.connection.client()?;
        let ended = call::run(Op::Exec, READ_TIMEOUT, client.inspect_exec(&self.id)).await?;
        ended
            .exit_code
            .ok_or_else(|| ActionError::Unknown("the engine reported no exit code".to_owned()))
    }
}

/// Starts a command.
pub(crate) async fn start(
    shared: &Arc<Shared>,
    id: &ContainerId,
    command: &ExecCommand,
) -> Result<ExecSession, ActionError> {
    let client = shared.connection.client()?;
    let options = CreateExecOptions {
        attach_stdin: Some(command.stdin),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(command.tty),
        cmd: Some(command.words.clone()),
        ..Default::default()
    };
    let created = call::run(Op::Exec, READ_TIMEOUT, client.create_exec(id.as_str(), options)).await?;
    let options = StartExecOptions {
        tty: command.tty,
        ..Default::default()
    };
    let started = client.start_exec(&created.id, Some(options));
    match call::run(Op::Exec, WRITE_TIMEOUT, started).await? {
        StartExecResults::Attached { output, input } => Ok(ExecSession {
            exec: Exec {
                shared: shared.clone(),
                id: created.id,
            },
            input,
            output: output.map(convert_output).boxed(),
        }),
        StartExecResults::Detached => Err(ActionError::Unknown("the engine returned no streams".to_owned())),
    }
}

fn convert_output(part: Result<LogOutput, bollard::errors::Error>) -> Result<ExecOutput, ActionError> {
    let part = part.map_err(|failure| error::classify_transport(&failure))?;
    Ok(ExecOutput {
        stderr: matches!(part, LogOutput::StdErr { .. }),
        bytes: part.into_bytes(),
    })
}

/// Runs a command and waits for its end. The caller sets the deadline.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    id: &ContainerId,
    command: &[String],
) -> Result<ExecResult, ActionError> {
    let command = ExecCommand {
        words: command.to_vec(),
        stdin: false,
        tty: false,
    };
    let ExecSession {
        exec,
        input: _input,
        mut output,
    } = start(shared, id, &command).await?;
    let mut stored = Vec::new();
    while let Some(part) = output.next().await {
        let bytes = part?.bytes;
        let free = MAX_OUTPUT_BYTES.saturating_sub(stored.len()).min(bytes.len());
        stored.extend_from_slice(bytes.get(..free).unwrap_or_default());
    }
    Ok(ExecResult {
        exit_code: exec.exit_code().await?,
        output: String::from_utf8_lossy(&stored).into_owned(),
    })
}
