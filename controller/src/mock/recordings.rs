//! The folder of recordings: read whole when a mock is loaded, and one file written for each pair.

use std::io;
use std::path::Path;

use argus_mock::Pair;

/// The most files that are read.
const MOST: usize = 10_000;
/// The most bytes that are read in all.
const LARGEST: u64 = 64 << 20;

/// All recordings of a folder; what is none is left out, and said.
pub(super) async fn read(folder: &Path) -> Vec<Pair> {
    let mut found = Vec::new();
    // A folder that is not there holds nothing.
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
        if found.len() >= MOST || bytes > LARGEST {
            tracing::warn!(folder = %folder.display(), "there are too many recordings, the rest is not read");
            break;
        }
        let read = tokio::fs::read(&path).await.map_err(|error| error.to_string());
        match read.and_then(|bytes| Pair::parse(&bytes)) {
            Ok(pair) => found.push(pair),
            Err(why) => tracing::warn!(file = %path.display(), why, "this is no recording"),
        }
    }
    found
}

/// Writes a recording; whoever reads at the same time finds the old one or the new one.
pub(super) async fn write(folder: &Path, pair: &Pair) -> io::Result<()> {
    tokio::fs::create_dir_all(folder).await?;
    let name = pair.file_name();
    let beside = folder.join(format!(".{name}.new"));
    tokio::fs::write(&beside, pair.to_json()).await?;
    tokio::fs::rename(&beside, folder.join(name)).await
}
