//! Events between two statuses; no event is reported twice.

use argus_crds::status::MemoryWarning;

use super::*;
use crate::failed_run::FailedRun;
use crate::ident::{ContainerId, Protocol};
use crate::outcome::{PortOwner, PortRefusal};

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
fn crash_causes_error_restart_and_recovery_events_once() {
    let env = EnvName::new("shop").unwrap();
    let healthy = status(vec![service(ServiceState::Ready, 0, None)]);
    let failed = status(vec![service(ServiceState::Restarting, 0, Some("1"))]);
    let recovered = status(vec![service(ServiceState::Ready, 1, Some("1"))]);
    let names = |before: Option<&EnvironmentStatus>, after: &EnvironmentStatus| -> Vec<String> {
        let events = events_between(&env, before, after, &EnvHistory::default(), &BTreeMap::new());
        let name = |event: &Event| {
            serde_json::to_value(event).unwrap()["event"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        events.iter().map(name).collect()
    };
    assert_eq!(names(None, &healthy), [""; 0]);
    assert_eq!(names(Some(&healthy), &failed), ["error"]);
    assert_eq!(names(Some(&failed), &recovered), ["restart", "recovered"]);
    assert_eq!(names(Some(&recovered), &recovered), [""; 0]);
    // Both changes happen between two statuses.
    assert_eq!(names(Some(&healthy), &recovered), ["error", "restart"]);
    let given_up = status(vec![service(ServiceState::Failed, 1, Some("2"))]);
    assert_eq!(names(Some(&recovered), &given_up), ["error", "restartsExhausted"]);
}

#[test]
fn high_memory_use_causes_one_event() {
    let env = EnvName::new("shop").unwrap();
    let normal = service(ServiceState::Ready, 0, None);
    let high = ServiceStatus {
        memory_warning: Some(MemoryWarning {
            used_bytes: 95,
            limit_bytes: 100,
            since: String::new(),
        }),
        ..normal.clone()
    };
    let (normal, high) = (status(vec![normal]), status(vec![high]));
    let events = |before, after| {
        events_between(
            &env,
            Some(before),
            after,
            &EnvHistory::default(),
            &BTreeMap::new(),
        )
    };
    let event = Event::MemoryHigh {
        environment: env.clone(),
        service: "api".to_owned(),
        used_bytes: 95,
        limit_bytes: 100,
    };
    assert_eq!(events(&normal, &high), [event]);
    assert_eq!(events(&high, &high), []);
    assert_eq!(events(&high, &normal), []);
}

#[test]
fn error_event_has_the_time_since_the_end_of_the_run() {
    let env = EnvName::new("shop").unwrap();
    let reported = |details: serde_json::Value| {
        let error = StructuredError::new(Code::ContainerCrash, "it ended").details(details);
        let after = EnvironmentStatus {
            errors: vec![error],
            as_of: "2026-11-21T10:00:01.250Z".to_owned(),
            ..EnvironmentStatus::default()
        };
        match &events_between(&env, None, &after, &EnvHistory::default(), &BTreeMap::new())[..] {
            [Event::Error { after_ms, .. }] => *after_ms,
            other => panic!("{other:?}"),
        }
    };
    let ended = |at: &str| serde_json::json!({ "endedAt": at });
    assert_eq!(reported(ended("2026-11-21T10:00:00.000Z")), Some(1_250));
    assert_eq!(
        reported(ended("2026-11-21T10:00:05.000Z")),
        Some(0),
        "the engine's clock is ahead"
    );
    assert_eq!(
        reported(serde_json::json!({})),
        None,
        "the error belongs to no run"
    );
}

#[test]
fn error_event_has_the_time_since_the_first_failed_probe() {
    let env = EnvName::new("shop").unwrap();
    let at = |text: &str| Timestamp::parse(text).unwrap();
    let reported = |code, failing_since: Option<&str>| {
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
            ..FailedRun::new(ContainerId::new("c").unwrap(), at("2026-11-21T10:00:29.000Z"))
        };
        let mut history = EnvHistory::default();
        let api = ServiceName::new("api").unwrap();
        history.service_mut(&api).failures = vec![failed_run];
        match &events_between(&env, None, &after, &history, &BTreeMap::new())[..] {
            [Event::Error { after_ms, .. }] => *after_ms,
            other => panic!("{other:?}"),
        }
    };
    let failing_since_text = Some("2026-11-21T10:00:10.000Z");
    assert_eq!(
        reported(Code::HealthCheckTimeout, failing_since_text),
        Some(20_000)
    );
    assert_eq!(
        reported(Code::HealthCheckTimeout, None),
        Some(1_000),
        "the engine reports only the failure of its health check"
    );
    assert_eq!(
        reported(Code::ContainerCrash, failing_since_text),
        Some(1_000),
        "the run ended before its restart, and the end counts"
    );
}

#[test]
fn changed_preflight_causes_start_check_and_end_events() {
    use argus_crds::status::{CheckName, CheckResult, PreflightOverall};
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
    let reported = |before: Option<CheckResult>, after| {
        let mut events = Vec::new();
        preflight_events(
            None,
            before.map(report).as_ref(),
            Some(&report(after)),
            &mut events,
        );
        events
    };
    let (start, end) = (
        Event::PreflightStart {
            environment: None,
            requested: false,
            skip: Vec::new(),
        },
        Event::PreflightEnd {
            environment: None,
            overall: PreflightOverall::default(),
        },
    );
    let check = |check, result| Event::PreflightCheck {
        environment: None,
        check,
        result,
    };
    let (pass, warn) = (CheckResult::Pass, CheckResult::Warn);
    let engine = check(CheckName::Engine, pass);
    assert_eq!(
        reported(None, pass),
        [
            start.clone(),
            engine.clone(),
            check(CheckName::Disk, pass),
            end.clone()
        ]
    );
    assert_eq!(reported(Some(pass), pass), []);
    assert_eq!(
        reported(Some(pass), warn),
        [start, check(CheckName::Disk, warn), end]
    );
    let requested: Vec<_> = preflight_check_events(&report(pass).checks).collect();
    assert_eq!(requested, [engine, check(CheckName::Disk, pass)]);
}

#[test]
fn own_preflight_is_recorded_until_the_environment_settles() {
    use argus_crds::status::{CheckName, CheckResult};
    let env = EnvName::new("shop").unwrap();
    let at = |phase| EnvironmentStatus {
        phase,
        preflight: Some(PreflightReport {
            checks: vec![PreflightCheck {
                name: CheckName::Images,
                result: CheckResult::Fail,
                ..PreflightCheck::default()
            }],
            ..PreflightReport::default()
        }),
        ..EnvironmentStatus::default()
    };
    let (history, refused) = (EnvHistory::default(), BTreeMap::new());
    let events = |before: Option<&EnvironmentStatus>, phase| {
        events_between(&env, before, &at(phase), &history, &refused)
    };
    let first = events(None, Phase::Progressing);
    let names: Vec<_> = first.iter().map(Event::name).collect();
    assert_eq!(names, ["preflight_start", "preflight_check", "preflight_end"]);
    assert!(first.iter().all(|event| event.environment() == Some(&env)));
    assert_eq!(events(Some(&at(Phase::Progressing)), Phase::Progressing), []);
    assert_eq!(events(None, Phase::Ready), []);
}

#[test]
fn orphan_causes_found_begin_and_end_events_once() {
    let orphan = |result: &str| Orphan {
        kind: "container".to_owned(),
        id: "c1".to_owned(),
        environment: Some("shop".to_owned()),
        result: result.to_owned(),
        ..Orphan::default()
    };
    let names = |before: &[Orphan], after: &[Orphan]| -> Vec<&str> {
        orphan_events(before, after).iter().map(Event::name).collect()
    };
    let (waiting, removing) = ([orphan("waiting")], [orphan("removing")]);
    assert_eq!(names(&[], &waiting), ["orphan_found"]);
    assert_eq!(names(&waiting, &removing), ["cleanup_start"]);
    assert_eq!(names(&removing, &removing), [""; 0]);
    assert_eq!(names(&removing, &[]), ["cleanup_end"]);
    assert_eq!(names(&[], &[orphan(Orphan::KEPT)]), [""; 0]);
    let found = &orphan_events(&[], &waiting)[0];
    assert_eq!(found.environment().map(EnvName::as_str), Some("shop"));
    assert!(matches!(found, Event::OrphanFound { result, .. } if result == "waiting"));
}

#[test]
fn changed_port_causes_an_event() {
    let env = EnvName::new("shop").unwrap();
    let port = ProtocolPort::new(8080, Protocol::Tcp);
    let refusal = PortRefusal {
        port,
        free_now: false,
        owner: PortOwner::Process {
            pid: 7,
            command: "nginx".to_owned(),
        },
        busy: BTreeMap::new(),
    };
    let refused = RefusedPort {
        at: Timestamp(1),
        refusal,
        times: 1,
    };
    let refused = BTreeMap::from([(port, refused)]);
    let publication = |protocol: &str, actual| PortMapping {
        service: "api".to_owned(),
        container_port: 80,
        protocol: protocol.to_owned(),
        original_port: 8080,
        actual_port: actual,
        ..PortMapping::default()
    };
    // All publications of a declared port have one event.
    let at = |actual| EnvironmentStatus {
        port_mappings: ["udp", "tcp", "tcp"]
            .map(|protocol| publication(protocol, actual))
            .into(),
        ..EnvironmentStatus::default()
    };
    let moved = |before: Option<u16>, after| {
        let before = before.map(at);
        let history = EnvHistory::default();
        events_between(&env, before.as_ref(), &at(after), &history, &refused)
    };
    let names = |before, after| -> Vec<&str> { moved(before, after).iter().map(Event::name).collect() };
    assert_eq!(names(None, 9000), ["port_conflict", "port_reassigned"]);
    assert!(
        matches!(&moved(None, 9000)[0], Event::PortConflict { port: 8080, owner: Some(owner), .. } if owner.contains("nginx"))
    );
    assert_eq!(names(Some(9000), 8080), ["port_reassigned"]);
    let moved = |before, after| moved(before, after).len();
    assert_eq!(moved(None, 8080), 0);
    assert_eq!(moved(Some(9000), 9000), 0);
    assert_eq!(moved(Some(9000), 8080), 1, "and back");
    assert_eq!(moved(Some(9000), 0), 0, "no port yet");
}

#[test]
fn short_half_open_state_causes_an_event_once() {
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
    let reported = |before: Option<&EnvironmentStatus>, after: &EnvironmentStatus| -> Vec<BreakerState> {
        let events = events_between(&env, before, after, &EnvHistory::default(), &BTreeMap::new());
        let to = |event: &Event| match event {
            Event::Circuit { to, .. } => *to,
            other => panic!("{other:?}"),
        };
        events.iter().map(to).collect()
    };
    let all = [(10, "open"), (20, "halfOpen"), (21, "closed")];
    let (open, closed) = (status(10, Environment, &all[..1]), status(21, Environment, &all));
    assert_eq!(reported(None, &open), [Open]);
    assert_eq!(reported(Some(&open), &closed), [HalfOpen, Closed]);
    assert_eq!(reported(Some(&closed), &closed), []);
    // The engine's breaker hides it for a while.
    let engine_open = status(30, Engine, &[(30, "open")]);
    assert_eq!(reported(Some(&closed), &engine_open), []);
    assert_eq!(reported(Some(&engine_open), &status(40, Environment, &all)), []);
    // Changed settings removed the open breaker.
    assert_eq!(reported(Some(&open), &EnvironmentStatus::default()), [Closed]);
}
