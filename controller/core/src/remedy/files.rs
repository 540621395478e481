//! Files and folders: read-only mounts, permissions, contents, and full disks.

use std::path::Path;

use argus_crds::error::SpecEdit;

use super::case::{Case, add_tmpfs, contains, is_below, mount_of, paths};
use super::classes::{CONTENTS, DENIED, READ_ONLY};
use super::database::only_sibling;
use super::images::{own_user, user_of};
use super::network::siblings;
use super::settings::vcl_host;
use super::{EditContext, host_files};
use crate::desired::paths::KERNEL_FOLDERS;
use crate::desired::{Image, Mount};
use crate::failed_run::{FailureKind, kind};
use crate::quoting::shell_path;

parts! {
    /// Names of errors in the syntax of a file, in lower case.
    SYNTAX: "syntaxerror" "indentationerror" "taberror" "psych::syntaxerror"
        "vcl compilation failed";
}

/// Folders for files of a run, which a `tmpfs` can replace.
const SCRATCH: [&str; 5] = ["/run", "/var/run", "/tmp", "/var/cache", "/var/log"];

/// Write below a mount that ends with `:ro`.
pub(super) fn read_only_mount(case: &Case<'_>) -> Option<SpecEdit> {
    let line = read_only_line(case)?;
    // The last path is the one that the program writes.
    let in_line = paths(line)
        .filter_map(|path| mount_of(&case.context, path))
        .last();
    // A database names no file, so the path of a variable is meant.
    let in_variable = || {
        let mut variables = case.context.service.env_vars.iter();
        let is_unnamed = paths(line).next().is_none();
        let of_database = |(name, value): (&String, &String)| {
            let (_, path) = value.split_once("://").unwrap_or(("", value.as_str()));
            let is_meant = path.contains('/') && contains(name, &["db", "database", "sqlite"]);
            let path = format!("/{}", path.trim_start_matches('/'));
            mount_of(&case.context, &path).filter(|_| is_meant)
        };
        variables.find_map(of_database).filter(|_| is_unnamed)
    };
    let mut mounts = case.context.service.mounts.iter().enumerate();
    let is_only = case.context.service.mounts.len() == 1
        && paths(line).next().is_none()
        && !contains(line, &["database"]);
    let only = || mounts.next().filter(|_| is_only);
    let (index, mount) = in_line.or_else(in_variable).or_else(only)?;
    let (Mount::Bind {
        read_only, target, ..
    }
    | Mount::Volume {
        read_only, target, ..
    }) = mount;
    if !read_only {
        return None;
    }
    let reason = format!("the process writes below `{target}`, which is mounted read-only");
    let edit = case.context.edit(&format!("container.volumes[{index}]"), reason);
    let (place, options) = edit.now.as_deref()?.rsplit_once(':')?;
    let kept: Vec<&str> = options.split(',').filter(|option| *option != "ro").collect();
    let writable = match &kept[..] {
        [] => place.to_owned(),
        kept => format!("{place}:{}", kept.join(",")),
    };
    Some(edit.suggest(writable))
}

/// Line about a write that fails. The scripts of some images only report that they skip a file.
fn read_only_line<'a>(case: &Case<'a>) -> Option<&'a str> {
    let is_skipped = |line: &str| contains(line, &[": info:", "(read-only file system?)"]);
    case.lines()
        .find(|line| contains(line, &READ_ONLY) && !is_skipped(line))
}

/// Write to a folder that is read-only, though no mount of the file contains it.
pub(super) fn read_only_folder(case: &Case<'_>) -> Option<SpecEdit> {
    let line = read_only_line(case)?;
    let path = paths(line).last()?;
    let is_of_kernel = KERNEL_FOLDERS.iter().any(|folder| is_below(path, folder));
    if is_of_kernel || mount_of(&case.context, path).is_some() {
        return None;
    }
    let folder = path
        .rsplit_once('/')
        .map(|(folder, _)| folder)
        .filter(|folder| !folder.is_empty())?;
    let reason = format!("the process writes below `{folder}`, which is read-only");
    // It would hide the files of the image in another folder.
    if SCRATCH.iter().any(|scratch| is_below(folder, scratch)) {
        return Some(add_tmpfs(&case.context, folder, reason));
    }
    let edit = case.context.edit("tmpfs", reason);
    Some(edit.hint("add this folder, if it has no files of the image"))
}

