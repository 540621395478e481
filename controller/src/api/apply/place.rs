//! Target path of a spec file: in the specs folder, under a name that the controller reads.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use argus_crds::error::Reason;

use crate::client::ControllerClient;
use crate::exit::Failure;
use crate::spec_files;

/// Suffixes of spec file names.
const SUFFIXES: [&str; 2] = [".e2e.yaml", ".e2e.yml"];

/// Returns the current file of an environment, if it is in the specs folder.
pub(super) fn find_current_file(specs: &Path, spec_path: Option<&str>) -> Option<PathBuf> {
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
) -> Option<String> {
    if let Some(current) = current_file.filter(|current| *current != path) {
        let current = current.file_name()?.to_string_lossy();
        return Some(format!(
            "environment `{env}` is already in `{current}`; omit `name`, or choose another `isolation.namespace`"
        ));
    }
    let there = path
        .exists()
        .then(|| spec_files::read_file(client.settings(), path))?;
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

/// Writes a file atomically: a temporary file is renamed. Returns false if the content is already the same.
pub(super) fn write_file(specs: &Path, path: &Path, bytes: &[u8]) -> io::Result<bool> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(false);
    }
    let folder = path.parent().unwrap_or(specs);
    std::fs::create_dir_all(folder)?;
    // A symbolic link in the folder could lead out of it.
    let (root, real) = (specs.canonicalize()?, folder.canonicalize()?);
    if !real.starts_with(&root) || std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink()) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "a symbolic link leads out of the specs folder",
        ));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = folder.join(format!(".{name}.new"));
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let renamed = written.and_then(|()| std::fs::rename(&temporary, path));
    if renamed.is_err() {
        drop(std::fs::remove_file(&temporary));
    }
    renamed.map(|()| true)
}

#[cfg(test)]
mod tests {
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
        std::os::unix::fs::symlink(&outside, specs.join("team")).unwrap();
        std::os::unix::fs::symlink(outside.join("x"), specs.join("e2e.yaml")).unwrap();
        assert!(write_file(&specs, &specs.join("team/e2e.yaml"), b"x").is_err());
        assert!(write_file(&specs, &specs.join("e2e.yaml"), b"x").is_err());
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
        assert!(write_file(&specs, &specs.join("new/e2e.yaml"), b"x").unwrap());
        assert!(
            !write_file(&specs, &specs.join("new/e2e.yaml"), b"x").unwrap(),
            "the content is the same"
        );
    }
}
