//! Where a file is written: in the specs folder under a name that is read, and nowhere else.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use argus_crds::error::Reason;

use crate::cli::spec_files;
use crate::client::ControllerClient;
use crate::exit::Failure;

/// What names of spec files end with.
const ENDS: [&str; 2] = [".e2e.yaml", ".e2e.yml"];

/// The file that holds an environment already, where it lies in the folder.
pub(super) fn held(specs: &Path, told: Option<&str>) -> Option<PathBuf> {
    let told = Path::new(told.filter(|told| !told.is_empty())?);
    let path = if told.is_absolute() {
        told.to_path_buf()
    } else {
        specs.join(told)
    };
    let inside = path.strip_prefix(specs).ok()?.to_str()?.to_owned();
    (safe(&inside).is_ok() && path.exists()).then_some(path)
}

/// Why the file cannot be written there: another one holds the environment, or it holds another environment.
pub(super) fn taken_by_another(
    client: &ControllerClient,
    env: &str,
    path: &Path,
    holder: Option<&Path>,
) -> Option<String> {
    if let Some(holder) = holder.filter(|holder| *holder != path) {
        let holder = holder.file_name()?.to_string_lossy();
        return Some(format!(
            "environment `{env}` stands in `{holder}` already: leave out `name`, or choose another `isolation.namespace`"
        ));
    }
    let there = path.exists().then(|| spec_files::file(client.settings(), path))?;
    let written = there.desired.map(|desired| desired.env.to_string());
    // A file that is broken just now still holds what it held.
    let holds = || {
        let shown = client.shown().ok()?;
        let specs = client.settings().specs.as_path();
        let mut all = shown.environments.values();
        let it = all.find(|status| held(specs, Some(&status.spec_path)).as_deref() == Some(path))?;
        Some(it.environment.clone())
    };
    let other = written.or_else(holds).filter(|other| other != env)?;
    let name = path.file_name()?.to_string_lossy();
    Some(format!(
        "`{name}` holds environment `{other}`, which would be removed: give `name` another one"
    ))
}

/// A name that the controller picks up, in the folder or in one folder in it, and nowhere else.
pub(super) fn safe(name: &str) -> Result<PathBuf, Failure> {
    let parts: Vec<&str> = name.split('/').collect();
    let plain = |part: &&str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !part.is_empty() && part.len() <= 128 && !part.starts_with('.') && part.chars().all(fits)
    };
    let file = parts.last().copied().unwrap_or_default();
    let is_spec = matches!(file, "e2e.yaml" | "e2e.yml") || ENDS.iter().any(|end| file.ends_with(end));
    if parts.len() <= 2 && parts.iter().all(plain) && is_spec {
        return Ok(parts.iter().collect());
    }
    let message = format!(
        "`{name}` is no name of a spec file: it is `e2e.yaml` or `NAME.e2e.yaml` of letters, digits and `-_.`, at most in one folder"
    );
    Err(Failure::missing(Reason::BadRequest, message).quiet())
}

/// Beside, then renamed over, so that nobody reads half of it; false where it is so already.
pub(super) fn write(specs: &Path, path: &Path, bytes: &[u8]) -> io::Result<bool> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(false);
    }
    let folder = path.parent().unwrap_or(specs);
    std::fs::create_dir_all(folder)?;
    // A link in the folder could lead out of it.
    let (root, real) = (specs.canonicalize()?, folder.canonicalize()?);
    if !real.starts_with(&root) || std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink()) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "a link leads out of the specs folder",
        ));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = folder.join(format!(".{name}.new"));
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let renamed = written.and_then(|()| std::fs::rename(&beside, path));
    if renamed.is_err() {
        drop(std::fs::remove_file(&beside));
    }
    renamed.map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leads_elsewhere_or_is_never_read_is_refused() {
        for good in ["e2e.yaml", "shop.e2e.yaml", "team/e2e.yml", "a_b-1.e2e.yml"] {
            assert!(safe(good).is_ok(), "{good}");
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
            assert!(safe(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (specs, outside) = (dir.path().join("specs"), dir.path().join("outside"));
        std::fs::create_dir_all(&specs).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, specs.join("team")).unwrap();
        std::os::unix::fs::symlink(outside.join("x"), specs.join("e2e.yaml")).unwrap();
        assert!(write(&specs, &specs.join("team/e2e.yaml"), b"x").is_err());
        assert!(write(&specs, &specs.join("e2e.yaml"), b"x").is_err());
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
        assert!(write(&specs, &specs.join("new/e2e.yaml"), b"x").unwrap());
        assert!(
            !write(&specs, &specs.join("new/e2e.yaml"), b"x").unwrap(),
            "it is so already"
        );
    }
}
