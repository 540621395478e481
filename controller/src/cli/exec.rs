//! `argus exec` and `argus shell`: run a command in the container of a service.

use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsFd;

use argus_core::outcome::ActionError;
use argus_docker::{Exec as StartedExec, ExecCommand, ExecOutput, ExecSession};
use argus_reconciler::shutdown::Signals;
use clap::Args;
use futures::StreamExt as _;
use rustix::fs::{FileType, fstat};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::io::AsyncWriteExt as _;
use tokio::signal::unix::{SignalKind, signal};

use crate::api::exec::start_failure;
use crate::api::logs::sources::{ContainerLookup, find_sources, no_container_failure};
use crate::api::target::parse_service_target;
use crate::engine;
use crate::process::exit::{Exit, Failure};
use crate::process::runtime;
use crate::render::output;
use crate::settings::{Options, Settings, SpecOptions};

/// Starts `bash` if the image has it, else `sh`.
const SHELL: &str = "command -v bash >/dev/null 2>&1 && exec bash; exec sh";

#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// Service, as ENVIRONMENT/SERVICE [default environment: the only one]
    target: String,
    /// Pass stdin to the command [default: if it is a pipe or a file, or if stdin and stdout are a terminal]; in a loop that reads a list
    /// from stdin, add `< /dev/null`
    #[arg(short, long)]
    interactive: bool,
    /// Allocate a terminal [default: if stdin and stdout are a terminal]
    #[arg(short, long)]
    tty: bool,
    /// Command with its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Shell {
    /// Service, as ENVIRONMENT/SERVICE [default environment: the only one]
    target: String,
}

impl Exec {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let is_default = !self.interactive && !self.tty && is_on_terminal();
        let tty = self.tty && std::io::stdin().is_terminal();
        if self.tty && !tty {
            output::print_note("note: stdin is not a terminal, so the command gets none");
        }
        let command = ExecCommand {
            words: self.command,
            stdin: self.interactive || is_default || is_redirected(std::io::stdin()),
            tty: tty || is_default,
        };
        execute(options, &self.target, &command)
    }
}

impl Shell {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let command = ExecCommand {
            words: ["sh", "-c", SHELL].map(str::to_owned).to_vec(),
            stdin: true,
            tty: is_on_terminal(),
        };
        execute(options, &self.target, &command)
    }
}

fn is_on_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// True for input that the caller chose for this command. A terminal and `/dev/null` are what a command inherits.
fn is_redirected(input: impl AsFd) -> bool {
    let kind = fstat(input).map(|found| FileType::from_raw_mode(found.st_mode));
    matches!(
        kind,
        Ok(FileType::Fifo | FileType::Socket | FileType::RegularFile)
    )
}

fn execute(options: &Options, target: &str, command: &ExecCommand) -> Result<Exit, Failure> {
    let settings = Settings::resolve(options, &SpecOptions::default())?;
    let (env, service) = parse_service_target(&settings.state, target)?;
    runtime::block_on(async {
        let mut signals = Signals::subscribe()
            .map_err(|error| Failure::operation_failed("cannot subscribe to signals", &error))?;
        let session = tokio::select! {
            started = start(&settings, &env, &service, command) => started?,
            () = signals.received() => return Ok(Exit::Interrupted),
        };
        let exec = session.exec.clone();
        let raw_mode = if command.tty { RawMode::enter() } else { None };
        let result = tokio::select! {
            result = forward(session, command) => result.map(Some),
            // On a terminal in raw mode, Ctrl-C is a key for the command instead.
            () = signals.received() => {
                exec.kill().await;
                Ok(None)
            }
        };
        drop(raw_mode);
        let code = result.map_err(|error| engine::engine_failure("cannot follow the command", &error))?;
        // The engine reports a code of 8 bits.
        Ok(code.map_or(Exit::Interrupted, |code| {
            Exit::Code(u8::try_from(code).unwrap_or(u8::MAX))
        }))
    })
}

/// Starts the command in the container of the status, or in its replacement.
async fn start(
    settings: &Settings,
    env: &str,
    service: &str,
    command: &ExecCommand,
) -> Result<ExecSession, Failure> {
    let state = settings.state.clone();
    let docker = engine::connect_docker(settings).await?;
    for lookup in [ContainerLookup::Status, ContainerLookup::Engine] {
        let sources = find_sources(&docker, &state, env, Some(service), lookup).await?;
        let Some((_, id)) = sources.all.first() else {
            continue;
        };
        match docker.start_exec(id, command).await {
            Err(ActionError::Gone) => {}
            result => return result.map_err(|error| start_failure(env, service, &error)),
        }
    }
    Err(no_container_failure(&state, env, Some(service))?)
}

/// Forwards the streams until the command ends, and returns its exit code.
async fn forward(session: ExecSession, command: &ExecCommand) -> Result<i64, ActionError> {
    let ExecSession {
        exec,
        mut input,
        mut output,
    } = session;
    let forward_input = async {
        if command.stdin {
            // The command can end, or close its stdin, before the input ends.
            drop(tokio::io::copy(&mut tokio::io::stdin(), &mut input).await);
            drop(input.shutdown().await);
        }
        std::future::pending::<()>().await;
    };
    let print_output = async {
        while let Some(part) = output.next().await {
            // A closed output of this process does not stop the command.
            drop(write(&part?));
        }
        Ok(())
    };
    tokio::select! {
        () = forward_input => {}
        () = follow_size(&exec), if command.tty => {}
        result = print_output => result?,
    }
    exec.exit_code().await
}

/// Writes the bytes as they are, because the command may print binary data or control its terminal.
fn write(part: &ExecOutput) -> std::io::Result<()> {
    if part.stderr {
        return std::io::stderr().lock().write_all(&part.bytes);
    }
    let mut out = std::io::stdout().lock();
    out.write_all(&part.bytes)?;
    out.flush()
}

/// Gives the terminal of the command the size of this one, now and after each change.
async fn follow_size(exec: &StartedExec) {
    let mut changes = signal(SignalKind::window_change()).ok();
    loop {
        if let Ok(size) = tcgetwinsize(std::io::stdin()) {
            // The command may have ended already.
            drop(exec.resize(size.ws_col, size.ws_row).await);
        }
        match &mut changes {
            Some(changes) => drop(changes.recv().await),
            None => std::future::pending().await,
        }
    }
}

/// Raw mode of the terminal: keys go to the command unchanged. The drop restores the earlier mode.
struct RawMode(Termios);

impl RawMode {
    fn enter() -> Option<Self> {
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self(before))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // The terminal may be closed.
        let _closed = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn pipe_socket_and_file_are_passed_on() {
        let (pipe, _writer) = std::io::pipe().unwrap();
        let (socket, _peer) = UnixStream::pair().unwrap();
        assert!(is_redirected(pipe) && is_redirected(socket));
        assert!(is_redirected(tempfile::tempfile().unwrap()));
        assert!(!is_redirected(File::open("/dev/null").unwrap()));
    }
}
