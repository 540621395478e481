//! Users: programs that require root, and programs that refuse it.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains};

parts! {
    /// Parts of a message of a program that requires root, in lower case.
    NEEDS_ROOT: "must be run as root" "must run as root" "must be root" "requires root"
        "run this script as root" "need to be root" "root privileges" "superuser privileges" "are you root?"
        "setgroups() failed" "initgroups(" "can't drop privilege" "changing ownership of"
        "failed switching to" "could not change permissions of directory";
    /// Parts of a message of a program that refuses to run as root, in lower case.
    REFUSES_ROOT: "cannot be run as root" "can not run elasticsearch as root" "cannot run as root"
        "can't run as root" "must not be run as root" "should not be run as root" "do not run as root" "not supposed to be run as root" "not permitted to run as root" "refuses to run as root"
        "running as root without --no-sandbox" "running as root is not" "root user is not allowed"
        "\"root\" execution of the" "refusing to run as root" "to run mysqld as root";
}

/// Program that requires root, while the file names another user.
pub(super) fn root_required(case: &Case<'_>) -> Option<SpecEdit> {
    let user = case.context.service.user.as_deref()?;
    case.line_with(NEEDS_ROOT).filter(|line| {
        !is_root(user) && !contains(line, &["not be run as root", "must not", "cannot be root"])
    })?;
    let reason = format!("its program requires root, and `user` is `{user}`");
    let edit = case.context.edit("user", reason).now(user);
    // Many images change the user themselves.
    Some(edit.suggest("root"))
}

/// Program that refuses to run as root.
pub(super) fn root_refused(case: &Case<'_>) -> Option<SpecEdit> {
    let user = case.context.service.user.as_deref();
    case.line_with(REFUSES_ROOT)?;
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
