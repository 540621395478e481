//! Files and folders: read-only mounts, permissions, contents, and full disks.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, is_below, mount_of, paths};
use crate::desired::Mount;
use crate::failed_run::{FailureKind, kind};

/// Parts of a message about the contents of a file, in lower case.
const CONTENTS: [&str; 10] = [
    "parse error",
    "parsing error",
    "syntax error",
    "error parsing",
    "failed to parse",
    "unknown directive",
    "unexpected ",
    "invalid",
    "bad directive",
    "yaml: line",
];

/// Write below a mount that ends with `:ro`.
pub(super) fn read_only_mount(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&["read-only file system", "erofs"])?;
    let (index, mount) = paths(line).find_map(|path| mount_of(&case.context, path))?;
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

/// Error in the contents of a mounted file.
pub(super) fn contents(case: &Case<'_>) -> Option<SpecEdit> {
    let is_mounted = |line: &&str| paths(line).any(|path| case.host_file(path).is_some());
    let line = case
        .lines()
        .find(|line| contains(line, &CONTENTS) && is_mounted(line))?;
    let (path, file) = paths(line).find_map(|path| Some((path, case.host_file(path)?)))?;
    let (_, rest) = line.split_once(path)?;
    let number = number_in(rest).or_else(|| number_in(line.split_once("line ")?.1));
    let hint = "correct the mounted file, then `argus_retry`";
    Some(Case::host_edit(file, "the process cannot read its contents", hint).line(number))
}

/// Number of a line at the start of a text, such as `:3` or ` line 3`.
fn number_in(text: &str) -> Option<usize> {
    let text = text.trim_start_matches(|c: char| " :(,\"'`".contains(c));
    let text = text.trim_start_matches("line ");
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
        let hint = format!("change the owner of it or of its folder to `{user}`, then `argus_retry`");
        let reason = format!("the user `{user}` has no permission to use it");
        return Some(Case::host_edit(file, reason, hint));
    }
    if mount_of(&case.context, path).is_some() {
        return None;
    }
    // A `tmpfs` in the place of an existing folder would hide its files.
    if !contains(line, &["mkdir", "create directory"]) {
        return None;
    }
    let mode = match user.split(':').next()?.parse::<u32>() {
        Ok(uid) => format!("uid={uid}"),
        Err(_) => "mode=1777".to_owned(),
    };
    let reason = format!("the user `{user}` cannot create `{path}`");
    Some(add_tmpfs(case, &format!("{path}:{mode}"), reason))
}

/// Full temporary or shared memory.
pub(super) fn no_space(case: &Case<'_>) -> Option<SpecEdit> {
    shared_memory(case).or_else(|| {
        let line = case.line_with(&["no space left", "enospc"])?;
        let is_full = |entry: &&String| paths(line).any(|path| is_below(path, folder(entry)));
        larger_tmpfs(case, case.context.service.tmpfs.iter().find(is_full)?)
    })
}

/// Full shared memory. A program that writes into it may end with a bus error.
pub(super) fn shared_memory(case: &Case<'_>) -> Option<SpecEdit> {
    const FULL: [&str; 4] = ["no space left", "could not resize", "too small", "bus error"];
    case.line_with(&["/dev/shm", "shared memory"])
        .filter(|line| contains(line, &FULL))?;
    let mut entries = case.context.service.tmpfs.iter();
    match entries.find(|entry| folder(entry) == "/dev/shm") {
        Some(entry) => larger_tmpfs(case, entry),
        None => Some(add_tmpfs(
            case,
            "/dev/shm:size=256m",
            "its shared memory is full".to_owned(),
        )),
    }
}

fn folder(entry: &str) -> &str {
    entry.split(':').next().unwrap_or_default()
}

/// The entry with four times its size and its other options; `None` without a size in bytes.
fn larger_tmpfs(case: &Case<'_>, entry: &str) -> Option<SpecEdit> {
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
    let index = case
        .context
        .service
        .tmpfs
        .iter()
        .position(|listed| listed == entry)?;
    let reason = format!("`{}` is full", folder(entry));
    let edit = case.context.edit(&format!("tmpfs[{index}]"), reason);
    Some(edit.now(entry).suggest(written))
}

fn add_tmpfs(case: &Case<'_>, entry: &str, reason: String) -> SpecEdit {
    let mut entries = case.context.service.tmpfs.clone();
    entries.push(entry.to_owned());
    let written = serde_json::to_string(&entries).unwrap_or_default();
    case.context.edit("tmpfs", reason).suggest(written)
}
