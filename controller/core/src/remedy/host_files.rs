//! Files of the host below a mount: their modes, their first line, their line ends, and names that are similar to a missing one.

use std::path::Path;

use argus_crds::error::SpecEdit;

use super::case::{Case, add_tmpfs, add_volume, contains, is_below, mount_of, paths};
use super::classes::{DENIED, MISSING_FILE};
use super::shell::list;
use crate::desired::Mount;
use crate::failed_run::host_view::{absolute, differs_by_one_error, is_file_name, is_plain};
use crate::failed_run::{FailureKind, kind};
use crate::outcome::HostFile;
use crate::quoting::shell_path;

mod script;

pub(super) use script::{script_interpreter, script_line_ends, script_mode};

/// Folder at the place of a file that the program reads. The engine creates one for a missing source.
pub(super) fn folder_for_file(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&["is a directory", "eisdir", "not a regular file"])?;
    let path = paths(line).find(|path| {
        let mounted = mount_of(&case.context, path);
        // Such as `Caddyfile`.
        let is_file = |name: &str| name.contains('.') || name.ends_with("file");
        let has_ending = path.rsplit('/').next().is_some_and(is_file);
        has_ending && mounted.is_some_and(|(_, mount)| mount.target() == *path)
    })?;
    let (index, mount) = mount_of(&case.context, path)?;
    let is_folder = case.host_facts(path).is_some_and(HostFile::is_folder);
    if !is_folder || !matches!(mount, Mount::Bind { .. }) {
        return None;
    }
    let reason = format!("the program reads the file `{path}`, and its source is a folder");
    let edit = case.context.edit(&format!("container.volumes[{index}]"), reason);
    let (source, rest) = edit.now.as_deref()?.split_once(':')?;
    let name = path.rsplit('/').next()?;
    // The engine makes a folder of a source that does not exist.
    if source.ends_with(name) {
        let hint = "write this file in the place of the empty folder";
        return Some(Case::host_edit(case.host_file(path)?, edit.reason, hint));
    }
    let meant = format!("{}/{name}:{rest}", source.trim_end_matches('/'));
    Some(edit.suggest(meant))
}

/// Folder that the engine cannot mount at the place of a file of the image.
pub(super) fn mounted_folder(case: &Case<'_>) -> Option<SpecEdit> {
    parts! {
        OF_FOLDER: "not a directory" "directory onto a file" "flags:" "is a directory";
    }
    let line = case.line_with(&["to rootfs at"])?;
    if !contains(line, OF_FOLDER) {
        return None;
    }
    let (_, rest) = line.split_once("to rootfs at")?;
    let target = paths(rest).next()?;
    let mut mounts = case.context.service.mounts.iter().enumerate();
    let (index, _) = mounts.find(|(_, mount)| mount.target() == target)?;
    let reason = format!("`{target}` is a file in the image, and the source of its mount is a folder");
    let edit = case.context.edit(&format!("container.volumes[{index}]"), reason);
    let (source, rest) = edit.now.as_deref()?.split_once(':')?;
    let name = target.rsplit('/').next()?;
    let meant = format!("{}/{name}:{rest}", source.trim_end_matches('/'));
    Some(edit.suggest(meant))
}

/// Mounted PID or lock file of an earlier run.
pub(super) fn stale_file(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&["already running", "could not lock", "is locked"])?;
    // Other files with this ending list dependencies.
    let is_of_run = |path: &str| path.split('/').any(|name| ["tmp", "run", "pids"].contains(&name));
    let is_mark = |path: &&str| {
        let end = Path::new(path).extension();
        end.is_some_and(|end| end == "pid" || (end == "lock" && is_of_run(path)))
    };
    let path = paths(line).find(is_mark)?;
    let exists = case
        .host_facts(path)
        .is_some_and(|facts| facts.file_mode().is_some());
    let file = case.host_file(path).filter(|_| exists)?;
    let (folder, _) = path.rsplit_once('/')?;
    let all: Vec<&str> = case.words().map(String::as_str).collect();
    // Rails has an option for another place of this file.
    if path.ends_with("server.pid") && all.iter().any(|word| word.contains("rails")) && all.len() > 1 {
        let reason = format!("`{file}` is from an earlier run");
        let edit = case.context.edit("command", reason);
        return Some(edit.suggest(list(&[&all[..], &["-P", "/tmp/server.pid"]].concat())?));
    }
    // Nothing of this folder belongs to the project, so that it can be a new one in each run.
    if folder.ends_with("/pids") || folder.ends_with("/run") {
        let reason = format!("`{file}` is from an earlier run");
        return Some(add_tmpfs(&case.context, folder, reason));
    }
    let hint = format!("run `rm {}`", shell_path(&file));
    Some(Case::host_edit(file, "it is from an earlier run", hint))
}

