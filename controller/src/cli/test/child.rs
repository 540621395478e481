//! A command as a child: what it writes is passed on and its end is kept, and it is ended with all that it started.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use argus_reconciler::clock;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::report::Attempt;
use super::suite::Case;

/// How long a command may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(5);
/// How long what it left running may go on writing after its end.
const LINGER: Duration = Duration::from_secs(1);
/// As much of the end of each stream as is kept, in bytes: an error shows half of it, after secrets are out of it.
const TAIL: usize = 8 * 1024;

/// Where a command's output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// To the streams that it wrote to.
    AsWritten,
    /// All to stderr: stdout is for a program.
    Aside,
}

/// Runs a command until it ends by itself, for `ttl` at most, or until `stop`.
pub(super) async fn run(
    case: &Case,
    variables: &BTreeMap<String, String>,
    ttl: Duration,
    output: Output,
    stop: &CancellationToken,
) -> io::Result<Attempt> {
    let began = clock::now();
    let (program, arguments) = case
        .words
        .split_first()
        .ok_or_else(|| io::Error::other("there is nothing to run"))?;
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(&case.folder)
        .envs(variables)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that all that it started ends with it.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let group = Group::of(child.id());
    let tails = (RefCell::default(), RefCell::default());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let pass_on = async {
        tokio::join!(
            pass_on(out, output == Output::Aside, &tails.0),
            pass_on(err, true, &tails.1)
        )
    };
    let mut pass_on = pin!(pass_on);
    let mut limit = pin!(tokio::time::sleep(ttl));
    let mut grace = pin!(tokio::time::sleep(ttl + GRACE));
    let (mut quiet, mut ending, mut timed_out) = (false, false, false);
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            _ = &mut pass_on, if !quiet => quiet = true,
            () = &mut limit, if !ending => {
                (ending, timed_out) = (true, true);
                group.tell(Signal::TERM);
            }
            () = stop.cancelled(), if !ending => {
                ending = true;
                grace.set(tokio::time::sleep(GRACE));
                group.tell(Signal::TERM);
            }
            () = &mut grace, if ending => {
                group.tell(Signal::KILL);
                grace.set(tokio::time::sleep(GRACE));
            }
        }
    };
    group.ended(ending);
    if !quiet {
        // What it left running may hold its output open; nobody waits for that.
        drop(tokio::time::timeout(LINGER, pass_on).await);
    }
    let text = |tail: &RefCell<Vec<u8>>| String::from_utf8_lossy(&tail.borrow()).into_owned();
    Ok(Attempt {
        exit_code: status.code(),
        signal: status.signal(),
        timed_out,
        duration: clock::now().since(began),
        during: None,
        tails: (text(&tails.0), text(&tails.1)),
    })
}

/// Passes on what is written, as it comes, and keeps the end of it.
async fn pass_on(from: Option<impl AsyncRead + Unpin>, to_stderr: bool, tail: &RefCell<Vec<u8>>) {
    let Some(mut from) = from else { return };
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let bytes = &buffer[..read];
        // Whoever closed our output does not want to see it; the command goes on.
        if to_stderr {
            drop(anstream::stderr().lock().write_all(bytes));
        } else {
            let mut out = anstream::stdout().lock();
            drop(out.write_all(bytes).and_then(|()| out.flush()));
        }
        let mut tail = tail.borrow_mut();
        tail.extend_from_slice(bytes);
        let above = tail.len().saturating_sub(TAIL);
        tail.drain(..above);
    }
}

/// The processes of a command; killed where nobody waits for them any more.
struct Group(std::cell::Cell<Option<Pid>>);

impl Group {
    fn of(leader: Option<u32>) -> Self {
        let leader = leader.and_then(|id| i32::try_from(id).ok());
        Self(std::cell::Cell::new(leader.and_then(Pid::from_raw)))
    }

    fn tell(&self, signal: Signal) {
        if let Some(group) = self.0.get() {
            // All of them may have ended already.
            let _gone = kill_process_group(group, signal);
        }
    }

    /// The leader ended: what it left running was meant to run on, unless it was made to end.
    fn ended(&self, made_to: bool) {
        if made_to {
            self.tell(Signal::KILL);
        }
        self.0.set(None);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.tell(Signal::KILL);
    }
}
