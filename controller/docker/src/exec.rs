//! Execution of a command inside a container.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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
use crate::call;
use crate::error::{self, Op};

/// Maximum stored output of a probe, in bytes: its end, which contains the cause of a failure. A result of a probe is cut to 4 KiB together
/// with its request.
pub(crate) const MAX_PROBE_OUTPUT: usize = 3584;

/// Maximum time in which the processes of a command are killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// Variable that marks the processes of a command. The engine has no call that ends them.
const MARK: &str = "ARGUS_PROBE_ID";

/// Kills all processes with the mark `$0` in their environment, and those that they started meanwhile. The values there are separated by
/// NUL, which `grep` of `BusyBox` takes for the end of the text.
const KILL: &str = r#"for round in 1 2 3; do
  found=
  for folder in /proc/[0-9]*; do
    case "$(tr '\0' '\n' 2>/dev/null < "$folder/environ")" in
      *"$0"*) kill -9 "${folder#/proc/}" && found=1 ;;
    esac
  done
  [ -n "$found" ] || exit 0
done"#;

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
    container: ContainerId,
    mark: String,
}

impl Exec {
    /// Sets the size of the terminal.
    pub async fn resize(&self, columns: u16, rows: u16) -> Result<(), ActionError> {
        let client = self.shared.connection.client()?;
        let size = ResizeExecOptions {
            height: rows,
            width: columns,
        };
        call::run(
            Op::Exec,
            self.shared.times.read,
            client.resize_exec(&self.id, size),
        )
        .await
    }

    /// Exit code of the command after its end.
    pub async fn exit_code(&self) -> Result<i64, ActionError> {
        let client = self.shared.connection.client()?;
        let ended = call::run(Op::Exec, self.shared.times.read, client.inspect_exec(&self.id)).await?;
        ended
            .exit_code
            .ok_or_else(|| ActionError::Unknown("the engine reported no exit code".to_owned()))
    }

    /// Kills the processes of the command. An image without `sh` and `tr` keeps them.
    pub async fn kill(&self) {
        kill(&self.shared, &self.container, &self.mark).await;
    }
}

/// Starts a command.
pub(crate) async fn start(
    shared: &Arc<Shared>,
    id: &ContainerId,
    command: &ExecCommand,
) -> Result<ExecSession, ActionError> {
    start_marked(shared, id, command, create_mark(shared)).await
}

/// Starts a command whose processes have a mark.
async fn start_marked(
    shared: &Arc<Shared>,
    id: &ContainerId,
    command: &ExecCommand,
    mark: String,
) -> Result<ExecSession, ActionError> {
    let client = shared.connection.client()?;
    let options = CreateExecOptions {
        attach_stdin: Some(command.stdin),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(command.tty),
        cmd: Some(command.words.clone()),
        env: Some(vec![mark.clone()]),
        ..Default::default()
    };
    let created = call::run(
        Op::Exec,
        shared.times.read,
        client.create_exec(id.as_str(), options),
    )
    .await?;
    let options = StartExecOptions {
        tty: command.tty,
        ..Default::default()
    };
    let started = client.start_exec(&created.id, Some(options));
    match call::run(Op::Exec, shared.times.write, started).await? {
        StartExecResults::Attached { output, input } => Ok(ExecSession {
            exec: Exec {
                shared: shared.clone(),
                id: created.id,
                container: id.clone(),
                mark,
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

/// Runs a command and waits for its end, or for that of `limit`. Then its processes are killed. Of its output, the last `max_output` bytes
/// are stored.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    id: &ContainerId,
    command: &[String],
    limit: impl Future<Output = ()> + Send,
    max_output: usize,
) -> Result<ExecResult, ActionError> {
    let mark = create_mark(shared);
    let mut stored = Output::new(max_output);
    let run = Box::pin(run_marked(shared, id, command, mark.clone(), &mut stored));
    let exit_code = tokio::select! {
        biased;
        exit_code = run => Some(exit_code?),
        () = limit => None,
    };
    if exit_code.is_none() {
        kill(shared, id, &mark).await;
    }
    Ok(ExecResult {
        exit_code,
        output: stored.end(),
    })
}

/// Kills the processes with this mark.
async fn kill(shared: &Arc<Shared>, id: &ContainerId, mark: &str) {
    let command = ["sh", "-c", KILL, mark].map(str::to_owned);
    let mut discarded = Output::new(0);
    let kill = Box::pin(run_marked(
        shared,
        id,
        &command,
        create_mark(shared),
        &mut discarded,
    ));
    match tokio::time::timeout(KILL_TIMEOUT, kill).await {
        Ok(Ok(0)) => {}
        // Without a shell, the command ends on its own or with its container.
        result => tracing::debug!(container = %id, ?result, "cannot kill a command"),
    }
}

/// Returns a mark that no other process has.
fn create_mark(shared: &Shared) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // The dot at its end keeps it from being the start of another mark.
    format!("{MARK}={}.{}.{count}.", std::process::id(), (shared.now)().0)
}

/// Runs a command to its end, and stores the end of its output. Returns its exit code.
async fn run_marked(
    shared: &Arc<Shared>,
    id: &ContainerId,
    command: &[String],
    mark: String,
    stored: &mut Output,
) -> Result<i64, ActionError> {
    let command = ExecCommand {
        words: command.to_vec(),
        stdin: false,
        tty: false,
    };
    let ExecSession {
        exec,
        input: _input,
        mut output,
    } = start_marked(shared, id, &command, mark).await?;
    while let Some(part) = output.next().await {
        stored.add(&part?);
    }
    exec.exit_code().await
}

/// The end of an output. The engine reads the two streams independently, so the last part is not always the last text.
struct Output {
    /// Ends of all parts in their order, of stdout and of stderr.
    tails: [Vec<u8>; 3],
    max: usize,
}

impl Output {
    fn new(max: usize) -> Self {
        let tails = [const { Vec::new() }; 3];
        Self { tails, max }
    }

    fn add(&mut self, part: &ExecOutput) {
        for at in [0, 1 + usize::from(part.stderr)] {
            let tail = &mut self.tails[at];
            tail.extend_from_slice(&part.bytes);
            // One more byte shows that the start is missing.
            let excess = tail.len().saturating_sub(self.max + 1);
            tail.drain(..excess);
        }
    }

    /// Returns the end as text. If not all of it fits, stderr follows stdout, and has at most half of it, or what stdout leaves.
    fn end(&self) -> String {
        let [all, stdout, stderr] = &self.tails;
        if all.len() <= self.max || stdout.is_empty() || stderr.is_empty() {
            return end_of(all, self.max);
        }
        let share = self.max.saturating_sub(stderr.len()).max(self.max / 2);
        let mut text = end_of(stdout, share);
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text + &end_of(stderr, self.max - stdout.len().min(share))
    }
}

/// The last bytes as text. Without its start, it begins with `…`.
fn end_of(bytes: &[u8], max: usize) -> String {
    let start = bytes.len().saturating_sub(max);
    if start == 0 {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let is_start = |byte: &u8| byte & 0b1100_0000 != 0b1000_0000;
    let rest = &bytes[start..];
    let first = rest.iter().position(is_start).unwrap_or(0);
    format!("…{}", String::from_utf8_lossy(&rest[first..]))
}

#[cfg(test)]
#[path = "exec_tests.rs"]
mod tests;
