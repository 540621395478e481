//! Persisted values: JSON files with a checksum and a version, read at start and written after each change.

use std::io;
use std::path::Path;
use std::time::Duration;

use argus_core::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::journal::checksum;
use crate::quarantine::{self, Quarantined};
use crate::state_dir::write_private;
use crate::state_file;
use crate::write_batch::WriteBatch;

/// Delay between a change and its write, and its maximum while changes continue.
const BATCH_DELAYS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(400));
/// Delay after a failed write.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Version of the files.
const VERSION: u64 = 1;

/// Result of a read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loaded<T> {
    /// Value of the file; `None` if the file is missing or unusable.
    pub value: Option<T>,
    /// Quarantined file.
    pub quarantined: Option<Quarantined>,
}

/// Reads the file at `path`. An unusable file is quarantined and counts as missing.
pub fn read<T: DeserializeOwned>(path: &Path, now: Timestamp) -> Loaded<T> {
    let none = |quarantined| Loaded {
        value: None,
        quarantined,
    };
    if let Some(quarantined) = quarantine::move_unless_file(path, now) {
        return none(Some(quarantined));
    }
    match parse_file(path) {
        Ok(value) => Loaded {
            value,
            quarantined: None,
        },
        Err(why) => none(Some(quarantine::move_file(path, &why, now))),
    }
}

fn parse_file<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        schema_version: u64,
    }
    let bytes = match state_file::read(path, state_file::MAX_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
        Ok(bytes) => bytes,
    };
    if !checksum::has_valid_checksum(bytes.trim_ascii_end()) {
        return Err("its checksum does not match".to_owned());
    }
    let version: Version = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    if version.schema_version > VERSION {
        return Err(format!(
            "it has version {}, and this program supports {VERSION}",
            version.schema_version
        ));
    }
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| error.to_string())
}

/// Writes the file at `path`, and returns its size. The value is an object without a field `schemaVersion`.
///
/// # Errors
/// The file keeps its previous content.
pub fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<usize> {
    // As text: the values of a large state would take several times its size.
    let mut text = serde_json::to_string(value)?;
    if text.pop() != Some('}') {
        return Err(io::Error::other("not a JSON object"));
    }
    if text != "{" {
        text.push(',');
    }
    for part in ["\"schemaVersion\":", &VERSION.to_string(), "}"] {
        text.push_str(part);
    }
    let text = checksum::with_checksum(&text);
    write_private(path, text.as_bytes())?;
    Ok(text.len())
}

/// Result of the last write.
#[derive(Debug, Clone)]
pub struct WriteResult<T> {
    /// Value of the write.
    pub value: T,
    /// Cause of a failure; `None` on success.
    pub error: Option<String>,
}

/// Writes the changed values of `sources` until the sender is dropped, then once more. `write` gets the value and the one on disk, and
/// returns the number of written bytes. Each result is published in `saved`. `is_awaited` reports whether a client waits for the write of
/// a value that replaces another one.
pub async fn persist<S, T>(
    mut sources: watch::Receiver<S>,
    value_of: fn(&S) -> T,
    is_awaited: fn(&T, &T) -> bool,
    write: impl Fn(&T, Option<&T>) -> io::Result<usize> + Clone + Send + 'static,
    saved: Option<watch::Sender<Option<WriteResult<T>>>>,
) where
    T: Clone + PartialEq + Send + Sync + 'static,
{
    let mut on_disk: Option<T> = None;
    let mut batch = WriteBatch::new(BATCH_DELAYS.0, BATCH_DELAYS.1);
    loop {
        let is_last = sources.changed().await.is_err();
        if !is_last {
            let written = on_disk.as_ref();
            batch
                .wait(&mut sources, |source| {
                    written.is_none_or(|written| is_awaited(&value_of(source), written))
                })
                .await;
        }
        let value = value_of(&sources.borrow_and_update());
        if on_disk.as_ref() != Some(&value) {
            let (write, new, old) = (write.clone(), value.clone(), on_disk.clone());
            let written = tokio::task::spawn_blocking(move || write(&new, old.as_ref())).await;
            let outcome = written.unwrap_or_else(|error| Err(io::Error::other(error)));
            batch.on_written(*outcome.as_ref().unwrap_or(&0));
            if let Some(saved) = &saved {
                saved.send_replace(Some(WriteResult {
                    value: value.clone(),
                    error: outcome.as_ref().err().map(ToString::to_string),
                }));
            }
            match outcome {
                Ok(_) => on_disk = Some(value),
                Err(error) => {
                    tracing::error!(%error, "cannot write state");
                    if !is_last {
                        tokio::time::sleep(RETRY_DELAY).await;
                        sources.mark_changed();
                    }
                }
            }
        }
        if is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;

    type Map = BTreeMap<String, u32>;

    const NOW: Timestamp = Timestamp(1_000_000);

    #[test]
    fn corrupt_and_newer_files_are_quarantined() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        assert_eq!(read::<Map>(&path, NOW), Loaded::default(), "no file exists");
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
            let loaded = read::<Map>(&path, now);
            let quarantined = loaded.quarantined.unwrap_or_else(|| panic!("{bad} was read"));
            assert_eq!(loaded.value, None);
            assert_eq!(std::fs::read_to_string(quarantined.to.unwrap()).unwrap(), bad);
            assert!(!path.exists());
        }
        std::fs::write(&path, &good).unwrap();
        assert_eq!(read::<Value>(&path, NOW).value.unwrap()["a"], 7, "{text}");
    }

    #[test]
    fn only_objects_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        write(&path, &Map::new()).unwrap();
        assert_eq!(
            read::<Value>(&path, NOW).quarantined,
            None,
            "an empty object is readable"
        );
        for other in [Value::from(7), Value::from("}"), Value::Null] {
            assert!(write(&path, &other).is_err(), "{other}");
        }
    }

    #[tokio::test]
    async fn last_change_is_written_before_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        let (sender, receiver) = watch::channel(Map::new());
        let file = path.clone();
        let all = async {
            sender.send_replace(Map::from([("a".to_owned(), 1)]));
            sender.send_replace(Map::from([("a".to_owned(), 2)]));
            drop(sender);
        };
        tokio::join!(
            persist(
                receiver,
                Clone::clone,
                |_, _| false,
                move |value, _| write(&file, value),
                None
            ),
            all
        );
        let value = read::<Value>(&path, NOW).value.unwrap();
        assert_eq!(value["a"], 2);
    }
}