/// Error in the contents of a mounted file.
pub(super) fn contents(case: &Case<'_>) -> Option<SpecEdit> {
    if let Some(edit) = vcl_host(case) {
        return Some(edit);
    }
    let lines: Vec<&str> = case.lines().collect();
    let of_one = || {
        lines
            .iter()
            .filter(|line| is_about_contents(line))
            .find_map(|line| Some((*line, file_in(case, line, contains(line, &["syntax", "parse"]))?)))
    };
    // Python and Ruby name the file and the line in the line before the error.
    let of_two = || {
        let is_error = lines.iter().any(|line| contains(line, SYNTAX));
        let mut named = lines
            .iter()
            .filter(|line| line.contains(", line ") || line.contains(":in ") || contains(line, &["' line "]));
        named
            .find_map(|line| Some((*line, file_in(case, line, true)?)))
            .filter(|_| is_error)
    };
    let (line, (path, file)) = of_one().or_else(of_two)?;
    let (_, rest) = line.split_once(path)?;
    // Some libraries write the number in a line of its own.
    let apart = |other: &&str| {
        let text = other.trim_start();
        let after = || Some(text.split_once("at line ")?.1);
        number_in(text.strip_prefix("line ").or_else(after)?)
    };
    let number = number_in(rest)
        .or_else(|| number_in(line.split_once("line ")?.1))
        .or_else(|| lines.iter().find_map(apart));
    let hint = "correct the mounted file";
    Some(Case::host_edit(file, "the process cannot read its contents", hint).line(number))
}

/// Returns whether a line is about the contents of a file. Names of exceptions and logs in JSON contain such words too.
fn is_about_contents(line: &str) -> bool {
    let is_name = |word: &str| {
        let word = word.trim_end_matches([':', ',', '.']).to_lowercase();
        word.ends_with("exception")
    };
    let text: Vec<&str> = line.split_whitespace().filter(|word| !is_name(word)).collect();
    !line.trim_start().starts_with('{')
        && contains(&text.join(" "), &CONTENTS)
        && !contains(line, &["invalid api key", "invalid argument"])
}

/// Mounted file that a line names, with its path on the host: no frame of a stack, and source code only with an error in its syntax.
fn file_in<'a>(case: &Case<'_>, line: &'a str, is_syntax: bool) -> Option<(&'a str, String)> {
    const SOURCES: [&str; 5] = [".js", ".ts", ".py", ".php", ".rb"];
    if line.trim_start().starts_with("at ") {
        return None;
    }
    let is_meant = |path: &&str| {
        let is_source = SOURCES.iter().any(|end| path.ends_with(end));
        let is_library = path.contains("/node_modules/") || path.contains("/vendor/");
        let is_frame = line.contains(&format!(" at {path}"));
        !is_library && !is_frame && (is_syntax || !is_source) && is_file(case, path)
    };
    paths(line)
        .filter(is_meant)
        .find_map(|path| Some((path, case.host_file(path)?)))
}

/// Returns whether a path is that of a file: by the facts of the host, else by its name.
fn is_file(case: &Case<'_>, path: &str) -> bool {
    let by_name = || {
        let is_folder = mount_of(&case.context, path).is_some_and(|(_, mount)| mount.target() == path);
        let name = path.rsplit('/').next().unwrap_or_default();
        !is_folder || name.contains('.') || name.ends_with("file")
    };
    match case.host_facts(path).filter(|facts| facts.mode.is_some()) {
        Some(facts) => !facts.is_folder(),
        None => by_name(),
    }
}

/// Number of a line at the start of a text, such as `:3` or ` line 3`.
pub(super) fn number_in(text: &str) -> Option<usize> {
    let text = text.trim_start_matches(|c: char| " :(,\"'`".contains(c));
    let text = text.trim_start_matches("line ").trim_start_matches("Line ");
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok().filter(|number| *number > 0)
}

