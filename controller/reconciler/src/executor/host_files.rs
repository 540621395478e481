//! Facts of the host files that a failed run names: mode, owner, first line, line ends, similar names. No link is followed, only
//! regular files are opened, and the number of paths, names and bytes is bounded.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_backend::host_path::folder::Folder;
use argus_core::action::{Action, Step};
use argus_core::dockerfile::MAX_BYTES;
use argus_core::failed_run::{self, FailureKind, similar_name};
use argus_core::outcome::{Evidence, HostFile};
use tokio::sync::Semaphore;

/// Bytes at the start of a file whose lines are examined.
const HEAD: u64 = 4 * 1024;
/// Names of a folder that are compared with a missing one.
const MAX_NAMES: usize = 500;
/// Files of a build context that are tried for one path of the image.
const MAX_COPIES: usize = 32;
/// Deadline: a network file system may not answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Reads at the same time. One of a network file system without an answer occupies a thread until it ends.
const MAX_READS: usize = 4;

static READERS: Semaphore = Semaphore::const_new(MAX_READS);

/// Adds the facts of the host files to the evidence of a failed run.
pub(super) async fn add(step: &Step, mut evidence: Box<Evidence>) -> Box<Evidence> {
    let Action::CollectEvidence { host, run, .. } = &step.action else {
        return evidence;
    };
    let paths = host.paths(&evidence);
    let is_command_missing = failed_run::kind(run) == FailureKind::NotRunnable;
    let is_built = host.build.is_some() && is_command_missing;
    let of_image = is_built.then(|| (host.clone(), evidence.clone()));
    if paths.is_empty() && of_image.is_none() {
        return evidence;
    }
    let Ok(reader) = READERS.try_acquire() else {
        evidence
            .missing
            .push("files of the host: earlier reads have no answer".to_owned());
        return evidence;
    };
    let reading = tokio::task::spawn_blocking(move || {
        let _reader = reader;
        let found = paths
            .into_iter()
            .filter_map(|(path, file)| Some((path, read(Path::new(&file)).ok()?)));
        let mut found: BTreeMap<String, HostFile> = found.collect();
        let mut commands = Vec::new();
        if let Some((host, evidence)) = of_image
            && let Some(build) = &host.build
            && let Ok(text) = read_dockerfile(Path::new(&build.dockerfile))
        {
            let copies = host.copies(&evidence, &text).into_iter();
            found.extend(
                copies.filter_map(|(path, files)| Some((path, read_copied(&build.context, &files)?))),
            );
            commands = build.commands(&text);
        }
        (found, commands)
    });
    match tokio::time::timeout(TIMEOUT, reading).await {
        Ok(Ok(found)) => (evidence.host_files, evidence.image_commands) = found,
        Ok(Err(_)) => {}
        Err(_) => evidence.missing.push("files of the host: no answer".to_owned()),
    }
    evidence
}

