//! Errors of failed engine calls.

use std::path::Path;
use std::time::Duration;

use argus_crds::error::{ActionId, Call, Class, Code, SpecEdit, StructuredError};
use serde_json::{Value, json};

use super::blocking::PERSISTENT;
use super::port::code_of_port;
use crate::action::{Action, ActionFailure, ActionKind, CallArgs, FailedAttempt};
use crate::dockerfile::missing_source;
use crate::outcome::{ActionError, Evidence, one_line};
use crate::plan::image::registry_of;
use crate::quoting::PathText as _;
use crate::remedy;
use crate::secrets::Secrets;
use crate::socket_access::code_of_reason;
use crate::status::redact;
use crate::time::Timestamp;

/// Lines of the log of a build in an error.
const TAIL: usize = 20;

/// Error code of a failed call.
pub fn code_of(error: &ActionError) -> Code {
    match error {
        ActionError::TimedOut(_) => Code::Timeout,
        ActionError::ConnectionLost(_) => Code::ConnectionLost,
        ActionError::CircuitOpen => Code::CircuitOpen,
        ActionError::Cancelled => Code::Held,
        ActionError::Unreachable(why) => code_of_reason(why),
        ActionError::Engine(_) => Code::DockerUnavailable,
        ActionError::NameTaken { .. } | ActionError::NotOwned(_) => Code::NameConflict,
        ActionError::PortTaken(refusal) => code_of_port(&refusal.owner),
        ActionError::ImageMissing | ActionError::ImageNotFound(_) => Code::ImageNotFound,
        ActionError::AuthRequired(_) => Code::AuthRequired,
        ActionError::RateLimited { .. } => Code::RegistryRateLimited,
        ActionError::PullFailed(_) => Code::ImagePullFailed,
        ActionError::BuildFailed { .. } | ActionError::BuildInterrupted { .. } => Code::BuildFailed,
        ActionError::EntrypointNotFound(_) => Code::EntrypointNotFound,
        ActionError::MountRefused(_) => Code::PolicyViolation,
        ActionError::BadMount(_) => Code::BadMount,
        ActionError::VolumeNotFound(_) => Code::VolumeNotFound,
        ActionError::NetworkNotFound(_) => Code::NetworkNotFound,
        ActionError::StartFailed(_)
        | ActionError::Unknown(_)
        | ActionError::Rejected(_)
        | ActionError::NetworkGone(_) => Code::ContainerStartFailed,
        ActionError::Gone | ActionError::Busy(_) => Code::CleanupFailed,
        ActionError::PoolExhausted(_) => Code::NetworkPoolExhausted,
        ActionError::NetworkInUse(_) => Code::NetworkStuck,
        ActionError::DiskFull(_) => Code::DiskSpaceLow,
        ActionError::JournalUnwritable(_) => Code::JournalUnwritable,
    }
}

/// Error of the failed call of a command, which does not repeat it, without secrets.
pub fn command_error(
    action: &Action,
    error: ActionError,
    at: Timestamp,
    secrets: &Secrets,
) -> StructuredError {
    let call = CallArgs {
        arguments: action.arguments(),
        ..CallArgs::default()
    };
    let failure = ActionFailure {
        verb: action.kind(),
        error,
        at,
        attempts: 1,
        earlier: Vec::new(),
        call: Box::new(call),
    };
    redact::error(secrets, secrets, of(&failure, None))
}

/// Error of a failed call; `after` is the time until the next attempt.
pub(super) fn of(failure: &ActionFailure, after: Option<Duration>) -> StructuredError {
    let removing = failure.verb.is_removal();
    let code = match (removing, code_of(&failure.error)) {
        (true, Code::ContainerStartFailed) => Code::CleanupFailed,
        (false, Code::CleanupFailed) => Code::ContainerStartFailed,
        (_, code) => code,
    };
    let mut error = StructuredError::new(code, message(failure))
        .details(details(failure))
        .stage(failure.verb.as_str())
        .attempt(failure.attempts)
        .with_call(call(failure));
    error.correlation_id = Some(failure.call.id.clone()).filter(|id| !id.is_empty());
    if let ActionError::BuildFailed { log, .. } | ActionError::BuildInterrupted { log, .. } = &failure.error {
        let lines: Vec<&str> = log.lines().collect();
        error = error.tails(&lines[lines.len().saturating_sub(TAIL)..].join("\n"), "");
    }
    if failure.attempts > 1 {
        error = with_attempts(error, &failure.failed_attempts())
            .details(json!({ PERSISTENT: failure.is_persistent() }));
    }
    if matches!(failure.error, ActionError::BuildInterrupted { .. }) {
        // The Dockerfile is not the cause.
        error = error.suggest(&[ActionId::Wait, ActionId::RunPreflight, ActionId::Retry]);
    }
    match after {
        Some(delay) if !failure.needs_change() => error.retry_after_span(delay),
        // An automatic check for a change is no retry.
        Some(_) | None if error.class == Class::Transient => error.class(Class::Permanent),
        Some(_) | None => error,
    }
}

