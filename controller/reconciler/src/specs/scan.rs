//! Scan of the specs folder: lists the spec files, and reads those that changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, FileType, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use argus_backend::host_path::{FileId, Resolved, resolve};
use argus_core::quoting::{PathText as _, shell_path};
use argus_core::time::Timestamp;
use argus_crds::yaml;
use sha2::{Digest, Sha256};

use super::filesystem;
use super::location::HostAccess;
use super::source::SpecSource;
use super::symlinks::{self, SymlinkPolicy};

pub use super::symlinks::{RefusedLink, SpecPathError};
pub use argus_core::desired::excluded::is_spec_name;

/// Longest spec file that is read.
pub const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Maximum number of spec files.
pub const MAX_FILES: usize = 5_000;
/// Maximum number of YAML files without the name of a spec file that are inspected.
pub(super) const MAX_OTHERS: usize = 100;

/// Contents of a file with their hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Bytes of the file.
    pub bytes: Arc<[u8]>,
    /// SHA-256 of the bytes.
    pub hash: [u8; 32],
}

impl Text {
    /// Computes the hash of the bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        let hash = Sha256::digest(&bytes).into();
        Self {
            bytes: bytes.into(),
            hash,
        }
    }
}

/// Metadata of a file before its read. Equal stamps mean equal contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    dev: u64,
    ino: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    size: u64,
}

impl Stamp {
    /// Stamp of this metadata.
    pub(super) fn new(meta: &Metadata) -> Self {
        Self {
            dev: meta.dev(),
            ino: meta.ino(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
            size: meta.size(),
        }
    }

    /// Time of the last change of the file or its metadata, which no process can set.
    pub(super) fn changed_at(self) -> Timestamp {
        let (seconds, nanos) = self.changed;
        Timestamp(seconds.saturating_mul(1_000).saturating_add(nanos / 1_000_000))
    }
}

/// Result of the read of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// Complete contents.
    Text(Text),
    /// Size in bytes of a file that is longer than [`MAX_FILE_BYTES`].
    TooLong(u64),
    /// Cause why an existing file cannot be read.
    Unreadable(String),
    /// The file is reached by a link that is not followed.
    Link(RefusedLink),
    /// Type of an object that is not a file, such as `directory`.
    NotFile(&'static str),
    /// The path contains a control character, so the file is not read.
    BadName,
}

/// Reason why a file with [`Contents::BadName`] is refused.
pub const BAD_NAME: &str = "its name contains a line break or another control character";

/// Returns true if a path contains a control character. Each report of such a file could contain lines of its author.
pub fn is_bad_name(path: &Path) -> bool {
    path.to_string_lossy().contains(char::is_control)
}

/// Result of one scan of the whole folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scan {
    /// Spec files by path relative to the folder.
    pub files: BTreeMap<PathBuf, Contents>,
    /// Path without links of each spec file, as of the check of its links.
    pub resolved: BTreeMap<PathBuf, PathBuf>,
    /// Time of the last change of each file on a local file system, unless the file changed during its read.
    pub changed_at: BTreeMap<PathBuf, Timestamp>,
    /// Folders whose changes matter (the specs folder, its subfolders and the folders of linked files) with their
    /// identities: a folder that was replaced is another one.
    pub folders: BTreeMap<PathBuf, FileId>,
    /// Subfolders that could not be listed, so their files are unknown.
    pub unlisted: BTreeMap<PathBuf, String>,
    /// True if there are more files than [`MAX_FILES`], so a file outside `files` may exist.
    pub too_many: bool,
    /// Names of files with an environment at the top of the folder that do not have the name of a spec file, so they are ignored.
    pub misnamed: BTreeSet<String>,
}

impl Scan {
    /// Returns the reasons why parts of the folder are not read.
    pub(super) fn notes(&self, specs: &Path) -> Vec<String> {
        let unlisted = self.unlisted.iter();
        let unlisted =
            unlisted.map(|(folder, why)| format!("folder `{}` cannot be read: {why}", folder.shown()));
        let too_many = self
            .too_many
            .then(|| format!("more than {MAX_FILES} spec files, the rest is ignored"));
        let misnamed = self.misnamed.iter().filter_map(|name| {
            let (stem, ending) = name.rsplit_once('.')?;
            let renamed = specs.join(format!("{stem}.e2e.{ending}"));
            let is_free = renamed.symlink_metadata().is_err();
            is_free.then(|| {
                let shown = Path::new(name).shown();
                let (from, to) = (shell_path(specs.join(name)), shell_path(&renamed));
                format!(
                    "`{shown}` is ignored, because a spec file is named `e2e.yaml` or `NAME.e2e.yaml`; rename it with `mv -n -- {from} {to}`"
                )
            })
        });
        unlisted.chain(too_many).chain(misnamed).collect()
    }
}

