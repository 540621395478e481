//! Digest of a build context: another digest requires another image.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt};
use std::path::{Path, PathBuf};

use argus_core::desired::excluded::{ContextEntry, Excluded};
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use super::stamp::Stamp;

/// Maximum number of entries of a context.
const MAX_ENTRIES: usize = 50_000;
/// Maximum size of a context, in bytes.
const MAX_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// Maximum size of a Dockerfile and of a `.dockerignore`, in bytes.
const MAX_RULES_BYTES: u64 = 1024 * 1024;

/// Cached hashes of files, which are read again only after a change.
#[derive(Debug, Default)]
pub struct Digests {
    files: BTreeMap<PathBuf, (Stamp, [u8; 32])>,
    used: BTreeMap<PathBuf, (Stamp, [u8; 32])>,
}

/// Digest of a build context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextDigest {
    /// Hash of the Dockerfile and of all entries, as lower case hex.
    pub digest: String,
    /// Hash of each entry, by its path in the context.
    pub entries: BTreeMap<PathBuf, Vec<u8>>,
}

impl Digests {
    /// Digest of the Dockerfile and of everything in the context that `excluded` and `.dockerignore` let in.
    ///
    /// # Errors
    /// The context or the Dockerfile cannot be read, or the context exceeds a size limit.
    pub fn of(
        &mut self,
        context: &Path,
        dockerfile: &Path,
        excluded: &Excluded,
    ) -> io::Result<ContextDigest> {
        let mut all = Sha256::new();
        let ignored = ignored(context, dockerfile)?;
        let dockerfile = context.join(dockerfile);
        let meta = std::fs::symlink_metadata(&dockerfile)?;
        check_size(&dockerfile, &meta)?;
        all.update(self.file(&dockerfile, &meta)?);
        let mut entries = 0_usize;
        let mut bytes = 0_u64;
        let mut folders = vec![PathBuf::new()];
        let mut found = BTreeMap::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(context.join(&folder))? {
                let entry = entry?;
                let path = folder.join(entry.file_name());
                let verdict = excluded.classify(&path);
                let meta = entry.metadata()?;
                if verdict == ContextEntry::Excluded
                    || (verdict == ContextEntry::DirectoryOnly && !meta.is_dir())
                {
                    continue;
                }
                let out = ignored.matched(&path, meta.is_dir()).is_ignore();
                if meta.is_dir() {
                    // An ignored folder may still hold what a later `!` lets in again.
                    if verdict == ContextEntry::Included && (!out || ignored.num_whitelists() > 0) {
                        folders.push(path.clone());
                    }
                }
                if out {
                    continue;
                }
                entries += 1;
                if meta.is_file() {
                    bytes = bytes.saturating_add(meta.len());
                }
                if entries > MAX_ENTRIES || bytes > MAX_BYTES {
                    return Err(io::Error::other(
                        "build context exceeds 50,000 entries or 2 GiB; exclude files with a `.dockerignore`",
                    ));
                }
                found.insert(path, meta);
            }
        }
        // Sorted by path, independent of the order in the file system.
        let mut entries = BTreeMap::new();
        for (path, meta) in found {
            let entry = self.entry(&context.join(&path), &meta)?;
            all.update(path.as_os_str().as_encoded_bytes());
            all.update([0]);
            all.update(&entry);
            entries.insert(path, entry);
        }
        let digest = hex(&all.finalize());
        Ok(ContextDigest { digest, entries })
    }

    /// Drops the files that were not used since the last call.
    pub fn sweep(&mut self) {
        self.files = std::mem::take(&mut self.used);
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
        let stamp = Stamp::of(meta);
        let known = self.used.get(path).or_else(|| self.files.get(path));
        if let Some((before, hash)) = known
            && *before == stamp
        {
            let hash = *hash;
            self.used.insert(path.to_path_buf(), (stamp, hash));
            return Ok(hash);
        }
        let mut hash = Sha256::new();
        // A file that grows during the read ends at the size that the bounds of the context counted.
        let mut file = open_regular(path)?.take(meta.len());
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            hash.update(&buffer[..read]);
        }
        let hash = hash.finalize().into();
        self.used.insert(path.to_path_buf(), (stamp, hash));
        Ok(hash)
    }
}

/// Opens a regular file. Refuses links, pipes and devices, which would block or never end.
fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("not a regular file"))
    }
}

