//! Files that outlive the process: read at start, written when what they keep changes.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::state::write_private;

/// Changes that follow each other this fast are written once.
const SETTLE: Duration = Duration::from_millis(50);
/// After a failed write the next one waits this long.
const AGAIN: Duration = Duration::from_secs(2);

/// Reads what was kept. A file that cannot be understood is put aside, said, and counts as empty.
///
/// # Errors
/// The file is there and cannot be read.
pub fn read<T: Default + DeserializeOwned>(path: &Path) -> io::Result<T> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
        Err(error) => return Err(error),
    };
    match serde_json::from_slice(&bytes) {
        Ok(kept) => Ok(kept),
        Err(error) => {
            let aside = path.with_extension("corrupt");
            tracing::error!(path = %path.display(), aside = %aside.display(), %error, "kept state is corrupt, starting without it");
            std::fs::rename(path, aside)?;
            Ok(T::default())
        }
    }
}

/// What came of the last write.
#[derive(Debug, Clone)]
pub struct Written<T> {
    /// What was to be kept.
    pub value: T,
    /// Why it was not.
    pub error: Option<String>,
}

/// Writes every change until the writer of `values` is gone, then once more, and tells what came of it.
pub async fn run<T>(
    path: PathBuf,
    mut values: watch::Receiver<T>,
    told: Option<watch::Sender<Option<Written<T>>>>,
) where
    T: Clone + PartialEq + Serialize + Send + Sync + 'static,
{
    let mut written = None;
    loop {
        let ended = values.changed().await.is_err();
        if !ended {
            tokio::time::sleep(SETTLE).await;
        }
        let value = values.borrow_and_update().clone();
        if written.as_ref() != Some(&value) {
            let outcome = write(path.clone(), value.clone()).await;
            if let Some(told) = &told {
                told.send_replace(Some(Written {
                    value: value.clone(),
                    error: outcome.as_ref().err().map(ToString::to_string),
                }));
            }
            match outcome {
                Ok(()) => written = Some(value),
                Err(error) => {
                    tracing::error!(path = %path.display(), %error, "cannot keep state");
                    if !ended {
                        tokio::time::sleep(AGAIN).await;
                        values.mark_changed();
                    }
                }
            }
        }
        if ended {
            return;
        }
    }
}

async fn write<T: Serialize + Send + 'static>(path: PathBuf, value: T) -> io::Result<()> {
    let written =
        tokio::task::spawn_blocking(move || write_private(&path, &serde_json::to_vec(&value)?)).await;
    written.unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Map = BTreeMap<String, u32>;

    #[test]
    fn a_corrupt_file_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory.json");
        assert_eq!(read::<Map>(&path).unwrap(), Map::new());
        std::fs::write(&path, "{\"a\":").unwrap();
        assert_eq!(read::<Map>(&path).unwrap(), Map::new());
        assert!(!path.exists() && dir.path().join("memory.corrupt").exists());
    }

    #[tokio::test]
    async fn the_last_change_is_written_before_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory.json");
        let (sender, receiver) = watch::channel(Map::new());
        let all = async {
            sender.send_replace(Map::from([("a".to_owned(), 1)]));
            sender.send_replace(Map::from([("a".to_owned(), 2)]));
            drop(sender);
        };
        tokio::join!(run(path.clone(), receiver, None), all);
        assert_eq!(read::<Map>(&path).unwrap(), Map::from([("a".to_owned(), 2)]));
    }
}
