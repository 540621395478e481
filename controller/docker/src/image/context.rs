//! The build context: the selection, the order and the tar headers of the files that are sent to the engine.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use argus_backend::host_path::folder::Folder;
use argus_backend::host_path::own_files::{self, OwnFiles};
use argus_backend::host_path::{self, FileId};
use argus_core::budget::Budget;
use argus_core::desired::SENT_DOCKERFILE;
use argus_core::desired::excluded::{
    CONTEXT_TOO_LARGE, ContextEntry, Excluded, MAX_CONTEXT_BYTES, MAX_CONTEXT_ENTRIES, check_rules,
};
use argus_core::dockerfile::MAX_BYTES;
use argus_core::hex::hex;
use argus_core::ident::Hash;
use argus_core::quoting::PathText as _;
use rustix::fs::{FileType, Stat};
use sha2::{Digest, Sha256};

use super::dockerignore::DockerIgnore;

mod exclusion;

pub(super) use exclusion::find_exclusion;

/// Name of the file with the exclusion rules.
const DOCKERIGNORE: &str = ".dockerignore";
/// Maximum size of a `.dockerignore`, in bytes.
const MAX_DOCKERIGNORE_BYTES: u64 = 1024 * 1024;

/// One entry of a context.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Folder,
    File {
        source: Source,
        executable: bool,
    },
    /// A symbolic link. It is sent as a link and never followed; the engine resolves it inside the context.
    Link {
        target: PathBuf,
    },
}

/// Origin of the content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// A path relative to the context.
    Inside(PathBuf),
    /// An absolute path without links.
    Outside(PathBuf),
    /// The content itself.
    Content(Vec<u8>),
}

/// The entries of a build context. No file is opened through a link, even when a file is replaced during the build.
#[derive(Debug)]
pub(super) struct Context {
    root: Folder,
    entries: BTreeMap<PathBuf, Entry>,
    /// Path of the Dockerfile inside the context.
    pub(super) dockerfile: String,
}

impl Context {
    /// Reads the entries of a folder. `dockerfile` is relative to the folder, or absolute when it lies outside. `inline` is its text, which
    /// replaces the file.
    pub(super) fn open(
        path: &Path,
        dockerfile: &str,
        inline: Option<&str>,
        excluded: &Excluded,
    ) -> io::Result<Self> {
        let resolved = host_path::resolve_without_links(path).map_err(io::Error::other)?;
        let root = Folder::open(&resolved.path)?;
        let (inside, source) = match inline {
            Some(text) => (SENT_DOCKERFILE.to_owned(), Source::Content(text.into())),
            None => locate_dockerfile(&resolved.path, dockerfile)?,
        };
        let exclusions = Exclusions {
            ignored: DockerIgnore::read(&read_rules(&root, &inside)?.1),
            excluded,
            path: &resolved.path,
            own: OwnFiles::of_process(),
        };
        let mut entries = BTreeMap::new();
        walk(&root, Path::new(""), &exclusions, &mut entries)?;
        // The Dockerfile is an input of the build, so it is sent even if it is ignored.
        let file = Entry::File {
            source,
            executable: false,
        };
        entries.insert(PathBuf::from(&inside), file);
        Ok(Self {
            root,
            entries,
            dockerfile: inside,
        })
    }

    /// Reads the entries of a further context, which has no Dockerfile.
    pub(super) fn open_named(path: &Path, excluded: &Excluded) -> io::Result<Self> {
        let mut context = Self::open(path, SENT_DOCKERFILE, Some(""), excluded)?;
        context.entries.remove(Path::new(SENT_DOCKERFILE));
        if context.entries.is_empty() {
            return Err(io::Error::other("it is empty"));
        }
        Ok(context)
    }