/// Refuses a file of more than [`MAX_RULES_BYTES`] bytes.
fn check_size(path: &Path, meta: &Metadata) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().display();
    if meta.is_file() && meta.len() <= MAX_RULES_BYTES {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "`{name}` is not a file of at most {MAX_RULES_BYTES} bytes"
        )))
    }
}

/// Lower case hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// Reads the rules of the Dockerfile, for example `web.Dockerfile.dockerignore`, else those of the context. Every pattern starts at the
/// root of the context.
fn ignored(context: &Path, dockerfile: &Path) -> io::Result<ignore::gitignore::Gitignore> {
    let mut rules = ignore::gitignore::GitignoreBuilder::new("");
    let mut text = String::new();
    let mut own = dockerfile.as_os_str().to_owned();
    own.push(".dockerignore");
    // The rules of a Dockerfile outside the context are not sent.
    let own = Some(PathBuf::from(own)).filter(|own| own.is_relative());
    for path in own.into_iter().chain([PathBuf::from(".dockerignore")]) {
        let path = context.join(path);
        let read = open_regular(&path).and_then(|file| {
            check_size(&path, &file.metadata()?)?;
            file.take(MAX_RULES_BYTES).read_to_string(&mut text)
        });
        match read {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (not, pattern) = match line.strip_prefix('!') {
            Some(rest) => ("!", rest.trim()),
            None => ("", line),
        };
        let pattern = pattern
            .trim_start_matches("./")
            .trim_start_matches('/')
            .trim_end_matches('/');
        for pattern in [format!("{not}/{pattern}"), format!("{not}/{pattern}/**")] {
            rules.add_line(None, &pattern).map_err(io::Error::other)?;
        }
    }
    rules.build().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_included_files_change_the_digest() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("Dockerfile", "FROM scratch");
        write("src/main.rs", "fn main() {}");
        write(".dockerignore", "target\n*.log\n!keep.log\n");
        let mut digests = Digests::default();
        let mut digest = || {
            digests
                .of(dir.path(), Path::new("Dockerfile"), &Excluded::default())
                .unwrap()
        };
        let first = digest();
        assert_eq!(first.digest.len(), 64);
        write("target/debug/argus", "binary");
        write("noise.log", "noise");
        assert_eq!(digest(), first, "ignored");
        write("keep.log", "kept");
        let second = digest();
        assert_ne!(second, first, "included again");
        write("src/main.rs", "fn main() { loop {} }");
        let third = digest();
        assert_ne!(third, second);
        write("Dockerfile", "FROM alpine");
        assert_ne!(digest(), third);
    }

    #[test]
    fn rules_of_the_dockerfile_precede_those_of_the_context() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("web.Dockerfile", "FROM scratch");
        write("web.Dockerfile.dockerignore", "*.log\n");
        write(".dockerignore", "*.rs\n");
        let mut digests = Digests::default();
        let mut digest = || {
            digests
                .of(dir.path(), Path::new("web.Dockerfile"), &Excluded::default())
                .unwrap()
        };
        let first = digest();
        write("noise.log", "noise");
        assert_eq!(digest(), first);
        write("main.rs", "fn main() {}");
        assert_ne!(digest(), first);
    }

    #[test]
    fn missing_dockerfile_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(
            Digests::default()
                .of(dir.path(), Path::new("Dockerfile"), &Excluded::default())
                .is_err()
        );
    }

    #[test]
    fn controller_state_never_changes_the_digest() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str| std::fs::write(dir.path().join(name), name).unwrap();
        for folder in ["state/private", "data", ".git", "environments", "src"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        write("Dockerfile");
        // An exception of `.dockerignore` lets none of it in again.
        let exceptions = "x\n!.git\n!state\n!data\n!**/e2e.yaml\n";
        std::fs::write(dir.path().join(".dockerignore"), exceptions).unwrap();
        let root = dir.path().to_str().unwrap();
        let (state, data) = (format!("{root}/state"), format!("{root}/data"));
        let excluded = Excluded::of(root, &state, [data.as_str()]);
        let mut digests = Digests::default();
        let mut digest = || {
            digests
                .of(dir.path(), Path::new("Dockerfile"), &excluded)
                .unwrap()
        };
        let first = digest();
        for name in [
            "state/private/state.json",
            ".git/HEAD",
            "e2e.yaml",
            "environments/a.e2e.yml",
            "data/new",
        ] {
            write(name);
            assert_eq!(digest(), first, "{name}");
        }
        write("src/main");
        assert_ne!(digest(), first);
    }
}
