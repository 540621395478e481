//! Target path of a spec file: in the specs folder, under a name that the controller reads.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use argus_backend::host_path::folder::{Folder, read_opened};
use argus_crds::error::Reason;
use argus_reconciler::specs::scan::MAX_FILE_BYTES;
use tokio_util::sync::CancellationToken;

use crate::client::ControllerClient;
use crate::process::exit::Failure;
use crate::spec_files;

/// Suffixes of spec file names.
const SUFFIXES: [&str; 2] = [".e2e.yaml", ".e2e.yml"];

/// Returns the current file of an environment, if it is in the specs folder.
pub(in crate::api) fn find_current_file(specs: &Path, spec_path: Option<&str>) -> Option<PathBuf> {
    let spec_path = Path::new(spec_path.filter(|spec_path| !spec_path.is_empty())?);
    let path = if spec_path.is_absolute() {
        spec_path.to_path_buf()
    } else {
        specs.join(spec_path)
    };
    let inside = path.strip_prefix(specs).ok()?.to_str()?.to_owned();
    (check_file_name(&inside).is_ok() && path.exists()).then_some(path)
}

/// Returns a message if the file cannot be written there: another file or another environment is in the way.
pub(super) fn conflict_failure(
    client: &ControllerClient,
    specs: &Path,
    env: &str,
    path: &Path,
    current_file: Option<&Path>,
    stop: &CancellationToken,
) -> Option<String> {
    if let Some(current) = current_file.filter(|current| *current != path) {
        let current = current.file_name()?.to_string_lossy();
        return Some(format!(
            "environment `{env}` is already in `{current}`; omit `name`, or choose another `isolation.namespace`"
        ));
    }
    let there = path
        .exists()
        .then(|| spec_files::read_file(client.settings(), path, stop))?;
    let written = there.desired.map(|desired| desired.env.to_string());
    // A file with mistakes still holds its last environment.
    let holds = || {
        let statuses = client.read_statuses().ok()?;
        let mut all = statuses.environments.values();
        let it =
            all.find(|status| find_current_file(specs, Some(&status.spec_path)).as_deref() == Some(path))?;
        Some(it.environment.clone())
    };
    let other = written.or_else(holds).filter(|other| other != env)?;
    let name = path.file_name()?.to_string_lossy();
    Some(format!(
        "`{name}` defines environment `{other}`, which this change would remove; choose another `name`"
    ))
}

/// Checks that the controller reads a file of this name: in the specs folder or directly in one of its folders.
pub(super) fn check_file_name(name: &str) -> Result<PathBuf, Failure> {
    let parts: Vec<&str> = name.split('/').collect();
    let plain = |part: &&str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !part.is_empty() && part.len() <= 128 && !part.starts_with('.') && part.chars().all(fits)
    };
    let file = parts.last().copied().unwrap_or_default();
    let is_spec = matches!(file, "e2e.yaml" | "e2e.yml") || SUFFIXES.iter().any(|end| file.ends_with(end));
    if parts.len() <= 2 && parts.iter().all(plain) && is_spec {
        return Ok(parts.iter().collect());
    }
    let message = format!(
        "`{name}` is not a valid spec file name; expected `e2e.yaml` or `NAME.e2e.yaml` with letters, digits and `-_.`, at most one folder deep"
    );
    Err(Failure::with_reason(Reason::BadRequest, message).without_suggestions())
}

/// Writes a file atomically, without following a link below `real`, the path of the specs folder without links, and keeps its mode. Returns
/// false if the content is already the same. With `expected`, the file must still have this content.
pub(super) fn write_file(
    specs: &Path,
    real: &Path,
    path: &Path,
    bytes: &[u8],
    expected: Option<&str>,
) -> io::Result<bool> {
    let Ok(inside) = path.strip_prefix(specs) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    let path = real.join(inside);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    let folder = Folder::create(folder, 0o755)?;
    let (there, mode) = match folder.open_file(name) {
        Ok(file) => {
            let mode = file.metadata()?.permissions().mode() & 0o777;
            (read_opened(file, MAX_FILE_BYTES).ok(), mode)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => (None, 0o644),
        // For example a link, which belongs to a person.
        Err(error) => return Err(error),
    };
    if expected.is_some_and(|expected| there.as_deref() != Some(expected.as_bytes())) {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "the file changed since",
        ));
    }
    if there.is_some_and(|there| there == bytes) {
        return Ok(false);
    }
    folder.write(name, bytes, mode)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode};

    use super::*;

    #[test]
    fn invalid_spec_file_names_are_rejected() {
        for good in ["e2e.yaml", "shop.e2e.yaml", "team/e2e.yml", "a_b-1.e2e.yml"] {
            assert!(check_file_name(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "shop.yaml",
            "../e2e.yaml",
            "/etc/e2e.yaml",
            "a/b/e2e.yaml",
            "a/../e2e.yaml",
            ".e2e.yaml",
            "a\0.e2e.yaml",
            "a b.e2e.yaml",
            "team/",
            "./e2e.yaml",
            "..e2e.yaml",
        ] {
            assert!(check_file_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn write_follows_no_symbolic_link() {
        let dir = tempfile::tempdir().unwrap();
        let (specs, outside) = (dir.path().join("specs"), dir.path().join("outside"));
        std::fs::create_dir_all(&specs).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        let write = |path: &Path, bytes: &[u8], expected| write_file(&specs, &specs, path, bytes, expected);
        std::os::unix::fs::symlink(&outside, specs.join("team")).unwrap();
        std::os::unix::fs::symlink(outside.join("x"), specs.join("e2e.yaml")).unwrap();
        assert!(write(&specs.join("team/e2e.yaml"), b"x", None).is_err());
        assert!(write(&specs.join("e2e.yaml"), b"x", None).is_err());
        let long = specs.join("long.e2e.yaml");
        rustix::fs::mknodat(CWD, &long, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(
            write(&long, b"x", None).is_err(),
            "a FIFO is neither read nor replaced"
        );
        // A link at the name of a temporary file that someone predicted is not followed, either.
        std::os::unix::fs::symlink(outside.join("x"), specs.join(".shop.e2e.yaml.new")).unwrap();
        assert!(write(&specs.join("shop.e2e.yaml"), b"x", None).unwrap());
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
        assert!(write(&specs.join("new/e2e.yaml"), b"x", None).unwrap());
        let new = specs.join("new/e2e.yaml");
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(write(&new, b"z", Some("y")).is_err(), "the file changed");
        assert!(write(&new, b"z", Some("x")).unwrap());
        assert_eq!(
            std::fs::metadata(&new).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(write(&new, b"x", None).unwrap());
        assert!(
            !write(&specs.join("new/e2e.yaml"), b"x", None).unwrap(),
            "the content is the same"
        );
    }
}