/// Scanner with the results of the last reads.
#[derive(Debug)]
pub struct Scanner {
    source: SpecSource,
    access: HostAccess,
    read: BTreeMap<PathBuf, (Stamp, Contents)>,
    /// YAML files without the name of a spec file; true for an environment.
    inspected: BTreeMap<String, (Stamp, bool)>,
}

impl Scanner {
    /// Creates a scanner for the files of this source.
    pub fn new(source: SpecSource, access: HostAccess) -> Self {
        Self {
            source,
            access,
            read: BTreeMap::new(),
            inspected: BTreeMap::new(),
        }
    }

    /// Scans the folder. A file for which `again` returns true is read even if its stamp is unchanged.
    ///
    /// # Errors
    /// The specs folder itself is missing or cannot be listed.
    pub fn scan(&mut self, again: impl Fn(&Path) -> bool) -> io::Result<Scan> {
        let mut scan = Scan::default();
        let symlinks = SymlinkPolicy::below(&self.source.folder, &self.access);
        let mut found = Vec::new();
        let mut folders = Vec::new();
        self.source
            .list(Path::new(""), &mut found, Some(&mut folders), &mut scan)?;
        folders.sort();
        for folder in folders {
            match symlinks.resolve(&folder) {
                Ok(resolved) if self.source.is_state(&resolved.path) => continue,
                Ok(_) => {}
                Err(why) => {
                    scan.unlisted.insert(folder, why.to_string());
                    continue;
                }
            }
            match self.source.list(&folder, &mut found, None, &mut scan) {
                Ok(()) => {}
                // The folder was removed between the two lists. A broken link still exists.
                Err(_) if std::fs::symlink_metadata(self.source.folder.join(&folder)).is_err() => {}
                Err(error) => drop(scan.unlisted.insert(folder, error.to_string())),
            }
        }
        found.sort();
        scan.too_many = found.len() > MAX_FILES;
        found.truncate(MAX_FILES);
        let mut read = BTreeMap::new();
        for path in found {
            if is_bad_name(&path) {
                // From here on, the file has its name for people.
                scan.files
                    .insert(path.shown().to_string().into(), Contents::BadName);
                continue;
            }
            let known = self.read.get(&path).filter(|_| !again(&path));
            let resolved = symlinks.resolve(&path);
            let target = resolved.as_ref().ok().map(|resolved| resolved.path.clone());
            if let Some(entry) = read_entry(&self.source.folder.join(&path), resolved, known) {
                let folder = folder_of(target.as_ref());
                if let Some(folder) = folder.filter(|folder| !self.source.is_state(folder)) {
                    watch_target(folder, &mut scan.folders);
                }
                let is_local = || folder_of(target.as_ref()).is_some_and(filesystem::is_local);
                if is_unchanged_since(&self.source.folder.join(&path), entry.0) && is_local() {
                    scan.changed_at.insert(path.clone(), entry.0.changed_at());
                }
                scan.resolved.extend(target.map(|target| (path.clone(), target)));
                scan.files.insert(path.clone(), entry.1.clone());
                read.insert(path, entry);
            }
        }
        self.read = read;
        self.inspect_others(&mut scan.misnamed, &symlinks);
        Ok(scan)
    }

    /// Restricts the names to those of environments. Reads only files that changed.
    fn inspect_others(&mut self, names: &mut BTreeSet<String>, symlinks: &SymlinkPolicy) {
        let mut known = std::mem::take(&mut self.inspected);
        names.retain(|name| {
            let meta = std::fs::metadata(self.source.folder.join(name)).ok();
            let Some(stamp) = meta.filter(Metadata::is_file).map(|meta| Stamp::new(&meta)) else {
                return false;
            };
            let known = known.remove(name).filter(|(known, _)| *known == stamp);
            let (_, is_environment) = known.unwrap_or_else(|| {
                let file = symlinks.resolve(Path::new(name)).ok();
                let file = file.and_then(|resolved| resolved.open().ok());
                let bytes = file.and_then(|file| bounded(file, MAX_FILE_BYTES).ok().flatten());
                (stamp, bytes.is_some_and(|bytes| is_environment(&bytes)))
            });
            self.inspected.insert(name.clone(), (stamp, is_environment));
            is_environment
        });
    }
}

