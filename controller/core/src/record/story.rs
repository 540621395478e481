//! What happened between two statuses, as records: so that whoever reads along need not compare them.

use std::collections::{BTreeMap, BTreeSet};

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{
    BreakerScope, BreakerState, BreakerStatus, ControllerStatus, EnvironmentStatus, Orphan, PreflightReport,
    ServiceState, ServiceStatus,
};

use super::Note;
use crate::ident::EnvName;
use crate::time::Timestamp;

/// What happened in an environment, phases apart.
pub fn story(env: &EnvName, before: Option<&EnvironmentStatus>, after: &EnvironmentStatus) -> Vec<Note> {
    let mut notes = Vec::new();
    errors(
        Some(env),
        &every_error(before),
        &every_error(Some(after)),
        &after.as_of,
        &mut notes,
    );
    let nothing = ServiceStatus::default();
    for service in &after.services {
        let old = before.and_then(|before| before.services.iter().find(|old| old.name == service.name));
        service_story(env, old.unwrap_or(&nothing), service, &mut notes);
    }
    for port in &after.port_mappings {
        let alike = |old: &&argus_crds::status::PortMapping| {
            (&old.service, old.container_port, &old.protocol)
                == (&port.service, port.container_port, &port.protocol)
        };
        let old = before.and_then(|before| before.port_mappings.iter().find(alike));
        let from = old.map_or(port.original_port, |old| old.actual_port);
        if port.actual_port != from && port.actual_port != 0 && from != 0 {
            notes.push(Note::Port {
                environment: env.clone(),
                service: port.service.clone(),
                container_port: port.container_port,
                from,
                to: port.actual_port,
            });
        }
    }
    let own = |status: &EnvironmentStatus| {
        let breaker = status.breaker.clone();
        breaker.filter(|breaker| breaker.scope == BreakerScope::Environment)
    };
    circuit(
        Some(env),
        before.and_then(own).as_ref(),
        own(after).as_ref(),
        &mut notes,
    );
    let seen = |status: &EnvironmentStatus| status.connectivity.clone();
    if let Some(now) = seen(after).filter(|now| before.and_then(seen).as_ref() != Some(now)) {
        let broken = now.links.iter().filter(|link| link.error.is_some()).count();
        notes.push(Note::Connectivity {
            environment: env.clone(),
            verified: now.verified,
            links: now.links.len() as u64,
            broken: broken as u64,
        });
    }
    notes
}

/// What happened to the controller, modes apart.
pub fn controller_story(before: Option<&ControllerStatus>, after: &ControllerStatus) -> Vec<Note> {
    let mut notes = Vec::new();
    let of = |status: Option<&ControllerStatus>| -> Vec<StructuredError> {
        status.map(|status| status.errors.clone()).unwrap_or_default()
    };
    errors(None, &of(before), &of(Some(after)), &after.as_of, &mut notes);
    let old = before.and_then(|before| before.breaker.as_ref());
    circuit(None, old, after.breaker.as_ref(), &mut notes);
    let none = Vec::new();
    orphans(
        before.map_or(&none, |before| &before.orphans),
        &after.orphans,
        &mut notes,
    );
    let old = before.and_then(|before| before.preflight.as_ref());
    preflight(old, after.preflight.as_ref(), &mut notes);
    notes
}

/// Those of the services stand with them as well.
fn every_error(status: Option<&EnvironmentStatus>) -> Vec<StructuredError> {
    let Some(status) = status else {
        return Vec::new();
    };
    let of_services = status
        .services
        .iter()
        .filter_map(|service| service.last_error.clone());
    status.errors.iter().cloned().chain(of_services).collect()
}

fn errors(
    env: Option<&EnvName>,
    before: &[StructuredError],
    after: &[StructuredError],
    as_of: &str,
    notes: &mut Vec<Note>,
) {
    let key = |error: &StructuredError| match &error.error_id {
        Some(id) => id.clone(),
        None => format!("{} {:?} {}", error.code, error.service, error.message),
    };
    let mut told: BTreeSet<String> = before.iter().map(key).collect();
    for error in after {
        if told.insert(key(error)) {
            notes.push(Note::Error {
                environment: env.cloned(),
                service: error.service.clone(),
                code: error.code,
                error_id: error.error_id.clone(),
                after_ms: told_after(error, as_of),
            });
        }
    }
}

