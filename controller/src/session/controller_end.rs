//! End of the controller of a state directory.

use std::io::ErrorKind;
use std::time::Duration;

use argus_reconciler::lock;
use argus_reconciler::state_dir::StateDir;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use crate::process::exit::Failure;

/// Interval of checks whether the controller has released its lock.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Time until the controller has ended, unless the command has another one.
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(60);

/// Ends the controller, and returns its process; `None` if none runs. Its containers keep running.
pub(crate) async fn end_controller(
    state: &StateDir,
    limit: Option<Duration>,
) -> Result<Option<i32>, Failure> {
    let Some(pid) = find_controller(state).await? else {
        return Ok(None);
    };
    end_process(state, pid, limit.unwrap_or(END_TIMEOUT)).await?;
    Ok(Some(pid.as_raw_nonzero().get()))
}

/// Ends the controller that [`find_controller`] found, and no newer one.
pub(super) async fn end_process(state: &StateDir, pid: Pid, limit: Duration) -> Result<(), Failure> {
    match kill_process(pid, Signal::TERM) {
        // Without the process, it has ended meanwhile.
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => return Err(Failure::operation_failed("cannot stop the controller", &error)),
    }
    timeout(limit, wait_for_end(state, pid)).await.map_err(|_| {
        let message = format!("the controller (process {pid}) has not ended");
        Failure::operation_failed("cannot stop the controller", &std::io::Error::other(message))
    })
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

/// Waits until the process has ended, or no process holds the lock of the state directory.
async fn wait_for_end(state: &StateDir, pid: Pid) {
    while lock::is_held(&state.lock()) && test_kill_process(pid) != Err(Errno::SRCH) {
        sleep(CHECK_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use argus_reconciler::lock::{Lock, LockHolder};

    use super::*;

    #[tokio::test]
    async fn newer_controller_stays_after_the_end_of_the_found_one() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::at(dir.path().join("state"));
        std::fs::create_dir_all(state.private()).unwrap();
        let mut found = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&found);
        let ended = std::thread::spawn(move || found.wait().unwrap());
        // This process took the directory after the found one.
        let newer = Lock::acquire(&state.lock(), &LockHolder::default()).unwrap();
        end_process(&state, pid, END_TIMEOUT).await.unwrap();
        assert_eq!(ended.join().unwrap().signal(), Some(Signal::TERM.as_raw()));
        drop(newer);
    }
}
