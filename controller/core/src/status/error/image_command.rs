//! Place in a Dockerfile of the command that a container cannot run.

use argus_crds::error::SpecEdit;
use serde_json::Value;

use crate::desired::{Build, Image, Service};
use crate::dockerfile::Instruction;
use crate::failed_run::{FailedRun, FailureKind, kind};

/// Step for a program that the image does not have.
const HINT: &str = "correct its program, or install it in the image";
/// Step for a file that the image has, with a mode that forbids to run it.
const NOT_EXECUTABLE: &str = "make its file executable, such as with `COPY --chmod=755`";
/// Exit code of a program that the kernel may not run.
const DENIED: i64 = 126;

/// Moves the change of a built image to the `CMD` or the `ENTRYPOINT` that names the missing program. Without a change, adds one.
pub(super) fn with_place(
    service: Option<&Service>,
    failed_run: &FailedRun,
    edit: Option<SpecEdit>,
) -> Option<SpecEdit> {
    let Some((build, at)) = service.and_then(|service| find(service, failed_run)) else {
        return edit;
    };
    match edit {
        Some(edit) if edit.file != build.context => Some(edit),
        Some(edit) => Some(SpecEdit {
            file: build.shown_dockerfile(),
            line: Some(at.line),
            ..edit
        }),
        None => {
            let (reason, hint) = match failed_run.exit_code {
                DENIED => (
                    format!("the file of its `{}` is not executable", at.text),
                    NOT_EXECUTABLE,
                ),
                _ => (format!("the image cannot run its `{}`", at.text), HINT),
            };
            Some(
                SpecEdit::new(build.shown_dockerfile(), "", reason)
                    .line(at.line)
                    .hint(hint),
            )
        }
    }
}

/// Change of the Dockerfile for a container that the engine could not start.
pub(super) fn of_start(service: &Service, reason: &str) -> Option<SpecEdit> {
    let Image::Built(build) = &service.image else {
        return None;
    };
    let (_, program) = reason.split_once("exec: \"").unwrap_or_default();
    if build.options.inline.is_some() {
        return None;
    }
    if let Some((program, _)) = program.split_once("\": permission denied") {
        let reason = format!("the file `{program}` of the image is not executable");
        return Some(SpecEdit::new(build.shown_dockerfile(), "", reason).hint(NOT_EXECUTABLE));
    }
    let is_of_image = service.entrypoint.is_none() && service.command.is_none();
    if !is_of_image || reason.contains("exec format") {
        return None;
    }
    let reason = "the image cannot run its `CMD` or `ENTRYPOINT`";
    Some(SpecEdit::new(build.shown_dockerfile(), "", reason).hint(HINT))
}

/// Returns whether the container has the script behind the details of a missing program: only its interpreter is missing.
pub(super) fn has_script(service: Option<&Service>, failed_run: &FailedRun, missing: &Value) -> bool {
    let path = missing["missingCommand"].as_str().unwrap_or_default();
    let evidence = failed_run.evidence.as_ref();
    let facts = evidence.and_then(|evidence| evidence.host_files.get(path));
    let written = |service: &Service| service.process.files.iter().any(|file| file.path == path);
    facts.is_some_and(|facts| facts.interpreter.is_some()) || service.is_some_and(written)
}

/// Instruction that names a word of the output of a container that could not run its command.
fn find<'a>(service: &'a Service, failed_run: &'a FailedRun) -> Option<(&'a Build, &'a Instruction)> {
    let Image::Built(build) = &service.image else {
        return None;
    };
    if kind(failed_run) != FailureKind::NotRunnable || failed_run.has_wrong_format() {
        return None;
    }
    let evidence = failed_run.evidence.as_ref()?;
    let of_engine = std::iter::once(&failed_run.error);
    let lines = evidence.stderr.iter().chain(&evidence.stdout).chain(of_engine);
    let named: Vec<&str> = lines.flat_map(|line| words(line)).collect();
    let at = evidence.image_commands.iter().find(|command| {
        let mut words = words(&command.text).skip(1);
        words.any(|word| named.contains(&word))
    })?;
    Some((build, at))
}

/// Words of a line that can be programs.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| c.is_whitespace() || "\"'`,:;()[]".contains(c))
        .filter(|word| word.len() > 1 && !word.starts_with('-'))
}