/// How long after the end of the run that it is about.
fn told_after(error: &StructuredError, as_of: &str) -> Option<u64> {
    let ended = error.details.as_ref()?.get("endedAt")?.as_str()?;
    let took = Timestamp::parse(as_of)?.since(Timestamp::parse(ended)?);
    u64::try_from(took.as_millis()).ok()
}

fn service_story(env: &EnvName, before: &ServiceStatus, after: &ServiceStatus, notes: &mut Vec<Note>) {
    let code =
        |status: &ServiceStatus| -> Option<Code> { status.last_error.as_ref().map(|error| error.code) };
    let times = after.restarts.saturating_sub(before.restarts);
    if times > 0 {
        notes.push(Note::Restart {
            environment: env.clone(),
            service: after.name.clone(),
            restarts: after.restarts,
            times,
            code: code(before).or(code(after)),
        });
    }
    if is_well(after) && !is_well(before) && after.restarts > 0 {
        notes.push(Note::Recovered {
            environment: env.clone(),
            service: after.name.clone(),
        });
    }
    if after.state == ServiceState::Failed && before.state != ServiceState::Failed {
        notes.push(Note::GaveUp {
            environment: env.clone(),
            service: after.name.clone(),
            code: code(after),
        });
    }
}

fn is_well(service: &ServiceStatus) -> bool {
    matches!(service.state, ServiceState::Ready | ServiceState::Completed)
}

fn circuit(
    env: Option<&EnvName>,
    before: Option<&BreakerStatus>,
    after: Option<&BreakerStatus>,
    notes: &mut Vec<Note>,
) {
    let state = |breaker: Option<&BreakerStatus>| breaker.map_or(BreakerState::Closed, |it| it.state);
    let (from, to) = (state(before), state(after));
    if from != to {
        notes.push(Note::Circuit {
            environment: env.cloned(),
            to,
            openings: after.map_or(0, |breaker| breaker.openings),
        });
    }
}

fn orphans(before: &[Orphan], after: &[Orphan], notes: &mut Vec<Note>) {
    let ids = |orphans: &[Orphan]| -> BTreeMap<String, Orphan> {
        orphans
            .iter()
            .map(|orphan| (orphan.id.clone(), orphan.clone()))
            .collect()
    };
    let going = |orphans: &[Orphan]| {
        let goes = |orphan: &&Orphan| matches!(orphan.result.as_str(), "removing" | "failed");
        orphans.iter().filter(goes).count() as u64
    };
    let (old, new) = (ids(before), ids(after));
    for orphan in new.values().filter(|orphan| !old.contains_key(&orphan.id)) {
        notes.push(Note::Orphan {
            what: orphan.kind.clone(),
            id: orphan.id.clone(),
            name: orphan.name.clone(),
            project: orphan.project.clone(),
        });
    }
    if going(before) == 0 && going(after) > 0 {
        notes.push(Note::Cleanup {
            begins: true,
            orphans: going(after),
        });
    }
    for orphan in old.values().filter(|orphan| !new.contains_key(&orphan.id)) {
        notes.push(Note::OrphanGone {
            what: orphan.kind.clone(),
            id: orphan.id.clone(),
        });
    }
    if going(before) > 0 && going(after) == 0 {
        notes.push(Note::Cleanup {
            begins: false,
            orphans: 0,
        });
    }
}

fn preflight(before: Option<&PreflightReport>, after: Option<&PreflightReport>, notes: &mut Vec<Note>) {
    let Some(after) = after else { return };
    for check in &after.checks {
        let old = before.and_then(|before| before.checks.iter().find(|old| old.name == check.name));
        if old.map(|old| old.result) != Some(check.result) {
            notes.push(Note::Check {
                check: check.name,
                result: check.result,
            });
        }
    }
    if before.map(|before| before.overall) != Some(after.overall) {
        notes.push(Note::Preflight {
            overall: after.overall,
        });
    }
}

