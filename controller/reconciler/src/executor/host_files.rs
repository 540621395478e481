//! Facts of the host files that a failed run names: mode, owner, first line, line ends, similar names. No link is followed, only
//! regular files are opened, and the number of paths, names and bytes is bounded.

use std::io::{self, ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use argus_backend::host_path::folder::Folder;
use argus_core::action::{Action, Step};
use argus_core::dockerfile::{Instruction, MAX_BYTES};
use argus_core::failed_run::host_view::BuildView;
use argus_core::failed_run::{self, FailureKind, similar_name};
use argus_core::outcome::{Evidence, HostFile};
use tokio::sync::Semaphore;

/// Bytes at the start of a file whose lines are examined.
const HEAD: u64 = 4 * 1024;
/// Names of a folder that are compared with a missing one.
const MAX_NAMES: usize = 500;
/// Maximum length of the name of an interpreter, in bytes.
const MAX_INTERPRETER: usize = 100;
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
    let build = host.build.clone().filter(|_| is_command_missing);
    if paths.is_empty() && build.is_none() {
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
        let commands = build.and_then(|build| read_commands(&build).ok());
        (found.collect(), commands.unwrap_or_default())
    });
    match tokio::time::timeout(TIMEOUT, reading).await {
        Ok(Ok(found)) => (evidence.host_files, evidence.image_commands) = found,
        Ok(Err(_)) => {}
        Err(_) => evidence.missing.push("files of the host: no answer".to_owned()),
    }
    evidence
}

/// Commands of a Dockerfile that a container runs.
fn read_commands(build: &BuildView) -> io::Result<Vec<Instruction>> {
    let path = Path::new(&build.dockerfile);
    if read(path)?.file_mode().is_none() {
        return Err(io::Error::from(ErrorKind::InvalidInput));
    }
    let (folder, name) = Folder::of(path)?;
    let mut text = Vec::new();
    let file = folder.open_file(name.as_os_str())?;
    file.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(build.commands(&String::from_utf8_lossy(&text)))
}

/// Facts of one path. A missing file below a folder that exists has facts too.
fn read(path: &Path) -> io::Result<HostFile> {
    let (folder, name) = Folder::of(path)?;
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
        let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        facts.has_crlf = first.ends_with(b"\r") && first.len() < head.len();
        facts.interpreter = interpreter(first);
    }
    Ok(facts)
}

/// Interpreter that `#!` names; for `env`, the program that it starts.
fn interpreter(first: &[u8]) -> Option<String> {
    let line = std::str::from_utf8(first.strip_prefix(b"#!")?).ok()?;
    let mut words = line.split_whitespace();
    let program = words.next()?;
    let name = if Path::new(program).file_name()?.as_bytes() == b"env" {
        words.find(|word| !word.starts_with('-'))?
    } else {
        program
    };
    (name.len() <= MAX_INTERPRETER).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

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
    fn commands_of_a_dockerfile_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = argus_backend::host_path::real(dir.path()).join("Dockerfile");
        fs::write(&path, "FROM a\nENTRYPOINT [\"run\"]\nCMD [\"srv\"]\n").unwrap();
        let lines = |replaces_command| {
            let build = BuildView {
                dockerfile: path.display().to_string(),
                target: None,
                replaces_command,
            };
            let found = read_commands(&build).unwrap().into_iter();
            found.map(|command| command.line).collect::<Vec<_>>()
        };
        assert_eq!(lines(false), [2, 3]);
        assert_eq!(lines(true), [2]);
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