/// Text of a Dockerfile.
fn read_dockerfile(path: &Path) -> io::Result<String> {
    if read(path)?.file_mode().is_none() {
        return Err(io::Error::from(ErrorKind::InvalidInput));
    }
    let (folder, name) = Folder::parent_of(path)?;
    let mut text = Vec::new();
    let file = folder.open_file(name.as_os_str())?;
    file.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Facts of the first of these files of a build context that exists, or has a similar name. A true value says that the build sets the mode
/// of its copy.
fn read_copied(context: &str, files: &[(String, bool)]) -> Option<HostFile> {
    let paths = files.iter().take(MAX_COPIES);
    let mut paths = paths.map(|(file, sets_mode)| (Path::new(context).join(file), sets_mode));
    let copied = paths.clone().find_map(|(path, sets_mode)| {
        let facts = read(&path).ok().filter(|facts| facts.file_mode().is_some())?;
        Some(HostFile {
            mode: facts.mode.filter(|_| !sets_mode),
            copied_from: Some(path.to_str()?.to_owned()),
            ..facts
        })
    });
    copied.or_else(|| {
        paths.find_map(|(path, _)| {
            let similar = similar_copy(&path)?;
            Some(HostFile {
                similar: Some(similar.file_name()?.to_str()?.to_owned()),
                copied_from: Some(similar.to_str()?.to_owned()),
                ..HostFile::default()
            })
        })
    })
}

/// File of a build context whose name is similar to that of a missing one. Below a copied file, the file itself is meant.
fn similar_copy(path: &Path) -> Option<PathBuf> {
    let source = path.parent()?;
    let facts = read(source).ok()?;
    if facts.is_folder() {
        return Some(source.join(read(path).ok()?.similar?));
    }
    facts.file_mode()?;
    let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    similar_name(&name(path)?, &[name(source)?])?;
    Some(source.to_owned())
}

/// Facts of one path. A missing file below a folder that exists has facts too.
fn read(path: &Path) -> io::Result<HostFile> {
    let (folder, name) = Folder::parent_of(path)?;
    let stat = match folder.stat(&name) {
        Ok(stat) => stat,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let names: Vec<String> = folder
                .list()?
                .take(MAX_NAMES)
                .filter_map(|name| name.ok()?.into_string().ok())
                .collect();
            let similar = similar_name(&name.to_string_lossy(), &names).map(str::to_owned);
            return Ok(HostFile {
                similar,
                ..HostFile::default()
            });
        }
        Err(error) => return Err(error),
    };
    let mut facts = HostFile {
        mode: Some(stat.st_mode),
        owner: stat.st_uid,
        size: u64::try_from(stat.st_size).unwrap_or_default(),
        ..HostFile::default()
    };
    if facts.file_mode().is_some()
        && let Ok(file) = folder.open_file(name.as_os_str())
    {
        let mut head = Vec::new();
        file.take(HEAD).read_to_end(&mut head)?;
        facts = facts.with_head(&head);
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use argus_core::dockerfile::Copies;

    use super::*;

    #[test]
    fn facts_of_files_folders_and_missing_names_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = argus_backend::host_path::real(dir.path());
        let script = root.join("run.sh");
        fs::write(&script, "#!/usr/bin/env bash\r\necho\r\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o640)).unwrap();
        let facts = read(&script).unwrap();
        assert_eq!(facts.file_mode().map(|mode| mode & 0o777), Some(0o640));
        assert!(facts.has_crlf, "{facts:?}");
        assert_eq!(facts.interpreter.as_deref(), Some("bash"));
        assert!(read(&root).unwrap().is_folder());
        let missing = read(&root.join("runn.sh")).unwrap();
        assert_eq!((missing.mode, missing.similar.as_deref()), (None, Some("run.sh")));
        assert!(read(&root.join("gone/run.sh")).is_err());
    }

    #[test]
    fn copied_file_of_a_build_context_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = argus_backend::host_path::real(dir.path());
        fs::write(root.join("Dockerfile"), "FROM a\nCOPY run.sh /\n").unwrap();
        fs::write(root.join("run.sh"), "#!/bin/bash\n").unwrap();
        fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o644)).unwrap();
        let text = read_dockerfile(&root.join("Dockerfile")).unwrap();
        let files = Copies::from_dockerfile(&text, None).sources_of("/run.sh");
        let facts = |sets_mode| {
            let files = files.iter().map(|(path, _)| (path.clone(), sets_mode));
            read_copied(root.to_str().unwrap(), &files.collect::<Vec<_>>()).unwrap()
        };
        assert_eq!(facts(false).file_mode().map(|mode| mode & 0o777), Some(0o644));
        assert_eq!(facts(true).mode, None);
        assert_eq!(facts(false).copied_from.as_deref(), root.join("run.sh").to_str());
        assert_eq!(facts(false).interpreter.as_deref(), Some("/bin/bash"));
        let similar = |text: &str| {
            let files = Copies::from_dockerfile(text, None).sources_of("/strat.sh");
            read_copied(root.to_str().unwrap(), &files)?.similar
        };
        fs::write(root.join("start.sh"), "").unwrap();
        for text in [
            "FROM a\nCOPY start.sh /\n",
            "FROM a\nCOPY . .\n",
            "FROM a\nCOPY *.sh /\n",
        ] {
            assert_eq!(similar(text).as_deref(), Some("start.sh"), "{text}");
        }
        assert_eq!(similar("FROM a\nCOPY Dockerfile /\n"), None);
        assert!(read_dockerfile(&root).is_err());
    }

    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = argus_backend::host_path::real(dir.path());
        fs::write(root.join("secret"), "#!/secret\r\n").unwrap();
        symlink(root.join("secret"), root.join("link")).unwrap();
        symlink(&root, root.join("folder")).unwrap();
        let facts = read(&root.join("link")).unwrap();
        assert_eq!((facts.interpreter, facts.has_crlf), (None, false));
        assert!(read(&root.join("folder/secret")).is_err());
    }
}