/// Mounted file that only its owner or group may read.
pub(super) fn host_mode(case: &Case<'_>) -> Option<SpecEdit> {
    let line = denied(case)?;
    let (path, mode) = paths(line).find_map(|path| Some((path, case.host_facts(path)?.file_mode()?)))?;
    let file = case.host_file(path).filter(|_| mode & 0o004 == 0)?;
    let reason = format!(
        "the mounted file has the mode {:04o}, and the user of the process is not its owner",
        mode & 0o7777
    );
    if is_private_key(path) {
        let hint = "make this user its owner with `chown`";
        return Some(Case::host_edit(file, reason, hint));
    }
    let hint = format!("run `chmod a+r {}`", shell_path(&file));
    Some(Case::host_edit(file, reason, hint))
}

/// Returns whether a name is that of a private key, which not everyone may read.
fn is_private_key(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let end = Path::new(name).extension();
    name.starts_with("id_") || end.is_some_and(|end| end == "key" || end == "pem")
}

/// Mounted folder that only its owner may write, or a mounted program without the permission to run.
pub(super) fn mount_owner(case: &Case<'_>) -> Option<SpecEdit> {
    if case.context.service.user.is_some() || host_mode(case).is_some() {
        return None;
    }
    let line = denied(case)?;
    let path = paths(line).last()?;
    let (_, mount) = mount_of(&case.context, path)?;
    if !matches!(mount, Mount::Bind { .. }) {
        return None;
    }
    let mode = case.host_facts(path).and_then(HostFile::file_mode);
    if mode.is_some_and(|mode| mode & 0o111 == 0) && contains(line, &["spawn"]) {
        let file = case.host_file(path)?;
        let hint = format!("run `chmod +x {}`", shell_path(&file));
        return Some(Case::host_edit(file, "the mounted file is not executable", hint));
    }
    // Without the facts of the host, the reason can be another one.
    let mut folders = Path::new(path).ancestors().filter_map(Path::to_str);
    let is_closed = |facts: &HostFile| facts.is_folder() && facts.mode.is_some_and(|mode| mode & 0o002 == 0);
    let closed = folders.find(|folder| case.host_facts(folder).is_some_and(is_closed))?;
    let folder = case.host_file(closed)?;
    let reason = format!("the user of the process has no permission to write `{path}`");
    let hint = format!(
        "give {} to this user, or run `chmod a+rwx {}`",
        shell_path(&folder),
        shell_path(&folder)
    );
    Some(Case::host_edit(folder, reason, hint))
}

/// Line about a file that the process may not use.
fn denied<'a>(case: &Case<'a>) -> Option<&'a str> {
    let line = case.line_with(&DENIED)?;
    (!contains(line, &["bind", "listen", "socket", "exec"])).then_some(line)
}

/// Missing file below a mount, whose folder on the host has a similar name.
pub(super) fn similar_name(case: &Case<'_>) -> Option<SpecEdit> {
    let (path, facts) = missing(case)?;
    let similar = facts.similar.as_deref().filter(|name| is_plain(name))?;
    let (folder, name) = path.rsplit_once('/')?;
    let host = case.host_file(&path)?;
    let reason = format!("`{host}` does not exist, `{similar}` does");
    let service = case.context.service;
    if let Some(word) = case.words().find(|word| word.contains(name)) {
        let edit = case.context.edit(case.command_key(name), reason).now(name);
        return Some(if word.len() > name.len() + folder.len() + 1 {
            edit.suggest(similar)
        } else {
            edit.now(word.as_str()).suggest(word.replace(name, similar))
        });
    }
    if let Some((variable, value)) = service.env_vars.iter().find(|(_, value)| value.ends_with(name)) {
        let edit = case.variable(variable, reason);
        return Some(edit.now(value.as_str()).suggest(value.replace(name, similar)));
    }
    let present = format!("{}/{similar}", host.rsplit_once('/')?.0);
    let hint = "correct the name of one of them";
    Some(Case::host_edit(present, reason, hint))
}

