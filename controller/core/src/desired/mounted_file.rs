//! Files of the host that containers mount.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// A file of the host at the source of a bind mount. Without a file, its numbers are 0.
///
/// The mount of a running container stays with the file that was there at its start. An editor that writes a new file and renames it
/// therefore changes nothing in the container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MountedFile {
    /// Device and inode.
    pub identity: (u64, u64),
    /// Time of the last write, in seconds and nanoseconds.
    pub modified: (i64, i64),
    /// Size in bytes.
    pub size: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Time at which another file took its place. `None` if Argus saw only this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_at: Option<Timestamp>,
    /// Time at which Argus noticed its last change. `None` if Argus saw none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noticed_at: Option<Timestamp>,
}

impl MountedFile {
    /// Adds the times to the facts of a file, after the `known` facts about the same path. `placed_at` is the time of the last change
    /// of the file or of its name.
    #[must_use]
    pub fn after(self, known: Option<&Self>, placed_at: Timestamp, now: Timestamp) -> Self {
        let Some(known) = known else { return self };
        let times = Self {
            replaced_at: known.replaced_at,
            noticed_at: known.noticed_at,
            ..self
        };
        if times == *known {
            return times;
        }
        let is_replaced = self.identity != known.identity;
        Self {
            replaced_at: if is_replaced {
                Some(placed_at.min(now))
            } else {
                known.replaced_at
            },
            noticed_at: Some(now),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacement_and_edit_are_distinguished() {
        let (at, file) = (Timestamp, |inode, size| MountedFile {
            identity: (1, inode),
            size,
            ..MountedFile::default()
        });
        let first = file(7, 1).after(None, at(10), at(100));
        assert_eq!((first.replaced_at, first.noticed_at), (None, None));
        assert_eq!(file(7, 1).after(Some(&first), at(10), at(200)), first);
        let edited = file(7, 2).after(Some(&first), at(210), at(220));
        assert_eq!((edited.replaced_at, edited.noticed_at), (None, Some(at(220))));
        let replaced = file(8, 2).after(Some(&edited), at(300), at(310));
        assert_eq!(
            (replaced.replaced_at, replaced.noticed_at),
            (Some(at(300)), Some(at(310)))
        );
        let later = file(8, 3).after(Some(&replaced), at(400), at(410));
        assert_eq!(
            (later.replaced_at, later.noticed_at),
            (Some(at(300)), Some(at(410)))
        );
        let gone = MountedFile::default().after(Some(&later), at(0), at(500));
        assert_eq!(gone.noticed_at, Some(at(500)));
    }
}
