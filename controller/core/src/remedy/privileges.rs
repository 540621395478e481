//! Users: programs that require root, programs that refuse it, and secrets that other users may read.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, paths};
use super::classes::{NEEDS_ROOT, REFUSES_ROOT};
use super::images::user_of;
use super::shell::list;
use crate::quoting::shell_path;

/// Program that requires root, while the file names another user.
pub(super) fn root_required(case: &Case<'_>) -> Option<SpecEdit> {
    let user = case.context.service.user.as_deref()?;
    case.line_with(&NEEDS_ROOT).filter(|line| {
        !is_root(user) && !contains(line, &["not be run as root", "must not", "cannot be root"])
    })?;
    let reason = format!("its program requires root, or a user that the image knows, and `user` is `{user}`");
    let edit = case.context.edit("user", reason).now(user);
    // Many images change the user themselves.
    Some(edit.suggest("root"))
}

/// Program that refuses to run as root.
pub(super) fn root_refused(case: &Case<'_>) -> Option<SpecEdit> {
    let user = case.context.service.user.as_deref();
    let line = case.line_with(&REFUSES_ROOT)?;
    // Browsers and some servers have an option for root.
    let words = case.command_words();
    let mut texts = case
        .words()
        .map(String::as_str)
        .chain([case.context.service.image.reference()]);
    let option = if contains(line, &["--allow-root"]) {
        Some("--allow-root")
    } else {
        let is_browser = contains(line, &["--no-sandbox"]) && texts.any(|text| contains(text, &["chrom"]));
        is_browser.then_some("--no-sandbox")
    };
    if let Some(option) = option.filter(|_| !words.is_empty()) {
        let edit = case
            .context
            .edit("command", "its program runs as root".to_owned());
        return Some(edit.suggest(list(&[&words[..], &[option]].concat())?));
    }
    if user.is_some_and(|user| !is_root(user)) {
        return None;
    }
    let reason = "its program refuses to run as root".to_owned();
    let edit = case.context.edit("user", reason);
    Some(match user {
        Some(user) => edit.now(user).suggest("1000"),
        None => edit.suggest("1000"),
    })
}

pub(super) fn is_root(user: &str) -> bool {
    matches!(user.split(':').next(), Some("0" | "root"))
}

/// Secret that others may read: a mounted file, or one of `container.files`.
pub(super) fn open_file(case: &Case<'_>) -> Option<SpecEdit> {
    parts! {
        OPEN: "too open" "too permissive" "bad owner or permissions" "unprotected private key" "has group or world access"
            "accessible by owner only" "insecure permissions";
    }
    let line = case
        .line_with(OPEN)
        .filter(|line| !contains(line, &["directory"]))?;
    if let Some(file) = paths(line).find_map(|path| case.host_file(path)) {
        let hint = format!("run `chmod 600 {}`", shell_path(&file));
        return Some(Case::host_edit(file, "others may read it", hint));
    }
    let service = case.context.service;
    let mut files = service.process.files.iter().enumerate();
    let (index, file) = files.find(|(_, file)| paths(line).any(|path| path == file.path))?;
    let reason = format!("its mode {:04o} lets others read it", file.access.mode);
    if case.context.accepted.lines.is_compose() {
        let hint = "write `mode: 0600` in its entry under `configs` or `secrets`";
        return Some(case.context.edit("container", reason).hint(hint));
    }
    let edit = case
        .context
        .edit(&format!("container.files[{index}].mode"), reason);
    let edit = edit.suggest("0600");
    Some(match user_of(service).filter(|_| file.access.uid == 0) {
        Some(uid) => edit.hint(format!("and `uid: {uid}`, the user of the process")),
        None => edit,
    })
}
