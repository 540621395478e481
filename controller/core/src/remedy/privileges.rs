//! Users: programs that require root, and programs that refuse it.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains};
use super::classes::{NEEDS_ROOT, REFUSES_ROOT};
use super::shell::list;

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

fn is_root(user: &str) -> bool {
    matches!(user.split(':').next(), Some("0" | "root"))
}
