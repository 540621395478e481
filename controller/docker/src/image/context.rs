//! The build context: the selection, the order and the tar headers of the files that are sent to the engine.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use argus_core::ident::Hash;
use sha2::{Digest, Sha256};

use super::dockerignore::DockerIgnore;

/// Maximum number of entries. It stops a context such as `/` early.
const MOST_ENTRIES: usize = 200_000;

/// Name in the tar of a Dockerfile that lies outside the context.
const OUTSIDE: &str = ".argus.dockerfile";

/// One entry of a context.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Folder,
    File {
        source: PathBuf,
        executable: bool,
    },
    /// A symbolic link. It is sent as a link and never followed; the engine resolves it inside the context.
    Link {
        target: PathBuf,
    },
}

/// The entries of a build context.
#[derive(Debug)]
pub(super) struct Context {
    entries: BTreeMap<PathBuf, Entry>,
    /// Path of the Dockerfile inside the context.
    pub(super) dockerfile: String,
}

impl Context {
    /// Reads the entries of a folder. `dockerfile` is relative to the folder, or absolute when it lies outside.
    pub(super) fn open(root: &Path, dockerfile: &str) -> io::Result<Self> {
        let ignored = match fs::read_to_string(root.join(".dockerignore")) {
            Ok(text) => DockerIgnore::read(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => DockerIgnore::read(""),
            Err(error) => return Err(error),
        };
        let mut entries = BTreeMap::new();
        walk(root, Path::new(""), &ignored, &mut entries)?;
        let (inside, source) = locate(root, dockerfile)?;
        // The Dockerfile and `.dockerignore` are required by the build, so they are sent even if they are ignored.
        let file = Entry::File {
            source,
            executable: false,
        };
        entries.insert(PathBuf::from(&inside), file);
        if root.join(".dockerignore").is_file() {
            let file = Entry::File {
                source: root.join(".dockerignore"),
                executable: false,
            };
            entries.insert(PathBuf::from(".dockerignore"), file);
        }
        Ok(Self {
            entries,
            dockerfile: inside,
        })
    }

    /// Writes the context as a tar. Equal contents give equal bytes; owners and times of the files do not matter.
    pub(super) fn write(&self, to: impl Write) -> io::Result<()> {
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
                Entry::File { source, executable } => {
                    let file = fs::File::open(source)?;
                    let size = file.metadata()?.len();
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
    let context = Context::open(context, dockerfile)?;
    let mut hasher = Hasher(Sha256::new());
    for text in [&context.dockerfile]
        .into_iter()
        .chain(args.iter().flat_map(|(key, value)| [key, value]))
    {
        hasher.write_all(&text.len().to_le_bytes())?;
        hasher.write_all(text.as_bytes())?;
    }
    context.write(&mut hasher)?;
    let mut hex = String::new();
    for byte in hasher.0.finalize() {
        use std::fmt::Write as _;
        write!(hex, "{byte:02x}").map_err(io::Error::other)?;
    }
    Hash::new(hex).map_err(io::Error::other)
}

fn walk(
    root: &Path,
    below: &Path,
    ignored: &DockerIgnore,
    entries: &mut BTreeMap<PathBuf, Entry>,
) -> io::Result<()> {
    for found in fs::read_dir(root.join(below))? {
        let found = found?;
        let path = below.join(found.file_name());
        let kind = found.file_type()?;
        let left_out = ignored.leaves_out(&path, kind.is_dir());
        if left_out && !(kind.is_dir() && ignored.has_exceptions()) {
            continue;
        }
        if entries.len() >= MOST_ENTRIES {
            return Err(io::Error::other(format!(
                "the build context has more than {MOST_ENTRIES} entries"
            )));
        }
        if kind.is_dir() {
            if !left_out {
                entries.insert(path.clone(), Entry::Folder);
            }
            walk(root, &path, ignored, entries)?;
        } else if kind.is_symlink() {
            entries.insert(
                path,
                Entry::Link {
                    target: fs::read_link(found.path())?,
                },
            );
        } else if kind.is_file() {
            let executable = found.metadata()?.permissions().mode() & 0o111 != 0;
            entries.insert(
                path,
                Entry::File {
                    source: found.path(),
                    executable,
                },
            );
        }
        // Sockets, pipes and devices have no content and are skipped.
    }
    Ok(())
}

/// Finds the Dockerfile: its name inside the tar and its real path. A link must not lead out of the context.
fn locate(root: &Path, dockerfile: &str) -> io::Result<(String, PathBuf)> {
    let refused = |why: &str| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("dockerfile `{dockerfile}` {why}"),
        )
    };
    let written = Path::new(dockerfile);
    let root = root.canonicalize()?;
    let path = root.join(written);
    let real = path
        .canonicalize()
        .map_err(|error| io::Error::new(error.kind(), format!("dockerfile `{dockerfile}`: {error}")))?;
    if !real.is_file() {
        return Err(refused("is not a file"));
    }
    if real.starts_with(&root) {
        let plain = written.is_relative()
            && written
                .components()
                .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let inside = if plain {
            normal(written)
        } else {
            real.strip_prefix(&root).map_err(io::Error::other)?.to_owned()
        };
        let inside = String::from_utf8(inside.as_os_str().as_bytes().to_vec())
            .map_err(|_| refused("has no UTF-8 name"))?;
        return Ok((inside, real));
    }
    // A Dockerfile outside the context must be named by its absolute path, without `..` and not through a link.
    if written.is_relative() || fs::symlink_metadata(written)?.file_type().is_symlink() {
        return Err(refused("leads out of the build context"));
    }
    Ok((OUTSIDE.to_owned(), real))
}

fn normal(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect()
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
