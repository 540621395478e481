//! Files with addresses in projects. Argus writes one atomically, follows no link, and replaces only its own files.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use argus_backend::host_path::folder::{Folder, read_opened};
use argus_core::desired::env_file::{is_env_file, is_env_file_of};
use argus_core::ident::EnvName;

/// Maximum number of bytes that are read.
const MAX_BYTES: u64 = 1 << 20;

/// Writes the file unless it has this content.
///
/// # Errors
/// Something else exists at the path, or the directory cannot be written.
pub(super) fn write(path: &Path, content: &str) -> io::Result<()> {
    let (folder, name) = Folder::parent_of(path)?;
    match read(&folder, &name)? {
        Some(known) if known == content.as_bytes() => return Ok(()),
        Some(known) if !is_env_file(&known) => {
            return Err(io::Error::other("it exists, and Argus did not write it"));
        }
        Some(_) | None => {}
    }
    folder.write(&name, content.as_bytes(), 0o644)
}

/// Removes the file if Argus wrote it for this environment.
pub(super) fn remove(path: &Path, env: &EnvName) -> io::Result<()> {
    let (folder, name) = match Folder::parent_of(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    match read(&folder, &name)? {
        Some(known) if is_env_file_of(env, &known) => folder.remove(&name),
        Some(_) | None => Ok(()),
    }
}

/// Reads a regular file. `None` if nothing exists.
fn read(folder: &Folder, name: &OsStr) -> io::Result<Option<Vec<u8>>> {
    match folder.open_file(name) {
        Ok(file) => read_opened(file, MAX_BYTES).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use argus_core::desired::env_file::format_env_file;

    use super::*;

    #[test]
    fn only_own_files_are_replaced_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let path = root.join(".env.argus");
        let [shop, other] = ["shop", "other"].map(|name| EnvName::new(name).unwrap());
        let (first, second) = (format_env_file(&shop, "A=1\n"), format_env_file(&shop, "A=2\n"));
        let inode = || fs::metadata(&path).unwrap().ino();
        write(&path, &first).unwrap();
        let written = inode();
        write(&path, &first).unwrap();
        assert_eq!(inode(), written, "an unchanged file is not written");
        write(&path, &second).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), second);
        assert_eq!(
            fs::read_dir(&root).unwrap().count(),
            1,
            "no temporary file remains"
        );
        remove(&path, &other).unwrap();
        assert!(path.exists(), "it belongs to another environment");
        remove(&path, &shop).unwrap();
        remove(&path, &shop).unwrap();
        assert!(!path.exists());
        fs::write(&path, "MINE=1\n").unwrap();
        assert!(write(&path, &first).is_err());
        remove(&path, &shop).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "MINE=1\n");
        // Neither a link at the path nor one on the way is followed.
        fs::remove_file(&path).unwrap();
        symlink(root.join("target"), &path).unwrap();
        symlink(&root, root.join("way")).unwrap();
        assert!(write(&path, &first).is_err() && write(&root.join("way/x"), &first).is_err());
        assert!(!root.join("target").exists() && !root.join("x").exists());
    }
}