/// Returns true for a project with services or mocks. A Compose file has no project.
fn is_environment(bytes: &[u8]) -> bool {
    let document = yaml::document("", bytes);
    document.is_ok_and(|document| {
        let has = |key: &&str| document.value.get(key).is_some();
        has(&"project") && ["service", "services", "mocks"].iter().any(has)
    })
}

fn folder_of(file: Option<&PathBuf>) -> Option<&Path> {
    file.and_then(|file| file.parent())
}

/// Returns true if the file still has this stamp, after its read.
fn is_unchanged_since(path: &Path, stamp: Stamp) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| Stamp::new(&meta) == stamp)
}

/// Adds the folder of a linked file, whose changes no listed folder shows.
fn watch_target(folder: &Path, folders: &mut BTreeMap<PathBuf, FileId>) {
    if folders.contains_key(folder) {
        return;
    }
    let Ok(meta) = std::fs::metadata(folder) else {
        return;
    };
    let identity = FileId::from(&meta);
    if !folders.values().any(|listed| *listed == identity) {
        folders.insert(folder.to_owned(), identity);
    }
}

/// Reads one file; `None` if it is no longer there.
fn read_entry(
    path: &Path,
    resolved: Result<Resolved, SpecPathError>,
    known: Option<&(Stamp, Contents)>,
) -> Option<(Stamp, Contents)> {
    let unreadable = |error: &io::Error| {
        // A broken symlink exists and cannot be read; a missing name is gone.
        let meta = std::fs::symlink_metadata(path).ok()?;
        Some((Stamp::new(&meta), Contents::Unreadable(error.to_string())))
    };
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) => return unreadable(&error),
    };
    if !meta.is_file() {
        return Some((Stamp::new(&meta), Contents::NotFile(type_name(meta.file_type()))));
    }
    let resolved = match resolved {
        Ok(resolved) => resolved,
        Err(SpecPathError::Link(link)) => return Some((Stamp::new(&meta), Contents::Link(link))),
        Err(why) => return Some((Stamp::new(&meta), Contents::Unreadable(why.to_string()))),
    };
    let stamp = Stamp::new(&meta);
    if let Some(known) = known
        && known.0 == stamp
        && !matches!(known.1, Contents::Unreadable(_))
    {
        return Some(known.clone());
    }
    if meta.size() > MAX_FILE_BYTES {
        return Some((stamp, Contents::TooLong(meta.size())));
    }
    match resolved.open().and_then(|file| bounded(file, MAX_FILE_BYTES)) {
        Ok(Some(bytes)) => Some((stamp, Contents::Text(Text::new(bytes)))),
        Ok(None) => Some((stamp, Contents::TooLong(MAX_FILE_BYTES + 1))),
        Err(error) => unreadable(&error),
    }
}

fn type_name(found: FileType) -> &'static str {
    if found.is_dir() {
        "directory"
    } else if found.is_fifo() {
        "FIFO"
    } else if found.is_socket() {
        "socket"
    } else {
        "device"
    }
}

/// Reads a regular file that the operator names, possibly through links; `None` if it is longer than `limit` bytes. Never blocks
/// on a pipe.
pub fn read_bounded(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let resolved = resolve(&std::path::absolute(path)?).map_err(io::Error::other)?;
    bounded(resolved.open()?, limit)
}

/// Reads a spec file that a command names, as [`read_bounded`]. A link of a worktree that leads out of it is an error.
pub fn read_spec(path: &Path, access: &HostAccess) -> Result<Option<Vec<u8>>, SpecPathError> {
    Ok(bounded(symlinks::open_named(path, access)?, MAX_FILE_BYTES)?)
}

/// Reads an open file of at most `limit` bytes; `None` if it is longer, without a read if its size already shows that.
pub(super) fn bounded(file: File, limit: u64) -> io::Result<Option<Vec<u8>>> {
    if file.metadata()?.len() > limit {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
