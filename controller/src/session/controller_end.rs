//! End of the controller of a state directory.

use std::io::ErrorKind;
use std::time::Duration;

use argus_reconciler::lock;
use argus_reconciler::state_dir::StateDir;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use crate::process::exit::Failure;

/// Interval of checks whether the controller has released its lock.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Time until the controller has ended, unless the command has another one.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// Ends the controller, and returns its process; `None` if none runs. Its containers keep running.
pub(crate) async fn end_controller(
    state: &StateDir,
    limit: Option<Duration>,
) -> Result<Option<i32>, Failure> {
    let Some(pid) = find_controller(state).await? else {
        return Ok(None);
    };
    kill_process(pid, Signal::TERM)
        .map_err(|error| Failure::operation_failed("cannot stop the controller", &error))?;
    let limit = limit.unwrap_or(END_TIMEOUT);
    timeout(limit, wait_for_end(state)).await.map_err(|_| {
        let message = format!("the controller (process {pid}) has not ended");
        Failure::operation_failed("cannot stop the controller", &std::io::Error::other(message))
    })?;
    Ok(Some(pid.as_raw_nonzero().get()))
}

/// Process at the other end of the socket: the file with the process id could be older.
pub(super) async fn find_controller(state: &StateDir) -> Result<Option<Pid>, Failure> {
    let stream = match UnixStream::connect(state.socket()).await {
        Ok(stream) => stream,
        Err(error) if error.kind() == ErrorKind::PermissionDenied || lock::is_held(&state.lock()) => {
            // It starts or stops, or belongs to another user.
            return Err(Failure::operation_failed(
                "cannot connect to the controller",
                &error,
            ));
        }
        Err(_) => return Ok(None),
    };
    let peer = stream.peer_cred();
    let peer = peer.map_err(|error| Failure::operation_failed("cannot find the controller", &error))?;
    // The kernel reports 0 for a process of another container.
    let pid = peer.pid().and_then(Pid::from_raw);
    pid.map(Some).ok_or_else(|| {
        Failure::usage("the controller runs in another container").with_hint("stop its container")
    })
}

/// Waits until no process holds the lock of the state directory.
async fn wait_for_end(state: &StateDir) {
    while lock::is_held(&state.lock()) {
        sleep(CHECK_INTERVAL).await;
    }
}
