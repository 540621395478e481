//! Programs that an image which Argus builds does not contain, or cannot run.

use std::path::Path;

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, host_file, paths};
use super::program::program_in;
use crate::desired::Image;
use crate::failed_run::{FailureKind, kind};
use crate::outcome::HostFile;
use crate::quoting::shell_path;

/// Program of an image that Argus builds, if the image contains neither it nor the interpreter in its first line. The kernel reports both in
/// the same way.
pub(super) fn built_script(case: &Case<'_>) -> Option<SpecEdit> {
    let Image::Built(build) = &case.context.service.image else {
        return None;
    };
    if kind(case.run) != FailureKind::NotRunnable {
        return None;
    }
    let (line, path) = case.lines().find_map(|line| {
        let of_interpreter = paths(line)
            .next()
            .filter(|_| contains(line, &["bad interpreter"]));
        let program = || program_in(line).filter(|program| program.contains('/'));
        Some((line, of_interpreter.or_else(program)?))
    })?;
    if host_file(&case.context, path).is_some() {
        return None;
    }
    let (folder, name) = path.rsplit_once('/')?;
    let own = path.trim_start_matches("./");
    let mut files = case.run.evidence.as_ref()?.host_files.iter();
    let is_own = |(other, facts): &(&String, &HostFile)| {
        facts.copied_from.is_some() && Path::new(other).ends_with(own)
    };
    let copied = files.find(is_own).map(|(_, facts)| facts);
    let similar = copied.and_then(|facts| facts.similar.as_deref());
    let meant = similar.map(|similar| format!("{folder}/{similar}"));
    // The name of an interpreter with the line ends of Windows.
    let has_crlf = line.contains("^M");
    let (reason, hint) = match &meant {
        _ if has_crlf => (
            format!("the lines of `{path}` end with CRLF"),
            format!("run `sed -i 's/\\r$//' {}`", shell_path(name)),
        ),
        Some(meant) => (
            format!("the image has no `{path}`, and its build context has a similar name"),
            format!("write `{meant}`"),
        ),
        None if copied.is_some() => (
            format!("the image has `{path}`, and not the interpreter or loader that it needs"),
            "build it for the system of the image".to_owned(),
        ),
        None => (
            format!("the image has no `{path}`, or not the interpreter in its line 1"),
            "write the path of a program of the image, or copy it into the image".to_owned(),
        ),
    };
    let is_named = case.words().any(|word| word.contains(path));
    if has_crlf || !is_named || (copied.is_some() && meant.is_none()) {
        return Some(Case::host_edit(build.context.clone(), reason, hint));
    }
    let edit = case.context.edit(case.command_key(path), reason).now(path);
    Some(match meant {
        Some(meant) => edit.suggest(meant),
        None => edit.hint(hint),
    })
}
