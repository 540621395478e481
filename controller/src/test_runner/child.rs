//! Runs a command as a child process: forwards its output, keeps the end of it, and terminates its whole process group.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use argus_reconciler::clock;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::job::LocalCommand;
use super::report::Attempt;
use super::suite_output::{Stream, SuiteOutput};

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// Maximum time to forward output of background processes after the command ended.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);
/// Stored bytes at the end of each stream. Errors show half of it, after redaction.
const TAIL: usize = 8 * 1024;

/// Runs a command until it ends, times out after `ttl`, or `stop` is cancelled.
pub(super) async fn run_child(
    command: &LocalCommand,
    variables: &BTreeMap<String, String>,
    ttl: Duration,
    output: &SuiteOutput<'_>,
    stop: &CancellationToken,
) -> io::Result<Attempt> {
    let started = clock::now();
    let (program, arguments) = command
        .words
        .split_first()
        .ok_or_else(|| io::Error::other("the command is empty"))?;
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(&command.folder)
        .envs(variables)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // The command gets its own process group, so that its children can be terminated with it.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let group = Group::with_leader(child.id());
    let tails = (RefCell::default(), RefCell::default());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let forward_output = async {
        tokio::join!(
            forward_output(out, output, Stream::Stdout, &tails.0),
            forward_output(err, output, Stream::Stderr, &tails.1)
        )
    };
    let mut forward_output = pin!(forward_output);
    let mut limit = pin!(tokio::time::sleep(ttl));
    let mut grace = pin!(tokio::time::sleep(ttl + GRACE));
    let (mut quiet, mut ending, mut timed_out) = (false, false, false);
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            _ = &mut forward_output, if !quiet => quiet = true,
            () = &mut limit, if !ending => {
                (ending, timed_out) = (true, true);
                group.signal(Signal::TERM);
            }
            () = stop.cancelled(), if !ending => {
                ending = true;
                grace.set(tokio::time::sleep(GRACE));
                group.signal(Signal::TERM);
            }
            () = &mut grace, if ending => {
                group.signal(Signal::KILL);
                grace.set(tokio::time::sleep(GRACE));
            }
        }
    };
    group.mark_ended(ending);
    if !quiet {
        // Background processes may keep the output open. They are not waited for.
        drop(tokio::time::timeout(OUTPUT_GRACE, forward_output).await);
    }
    let text = |tail: &RefCell<Vec<u8>>| String::from_utf8_lossy(&tail.borrow()).into_owned();
    Ok(Attempt {
        exit_code: status.code(),
        signal: status.signal(),
        tails: (text(&tails.0), text(&tails.1)),
        ..Attempt::ended(started, timed_out)
    })
}

/// Forwards a stream, and keeps its end in `tail`.
async fn forward_output(
    from: Option<impl AsyncRead + Unpin>,
    output: &SuiteOutput<'_>,
    stream: Stream,
    tail: &RefCell<Vec<u8>>,
) {
    let Some(mut from) = from else { return };
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let bytes = &buffer[..read];
        output.write(bytes, stream);
        let mut tail = tail.borrow_mut();
        tail.extend_from_slice(bytes);
        let above = tail.len().saturating_sub(TAIL);
        tail.drain(..above);
    }
}

/// Process group of a command. It is killed on drop.
struct Group(std::cell::Cell<Option<Pid>>);

impl Group {
    fn with_leader(leader: Option<u32>) -> Self {
        let leader = leader.and_then(|id| i32::try_from(id).ok());
        Self(std::cell::Cell::new(leader.and_then(Pid::from_raw)))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0.get() {
            // The group may have ended already.
            let _gone = kill_process_group(group, signal);
        }
    }

    /// Handles the end of the leader. Background processes continue, unless the command was terminated.
    fn mark_ended(&self, was_terminated: bool) {
        if was_terminated {
            self.signal(Signal::KILL);
        }
        self.0.set(None);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