    /// Reads the Dockerfile, which is sent as it is now, whatever becomes of its file.
    ///
    /// # Errors
    /// It cannot be read, is longer than [`MAX_BYTES`], or is not UTF-8 text.
    pub(super) fn hold_dockerfile(&mut self) -> io::Result<&str> {
        let Some(Entry::File { source, .. }) = self.entries.get_mut(Path::new(&self.dockerfile)) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if !matches!(source, Source::Content(_)) {
            let mut bytes = Vec::new();
            let file = open_source(&self.root, source)?;
            file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
            *source = Source::Content(bytes);
        }
        let refused = |why: String| io::Error::other(format!("`{}` {why}", self.dockerfile));
        match source {
            Source::Content(bytes) if bytes.len() as u64 > MAX_BYTES => {
                Err(refused(format!("is longer than {MAX_BYTES} bytes")))
            }
            Source::Content(bytes) => {
                std::str::from_utf8(bytes).map_err(|_| refused("is not UTF-8 text".to_owned()))
            }
            Source::Inside(_) | Source::Outside(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Writes the context as a tar. Equal contents give equal bytes; owners and times of the files do not matter.
    ///
    /// # Errors
    /// The files cannot be read, or have grown above the maximum size of a context since its digest.
    pub(super) fn write(&self, to: impl Write) -> io::Result<()> {
        self.write_within(to, &mut Budget::new(u64::MAX, MAX_CONTEXT_BYTES))
    }

    fn write_within(&self, to: impl Write, budget: &mut Budget) -> io::Result<()> {
        let mut tar = tar::Builder::new(to);
        for (path, entry) in &self.entries {
            let mut header = tar::Header::new_gnu();
            header.set_mtime(0);
            header.set_uid(0);
            header.set_gid(0);
            header.set_size(0);
            match entry {
                Entry::Folder => {
                    header.set_entry_type(tar::EntryType::Directory);
                    header.set_mode(0o755);
                    tar.append_data(&mut header, path, io::empty())?;
                }
                Entry::Link { target } => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    header.set_mode(0o777);
                    tar.append_link(&mut header, path, target)?;
                }
                Entry::File {
                    source: Source::Content(bytes),
                    ..
                } => {
                    header.set_entry_type(tar::EntryType::Regular);
                    header.set_mode(0o644);
                    header.set_size(bytes.len() as u64);
                    tar.append_data(&mut header, path, bytes.as_slice())?;
                }
                Entry::File { source, executable } => {
                    let file = open_source(&self.root, source)?;
                    let size = file.metadata()?.len();
                    budget
                        .bytes(size)
                        .map_err(|_| io::Error::other(CONTEXT_TOO_LARGE))?;
                    header.set_entry_type(tar::EntryType::Regular);
                    header.set_mode(if *executable { 0o755 } else { 0o644 });
                    header.set_size(size);
                    // A file that changes its size while it is read must not corrupt the entries after it.
                    let padded = file.take(size).chain(io::repeat(0)).take(size);
                    tar.append_data(&mut header, path, padded)?;
                }
            }
        }
        tar.into_inner()?.flush()
    }
}

fn open_source(root: &Folder, source: &Source) -> io::Result<File> {
    match source {
        Source::Inside(path) => root.open_below(path).map_err(|error| at(path, &error)),
        Source::Outside(path) => {
            let resolved = host_path::resolve_without_links(path).map_err(io::Error::other)?;
            resolved.open()
        }
        Source::Content(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Reads the text of a Dockerfile. Its path is relative to that of the context, or absolute when it lies outside.
pub(super) fn read_dockerfile(path: &Path, dockerfile: &str) -> io::Result<String> {
    let resolved = host_path::resolve_without_links(path).map_err(io::Error::other)?;
    let root = Folder::open(&resolved.path)?;
    let (_, source) = locate_dockerfile(&resolved.path, dockerfile)?;
    let mut bytes = Vec::new();
    let file = open_source(&root, &source)?;
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The rules that exclude entries from a context.
struct Exclusions<'a> {
    ignored: DockerIgnore,
    excluded: &'a Excluded,
    /// Path of the context.
    path: &'a Path,
    /// Log of this process.
    own: OwnFiles,
}

impl Exclusions<'_> {
    /// Returns true for the log of this process and for reports.
    fn is_own(&self, folder: &Path, name: &OsStr, stat: &Stat) -> bool {
        let folder = self.path.join(folder);
        let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        self.own.contains(FileId::new(stat))
            || own_files::is_of_report(name) && own_files::is_marked(&folder)
            || is_folder && own_files::is_report(&folder.join(name))
    }

    /// Two flags: the entry is part of the context, and an entry below it may be part of it.
    fn check_entry(&self, path: &Path, is_folder: bool) -> (bool, bool) {
        let ignored = self.ignored.is_excluded(path, is_folder);
        match self.excluded.classify(path) {
            ContextEntry::Excluded => (false, false),
            ContextEntry::DirectoryOnly => (is_folder && !ignored, false),
            ContextEntry::Included => (!ignored, is_folder && (!ignored || self.ignored.has_exceptions())),
        }
    }
}

/// Hash of all inputs of a build: Dockerfile, context and arguments. A new digest requires a new build.
pub fn digest(context: &Path, dockerfile: &str, args: &BTreeMap<String, String>) -> io::Result<Hash> {
    struct Hasher(Sha256);
    impl Write for Hasher {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let context = Context::open(context, dockerfile, None, &Excluded::default())?;
    let mut hasher = Hasher(Sha256::new());
    for text in [&context.dockerfile]
        .into_iter()
        .chain(args.iter().flat_map(|(key, value)| [key, value]))
    {
        hasher.write_all(&text.len().to_le_bytes())?;
        hasher.write_all(text.as_bytes())?;
    }
    context.write(&mut hasher)?;
    Hash::new(hex(&hasher.0.finalize())).map_err(io::Error::other)
}

fn walk(
    root: &Folder,
    below: &Path,
    exclusions: &Exclusions<'_>,
    entries: &mut BTreeMap<PathBuf, Entry>,
) -> io::Result<()> {
    let named = |error: io::Error| at(below, &error);
    let folder = root.below(below).map_err(named)?;
    for name in folder.list().map_err(named)? {
        let name = name.map_err(named)?;
        let path = below.join(&name);
        let stat = folder.stat(&name).map_err(|error| at(&path, &error))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let is_folder = kind == FileType::Directory;
        let (sent, entered) = exclusions.check_entry(&path, is_folder);
        if !sent && !entered || exclusions.is_own(below, &name, &stat) {
            continue;
        }
        // It stops a context such as `/` early.
        if sent && entries.len() >= MAX_CONTEXT_ENTRIES {
            return Err(io::Error::other(CONTEXT_TOO_LARGE));
        }
        let entry = match kind {
            FileType::Directory => Some(Entry::Folder),
            FileType::Symlink => Some(Entry::Link {
                target: folder.read_link(&name)?,
            }),
            FileType::RegularFile => Some(Entry::File {
                source: Source::Inside(path.clone()),
                executable: stat.st_mode & 0o111 != 0,
            }),
            // Sockets, pipes and devices have no content and are skipped.
            _ => None,
        };
        if let Some(entry) = entry.filter(|_| sent) {
            entries.insert(path.clone(), entry);
        }
        if entered {
            walk(root, &path, exclusions, entries)?;
        }
    }
    Ok(())
}

/// Adds the path in the context to the error of the system.
fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", path.shown()))
}

/// Reads the exclusion rules with the path of their file: those of the Dockerfile, for example `web.Dockerfile.dockerignore`, else those of
/// the context.
fn read_rules(root: &Folder, dockerfile: &str) -> io::Result<(String, String)> {
    for path in [format!("{dockerfile}{DOCKERIGNORE}"), DOCKERIGNORE.to_owned()] {
        let mut rules = String::new();
        match root.open_below(Path::new(&path)) {
            Ok(file) => file.take(MAX_DOCKERIGNORE_BYTES + 1).read_to_string(&mut rules)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(io::Error::new(error.kind(), format!("`{path}`: {error}"))),
        };
        if rules.len() as u64 > MAX_DOCKERIGNORE_BYTES {
            return Err(io::Error::other(format!(
                "`{path}` is larger than {MAX_DOCKERIGNORE_BYTES} bytes"
            )));
        }
        check_rules(&path, &rules).map_err(io::Error::other)?;
        return Ok((path, rules));
    }
    Ok((String::new(), String::new()))
}

/// Finds the Dockerfile: its name inside the tar and its source. A link must not lead out of the context.
fn locate_dockerfile(root: &Path, dockerfile: &str) -> io::Result<(String, Source)> {
    let refused = |why: &str| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("dockerfile `{dockerfile}` {why}"),
        )
    };
    let written = Path::new(dockerfile);
    let found = host_path::resolve(&root.join(written)).map_err(|why| refused(&why.to_string()))?;
    if found.identity.is_none() {
        let why = format!("dockerfile `{dockerfile}` does not exist");
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    found
        .open()
        .map_err(|error| refused(&format!("is not a file that can be read: {error}")))?;
    if let Ok(below) = found.path.strip_prefix(root) {
        let plain = written.is_relative()
            && written
                .components()
                .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let inside = if plain {
            normalize(written)
        } else {
            below.to_owned()
        };
        let inside = String::from_utf8(inside.as_os_str().as_bytes().to_vec())
            .map_err(|_| refused("has no UTF-8 name"))?;
        return Ok((inside, Source::Inside(below.to_owned())));
    }
    // A Dockerfile outside the context must be named by its absolute path, without `..` and not through a link.
    if written.is_relative() || found.path != written {
        return Err(refused("leads out of the build context"));
    }
    Ok((SENT_DOCKERFILE.to_owned(), Source::Outside(found.path)))
}

fn normalize(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect()
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