/// Folder of the image or of the host that the user of the file may not write.
pub(super) fn permission(case: &Case<'_>) -> Option<SpecEdit> {
    if kind(case.run) == FailureKind::NotRunnable {
        return None;
    }
    let user = case.context.service.user.as_deref()?;
    let line = case.line_with(&["permission denied", "eacces"])?;
    if contains(line, &["bind", "listen", "socket"]) {
        return None;
    }
    let path = paths(line).last()?;
    if let Some(file) = case.host_file(path) {
        if host_files::host_mode(case).is_some() {
            return None;
        }
        let hint = format!("change the owner of it or of its folder to `{user}`");
        let reason = format!("the user `{user}` has no permission to use it");
        return Some(Case::host_edit(file, reason, hint));
    }
    if mount_of(&case.context, path).is_some() {
        let reason = format!("the user `{user}` has no permission to use `{path}` in the volume");
        let edit = case.context.edit("user", reason).now(user);
        return Some(match own_user(case.context.service).filter(|own| *own != user) {
            Some(own) => edit.suggest(own),
            None => edit.hint("name the user that owns its data, or remove it"),
        });
    }
    // A `tmpfs` in the place of an existing folder would hide its files, except in a folder for files of a run.
    let parent = path.rsplit_once('/').map(|(folder, _)| folder)?;
    let path = if contains(line, &["mkdir", "create directory", "create the directory"]) {
        path
    } else {
        Some(parent).filter(|parent| SCRATCH.iter().any(|folder| is_below(parent, folder)))?
    };
    let mode = match user.split(':').next()?.parse::<u32>() {
        Ok(uid) => format!("uid={uid}"),
        Err(_) => "mode=1777".to_owned(),
    };
    let reason = format!("the user `{user}` cannot create `{path}`");
    Some(add_tmpfs(&case.context, &format!("{path}:{mode}"), reason))
}

/// Mounted folder that the user of a well-known image may not write.
pub(super) fn image_user(case: &Case<'_>) -> Option<SpecEdit> {
    let service = case.context.service;
    let uid = user_of(service).filter(|_| service.user.is_none())?;
    let line = case
        .line_with(&DENIED)
        .or_else(|| case.line_with(&["not writable", "cannot write", "can not write"]))?;
    let folder = paths(line).find_map(|path| {
        let (_, mount) = mount_of(&case.context, path)?;
        let is_writable = matches!(mount, Mount::Bind { read_only: false, .. });
        case.host_file(mount.target()).filter(|_| is_writable)
    });
    // Some programs name their folder from its parent.
    let only = || {
        let is_folder = |mount: &&Mount| matches!(mount, Mount::Bind { read_only: false, .. });
        let mut folders = service.mounts.iter().filter(is_folder);
        let only = folders.next().filter(|_| folders.next().is_none())?;
        let is_relative = paths(line).next().is_none() || line.contains("'../");
        case.host_file(only.target()).filter(|_| is_relative)
    };
    let folder = folder.or_else(only)?;
    let reason = format!("the image runs as user {uid}, which has no permission to write it");
    let hint = format!("run `chown -R {uid} {}`", shell_path(&folder));
    Some(Case::host_edit(folder, reason, hint))
}

/// Volume that the user of the image may not write.
pub(super) fn volume_user(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case
        .line_with(&DENIED)
        .filter(|_| case.context.service.user.is_none())?;
    let is_volume = |path: &&str| {
        let mounted = mount_of(&case.context, path);
        matches!(mounted, Some((_, Mount::Volume { read_only: false, .. })))
    };
    let path = paths(line).find(is_volume)?;
    let reason = format!("the user of the image has no permission to write `{path}` in its volume");
    Some(case.context.edit("user", reason).suggest("root"))
}

/// Variable with a folder outside of the only volume, which the user of the image may not write.
pub(super) fn folder_elsewhere(case: &Case<'_>) -> Option<SpecEdit> {
    let service = case.context.service;
    let line = case.line_with(&DENIED).filter(|_| service.user.is_none())?;
    let path = paths(line).find(|path| mount_of(&case.context, path).is_none())?;
    let is_folder = |(name, value): &(&String, &String)| {
        let is_named = contains(name, &["dir", "data", "folder", "storage", "cache"]);
        // A file would need another name.
        let is_file = value.rsplit('/').next().is_some_and(|last| last.contains('.'));
        is_named && !is_file && value.len() > 1 && value.starts_with('/') && is_below(path, value)
    };
    let mut variables = service.env_vars.iter().filter(is_folder);
    let (name, value) = variables.next().filter(|_| variables.next().is_none())?;
    let mut volumes = service
        .mounts
        .iter()
        .filter(|mount| matches!(mount, Mount::Volume { read_only: false, .. }));
    let volume = volumes.next().filter(|_| volumes.next().is_none())?;
    let is_used = |other: &String| is_below(other, volume.target());
    if service.env_vars.values().any(is_used) {
        return None;
    }
    let reason =
        format!("the user of the image has no permission to write `{path}`, and the volume is elsewhere");
    let key = format!("container.environment.{name}");
    Some(
        case.context
            .edit(&key, reason)
            .now(value)
            .suggest(volume.target()),
    )
}

