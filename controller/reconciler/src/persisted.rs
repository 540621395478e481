//! Files that outlive the process: read at start, written when what they keep changes.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_core::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::journal::checksum;
use crate::journal::quarantine::{self, Quarantined};
use crate::state_dir::write_private;

/// Changes that follow each other this fast are written once.
const SETTLE: Duration = Duration::from_millis(50);
/// After a failed write the next one waits this long.
const AGAIN: Duration = Duration::from_secs(2);

/// The version of the files.
const VERSION: u64 = 1;
/// A file that is larger than any that we wrote is not read into memory.
const LARGEST: u64 = 256 * 1024 * 1024;

/// What was kept, and what could not be read of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loaded<T> {
    /// What was kept; `None` where nothing was, or nothing that can be understood.
    pub value: Option<T>,
    /// What was put aside.
    pub quarantined: Option<Quarantined>,
}

/// Reads what was kept. What cannot be understood is put aside, said, and counts as nothing.
pub fn read<T: DeserializeOwned>(path: &Path, now: Timestamp) -> Loaded<T> {
    let none = |aside| Loaded {
        value: None,
        quarantined: aside,
    };
    if let Some(aside) = quarantine::unless_file(path, now) {
        return none(Some(aside));
    }
    match understood(path) {
        Ok(kept) => Loaded {
            value: kept,
            quarantined: None,
        },
        Err(why) => none(Some(quarantine::set(path, &why, now))),
    }
}

fn understood<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        schema_version: u64,
    }
    let told = |error: io::Error| error.to_string();
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(told(error)),
        Ok(meta) if meta.len() > LARGEST => return Err("it is larger than any that was written".to_owned()),
        Ok(_) => {}
    }
    let bytes = std::fs::read(path).map_err(told)?;
    if !checksum::is_sound(bytes.trim_ascii_end()) {
        return Err("it is not as it was written".to_owned());
    }
    let version: Version = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    if version.schema_version > VERSION {
        return Err(format!(
            "it is of version {}, and this program knows {VERSION}",
            version.schema_version
        ));
    }
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| error.to_string())
}

/// Writes what is to be kept.
///
/// # Errors
/// The file stays as it was.
pub fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let mut object = serde_json::to_value(value)?;
    if let Some(object) = object.as_object_mut() {
        object.insert("schemaVersion".to_owned(), VERSION.into());
    }
    write_private(path, checksum::with_checksum(&object.to_string()).as_bytes())
}

/// What came of the last write.
#[derive(Debug, Clone)]
pub struct Saved<T> {
    /// What was to be kept.
    pub value: T,
    /// Why it was not.
    pub error: Option<String>,
}

/// Writes every change until the writer of `values` is gone, then once more, and tells what came of it.
pub async fn persist<T>(
    path: PathBuf,
    mut values: watch::Receiver<T>,
    told: Option<watch::Sender<Option<Saved<T>>>>,
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
            let outcome = written_at(path.clone(), value.clone()).await;
            if let Some(told) = &told {
                told.send_replace(Some(Saved {
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

async fn written_at<T: Serialize + Send + 'static>(path: PathBuf, value: T) -> io::Result<()> {
    let written = tokio::task::spawn_blocking(move || write(&path, &value)).await;
    written.unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;

    type Map = BTreeMap<String, u32>;

    const NOW: Timestamp = Timestamp(1_000_000);

    #[test]
    fn what_is_not_as_it_was_written_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        assert_eq!(read::<Map>(&path, NOW), Loaded::default(), "nothing was kept");
        write(&path, &Map::from([("a".to_owned(), 7)])).unwrap();
        let good = std::fs::read(&path).unwrap();
        let text = std::str::from_utf8(&good).unwrap().to_owned();
        let newer = checksum::with_checksum("{\"a\":7,\"schemaVersion\":2}");
        let other = checksum::with_checksum("{\"a\":\"text\",\"schemaVersion\":1}");
        let bad = [
            "",
            "{}",
            "\0\0\0",
            &text[1..],
            &text.replace(":7", ":8"),
            &newer,
            &other,
        ];
        for (second, bad) in bad.into_iter().enumerate() {
            std::fs::write(&path, bad).unwrap();
            let now = NOW + Duration::from_secs(second as u64);
            let reading = read::<Map>(&path, now);
            let aside = reading.quarantined.unwrap_or_else(|| panic!("{bad} was read"));
            assert_eq!(reading.value, None);
            assert_eq!(std::fs::read_to_string(aside.to.unwrap()).unwrap(), bad);
            assert!(!path.exists());
        }
        std::fs::write(&path, &good).unwrap();
        assert_eq!(read::<Value>(&path, NOW).value.unwrap()["a"], 7, "{text}");
    }

    #[tokio::test]
    async fn the_last_change_is_written_before_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        let (sender, receiver) = watch::channel(Map::new());
        let all = async {
            sender.send_replace(Map::from([("a".to_owned(), 1)]));
            sender.send_replace(Map::from([("a".to_owned(), 2)]));
            drop(sender);
        };
        tokio::join!(persist(path.clone(), receiver, None), all);
        let kept = read::<Value>(&path, NOW).value.unwrap();
        assert_eq!(kept["a"], 2);
    }
}