/// Adds the failed attempts in a row, oldest first, if there are several.
pub(super) fn with_attempts(error: StructuredError, attempts: &[FailedAttempt]) -> StructuredError {
    let [first, _, ..] = attempts else { return error };
    let details = |attempt: &FailedAttempt| json!({ "at": attempt.at.to_string(), "error": attempt.error });
    let all: Vec<Value> = attempts.iter().map(details).collect();
    error.details(json!({ "since": first.at.to_string(), "attempts": all }))
}

/// Call with the full error text; the message of the error is only its first line.
fn call(failure: &ActionFailure) -> Call {
    let reason = match &failure.error {
        // The details contain the log.
        ActionError::BuildFailed { message, .. } | ActionError::BuildInterrupted { message, .. } => {
            message.clone()
        }
        error => error.to_string(),
    };
    Call::new(failure.verb.as_str(), failure.call.arguments.clone())
        .within(failure.call.deadline)
        .attempt(failure.attempts)
        .outcome([reason])
}

fn message(failure: &ActionFailure) -> String {
    match &failure.error {
        ActionError::PortTaken(refusal) => {
            format!("host port {} is held by {}", refusal.port, refusal.owner)
        }
        ActionError::ImageMissing => "the image is not on the engine".to_owned(),
        ActionError::BuildFailed {
            message,
            log,
            instruction,
        } => {
            let place = instruction.as_ref();
            let place = place.map(|at| format!(" in line {} of the Dockerfile", at.line));
            let cause = cause_in_log(message, log).map(|line| format!("{line}; "));
            let (place, cause) = (place.unwrap_or_default(), cause.unwrap_or_default());
            one_line(&format!("build failed{place}: {cause}{message}"))
        }
        error => one_line(&error.to_string()),
    }
}

/// Line that names the cause, from the output of the step at the beginning of the message.
fn cause_in_log(message: &str, log: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().collect();
    let is_step = |line: &&str| !line.is_empty() && message.starts_with(line);
    let step = lines.iter().rposition(is_step)?;
    // Other steps run in parallel.
    let is_output = |line: &&&str| !line.starts_with("Step ") && !line.starts_with('[');
    let output = lines[step + 1..].iter().filter(is_output);
    let evidence = Evidence {
        stderr: output.map(ToString::to_string).collect(),
        ..Evidence::default()
    };
    remedy::cause_line(&evidence).cloned()
}

fn details(failure: &ActionFailure) -> Value {
    match &failure.error {
        ActionError::PortTaken(refusal) => json!({
            "port": refusal.port.number,
            "protocol": refusal.port.protocol,
            "owner": refusal.owner,
            "freeNow": refusal.free_now,
        }),
        ActionError::BuildFailed {
            message,
            log,
            instruction: Some(at),
        } => json!({
            "message": message,
            "log": log,
            "dockerfile": dockerfile(failure),
            "line": at.line,
            "instruction": at.text,
        }),
        ActionError::BuildFailed { message, log, .. } | ActionError::BuildInterrupted { message, log } => {
            json!({ "message": message, "log": log, "dockerfile": dockerfile(failure) })
        }
        ActionError::EntrypointNotFound(reason) => {
            let mut details = json!({ "verb": failure.verb, "reason": failure.error.to_string() });
            if let (Some(details), Some(Value::Object(missing))) =
                (details.as_object_mut(), remedy::missing_program(reason))
            {
                details.extend(missing);
            }
            details
        }
        ActionError::NameTaken { holder } => json!({ "holder": holder }),
        ActionError::VolumeNotFound(name) => json!({ "volume": name }),
        ActionError::NetworkNotFound(name) => json!({ "network": name }),
        ActionError::TimedOut(_) => json!({
            "verb": failure.verb,
            "reason": failure.error.to_string(),
            "deadlineMs": call(failure).deadline_ms,
        }),
        error => {
            let mut details = json!({ "verb": failure.verb, "reason": error.to_string() });
            let image = failure.call.arguments.get("image").and_then(Value::as_str);
            let registry = match (failure.verb, error) {
                (ActionKind::PullImage, _) => image.map(registry_of),
                (ActionKind::BuildImage, ActionError::AuthRequired(reason)) => registry_in(reason),
                _ => None,
            };
            if let Some(registry) = registry {
                details["registry"] = json!(registry);
            }
            details
        }
    }
}

/// Change of the Dockerfile that corrects the failed instruction.
pub(super) fn edit_of_build(failure: &ActionFailure) -> Option<SpecEdit> {
    let ActionError::BuildFailed {
        message,
        instruction: Some(at),
        ..
    } = &failure.error
    else {
        return None;
    };
    let missing = missing_source(at, message);
    if let (Some(path), Some(rule)) = (missing, &at.excluded_by) {
        let (path, file) = (Path::new(path).shown(), Path::new(&rule.file).shown());
        let reason = format!("`{path}` exists, and line {} of `{file}` excludes it", rule.line);
        let edit = SpecEdit::new(path_of_build(failure, &rule.file)?, "", reason);
        let hint = format!("write `!{path}` in a line after it");
        return Some(edit.line(rule.line).hint(hint));
    }
    let reason = match missing {
        Some(path) => format!("the build context has no `{path}`"),
        None => one_line(
            message
                .split_once(": ")
                .map_or(message.as_str(), |(first, _)| first),
        ),
    };
    let hint = match (&at.corrected, missing) {
        (Some(corrected), _) => format!("write `{corrected}`"),
        (None, Some(path)) => {
            let context = failure.call.arguments.get("context").and_then(Value::as_str)?;
            let context = Path::new(context).shown();
            format!("create `{path}` in `{context}`, or correct the path")
        }
        (None, None) => return None,
    };
    let edit = SpecEdit::new(dockerfile(failure)?, "", reason);
    Some(edit.line(at.line).hint(hint))
}

