//! Descriptions of journal records in a few words.

use std::collections::BTreeMap;

use argus_core::action::{ActionKind, Subject};
use argus_core::ident::EnvName;
use argus_core::journal::{ActionRecord, EngineChange, Entry, Event, IntentResolution, Outcome, Record};
use argus_crds::error::Code;
use argus_crds::status::{BreakerState, CheckResult, PreflightOverall};

use crate::render::output;
use crate::render::run_summary;

/// Describes records. Keeps subject and verb of each open intent, because its result record does not contain them.
#[derive(Debug, Default)]
pub(super) struct RecordFormatter {
    intents: BTreeMap<u64, (String, ActionKind)>,
}

impl RecordFormatter {
    /// Returns subject and description of a record.
    pub(super) fn format_record(&mut self, record: &Record) -> (String, String) {
        match &record.entry {
            Entry::Intent(intent) => {
                let subject = format_subject(&intent.subject);
                self.intents
                    .insert(record.seq, (subject.clone(), intent.action.verb));
                let action = describe_action(&intent.action);
                (subject, format!("{action} ({})", intent.cause))
            }
            Entry::Result {
                of,
                verb,
                outcome: end,
                code,
                ms,
                ..
            } => {
                // An action has one result.
                let subject = self.intents.remove(of).map(|(subject, _)| subject);
                let end = format_outcome(*end);
                let text = format!("{verb} {end} after {ms} ms{}", format_code(*code));
                (subject.unwrap_or_default(), text)
            }
            Entry::Event(Event::IntentResolved {
                of,
                resolution: settled,
                how,
            }) => {
                let (subject, verb) = self.intents.remove(of).unwrap_or_default();
                let found = match settled {
                    IntentResolution::Done => "was done",
                    IntentResolution::NotApplied => "was not applied",
                    IntentResolution::Repeat => "may have been applied; repeating it is safe",
                };
                (subject, format!("{verb} {of} {found}: {how}"))
            }
            Entry::Event(event) => describe_event(event),
        }
    }
}

fn format_outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "done",
        Outcome::Failed => "failed",
        Outcome::Unknown => "outcome unknown",
        Outcome::Cancelled => "cancelled",
    }
}

/// Prefix with the previous value, if there is one.
fn format_previous(from: &str) -> String {
    if from.is_empty() {
        String::new()
    } else {
        format!("{from} -> ")
    }
}

