//! Execution of a command inside a container.

use argus_backend::ExecResult;
use argus_core::ident::ContainerId;
use argus_core::outcome::ActionError;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use futures::StreamExt;

use crate::Shared;
use crate::call::{self, READ_TIMEOUT, WRITE_TIMEOUT};
use crate::error::{self, Op};

/// Maximum stored output, in bytes; the rest is read and discarded.
const MAX_OUTPUT_BYTES: usize = 4096;

/// Runs a command and waits for its end. The caller sets the deadline.
pub(crate) async fn run(
    shared: &Shared,
    id: &ContainerId,
    command: &[String],
) -> Result<ExecResult, ActionError> {
    let client = shared.connection.client()?;
    let options = CreateExecOptions {
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        cmd: Some(command.to_vec()),
        ..Default::default()
    };
    let created = call::run(Op::Exec, READ_TIMEOUT, client.create_exec(id.as_str(), options)).await?;
    let started = client.start_exec(&created.id, None::<StartExecOptions>);
    let mut stored = Vec::new();
    if let StartExecResults::Attached {
        mut output,
        input: _input,
    } = call::run(Op::Exec, WRITE_TIMEOUT, started).await?
    {
        while let Some(part) = output.next().await {
            let bytes = part
                .map_err(|failure| error::classify_transport(&failure))?
                .into_bytes();
            let free = MAX_OUTPUT_BYTES.saturating_sub(stored.len()).min(bytes.len());
            stored.extend_from_slice(bytes.get(..free).unwrap_or_default());
        }
    }
    let ended = call::run(Op::Exec, READ_TIMEOUT, client.inspect_exec(&created.id)).await?;
    let exit_code = ended
        .exit_code
        .ok_or_else(|| ActionError::Unknown("the engine reported no exit code".to_owned()))?;
    Ok(ExecResult {
        exit_code,
        output: String::from_utf8_lossy(&stored).into_owned(),
    })
}