/// Path of the Dockerfile of a build.
fn dockerfile(failure: &ActionFailure) -> Option<String> {
    let dockerfile = failure.call.arguments.get("dockerfile").and_then(Value::as_str)?;
    path_of_build(failure, dockerfile)
}

/// Path of a file of a build. An absolute path replaces the context.
fn path_of_build(failure: &ActionFailure, file: &str) -> Option<String> {
    let context = failure.call.arguments.get("context").and_then(Value::as_str)?;
    Some(Path::new(context).join(file).shown().to_string())
}

/// Registry of a base image in the message of a builder: from the step that reads the image, from the first URL, or from `FROM`.
fn registry_in(message: &str) -> Option<&str> {
    let after = |mark| message.split_once(mark).map(|(_, rest)| rest);
    let rest = after("load metadata for ")
        .or_else(|| after("://"))
        .or_else(|| after("FROM "))?;
    let (host, _) = rest.split_once('/')?;
    host.contains(['.', ':']).then_some(host)
}

#[cfg(test)]
mod tests {
    use argus_crds::PullPolicy;

    use super::*;
    use crate::dockerfile::{Exclusion, Instruction};

    #[test]
    fn error_of_a_command_has_its_code_and_no_secrets() {
        let mut secrets = Secrets::default();
        secrets.add("hunter2hunter2");
        let pull = Action::PullImage {
            reference: "web:1".to_owned(),
            policy: PullPolicy::Always,
        };
        let failed = |error| command_error(&pull, error, Timestamp(1), &secrets);
        let why = "denied for hunter2hunter2".to_owned();
        let error = failed(ActionError::AuthRequired(why));
        assert_eq!((error.code, error.retry_after), (Code::AuthRequired, None));
        let text = json!(error).to_string();
        assert!(!text.contains("hunter2"), "{text}");
        for (error, code) in [
            (ActionError::ImageMissing, Code::ImageNotFound),
            (ActionError::CircuitOpen, Code::CircuitOpen),
            (ActionError::Cancelled, Code::Held),
        ] {
            assert_eq!(failed(error).code, code);
        }
    }

    #[test]
    fn registry_of_a_base_image_is_found_in_the_message() {
        for (message, expected) in [
            (
                "[internal] load metadata for host:5000/a/b:1: GET https://auth.host/token: 401",
                Some("host:5000"),
            ),
            (
                "Step 1/2 : FROM x: Get \"https://host.example/v2/\": unauthorized",
                Some("host.example"),
            ),
            ("Step 1/2 : FROM host:5000/a:1: unauthorized", Some("host:5000")),
            ("Step 1/2 : FROM a/b: unauthorized", None),
        ] {
            assert_eq!(registry_in(message), expected, "{message}");
        }
    }

    #[test]
    fn missing_source_of_a_build_has_its_path() {
        let edit = |corrected: Option<&str>, excluded_by: Option<Exclusion>| {
            let instruction = Instruction {
                line: 3,
                text: "COPY assets/ /srv/".to_owned(),
                corrected: corrected.map(str::to_owned),
                excluded_by,
            };
            let error = ActionError::BuildFailed {
                message: "COPY assets/ /srv/: \"/assets\" not found: not found".to_owned(),
                log: String::new(),
                instruction: Some(Box::new(instruction)),
            };
            let arguments = json!({ "context": "/app", "dockerfile": "Dockerfile" });
            let call = CallArgs {
                arguments: arguments.as_object().unwrap().clone(),
                ..CallArgs::default()
            };
            let failure = ActionFailure {
                verb: ActionKind::BuildImage,
                error,
                at: Timestamp(1),
                attempts: 1,
                earlier: Vec::new(),
                call: Box::new(call),
            };
            edit_of_build(&failure).unwrap().to_string()
        };
        let reason = "(the build context has no `assets`)";
        let create = "create `assets` in `/app`, or correct the path";
        assert_eq!(
            edit(None, None),
            format!("fix /app/Dockerfile:3: {create} {reason}")
        );
        let similar = edit(Some("COPY asset/ /srv/"), None);
        assert_eq!(
            similar,
            format!("fix /app/Dockerfile:3: write `COPY asset/ /srv/` {reason}")
        );
        let (file, line) = (".dockerignore".to_owned(), 2);
        assert_eq!(
            edit(None, Some(Exclusion { file, line })),
            "fix /app/.dockerignore:2: write `!assets` in a line after it \
             (`assets` exists, and line 2 of `.dockerignore` excludes it)"
        );
    }
}
