//! What is told of two statuses, and that nothing is told twice.

use argus_crds::status::{Phase, PortMapping};

use super::*;
use crate::ident::ContainerId;
use crate::state::FailedRun;

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
        let notes = events_between(&env, before, after, &EnvHistory::default());
        let name = |note: &Event| {
            serde_json::to_value(note).unwrap()["event"]
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
        match &events_between(&env, None, &after, &EnvHistory::default())[..] {
            [Event::Error { after_ms, .. }] => *after_ms,
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
fn a_failed_health_check_is_told_with_how_long_ago_its_probe_began_to_fail() {
    let env = EnvName::new("shop").unwrap();
    let at = |text: &str| Timestamp::parse(text).unwrap();
    let told = |code, failing_since: Option<&str>| {
        let details = serde_json::json!({ "endedAt": "2026-11-21T10:00:29.000Z", "run": 3 });
        let error = StructuredError::new(code, "it failed")
            .service("api")
            .details(details);
        let after = EnvironmentStatus {
            errors: vec![error],
            as_of: "2026-11-21T10:00:30.000Z".to_owned(),
            ..EnvironmentStatus::default()
        };
        let failed_run = FailedRun {
            number: 3,
            failing_since: failing_since.map(at),
            ..FailedRun::of(ContainerId::new("c").unwrap(), at("2026-11-21T10:00:29.000Z"))
        };
        let mut memory = EnvHistory::default();
        let api = ServiceName::new("api").unwrap();
        memory.services.entry(api).or_default().failures = vec![failed_run];
        match &events_between(&env, None, &after, &memory)[..] {
            [Event::Error { after_ms, .. }] => *after_ms,
            other => panic!("{other:?}"),
        }
    };
    let began = Some("2026-11-21T10:00:10.000Z");
    assert_eq!(told(Code::HealthCheckTimeout, began), Some(20_000));
    assert_eq!(
        told(Code::HealthCheckTimeout, None),
        Some(1_000),
        "the engine's own check tells only that it failed"
    );
    assert_eq!(
        told(Code::ContainerCrash, began),
        Some(1_000),
        "it ended before it was restarted, and that is when it failed"
    );
}

#[test]
fn a_look_is_told_when_it_differs_with_its_beginning_and_its_end_and_all_of_it_to_who_asks() {
    use argus_crds::status::{CheckName, CheckResult, PreflightBefore, PreflightOverall};
    let report = |disk| PreflightReport {
        checks: [(CheckName::Engine, CheckResult::Pass), (CheckName::Disk, disk)]
            .map(|(name, result)| PreflightCheck {
                name,
                result,
                ..PreflightCheck::default()
            })
            .to_vec(),
        ..PreflightReport::default()
    };
    let told = |before: Option<CheckResult>, after| {
        let mut notes = Vec::new();
        preflight(before.map(report).as_ref(), Some(&report(after)), &mut notes);
        notes
    };
    let (look, end) = (
        Event::PreflightStart {
            asked: false,
            skip: Vec::new(),
        },
        Event::PreflightEnd {
            overall: PreflightOverall::default(),
        },
    );
    let check = |check, result| Event::PreflightCheck { check, result };
    let (fit, low) = (CheckResult::Pass, CheckResult::Warn);
    let engine = check(CheckName::Engine, fit);
    assert_eq!(
        told(None, fit),
        [
            look.clone(),
            engine.clone(),
            check(CheckName::Disk, fit),
            end.clone()
        ]
    );
    assert_eq!(told(Some(fit), fit), []);
    assert_eq!(
        told(Some(fit), low),
        [look, check(CheckName::Disk, low), end.clone()]
    );
    let mended = PreflightReport {
        before: Some(PreflightBefore {
            checks: report(low).checks,
            ..PreflightBefore::default()
        }),
        ..report(fit)
    };
    let (was, is) = (check(CheckName::Disk, low), check(CheckName::Disk, fit));
    assert_eq!(looked(&mended), [engine.clone(), was, engine, is, end]);
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
    let moved = |before: Option<u16>, after| {
        let before = before.map(at);
        events_between(&env, before.as_ref(), &at(after), &EnvHistory::default()).len()
    };
    assert_eq!(moved(None, 8080), 0);
    assert_eq!(moved(None, 9000), 1);
    assert_eq!(moved(Some(9000), 9000), 0);
    assert_eq!(moved(Some(9000), 8080), 1, "and back");
    assert_eq!(moved(Some(9000), 0), 0, "no port yet");
}

#[test]
fn a_breaker_that_is_tried_and_closes_between_two_looks_was_half_open_and_nothing_is_told_twice() {
    use BreakerScope::{Engine, Environment};
    use BreakerState::{Closed, HalfOpen, Open};

    let env = EnvName::new("shop").unwrap();
    let at = |second: u32| format!("2026-11-21T10:00:{second:02}.000Z");
    let status = |as_of: u32, scope: BreakerScope, changes: &[(u32, &str)]| {
        let change = |(second, to): &(u32, &str)| BreakerChange {
            at: at(*second),
            to: (*to).to_owned(),
            reason: String::new(),
        };
        let history: Vec<_> = changes.iter().map(change).collect();
        EnvironmentStatus {
            breaker: Some(BreakerStatus {
                scope,
                state: history.last().map_or(BreakerState::Closed, state_of),
                history,
                ..BreakerStatus::default()
            }),
            as_of: at(as_of),
            ..EnvironmentStatus::default()
        }
    };
    let told = |before: Option<&EnvironmentStatus>, after: &EnvironmentStatus| -> Vec<BreakerState> {
        let notes = events_between(&env, before, after, &EnvHistory::default());
        let to = |note: &Event| match note {
            Event::Circuit { to, .. } => *to,
            other => panic!("{other:?}"),
        };
        notes.iter().map(to).collect()
    };
    let all = [(10, "open"), (20, "halfOpen"), (21, "closed")];
    let (open, closed) = (status(10, Environment, &all[..1]), status(21, Environment, &all));
    assert_eq!(told(None, &open), [Open]);
    assert_eq!(told(Some(&open), &closed), [HalfOpen, Closed]);
    assert_eq!(told(Some(&closed), &closed), []);
    // The engine's is shown in its place for a while.
    let hidden = status(30, Engine, &[(30, "open")]);
    assert_eq!(told(Some(&closed), &hidden), []);
    assert_eq!(told(Some(&hidden), &status(40, Environment, &all)), []);
    // Its settings took it away while it was open.
    assert_eq!(told(Some(&open), &EnvironmentStatus::default()), [Closed]);
}