/// Missing file below a mount, without a similar name.
pub(super) fn missing_file(case: &Case<'_>) -> Option<SpecEdit> {
    let (path, facts) = missing(case)?;
    let file = case.host_file(&path).filter(|_| facts.similar.is_none())?;
    let reason = format!("the process needs `{path}`, and its mount does not contain it");
    Some(Case::host_edit(file, reason, "create it, or correct the path"))
}

/// Missing file outside of all mounts, that the project or a mount of a sibling has.
pub(super) fn unmounted(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&MISSING_FILE)?;
    let named = paths(line).filter(|path| is_file_name(path)).last();
    if let Some(edit) = near_mount(case, line, named) {
        return Some(edit);
    }
    if let Some(edit) = same_folder(case, line) {
        return Some(edit);
    }
    let path = named.filter(|path| mount_of(&case.context, path).is_none())?;
    let (folder, name) = path.rsplit_once('/')?;
    // The program has its own place for what is mounted at another one: a file, or the only other folder of a configuration.
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let mounts = || case.context.service.mounts.iter().map(Mount::target).enumerate();
    let of_name = mounts().find(|(_, target)| name.contains('.') && last(target) == name);
    let is_next_to = |target: &str| {
        let parent = target
            .strip_suffix(&last(target))
            .filter(|parent| parent.starts_with("/etc/") && parent.len() > 5);
        parent.is_some() && parent == folder.strip_suffix(&last(folder)) && !last(target).contains('.')
    };
    // The file names a folder that is mounted below another one.
    let mut texts = case.words().chain(case.context.service.env_vars.values());
    let is_written = texts.any(|text| text.contains(path));
    let is_same = |index: usize, target: &str| {
        let mount = case.context.service.mounts.get(index);
        // A program keeps its data in a folder that it can write.
        let is_read_only = matches!(mount, Some(Mount::Bind { read_only: true, .. }));
        is_written && is_read_only && last(target) == last(folder)
    };
    let mut folders = mounts().filter(|(index, target)| is_next_to(target) || is_same(*index, target));
    let of_folder = || {
        folders
            .next()
            .filter(|_| folders.next().is_none())
            .map(|found| (found, folder))
    };
    if let Some(((index, target), place)) = of_name.map(|found| (found, path)).or_else(of_folder) {
        let reason = format!("the container has no `{path}`, a mount is at `{target}`");
        let edit = case.context.edit(&format!("container.volumes[{index}]"), reason);
        // The source can contain the same path.
        let (from, to) = (format!(":{target}"), format!(":{place}"));
        let meant = edit.now.as_ref()?.replacen(&from, &to, 1);
        return Some(edit.suggest(meant));
    }
    let exists = case
        .host_facts(path)
        .is_some_and(|facts| facts.file_mode().is_some());
    let of_project = exists.then(|| format!("./{name}:{path}:ro"));
    let own = &case.context.service.name;
    let services = case.context.accepted.desired.services.values();
    let mut siblings = services.filter(|sibling| sibling.name != *own);
    let of_sibling = || {
        siblings.find_map(|sibling| {
            let index = sibling
                .mounts
                .iter()
                .position(|mount| is_below(path, mount.target()))?;
            let accepted = case.context.accepted;
            let key = format!("container.volumes[{index}]");
            accepted
                .lines
                .edit_service("", sibling.name.as_str(), &key, "")
                .now
        })
    };
    let entry = of_project.or_else(of_sibling)?;
    Some(add_volume(
        &case.context,
        &entry,
        format!("the container has no `{path}`"),
    ))
}

