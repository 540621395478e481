//! Place of a failed build in its Dockerfile, and a stage that the Dockerfile misspells.

use std::path::Path;

use argus_core::desired::Build;
use argus_core::dockerfile;
use argus_core::outcome::ActionError;

use super::{Log, context};
use crate::similar_file::find_similar;

/// Adds the failed instruction to the error of a build, if the Dockerfile can be read.
pub(super) async fn find(error: ActionError, build: &Build, log: &Log) -> ActionError {
    if let Some(text) = &build.options.inline {
        return find_in(text, error, log);
    }
    let (root, dockerfile) = (build.context.clone(), build.dockerfile.clone());
    let reading =
        tokio::task::spawn_blocking(move || context::read_dockerfile(Path::new(&root), &dockerfile));
    let error = match reading.await {
        Ok(Ok(text)) => find_in(&text, error, log),
        // The error of the build is more important.
        Ok(Err(_)) | Err(_) => return error,
    };
    let (root, dockerfile, found) = (build.context.clone(), build.dockerfile.clone(), error.clone());
    let corrected = tokio::task::spawn_blocking(move || with_source(found, Path::new(&root), &dockerfile));
    corrected.await.unwrap_or(error)
}

/// Path in the build context that differs from a missing one only by a typing error in its last name. A link does not lead out of it.
fn similar_source(root: &Path, path: &str) -> Option<String> {
    let missing = root.join(path);
    let folder = missing.parent()?.canonicalize().ok()?;
    // The build excludes a path that exists.
    if !folder.starts_with(root.canonicalize().ok()?) || missing.symlink_metadata().is_ok() {
        return None;
    }
    let similar = find_similar(&missing)?;
    Some(match path.rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/{similar}"),
        None => similar,
    })
}

/// Completes the instruction with a missing source: the rule that excludes the source, else a similar path in its place.
fn with_source(mut error: ActionError, root: &Path, dockerfile: &str) -> ActionError {
    if let ActionError::BuildFailed {
        message,
        instruction: Some(at),
        ..
    } = &mut error
        && at.corrected.is_none()
        && let Some(path) = dockerfile::missing_source(at, message)
    {
        at.excluded_by = context::find_exclusion(root, dockerfile, path);
        if at.excluded_by.is_none()
            && let Some(similar) = similar_source(root, path)
        {
            at.corrected = dockerfile::with_other_source(at, path, &similar);
        }
    }
    error
}

/// Adds the failed instruction. A builder reports a misspelled stage as an image that it cannot read.
fn find_in(text: &str, error: ActionError, log: &Log) -> ActionError {
    let (ActionError::BuildFailed { message, .. }
    | ActionError::BuildInterrupted { message, .. }
    | ActionError::AuthRequired(message)) = &error
    else {
        return error;
    };
    let all = dockerfile::parse(text);
    let step = log.step.as_deref().unwrap_or_default();
    if let Some(found) = dockerfile::find_misspelled_stage(&all, &format!("{step} {message}")) {
        return ActionError::BuildFailed {
            message: format!(
                "`{}` is not a stage of the Dockerfile, and the nearest one is `{}`: {message}",
                found.name, found.similar
            ),
            log: log.text(),
            instruction: Some(Box::new(found.instruction.shortened())),
        };
    }
    let failed = dockerfile::find_step(&all, step).or_else(|| dockerfile::find_syntax_error(&all, message));
    let newer = failed.and_then(|failed| dockerfile::find_newer_syntax(failed, message));
    let failed = failed.cloned().map(|failed| Box::new(failed.shortened()));
    match error {
        ActionError::BuildFailed { message, log, .. } => ActionError::BuildFailed {
            message: match newer {
                Some(syntax) => format!(
                    "`{syntax}` needs a newer BuildKit than that of this engine: Docker 23 or later, or `# syntax=docker/dockerfile:1` as the \
                     first line of the Dockerfile: {message}"
                ),
                None => message,
            },
            log,
            instruction: failed,
        },
        other => other,
    }
}

