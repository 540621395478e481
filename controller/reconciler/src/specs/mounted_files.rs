//! Files of bind mounts: notices their replacements and edits.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use argus_core::desired::mounted_file::MountedFile;
use argus_core::desired::{Accepted, Mount};
use argus_core::time::Timestamp;

use super::registry::SpecRegistry;
use super::scan::Stamp;

impl SpecRegistry {
    /// Compares the mounted files of all environments with the disk.
    pub(super) fn update_mounted_files(&mut self, now: Timestamp) {
        let mut is_changed = false;
        for entry in self.files.values_mut() {
            let Some(accepted) = &mut entry.accepted else {
                continue;
            };
            let files = read_files(accepted, now);
            if files != accepted.mounted_files {
                Arc::make_mut(accepted).mounted_files = files;
                is_changed = true;
            }
        }
        if is_changed {
            self.index();
        }
    }

    /// Sources of all mounts that containers can write.
    pub(super) fn writable_sources(&self) -> impl Iterator<Item = &str> {
        let accepted = self.files.values().filter_map(|entry| entry.accepted.as_deref());
        let mounts =
            accepted.flat_map(|accepted| accepted.desired.services.values().flat_map(|it| &it.mounts));
        mounts.filter_map(|mount| match mount {
            Mount::Bind {
                source, read_only, ..
            } => (!read_only).then_some(source.as_str()),
            Mount::Volume { .. } => None,
        })
    }
}

fn read_files(accepted: &Accepted, now: Timestamp) -> BTreeMap<String, MountedFile> {
    let mut files = BTreeMap::new();
    let mounts = accepted
        .desired
        .services
        .values()
        .flat_map(|service| &service.mounts);
    for mount in mounts {
        let Mount::Bind { source, .. } = mount else {
            continue;
        };
        if files.contains_key(source) {
            continue;
        }
        let known = accepted.mounted_files.get(source);
        let file = match std::fs::metadata(source) {
            Ok(meta) if meta.is_file() => {
                let file = MountedFile {
                    identity: (meta.dev(), meta.ino()),
                    modified: (meta.mtime(), meta.mtime_nsec()),
                    size: meta.size(),
                    mode: meta.mode(),
                    ..MountedFile::default()
                };
                file.after(known, Stamp::new(&meta).changed_at(), now)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                MountedFile::default().after(known, Timestamp::default(), now)
            }
            Ok(_) | Err(_) => continue,
        };
        files.insert(source.clone(), file);
    }
    files
}
