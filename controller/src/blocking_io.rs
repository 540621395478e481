//! Files are read apart from all else that goes on: a disk that hangs holds up those who ask it, and nobody beside them.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use argus_crds::error::{ActionId, Code, StructuredError};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::exit::Failure;

/// Reads at once. Threads that wait for a disk are few: the journal's and the status files' are of the same kind.
const AT_ONCE: usize = 32;
/// Longer than this nobody waits for an answer.
const READ_LIMIT: Duration = Duration::from_secs(30);

/// Does what reads (or writes) files on a thread that may wait for them.
pub(crate) async fn read<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    within(READ_LIMIT, work).await
}

async fn within<T: Send + 'static>(
    patience: Duration,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    static READERS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(AT_ONCE)));
    let apart = async {
        // Never closed; held until the thread is free again, and not only until nobody waits for it any more.
        let permit = READERS.clone().acquire_owned().await;
        let work = move || {
            let _permit = permit;
            work()
        };
        tokio::task::spawn_blocking(work).await
    };
    match tokio::time::timeout(patience, apart).await {
        Ok(Ok(read)) => read,
        Ok(Err(died)) => Err(Failure::fault("cannot read", &died)),
        Err(_) => {
            let message = format!("the files did not answer within {} s", patience.as_secs());
            let error = StructuredError::new(Code::Timeout, message)
                .details(json!({ "doing": "reading files", "deadlineMs": patience.as_millis() }));
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
    async fn who_waits_for_a_disk_holds_up_nobody_else() {
        let (answer, disk) = mpsc::channel::<u8>();
        let slow = read(move || Ok(disk.recv().unwrap()));
        let other = async { answer.send(read(|| Ok(7)).await.unwrap()).unwrap() };
        // There is one thread for both: the first would wait for ever for the second.
        let (slow, ()) = tokio::join!(slow, other);
        assert_eq!(slow.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_disk_that_never_answers_is_said() {
        let (_silent, disk) = mpsc::channel::<u8>();
        let late = within(Duration::from_millis(50), move || Ok(disk.recv().ok())).await;
        let error = late.unwrap_err().into_error();
        assert_eq!((error.code, error.retry_after), (Code::Timeout, Some(5)));
    }
}
