//! Folder of recordings: all files are read when a mock is loaded, and each recorded pair is written to its own file.

use std::io;
use std::path::Path;

use argus_core::quoting::PathText as _;
use argus_mock::Recording;

/// Maximum number of files.
const MAX_FILES: usize = 10_000;
/// Maximum total size, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Reads all recordings of a folder. Files without a valid recording are skipped with a warning.
pub(super) async fn read_recordings(folder: &Path) -> Vec<Recording> {
    let mut found = Vec::new();
    // A missing folder has no recordings.
    let Ok(mut entries) = tokio::fs::read_dir(folder).await else {
        return found;
    };
    let mut bytes = 0;
    while let Ok(Some(entry)) = entries.next_entry().await {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        bytes += entry.metadata().await.map_or(0, |found| found.len());
        if found.len() >= MAX_FILES || bytes > MAX_BYTES {
            tracing::warn!(folder = %folder.shown(), "too many recordings; the rest is skipped");
            break;
        }
        let read = tokio::fs::read(&path).await.map_err(|error| error.to_string());
        match read.and_then(|bytes| Recording::parse(&bytes)) {
            Ok(pair) => found.push(pair),
            Err(why) => tracing::warn!(file = %path.shown(), why, "not a valid recording"),
        }
    }
    found
}

/// Writes a recording atomically: a concurrent reader finds the old or the new one.
pub(super) async fn write_recording(folder: &Path, pair: &Recording) -> io::Result<()> {
    tokio::fs::create_dir_all(folder).await?;
    let name = pair.file_name();
    let temporary = folder.join(format!(".{name}.new"));
    tokio::fs::write(&temporary, pair.to_json()).await?;
    tokio::fs::rename(&temporary, folder.join(name)).await
}