#[cfg(test)]
mod tests {
    use argus_crds::status::{Phase, PortMapping};

    use super::*;

    fn status(services: Vec<ServiceStatus>) -> EnvironmentStatus {
        EnvironmentStatus {
            phase: Phase::Ready,
            services,
            ..EnvironmentStatus::default()
        }
    }

    fn service(state: ServiceState, restarts: u32, error: Option<&str>) -> ServiceStatus {
        ServiceStatus {
            name: "api".to_owned(),
            state,
            restarts,
            last_error: error.map(|id| {
                StructuredError::new(Code::ContainerCrash, "it ended")
                    .service("api")
                    .error_id(id)
            }),
            ..ServiceStatus::default()
        }
    }

    #[test]
    fn a_crash_is_an_error_a_restart_and_a_recovery_and_nothing_is_told_twice() {
        let env = EnvName::new("shop").unwrap();
        let well = status(vec![service(ServiceState::Ready, 0, None)]);
        let dead = status(vec![service(ServiceState::Restarting, 0, Some("1"))]);
        let back = status(vec![service(ServiceState::Ready, 1, Some("1"))]);
        let names = |before: Option<&EnvironmentStatus>, after: &EnvironmentStatus| -> Vec<String> {
            let notes = story(&env, before, after);
            let name = |note: &Note| {
                serde_json::to_value(note).unwrap()["note"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            };
            notes.iter().map(name).collect()
        };
        assert_eq!(names(None, &well), [""; 0]);
        assert_eq!(names(Some(&well), &dead), ["error"]);
        assert_eq!(names(Some(&dead), &back), ["restart", "recovered"]);
        assert_eq!(names(Some(&back), &back), [""; 0]);
        // Both within one look.
        assert_eq!(names(Some(&well), &back), ["error", "restart"]);
        let lost = status(vec![service(ServiceState::Failed, 1, Some("2"))]);
        assert_eq!(names(Some(&back), &lost), ["error", "gaveUp"]);
    }

    #[test]
    fn the_end_of_a_run_is_told_with_how_long_ago_it_was() {
        let env = EnvName::new("shop").unwrap();
        let told = |details: serde_json::Value| {
            let error = StructuredError::new(Code::ContainerCrash, "it ended").details(details);
            let after = EnvironmentStatus {
                errors: vec![error],
                as_of: "2026-11-21T10:00:01.250Z".to_owned(),
                ..EnvironmentStatus::default()
            };
            match &story(&env, None, &after)[..] {
                [Note::Error { after_ms, .. }] => *after_ms,
                other => panic!("{other:?}"),
            }
        };
        let ended = |at: &str| serde_json::json!({ "endedAt": at });
        assert_eq!(told(ended("2026-11-21T10:00:00.000Z")), Some(1_250));
        assert_eq!(
            told(ended("2026-11-21T10:00:05.000Z")),
            Some(0),
            "the engine's clock is ahead"
        );
        assert_eq!(told(serde_json::json!({})), None, "it is about no run");
    }

    #[test]
    fn a_port_that_is_not_where_it_was_has_moved() {
        let env = EnvName::new("shop").unwrap();
        let at = |actual| EnvironmentStatus {
            port_mappings: vec![PortMapping {
                service: "api".to_owned(),
                container_port: 80,
                original_port: 8080,
                actual_port: actual,
                ..PortMapping::default()
            }],
            ..EnvironmentStatus::default()
        };
        let moved = |before: Option<u16>, after| story(&env, before.map(at).as_ref(), &at(after)).len();
        assert_eq!(moved(None, 8080), 0);
        assert_eq!(moved(None, 9000), 1);
        assert_eq!(moved(Some(9000), 9000), 0);
        assert_eq!(moved(Some(9000), 8080), 1, "and back");
        assert_eq!(moved(Some(9000), 0), 0, "no port yet");
    }
}