/// Folder that the user of an image which Argus builds may not create.
pub(super) fn built_user(case: &Case<'_>) -> Option<SpecEdit> {
    let Image::Built(build) = &case.context.service.image else {
        return None;
    };
    let is_folder = |line: &&str| {
        contains(line, &["permission denied", "eacces"]) && contains(line, &["mkdir", "create directory"])
    };
    let line = case.lines().find(is_folder)?;
    let path = paths(line).last()?.trim_end_matches('/');
    if path.is_empty() || case.context.service.user.is_some() || mount_of(&case.context, path).is_some() {
        return None;
    }
    // An absolute path replaces the context.
    let dockerfile = Path::new(&build.context).join(&build.dockerfile);
    let dockerfile = build
        .options
        .inline
        .is_none()
        .then(|| dockerfile.display().to_string())?;
    let reason = format!("the user of the image has no permission to create `{path}`");
    let hint = format!("create `{path}` for this user before `USER`, or mount a volume at `{path}`");
    Some(Case::host_edit(dockerfile, reason, hint))
}

/// Full temporary or shared memory.
pub(super) fn no_space(case: &Case<'_>) -> Option<SpecEdit> {
    shared_memory(case).or_else(|| {
        parts! {
            FULL: "no space left" "enospc" "error 28" "errno 28" "errno: 28" "os error 28" "not enough space"
                "not enough disk space" "disk full" "disk is full" "insufficient disk";
        }
        let line = case.line_with(FULL)?;
        let entries = &case.context.service.tmpfs;
        let named = entries
            .iter()
            .find(|entry| paths(line).any(|path| is_below(path, folder(entry))));
        // Without a path in the message, the only folder with a size is meant.
        let mut sized = entries.iter().filter(|entry| entry.contains("size="));
        let only = || {
            let only = sized.next().filter(|_| sized.next().is_none());
            only.filter(|_| paths(line).next().is_none())
        };
        larger_tmpfs(&case.context, named.or_else(only)?)
    })
}

/// Full shared memory. A program that writes into it may end with a bus error.
pub(super) fn shared_memory(case: &Case<'_>) -> Option<SpecEdit> {
    const FULL: [&str; 4] = ["no space left", "could not resize", "too small", "bus error"];
    let line = case
        .line_with(&["/dev/shm", "shared memory"])
        .filter(|line| contains(line, &FULL))?;
    // A server reports its shared memory to its client.
    let is_of_server = contains(line, &["/postgresql."]);
    let server = only_sibling(case, &["POSTGRES_PASSWORD"]).filter(|_| is_of_server);
    let mut others = siblings(case);
    if is_of_server
        && server.is_none()
        && others.any(|other| other.env_vars.contains_key("POSTGRES_PASSWORD"))
    {
        return None;
    }
    let service = server.map_or(case.context.service, |(sibling, ..)| sibling);
    let context = case.context.with_service(service);
    let mut entries = context.service.tmpfs.iter();
    match entries.find(|entry| folder(entry) == "/dev/shm") {
        Some(entry) => larger_tmpfs(&context, entry),
        None => Some(add_tmpfs(
            &context,
            "/dev/shm:size=256m",
            "its shared memory is full".to_owned(),
        )),
    }
}

fn folder(entry: &str) -> &str {
    entry.split(':').next().unwrap_or_default()
}

/// The entry with four times its size and its other options; `None` without a size in bytes.
fn larger_tmpfs(context: &EditContext<'_>, entry: &str) -> Option<SpecEdit> {
    let (_, options) = entry.split_once(':')?;
    let size = options
        .split(',')
        .find_map(|option| option.strip_prefix("size="))?;
    let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let larger = digits.parse::<u64>().ok()?.saturating_mul(4);
    let written = entry.replace(
        &format!("size={size}"),
        &format!("size={larger}{}", &size[digits.len()..]),
    );
    let mut entries = context.service.tmpfs.iter();
    let index = entries.position(|listed| listed == entry)?;
    let reason = format!("`{}` is full", folder(entry));
    let edit = context.edit(&format!("tmpfs[{index}]"), reason);
    Some(edit.now(entry).suggest(written))
}