/// Name that the program expects for the only file that is mounted in a folder: a whole path, or a name with the folders of its search.
fn same_folder(case: &Case<'_>, line: &str) -> Option<SpecEdit> {
    let ending = |path: &str| Some(path.rsplit('/').next()?.rsplit_once('.')?.1.to_owned());
    let mut files = case
        .context
        .service
        .mounts
        .iter()
        .enumerate()
        .filter_map(|(index, mount)| {
            let target = mount.target();
            let (folder, _) = target.rsplit_once('/')?;
            let end = ending(target)?;
            let expected = paths(line).find(|path| {
                let is_in_folder = path.rsplit_once('/').is_some_and(|(other, _)| other == folder);
                is_in_folder && ending(path).as_ref() == Some(&end)
            });
            // Some programs search several folders for a name without its ending.
            let searched = || {
                let at = line.to_lowercase().find("not found in")?;
                let name = line.get(..at)?.split_whitespace().next_back()?;
                let name = name.trim_matches(['"', '\'', '`', '\\']);
                let is_searched = paths(line).any(|path| path == folder) && is_plain(name);
                is_searched.then(|| format!("{folder}/{name}.{end}"))
            };
            let meant = expected.map(str::to_owned).or_else(searched)?;
            (meant != target).then_some((index, target, meant))
        });
    let (index, target, meant) = files.next().filter(|_| files.next().is_none())?;
    let reason = format!("the program reads `{meant}`, and the mount is at `{target}`");
    let edit = case.context.edit(&format!("container.volumes[{index}]"), reason);
    let written = edit
        .now
        .as_ref()?
        .replacen(&format!(":{target}"), &format!(":{meant}"), 1);
    Some(edit.suggest(written))
}

/// Missing path in the command or in a variable that is similar to the target of a mount.
fn near_mount(case: &Case<'_>, line: &str, named: Option<&str>) -> Option<SpecEdit> {
    let service = case.context.service;
    let is_of_files = contains(line, &["directory", "folder", "no such file"]);
    let in_words = case.words().map(|word| (case.command_key(word).to_owned(), word));
    let variables = service.env_vars.iter();
    let in_variables = variables.map(|(name, value)| (format!("container.environment.{name}"), value));
    in_words.chain(in_variables).find_map(|(key, text)| {
        let is_named = |path: &str| paths(line).any(|named| named == path);
        let is_missing =
            |path: &&str| is_named(path) || (named.is_none() && (is_of_files || line.contains(*path)));
        let path = paths(text).find(is_missing)?;
        if mount_of(&case.context, path).is_some() {
            return None;
        }
        let is_only = service.mounts.len() == 1;
        let mut targets = service
            .mounts
            .iter()
            .map(|mount| mount.target().trim_end_matches('/'));
        let (target, meant) =
            targets.find_map(|target| Some((target, meant_path(path, target, is_only)?)))?;
        let reason = format!("the container has no `{path}`, a mount is at `{target}`");
        Some(case.context.edit(&key, reason).now(path).suggest(meant))
    })
}

/// The path with the target of a mount for a similar folder, or a mounted file of the same name.
fn meant_path(path: &str, target: &str, is_only: bool) -> Option<String> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    if name(path) == name(target) && name(target).contains('.') {
        return Some(target.to_owned());
    }
    // Only this folder of the project is mounted.
    if is_only && name(path).contains('.') && !name(target).contains('.') && path.matches('/').count() == 2 {
        return Some(format!("{target}/{}", name(path)));
    }
    let depth = target.split('/').count();
    let parts: Vec<&str> = path.split('/').take(depth).collect();
    let folder = parts.join("/");
    let is_similar = target.len() >= 5 && differs_by_one_error(&folder, target);
    is_similar.then(|| format!("{target}{}", &path[folder.len()..]))
}

/// Path below a bind mount that a line reports as missing, and that does not exist on the host.
fn missing<'a>(case: &Case<'a>) -> Option<(String, &'a HostFile)> {
    // A program that ends with success did not need the file.
    if kind(case.run) == FailureKind::Exit && case.run.exit_code == 0 {
        return None;
    }
    let service = case.context.service;
    let line = case.line_with(&MISSING_FILE)?;
    let relative = case
        .words()
        .filter(|word| is_file_name(word) && line.contains(word.as_str()))
        .map(|word| absolute(word, service.working_dir.as_deref(), &service.mounts));
    paths(line).map(str::to_owned).chain(relative).find_map(|path| {
        let facts = case.host_facts(&path).filter(|facts| facts.mode.is_none())?;
        let (_, mount) = mount_of(&case.context, &path)?;
        matches!(mount, Mount::Bind { .. }).then_some((path, facts))
    })
}
