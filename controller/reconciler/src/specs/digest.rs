//! Digest of a build context: another digest requires another image.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use argus_backend::host_path::FileId;
use argus_backend::host_path::folder;
use argus_backend::host_path::own_files::{self, OwnFiles};
use argus_core::budget::Budget;
use argus_core::desired::SENT_DOCKERFILE;
use argus_core::desired::excluded::{
    CONTEXT_TOO_LARGE, ContextEntry, Excluded, MAX_CONTEXT_BYTES, MAX_CONTEXT_ENTRIES,
};
use argus_core::hex::hex;
use argus_core::quoting::PathText as _;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::context_rules::{ContextFilter, ContextRules, check_size, over_budget};
use super::inputs::ContextFolders;
use super::scan::Stamp;

/// Maximum number of steps of the list of a context.
const MAX_STEPS: u64 = 50_000_000;
/// Steps of one entry, besides one per rule of `.dockerignore`.
const ENTRY_STEPS: u64 = 200;

/// Cached hashes of files, which are read again only after a change.
#[derive(Debug)]
pub struct Digests {
    files: BTreeMap<PathBuf, (Stamp, [u8; 32])>,
    used: BTreeMap<PathBuf, (Stamp, [u8; 32])>,
    /// Files of which a part was read.
    started: BTreeMap<PathBuf, PartialRead>,
    /// Bytes that are read in one part of a read.
    part: u64,
    /// Bytes that may still be read in this part.
    left: u64,
    /// True if a read of this spec file's contexts ended with the part.
    is_part: bool,
    /// Ends a read when it is cancelled.
    stop: CancellationToken,
    /// Log of this process, which is in no context.
    own: OwnFiles,
    /// Folders of the last contexts.
    walked: Vec<ContextFolders>,
}

/// File of which a part was read.
#[derive(Debug)]
struct PartialRead {
    /// Metadata before the read.
    stamp: Stamp,
    size: u64,
    read: u64,
    hash: Sha256,
}

impl Default for Digests {
    fn default() -> Self {
        Self::new(u64::MAX, CancellationToken::new())
    }
}

/// Digest of a build context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextDigest {
    /// Hash of the Dockerfile and of all entries, as lower case hex.
    pub digest: String,
    /// Hash of each entry, by its path in the context.
    pub entries: BTreeMap<PathBuf, Vec<u8>>,
    /// Pipes, sockets and devices, which no build gets.
    pub left_out: BTreeSet<PathBuf>,
}

impl ContextDigest {
    /// Describes what the build does not get; `None` for files, folders and links.
    pub(super) fn describe_left_out(&self) -> Option<String> {
        let first = self.left_out.first()?.shown();
        let more = match self.left_out.len() {
            1 => String::new(),
            all => format!(", and {} more", all - 1),
        };
        Some(format!(
            "the build context leaves out `{first}`, which is a pipe, a socket or a device{more}"
        ))
    }

    /// Adds the context of this name, whose entries get its name as their first folder.
    pub(super) fn add(&mut self, name: &str, context: Self) {
        let digests = [self.digest.as_str(), name, "\0", context.digest.as_str()];
        let all = digests.into_iter().fold(Sha256::new(), Sha256::chain_update);
        self.digest = hex(&all.finalize());
        let entries = context.entries.into_iter();
        let named = entries.map(|(path, hash)| (Path::new(name).join(path), hash));
        self.entries.extend(named);
        let left_out = context.left_out.into_iter();
        self.left_out
            .extend(left_out.map(|path| Path::new(name).join(path)));
    }
}

