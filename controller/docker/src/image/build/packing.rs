//! The packer of a folder: a tar that is written while the engine reads it.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::image::context::Context;

/// Size of a chunk in bytes, large enough that headers do not each become a chunk.
const CHUNK_BYTES: usize = 64 * 1024;
/// Number of chunks (half a megabyte) that may wait for the engine; then the packer blocks.
const MAX_WAITING_CHUNKS: usize = 8;
/// Maximum time for a packer to end after its request has failed. A packer that runs longer was not the cause.
const PACKER_TIMEOUT: Duration = Duration::from_secs(1);

/// The packer of a build context, which runs on its own thread.
pub(super) struct Packing {
    chunks: Option<mpsc::Receiver<io::Result<Bytes>>>,
    sent: Arc<AtomicU64>,
    work: Option<JoinHandle<io::Result<()>>>,
}

impl Packing {
    pub(super) fn start(context: Context) -> Self {
        let (sender, chunks) = mpsc::channel(MAX_WAITING_CHUNKS);
        let sent = Arc::new(AtomicU64::new(0));
        let pipe = Pipe {
            sender: sender.clone(),
            sent: sent.clone(),
        };
        let work = move || {
            let packed = context.write(io::BufWriter::with_capacity(CHUNK_BYTES, pipe));
            if let Err(error) = &packed {
                // The engine would build a tar that merely ends early, so the request body must fail.
                drop(sender.blocking_send(Err(io::Error::from(error.kind()))));
            }
            packed
        };
        Self {
            chunks: Some(chunks),
            sent,
            work: Some(tokio::task::spawn_blocking(work)),
        }
    }

    /// The tar as a request body. A packing error cuts the request; [`Self::failure`] then returns that error.
    pub(super) fn stream(&mut self) -> impl futures::Stream<Item = io::Result<Bytes>> + Send + use<> {
        let chunks = self.chunks.take();
        stream::unfold(chunks, |chunks| async {
            let mut chunks = chunks?;
            let chunk = chunks.recv().await?;
            Some((chunk, Some(chunks)))
        })
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// The error of the packer; `None` when it succeeded or was not the cause of a failed request.
    pub(super) async fn failure(&mut self) -> Option<io::Error> {
        // A packer that still waits for a reader was not the cause.
        let packed = tokio::time::timeout(PACKER_TIMEOUT, self.work.take()?)
            .await
            .ok()?
            .ok()?;
        // The engine closed the pipe; its response is more precise than this error.
        packed
            .err()
            .filter(|error| error.kind() != io::ErrorKind::BrokenPipe)
    }
}

struct Pipe {
    sender: mpsc::Sender<io::Result<Bytes>>,
    sent: Arc<AtomicU64>,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let closed = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.sender
            .blocking_send(Ok(Bytes::copy_from_slice(bytes)))
            .map_err(closed)?;
        self.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
