//! Blocking file I/O on a separate thread pool, so that a hanging disk delays only the requests that need it.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use argus_crds::error::{ActionId, Code, StructuredError};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::process::correlation;
use crate::process::exit::Failure;

/// Maximum number of parallel operations. The journal and the status files use threads of the same pool.
const MAX_PARALLEL: usize = 32;
/// Maximum time that a caller waits for an operation.
const READ_LIMIT: Duration = Duration::from_secs(30);

/// Runs blocking file operations on a thread of the pool.
pub(crate) async fn read<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    run_within(READ_LIMIT, work).await
}

/// As [`read`], for long operations: the token is cancelled when the caller gives up.
pub(crate) async fn read_until<T: Send + 'static>(
    work: impl FnOnce(&CancellationToken) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let stop = CancellationToken::new();
    let _end = stop.clone().drop_guard();
    read(move || work(&stop)).await
}

async fn run_within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    static READERS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(MAX_PARALLEL)));
    let request = correlation::current();
    let pooled = async {
        // The semaphore is never closed. The permit is released when the thread is free, even if the caller gives up
        // earlier.
        let permit = READERS.clone().acquire_owned().await;
        let work = move || {
            let _permit = permit;
            request.run(work)
        };
        tokio::task::spawn_blocking(work).await
    };
    match tokio::time::timeout(limit, pooled).await {
        Ok(Ok(read)) => read,
        Ok(Err(panicked)) => Err(Failure::operation_failed("cannot read", &panicked)),
        Err(_) => {
            let message = format!("timed out after {} s reading files", limit.as_secs());
            let error = StructuredError::new(Code::Timeout, message)
                .details(json!({ "operation": "reading files", "deadlineMs": limit.as_millis() }));
            let error = error.suggest(&[ActionId::RunPreflight, ActionId::FixStateDirectory]);
            Err(Failure::new(error.retry_after(5)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn hanging_read_delays_no_other_read() {
        let (answer, disk) = mpsc::channel::<u8>();
        let slow = read(move || Ok(disk.recv().unwrap()));
        let other = async { answer.send(read(|| Ok(7)).await.unwrap()).unwrap() };
        // The runtime has one thread: without the pool, the first read would wait forever for the second.
        let (slow, ()) = tokio::join!(slow, other);
        assert_eq!(slow.unwrap(), 7);
    }

    #[tokio::test]
    async fn work_is_stopped_when_its_caller_leaves() {
        let (started, starts) = tokio::sync::oneshot::channel();
        let (end, ended) = mpsc::channel();
        let call = read_until(move |stop| {
            started.send(()).unwrap();
            while !stop.is_cancelled() {
                std::thread::yield_now();
            }
            end.send(()).unwrap();
            Ok(())
        });
        tokio::select! {
            _never = call => panic!("the work ends only after its caller"),
            started = starts => started.unwrap(),
        }
        ended.recv().unwrap();
    }

    #[tokio::test]
    async fn hanging_disk_is_reported_as_timeout() {
        let (_silent, disk) = mpsc::channel::<u8>();
        let late = run_within(Duration::from_millis(50), move || Ok(disk.recv().ok())).await;
        let error = late.unwrap_err().into_error();
        assert_eq!((error.code, error.retry_after), (Code::Timeout, Some(5)));
    }
}