impl Digests {
    /// Creates digests that read at most `part` bytes after each [`Digests::begin_part`], until `stop` is cancelled.
    pub(super) fn new(part: u64, stop: CancellationToken) -> Self {
        let (files, used, started) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            files,
            used,
            started,
            part,
            left: part,
            is_part: false,
            stop,
            own: OwnFiles::of_process(),
            walked: Vec::new(),
        }
    }

    /// Begins the next part of the reads. A whole one has no limit.
    pub(super) fn begin_part(&mut self, is_whole: bool) {
        self.left = if is_whole { u64::MAX } else { self.part };
    }

    /// Begins the contexts of the next spec file.
    pub(super) fn begin_file(&mut self) {
        self.is_part = false;
    }

    /// Reports whether a context of the spec file waits for the next part.
    pub(super) fn is_part(&self) -> bool {
        self.is_part
    }

    /// Reports whether the caller no longer needs the digests.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Takes the folders of the last contexts, as far as they could be listed.
    pub(super) fn take_folders(&mut self) -> Vec<ContextFolders> {
        std::mem::take(&mut self.walked)
    }

    /// Digest of the Dockerfile and of everything in the context that `excluded` and `.dockerignore` let in. Reports and the log of
    /// this process are not part of a context.
    ///
    /// # Errors
    /// The context or the Dockerfile cannot be read, or the context exceeds a size limit.
    pub fn of(
        &mut self,
        context: &Path,
        dockerfile: &Path,
        excluded: &Excluded,
    ) -> io::Result<ContextDigest> {
        let mut budget = Budget::new(MAX_STEPS, MAX_CONTEXT_BYTES);
        self.within(context, dockerfile, excluded, &mut budget)
    }

    fn within(
        &mut self,
        context: &Path,
        dockerfile: &Path,
        excluded: &Excluded,
        budget: &mut Budget,
    ) -> io::Result<ContextDigest> {
        let mut all = Sha256::new();
        let ignored = ContextRules::read(context, dockerfile, budget)?;
        let rules = ignored.len();
        let filter = ContextFilter::new(context, ignored.clone(), excluded, &self.own);
        let mut walked = ContextFolders::new(filter);
        walked.add(context.to_owned(), &std::fs::metadata(context)?);
        self.walked.push(walked);
        let path = context.join(dockerfile);
        match std::fs::symlink_metadata(&path) {
            Ok(meta) => {
                check_size(&path, &meta)?;
                all.update(self.file(&path, &meta)?);
            }
            // Its text is in the spec file.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && dockerfile == Path::new(SENT_DOCKERFILE) => {}
            Err(error) => return Err(error),
        }
        let mut entries = 0_usize;
        let mut folders = vec![PathBuf::new()];
        let (mut found, mut left_out) = (BTreeMap::new(), BTreeSet::new());
        while let Some(folder) = folders.pop() {
            let absolute = context.join(&folder);
            let has_report = own_files::is_marked(&absolute);
            for entry in std::fs::read_dir(&absolute).map_err(|error| at(&folder, &error))? {
                let entry = entry.map_err(|error| at(&folder, &error))?;
                budget.steps(ENTRY_STEPS + rules).map_err(over_budget)?;
                let name = entry.file_name();
                let path = folder.join(&name);
                let verdict = excluded.classify(&path);
                let meta = entry.metadata().map_err(|error| at(&path, &error))?;
                let is_own = has_report && own_files::is_of_report(&name)
                    || self.own.contains(FileId::from(&meta))
                    || meta.is_dir() && own_files::is_report(&context.join(&path));
                if is_own
                    || verdict == ContextEntry::Excluded
                    || (verdict == ContextEntry::DirectoryOnly && !meta.is_dir())
                {
                    continue;
                }
                let out = ignored.is_ignored(&path, meta.is_dir());
                // An ignored folder may still hold what a later `!` lets in again.
                if meta.is_dir()
                    && verdict == ContextEntry::Included
                    && (!out || ignored.may_include_below(&path))
                {
                    if let Some(walked) = self.walked.last_mut() {
                        walked.add(context.join(&path), &meta);
                    }
                    folders.push(path.clone());
                }
                if out {
                    continue;
                }
                if !meta.is_dir() && !meta.is_file() && !meta.is_symlink() {
                    left_out.insert(path);
                    continue;
                }
                entries += 1;
                let size = if meta.is_file() { meta.len() } else { 0 };
                if entries > MAX_CONTEXT_ENTRIES || budget.bytes(size).is_err() {
                    return Err(io::Error::other(CONTEXT_TOO_LARGE));
                }
                found.insert(path, meta);
            }
        }
        // Sorted by path, independent of the order in the file system.
        let mut entries = BTreeMap::new();
        for (path, meta) in found {
            let entry = self.entry(&context.join(&path), &meta);
            let entry = entry.map_err(|error| at(&path, &error))?;
            all.update(path.as_os_str().as_encoded_bytes());
            all.update([0]);
            all.update(&entry);
            entries.insert(path, entry);
        }
        let digest = hex(&all.finalize());
        Ok(ContextDigest {
            digest,
            entries,
            left_out,
        })
    }

    /// Drops the files that were not used since the last call.
    pub fn sweep(&mut self) {
        self.files = std::mem::take(&mut self.used);
        self.started.retain(|path, _| path.exists());
    }

    fn entry(&mut self, path: &Path, meta: &Metadata) -> io::Result<Vec<u8>> {
        let kind = meta.file_type();
        if kind.is_symlink() {
            // A symlink is part of the context as a link; its target is not read.
            let target = std::fs::read_link(path)?;
            return Ok([b"link ", target.as_os_str().as_encoded_bytes()].concat());
        }
        if kind.is_file() {
            let executable = meta.permissions().mode() & 0o111 != 0;
            let hash = self.file(path, meta)?;
            return Ok([if executable { &b"program "[..] } else { b"file " }, &hash].concat());
        }
        Ok(b"other".to_vec())
    }

    fn file(&mut self, path: &Path, meta: &Metadata) -> io::Result<[u8; 32]> {
        let stamp = Stamp::new(meta);
        let known = self.used.get(path).or_else(|| self.files.get(path));
        if let Some((before, hash)) = known
            && *before == stamp
        {
            let hash = *hash;
            self.used.insert(path.to_path_buf(), (stamp, hash));
            return Ok(hash);
        }
        let started = self.started.remove(path);
        let mut started = started.unwrap_or_else(|| PartialRead {
            stamp,
            size: meta.len(),
            read: 0,
            hash: Sha256::new(),
        });
        // A file that grows during the read ends at the size that the bounds of the context counted.
        let mut file = folder::open(path)?;
        file.seek(SeekFrom::Start(started.read))?;
        let mut file = file.take(started.size - started.read);
        let mut buffer = vec![0; 64 * 1024];
        loop {
            if self.left == 0 || self.is_stopped() {
                self.is_part |= self.left == 0;
                self.started.insert(path.to_path_buf(), started);
                return Err(io::Error::from(io::ErrorKind::Interrupted));
            }
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            started.hash.update(&buffer[..read]);
            started.read += read as u64;
            self.left = self.left.saturating_sub(read as u64);
        }
        let hash = started.hash.finalize().into();
        // After a change during the read, the stamp is an old one, and the next digest reads the file again.
        self.used.insert(path.to_path_buf(), (started.stamp, hash));
        Ok(hash)
    }
}

/// Adds the path in the context to the error of the system. The error of a read in parts stays.
fn at(path: &Path, error: &io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Interrupted => io::ErrorKind::Interrupted.into(),
        kind if path.as_os_str().is_empty() => io::Error::new(kind, error.to_string()),
        kind => io::Error::new(kind, format!("`{}`: {error}", path.shown())),
    }
}

#[cfg(test)]
#[path = "digest_tests.rs"]
mod tests;
