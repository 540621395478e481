//! Scans of the spec files that take longer than one request waits.

use std::time::Duration;

use argus_crds::error::Code;
use argus_reconciler::{Command, clock};

use super::ControllerClient;
use crate::process::exit::Failure;

/// Pause before a request is repeated.
const PAUSE: Duration = Duration::from_millis(200);

impl ControllerClient {
    /// Makes earlier edits of spec files effective.
    pub(crate) async fn sync_within(&self, limit: Duration) -> Result<(), Failure> {
        repeat_late(limit, || self.send(Command::Sync)).await.map(drop)
    }

    /// As [`Self::sync_within`]. Without a controller, and for callers without the token, only the files count.
    pub(crate) async fn sync_if_possible(&self, limit: Duration) -> Result<(), Failure> {
        if !self.is_trusted() {
            return Ok(());
        }
        match self.sync_within(limit).await {
            Err(late) if late.code() == Some(Code::Timeout) => Err(late),
            _ => Ok(()),
        }
    }
}

/// Repeats a request that ends with its timeout.
async fn repeat_late<T, R>(limit: Duration, request: impl Fn() -> R) -> Result<T, Failure>
where
    R: Future<Output = Result<T, Failure>>,
{
    let deadline = clock::now() + limit;
    loop {
        match request().await {
            Err(late) if late.code() == Some(Code::Timeout) && clock::now() < deadline => {
                tokio::time::sleep(PAUSE).await;
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn late_request_is_repeated_and_a_refused_one_ends() {
        let minute = Duration::from_secs(60);
        for (end, limit, requests) in [
            (Code::Timeout, minute, 3),
            (Code::Timeout, Duration::ZERO, 1),
            (Code::PrereqMissing, minute, 1),
        ] {
            let count = Cell::new(0);
            let result = repeat_late(limit, || async {
                count.set(count.get() + 1);
                if count.get() < 3 {
                    return Err(Failure::with_code(end, "why"));
                }
                Ok(())
            });
            assert_eq!((result.await.is_ok(), count.get()), (requests == 3, requests));
        }
    }
}
