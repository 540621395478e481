//! Folder of recordings: all files are read when a mock is loaded, and each recorded pair is written to its own file.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use argus_backend::host_path::folder::Folder;
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
        let is_file = entry.file_type().await.is_ok_and(|kind| kind.is_file());
        if !is_file || path.extension().is_none_or(|extension| extension != "json") {
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

/// Writes a recording atomically: a concurrent reader finds the old or the new one. No link leads to another place.
pub(super) async fn write_recording(folder: &Path, pair: &Recording) -> io::Result<()> {
    let folder = folder.to_owned();
    let (name, text) = (OsString::from(pair.file_name()), pair.to_json());
    let write = move || Folder::create(&folder, 0o755)?.write(&name, text.as_ref(), 0o644);
    tokio::task::spawn_blocking(write).await?
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[tokio::test]
    async fn recordings_are_written_and_read_through_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (outside, kept) = (root.join("outside"), root.join("kept"));
        std::fs::write(&outside, "mine").unwrap();
        std::fs::create_dir(&kept).unwrap();
        let text = r#"{"version":1,"recordedAt":"2026-01-01T00:00:00Z","request":{"method":"GET","path":"/x"},"response":{"status":200}}"#;
        let pair = Recording::parse(text.as_bytes()).unwrap();
        let name = pair.file_name();
        for link in [name.clone(), format!(".{name}.new")] {
            symlink(&outside, kept.join(link)).unwrap();
        }
        write_recording(&kept, &pair).await.unwrap();
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "mine");
        symlink(kept.join(name), kept.join("other.json")).unwrap();
        assert_eq!(read_recordings(&kept).await, std::slice::from_ref(&pair));
        symlink(&kept, root.join("link")).unwrap();
        write_recording(&root.join("link"), &pair).await.unwrap_err();
    }
}