/// Adds the key of the spec file to the message about a stage that the Dockerfile does not define.
pub(super) fn name_target(build: &Build, message: String) -> String {
    let is_missing = ["failed to reach build target", "target stage"]
        .iter()
        .any(|part| message.contains(part));
    match &build.target {
        Some(target) if is_missing => format!(
            "`build.target` is `{target}`, which is not a stage of the Dockerfile `{}`: {message}",
            build.dockerfile
        ),
        Some(_) | None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCKERFILE: &str = "FROM golang:1 AS build\nRUN make\nFROM alpine:3\nCOPY --from=biuld /srv /\n";

    fn log(step: &str) -> Log {
        let mut log = Log {
            step: Some(step.to_owned()),
            ..Log::default()
        };
        log.store_line("make: no rule");
        log
    }

    fn failed(message: &str) -> ActionError {
        ActionError::BuildFailed {
            message: message.to_owned(),
            log: "make: no rule".to_owned(),
            instruction: None,
        }
    }

    /// Line, message and correction of a failed build.
    fn found(error: ActionError, step: &str) -> (Option<usize>, String, Option<String>) {
        match find_in(DOCKERFILE, error, &log(step)) {
            ActionError::BuildFailed {
                message,
                log,
                instruction,
            } => {
                assert_eq!(log, "make: no rule");
                let corrected = instruction.as_ref().and_then(|found| found.corrected.clone());
                (instruction.map(|found| found.line), message, corrected)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn failed_step_has_its_line() {
        let message = "did not complete successfully: exit code: 2";
        for (step, line) in [
            ("[build 2/2] RUN make", Some(2)),
            ("Step 2/4 : RUN make", Some(2)),
            ("[internal] load build context", None),
        ] {
            assert_eq!(found(failed(message), step).0, line, "{step}");
        }
        let message = "dockerfile parse error on line 3: unknown instruction";
        assert_eq!(found(failed(message), "").0, Some(3));
        let message = "dockerfile parse error line 4: Unknown flag: link";
        let (line, explained, _) = found(failed(message), "");
        let expected = "`link` needs a newer BuildKit than that of this engine: Docker 23 or later";
        assert!(line == Some(4) && explained.starts_with(expected), "{explained}");
        let busy = ActionError::Busy("[build 2/2] RUN make".to_owned());
        assert_eq!(find_in(DOCKERFILE, busy.clone(), &log("")), busy);
    }

    #[test]
    fn misspelled_stage_is_no_failure_of_a_registry() {
        let why = "docker.io/library/biuld:latest: dial tcp: no such host";
        let step = "[internal] load metadata for docker.io/library/biuld:latest";
        let interrupted = ActionError::BuildInterrupted {
            message: why.to_owned(),
            log: String::new(),
        };
        let denied = ActionError::AuthRequired(why.to_owned());
        for error in [interrupted, denied, failed(why)] {
            let (line, message, corrected) = found(error, step);
            assert_eq!(line, Some(4));
            assert_eq!(corrected.as_deref(), Some("COPY --from=build /srv /"));
            let expected =
                format!("`biuld` is not a stage of the Dockerfile, and the nearest one is `build`: {why}");
            assert_eq!(message, expected);
        }
        // The registry of a real image is away.
        let step = "[internal] load metadata for docker.io/library/alpine:3";
        let other = ActionError::BuildInterrupted {
            message: "alpine:3: no such host".to_owned(),
            log: String::new(),
        };
        assert_eq!(find_in(DOCKERFILE, other.clone(), &log(step)), other);
    }

    #[test]
    fn missing_source_is_corrected_to_a_similar_name() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("app");
        std::fs::create_dir_all(root.join("web/assets")).unwrap();
        std::fs::create_dir_all(folder.path().join("private/keys")).unwrap();
        std::os::unix::fs::symlink("../private", root.join("link")).unwrap();
        assert_eq!(similar_source(&root, "web/asets").as_deref(), Some("web/assets"));
        assert_eq!(similar_source(&root, "web/public"), None);
        assert_eq!(similar_source(&root, "web/assets"), None, "the build excludes it");
        assert_eq!(similar_source(&root, "link/keyss"), None, "it leads out");
        let at = dockerfile::parse("FROM a:1\nCOPY web/asets/ /srv/\n").remove(1);
        let error = ActionError::BuildFailed {
            message: "\"/web/asets\" not found".to_owned(),
            log: String::new(),
            instruction: Some(Box::new(at)),
        };
        let completed = || match with_source(error.clone(), &root, "Dockerfile") {
            ActionError::BuildFailed { instruction, .. } => *instruction.unwrap(),
            other => panic!("{other:?}"),
        };
        let found = completed();
        assert_eq!(found.corrected.as_deref(), Some("COPY web/assets/ /srv/"));
        assert_eq!(found.excluded_by, None);
        // The source exists, and is excluded.
        std::fs::write(root.join(".dockerignore"), "web\n").unwrap();
        for path in ["Dockerfile", "web/asets"] {
            std::fs::write(root.join(path), "").unwrap();
        }
        let found = completed();
        assert_eq!(found.corrected, None);
        let (file, line) = (".dockerignore".to_owned(), 1);
        assert_eq!(found.excluded_by, Some(dockerfile::Exclusion { file, line }));
    }
}