#[allow(clippy::too_many_lines, reason = "one arm per kind of event")]
fn describe_event(event: &Event) -> (String, String) {
    let controller = || "controller".to_owned();
    match event {
        Event::Start { version, clean, .. } => {
            let before = if *clean { "ended cleanly" } else { "crashed" };
            (
                controller(),
                format!("argus {version}; the previous run {before}"),
            )
        }
        Event::Stop => (controller(), "stopping; containers keep running".to_owned()),
        Event::Mode { from, to, why: cause } => {
            let reason = cause
                .as_ref()
                .map(|cause| format!(": {cause}"))
                .unwrap_or_default();
            (controller(), format!("{}{to}{reason}", format_previous(from)))
        }
        Event::Phase {
            environment,
            from,
            to,
            after_ms,
            ..
        } => {
            let after = after_ms.map(|ms| format!(" after {ms} ms")).unwrap_or_default();
            (
                environment.to_string(),
                format!("{}{to}{after}", format_previous(from)),
            )
        }
        Event::Error {
            environment,
            service,
            code,
            ..
        } => {
            let of = match (environment, service) {
                (Some(env), Some(service)) => format!("{env}/{service}"),
                (Some(env), None) => env.to_string(),
                (None, Some(service)) => service.clone(),
                (None, None) => controller(),
            };
            (of, code.to_string())
        }
        Event::Restart {
            environment,
            service,
            restarts,
            code,
            ..
        } => {
            let text = format!("restarted{}; {restarts} in total", format_code(*code));
            (format!("{environment}/{service}"), text)
        }
        Event::RestartAttempt(attempt) => (
            format!("{}/{}", attempt.environment, attempt.service),
            format!(
                "restart {} {}{}",
                attempt.attempt,
                format_outcome(attempt.outcome),
                format_code(attempt.code)
            ),
        ),
        Event::Recovered { environment, service } => {
            (format!("{environment}/{service}"), "recovered".to_owned())
        }
        Event::RestartsExhausted {
            environment,
            service,
            code,
        } => (
            format!("{environment}/{service}"),
            format!("given up{}", format_code(*code)),
        ),
        Event::PortConflict {
            environment,
            service,
            port,
            owner,
        } => (
            format!("{environment}/{service}"),
            match owner {
                Some(owner) => format!("host port {port} is held by {owner}"),
                None => format!("host port {port} is taken"),
            },
        ),
        Event::PortMoved {
            environment,
            service,
            container_port,
            from,
            to,
        } => (
            format!("{environment}/{service}"),
            format!("port {container_port} moved on the host: {from} -> {to}"),
        ),
        Event::MemoryHigh {
            environment,
            service,
            used_bytes,
            limit_bytes,
        } => (
            format!("{environment}/{service}"),
            format!("uses {}", run_summary::format_share(*used_bytes, *limit_bytes)),
        ),
        Event::Circuit {
            environment,
            to,
            times_opened,
        } => {
            let of = environment.as_ref().map_or("engine", |env| env.as_str());
            let text = match to {
                BreakerState::Closed => "breaker closed".to_owned(),
                BreakerState::Open => format!(
                    "breaker open, {} so far",
                    output::format_count(*times_opened, "time")
                ),
                BreakerState::HalfOpen => "breaker half-open: one test call is allowed".to_owned(),
            };
            (of.to_owned(), text)
        }
        Event::OrphanFound {
            what, name, project, ..
        } => {
            let of = project.as_ref().map(|it| format!(" of project `{it}`"));
            let text = format!("orphaned {what} `{name}`{}", of.unwrap_or_default());
            (name.clone(), text)
        }
        Event::OrphanRemoved(removal) => {
            let name = Some(&removal.name).filter(|name| !name.is_empty());
            let of = name.map_or_else(|| shorten_id(&removal.id), String::clone);
            let (what, outcome) = (&removal.what, format_outcome(removal.outcome));
            let text = format!(
                "removal of orphaned {what} {outcome}{}",
                format_code(removal.code)
            );
            (of, text)
        }
        Event::LeaseEnded {
            environment,
            case,
            service,
            ..
        } => {
            let text = format!("test lease of `{case}` ended, because `{service}` is given up");
            (environment.to_string(), text)
        }
        Event::WatchDegraded(unreadable) => ("engine".to_owned(), unreadable.to_string()),
        Event::Cleanup { begins, orphans } => {
            let text = if *begins {
                format!("removing {}", output::format_count(*orphans, "orphan"))
            } else {
                "removal of orphans ended".to_owned()
            };
            ("orphans".to_owned(), text)
        }
        Event::TaskEnded {
            task,
            reason,
            restarts,
            ..
        } => {
            let end = if *restarts { ", it is restarted" } else { "" };
            (task.clone(), format!("{reason}{end}"))
        }
        Event::PreflightStart {
            environment,
            requested,
            skip,
        } => {
            let cause = if *requested { "requested" } else { "inputs changed" };
            let skipped: Vec<&str> = skip.iter().map(|check| check.as_str()).collect();
            let without = match &skipped[..] {
                [] => String::new(),
                some => format!("; skipped: {}", some.join(", ")),
            };
            (
                format_preflight(environment.as_ref()),
                format!("{cause}{without}"),
            )
        }
        Event::PreflightCheck {
            environment,
            check,
            result,
        } => {
            let text = format!("{check}: {}", format_check_result(*result));
            (format_preflight(environment.as_ref()), text)
        }
        Event::PreflightEnd { environment, overall } => {
            let text = match overall {
                PreflightOverall::Healthy => "healthy",
                PreflightOverall::Degraded => "degraded",
                PreflightOverall::Unhealthy => "unhealthy",
            };
            (format_preflight(environment.as_ref()), text.to_owned())
        }
        Event::Connectivity {
            environment,
            verified,
            links,
            broken,
        } => {
            let text = match (verified, broken) {
                (true, _) => format!("all {links} links work"),
                (false, 0) => format!("not all of {links} links are verified"),
                (false, _) => format!("{broken} of {links} links do not work"),
            };
            (environment.to_string(), text)
        }
        Event::Command {
            environment,
            verb,
            accepted: taken,
            ..
        } => {
            let of = environment.as_ref().map_or_else(controller, ToString::to_string);
            let text = if *taken { "accepted" } else { "rejected" };
            (of, format!("`{verb}` {text}"))
        }
        // The description of the intent contains the resolution.
        Event::IntentResolved { of, .. } => (of.to_string(), "resolved".to_owned()),
        Event::EngineChange(change) => (change.name.clone(), describe_change(change)),
        Event::Writable => (controller(), "journal is writable again".to_owned()),
        Event::Resumed => (controller(), "a user ended safe mode".to_owned()),
    }
}

fn describe_change(change: &EngineChange) -> String {
    let verb = match (change.failed, change.removed) {
        (false, false) => "created",
        (false, true) => "removed",
        (true, false) => "not created",
        (true, true) => "not removed",
    };
    let purpose = change.purpose.as_ref().map(|purpose| format!(": {purpose}"));
    format!("{} {verb}{}", change.what, purpose.unwrap_or_default())
}

/// Name of a record, coloured by its meaning.
pub(super) fn color_name(record: &Record) -> String {
    let name = record.name();
    match name {
        "error" | "restart_exhausted" | "port_conflict" | "circuit_open" => output::red(name),
        "restart_success" | "circuit_closed" | "network_verified" | "writable" => output::green(name),
        "restart_attempt" | "restarted" | "port_reassigned" | "memory_high" | "circuit_half_open"
        | "orphan_found" | "lease_ended" | "watch_degraded" => output::yellow(name),
        _ => name.to_owned(),
    }
}

fn format_subject(subject: &Subject) -> String {
    match subject {
        Subject::ExtraContainer { id } => format!("extra container {}", shorten_id(id.as_str())),
        Subject::ExtraNetwork { id } => format!("extra network {}", shorten_id(id.as_str())),
        known => known.to_string(),
    }
}

fn describe_action(action: &ActionRecord) -> String {
    let id = action.id.as_deref().map(shorten_id);
    let name = action
        .name
        .as_deref()
        .or(id.as_deref())
        .or(action.image.as_deref());
    match name {
        Some(name) => format!("{} `{name}`", action.verb),
        None => action.verb.to_string(),
    }
}

fn shorten_id(id: &str) -> String {
    id.chars().take(12).collect()
}

fn format_code(code: Option<Code>) -> String {
    code.map(|code| format!(": {code}")).unwrap_or_default()
}

/// Subject of a preflight: its environment, or the checks of all.
fn format_preflight(environment: Option<&EnvName>) -> String {
    environment.map_or_else(|| "preflight".to_owned(), |env| format!("{env} preflight"))
}

fn format_check_result(result: CheckResult) -> &'static str {
    match result {
        CheckResult::Skipped => "skipped",
        CheckResult::Pass => "pass",
        CheckResult::Warn => "warn",
        CheckResult::Fail => "fail",
    }
}
