//! Tests of the preflight checks, and of the decision to block creation.

#![allow(clippy::unwrap_used)]

use argus_crds::error::Code;
use argus_crds::status::{CheckName, CheckResult, Orphan, PreflightOverall};

use super::host_facts::{
    DiskFact, EngineFact, Fact, HostFacts, ImageFact, ListenersFact, NetworksFact, PortFact, Reclaimable,
};
use super::snapshot::{DISK_FULL_MEMORY, MAX_FACT_AGE, RECHECK_DELAY};
use super::{CheckOutcome, PreflightFacts, PreflightSnapshot, evaluate, overall, report, size, skip_checks};
use crate::desired::PreflightSettings;
use crate::ident::{Protocol, ProtocolPort};
use crate::outcome::PortOwner;
use crate::time::Timestamp;
use crate::wait::WaitReason;

const NOW: Timestamp = Timestamp(1_700_000_000_000);
const GB: u64 = 1_000_000_000;

fn engine() -> EngineFact {
    EngineFact {
        endpoint: "unix:///d.sock".to_owned(),
        version: "20.10.24".to_owned(),
        api_version: "1.41".to_owned(),
        os_type: "linux".to_owned(),
        clock_ahead: Some(3),
        network_drivers: ["bridge".to_owned()].into(),
    }
}

fn disk(free: u64) -> DiskFact {
    DiskFact {
        path: "/var/lib/docker".to_owned(),
        free,
        total: 100 * GB,
        free_inodes: Some(1_000_000),
        reclaimable: None,
    }
}

fn passing_facts() -> PreflightFacts {
    PreflightFacts {
        host: HostFacts {
            engine: Fact::Known(engine()),
            disk: Fact::Known(disk(50 * GB)),
            networks: Fact::Known(NetworksFact {
                count: 4,
                free: Some(20),
            }),
            listeners: Fact::Known(ListenersFact::default()),
            memory_stall: None,
        },
        orphans: Fact::Known(Vec::new()),
        ports: Fact::Known(Vec::new()),
        images: Fact::Known(Vec::new()),
        journal: Fact::Known(Ok(())),
        disk_full: None,
    }
}

fn all(facts: &PreflightFacts) -> Vec<CheckOutcome> {
    evaluate(facts, &PreflightSettings::default(), &[], NOW)
}

/// Returns the outcome of one check after a change of passing facts.
fn check(name: CheckName, change: impl Fn(&mut PreflightFacts)) -> (CheckResult, Option<Code>, String) {
    let mut facts = passing_facts();
    change(&mut facts);
    let outcome = all(&facts)
        .into_iter()
        .find(|outcome| outcome.name == name)
        .unwrap();
    (outcome.result, outcome.code, outcome.message)
}

fn engine_like(change: impl Fn(&mut EngineFact)) -> Fact<EngineFact> {
    let mut engine = engine();
    change(&mut engine);
    Fact::Known(engine)
}

fn port(owner: Option<PortOwner>, may_move: bool) -> PortFact {
    let port = ProtocolPort::new(8080, Protocol::Tcp);
    PortFact {
        outgoing: None,
        environment: "shop".to_owned(),
        service: "web".to_owned(),
        port,
        owner,
        other_owner: None,
        is_local: true,
        may_move,
    }
}

fn image(present: bool, built: bool) -> ImageFact {
    ImageFact {
        reference: "shop:1".to_owned(),
        present,
        built,
    }
}

#[test]
fn passing_facts_are_healthy() {
    let outcomes = all(&passing_facts());
    assert_eq!(outcomes.len(), CheckName::ALL.len());
    for outcome in &outcomes {
        assert_eq!(outcome.result, CheckResult::Pass, "{outcome:?}");
    }
    assert_eq!(overall(&outcomes), PreflightOverall::Healthy);
}

type Change = Box<dyn Fn(&mut PreflightFacts)>;

#[test]
#[allow(
    clippy::too_many_lines,
    reason = "one table, a row for each way that a check ends"
)]
fn each_check_reports_its_own_problem() {
    use CheckName as N;
    use CheckResult::{Fail, Pass, Warn};
    let process = || PortOwner::Process {
        pid: 7,
        command: "nginx".to_owned(),
    };
    let orphan = || Orphan {
        kind: "container".to_owned(),
        name: "shop-api".to_owned(),
        ..Orphan::default()
    };
    let cases: Vec<(N, CheckResult, Option<Code>, Change)> = vec![
        (
            N::Engine,
            Fail,
            Some(Code::DockerUnavailable),
            Box::new(|f| f.host = HostFacts::unknown("refused")),
        ),
        (
            N::Engine,
            Fail,
            Some(Code::PrereqMissing),
            Box::new(|f| f.host.engine = engine_like(|e| e.os_type = "windows".into())),
        ),
        (
            N::Api,
            Fail,
            Some(Code::ApiTooOld),
            Box::new(|f| f.host.engine = engine_like(|e| e.api_version = "1.40".into())),
        ),
        (
            N::Api,
            Pass,
            None,
            Box::new(|f| f.host.engine = engine_like(|e| e.api_version = "2.0".into())),
        ),
        (
            N::Disk,
            Fail,
            Some(Code::DiskSpaceLow),
            Box::new(|f| f.host.disk = Fact::Known(disk(2 * GB - 1))),
        ),
        (
            N::Disk,
            Warn,
            Some(Code::DiskSpaceLow),
            Box::new(|f| f.host.disk = Fact::Known(disk(2 * GB))),
        ),
        (
            N::Disk,
            Warn,
            Some(Code::DiskSpaceLow),
            Box::new(|f| f.host.disk = Fact::Known(disk(4 * GB - 1))),
        ),
        (
            N::Disk,
            Pass,
            None,
            Box::new(|f| f.host.disk = Fact::Known(disk(4 * GB))),
        ),
        (
            N::Disk,
            Fail,
            Some(Code::DiskSpaceLow),
            Box::new(|f| {
                f.host.disk = Fact::Known(DiskFact {
                    free_inodes: Some(999),
                    ..disk(50 * GB)
                });
            }),
        ),
        (
            N::Disk,
            Warn,
            Some(Code::DiskSpaceLow),
            Box::new(|f| {
                f.host.disk = Fact::Known(DiskFact {
                    free_inodes: Some(9_999),
                    ..disk(50 * GB)
                });
            }),
        ),
        (
            N::Disk,
            Pass,
            None,
            Box::new(|f| {
                f.host.disk = Fact::Known(DiskFact {
                    free_inodes: None,
                    ..disk(50 * GB)
                });
            }),
        ),
        (
            N::Disk,
            Fail,
            Some(Code::DiskSpaceLow),
            Box::new(|f| {
                f.host.disk = Fact::unknown("remote");
                f.disk_full = Some(NOW);
            }),
        ),
        (
            N::Orphans,
            Warn,
            Some(Code::OrphanDetected),
            Box::new(move |f| f.orphans = Fact::Known(vec![orphan()])),
        ),
        (
            N::Orphans,
            Pass,
            None,
            Box::new(move |f| {
                let kept = Orphan {
                    result: Orphan::KEPT.to_owned(),
                    ..orphan()
                };
                f.orphans = Fact::Known(vec![kept]);
            }),
        ),
        (
            N::Ports,
            Warn,
            Some(Code::PortConflict),
            Box::new(move |f| f.ports = Fact::Known(vec![port(Some(process()), true)])),
        ),
        (
            N::Ports,
            Fail,
            Some(Code::PortConflict),
            Box::new(|f| f.ports = Fact::Known(vec![port(Some(PortOwner::Unknown), false)])),
        ),
        (
            N::Ports,
            Pass,
            None,
            Box::new(|f| f.ports = Fact::Known(vec![port(None, false)])),
        ),
        (
            N::Ports,
            Warn,
            Some(Code::PortConflict),
            Box::new(|f| {
                let fixed = PortFact {
                    outgoing: Some((1_024, 60_999)),
                    ..port(None, false)
                };
                f.ports = Fact::Known(vec![fixed]);
            }),
        ),
        (
            N::Ports,
            Warn,
            Some(Code::PortConflict),
            Box::new(move |f| {
                let shared = PortFact {
                    other_owner: Some(process()),
                    ..port(None, true)
                };
                f.ports = Fact::Known(vec![port(None, false), shared]);
            }),
        ),
        (
            N::Ports,
            Pass,
            None,
            Box::new(|f| {
                let movable = PortFact {
                    outgoing: Some((1_024, 60_999)),
                    ..port(None, true)
                };
                f.ports = Fact::Known(vec![movable]);
            }),
        ),
        (
            N::Networks,
            Fail,
            Some(Code::NetworkPoolExhausted),
            Box::new(|f| {
                f.host.networks = Fact::Known(NetworksFact {
                    count: 31,
                    free: Some(0),
                });
            }),
        ),
        (
            N::Networks,
            Warn,
            Some(Code::NetworkPoolExhausted),
            Box::new(|f| {
                f.host.networks = Fact::Known(NetworksFact {
                    count: 29,
                    free: Some(2),
                });
            }),
        ),
        (
            N::Networks,
            Fail,
            Some(Code::PrereqMissing),
            Box::new(|f| f.host.engine = engine_like(|e| e.network_drivers = ["null".into()].into())),
        ),
        (
            N::Images,
            Warn,
            Some(Code::ImageNotFound),
            Box::new(|f| f.images = Fact::Known(vec![image(false, false)])),
        ),
        (
            N::Images,
            Pass,
            None,
            Box::new(|f| f.images = Fact::Known(vec![image(false, true), image(true, false)])),
        ),
        (
            N::Journal,
            Fail,
            Some(Code::JournalUnwritable),
            Box::new(|f| f.journal = Fact::Known(Err("read-only".into()))),
        ),
        (
            N::Clock,
            Warn,
            None,
            Box::new(|f| f.host.engine = engine_like(|e| e.clock_ahead = Some(-2_000))),
        ),
        (
            N::Clock,
            Warn,
            None,
            Box::new(|f| f.host.engine = engine_like(|e| e.clock_ahead = Some(60_000))),
        ),
    ];
    for (name, result, code, change) in cases {
        let outcome = check(name, change);
        assert_eq!((outcome.0, outcome.1), (result, code), "{name}: {}", outcome.2);
    }
}

#[test]
fn unknown_fact_is_never_a_pass() {
    let nothing = PreflightFacts {
        host: HostFacts::unknown("connection refused"),
        orphans: Fact::unknown("no engine"),
        ports: Fact::unknown("no engine"),
        images: Fact::unknown("no engine"),
        journal: Fact::unknown("another user's"),
        disk_full: None,
    };
    let outcomes = all(&nothing);
    for outcome in &outcomes {
        let expected = if outcome.name == CheckName::Engine {
            CheckResult::Fail
        } else {
            CheckResult::Skipped
        };
        assert_eq!(outcome.result, expected, "{outcome:?}");
        assert!(!outcome.message.is_empty());
    }
    assert_eq!(overall(&outcomes), PreflightOverall::Unhealthy);
    let only_unknown: Vec<_> = outcomes
        .into_iter()
        .filter(|outcome| outcome.name != CheckName::Engine)
        .collect();
    assert_eq!(overall(&only_unknown), PreflightOverall::Degraded);
    for change in [None, Some("1")] {
        let outcome = check(CheckName::Api, |facts| {
            facts.host.engine =
                engine_like(|engine| engine.api_version = change.unwrap_or_default().to_owned());
        });
        assert_eq!(outcome.0, CheckResult::Skipped);
    }
    let without_time = check(CheckName::Clock, |facts| {
        facts.host.engine = engine_like(|engine| engine.clock_ahead = None);
    });
    assert_eq!(without_time.0, CheckResult::Skipped);
}

#[test]
fn skipped_check_does_not_affect_the_result() {
    let mut facts = passing_facts();
    facts.host.disk = Fact::Known(disk(0));
    facts.ports = Fact::NotApplicable("no file".to_owned());
    let outcomes = evaluate(&facts, &PreflightSettings::default(), &[CheckName::Disk], NOW);
    assert_eq!(overall(&outcomes), PreflightOverall::Healthy);
    let report = report(outcomes, NOW);
    let disk = report
        .checks
        .iter()
        .find(|check| check.name == CheckName::Disk)
        .unwrap();
    assert_eq!(disk.result, CheckResult::Skipped);
}

#[test]
fn skipped_check_of_a_last_report_does_not_count() {
    let mut facts = passing_facts();
    facts.host.disk = Fact::Known(disk(0));
    let last = report(evaluate(&facts, &PreflightSettings::default(), &[], NOW), NOW);
    assert_eq!(last.overall, PreflightOverall::Unhealthy);
    let skipped = skip_checks(last.clone(), &[CheckName::Disk]);
    assert_ne!(skipped.overall, PreflightOverall::Unhealthy);
    assert_eq!(skipped.as_of, last.as_of);
    assert_eq!(skip_checks(last.clone(), &[]), last);
}

#[test]
fn full_disk_reports_its_usage() {
    let mut facts = passing_facts();
    facts.host.disk = Fact::Known(DiskFact {
        reclaimable: Some(Reclaimable {
            images: 7,
            build_cache: 9,
        }),
        ..disk(1)
    });
    let outcome = all(&facts)
        .into_iter()
        .find(|outcome| outcome.name == CheckName::Disk)
        .unwrap();
    let details = outcome.details.unwrap();
    assert_eq!(details["dataRoot"], "/var/lib/docker");
    assert_eq!(
        (&details["freeBytes"], &details["totalBytes"]),
        (&1.into(), &(100 * GB).into())
    );
    assert_eq!(details["thresholdBytes"], 2 * GB);
    assert_eq!(details["reclaimable"]["imagesBytes"], 7);
    assert_eq!(
        outcome.message,
        "1 B of 100 GB free on `/var/lib/docker`, but 2 GB are required"
    );
}

fn preflight(free: Option<u64>, age: std::time::Duration) -> PreflightSnapshot {
    let ground = HostFacts {
        disk: free.map_or_else(|| Fact::unknown("remote"), |free| Fact::Known(disk(free))),
        ..passing_facts().host
    };
    PreflightSnapshot {
        at: Some(NOW - age),
        host: ground,
        journal: Fact::Known(Ok(())),
    }
}

fn wait(of: Result<(), WaitReason>) -> (Option<Code>, Option<Timestamp>) {
    match of {
        Err(WaitReason::Preflight { code, until, .. }) => (code, until),
        other => panic!("no wait: {other:?}"),
    }
}

#[test]
fn full_disk_blocks_creation_until_the_next_check() {
    let (settings, second) = (PreflightSettings::default(), std::time::Duration::from_secs(1));
    let full = preflight(Some(1), second);
    assert_eq!(
        wait(full.check_creation(&settings, None, None, NOW)),
        (Some(Code::DiskSpaceLow), Some(NOW - second + RECHECK_DELAY))
    );
    let old = preflight(Some(1), RECHECK_DELAY);
    let needs_check = old.check_creation(&settings, None, None, NOW).unwrap_err();
    assert!(needs_check.needs_preflight());
    assert_eq!(
        preflight(Some(3 * GB), second).check_creation(&settings, Some(MAX_FACT_AGE), None, NOW),
        Ok(())
    );
    let small = PreflightSettings {
        disk_space_threshold: 1,
        ..settings
    };
    assert_eq!(
        full.check_creation(&small, Some(MAX_FACT_AGE), None, NOW),
        Ok(()),
        "the file's own threshold counts"
    );
    let off = PreflightSettings {
        enabled: false,
        ..settings
    };
    assert_eq!(full.check_creation(&off, Some(MAX_FACT_AGE), None, NOW), Ok(()));
    assert_eq!(
        PreflightSnapshot::default().check_creation(&off, Some(MAX_FACT_AGE), None, NOW),
        Ok(())
    );
}

#[test]
fn disk_is_checked_again_sooner_while_it_is_nearly_full() {
    let minutes = |count: u64| NOW + std::time::Duration::from_secs(60 * count);
    let default = PreflightSettings::default();
    let off = PreflightSettings {
        enabled: false,
        disk_space_threshold: 100 * GB,
    };
    let high = PreflightSettings {
        disk_space_threshold: 10 * GB,
        ..default
    };
    for (free, policies, next) in [
        (Some(50 * GB), vec![&default], Some(minutes(5))),
        (Some(3 * GB), vec![&default], Some(minutes(1))),
        (Some(1), vec![&default], Some(minutes(1))),
        (Some(15 * GB), vec![&default, &off], Some(minutes(5))),
        (Some(15 * GB), vec![&default, &high], Some(minutes(1))),
        (None, vec![&default], Some(minutes(5))),
        (Some(1), vec![&off], None),
        (Some(1), Vec::new(), None),
    ] {
        let snapshot = preflight(free, std::time::Duration::ZERO);
        let found = snapshot.recheck_at(policies.into_iter(), false, NOW);
        assert_eq!(found, next, "{free:?}");
    }
    let unchecked = PreflightSnapshot::default();
    assert_eq!(unchecked.recheck_at([&default].into_iter(), false, NOW), None);
    let mut local = preflight(Some(50 * GB), std::time::Duration::ZERO);
    local.host.memory_stall = Some(0);
    let next = local.recheck_at([&default].into_iter(), true, NOW);
    assert_eq!(next, Some(NOW + RECHECK_DELAY), "it can shed");
}

#[test]
fn first_object_waits_for_a_fresh_check() {
    let settings = PreflightSettings::default();
    let needs_check = |preflight: &PreflightSnapshot, max_age| {
        preflight
            .check_creation(&settings, max_age, None, NOW)
            .is_err_and(|wait| wait.needs_preflight())
    };
    let second = std::time::Duration::from_secs(1);
    assert!(needs_check(&PreflightSnapshot::default(), None), "no check yet");
    assert!(needs_check(
        &preflight(Some(50 * GB), MAX_FACT_AGE + second),
        Some(MAX_FACT_AGE)
    ));
    assert!(!needs_check(
        &preflight(Some(50 * GB), MAX_FACT_AGE),
        Some(MAX_FACT_AGE)
    ));
    assert!(!needs_check(
        &preflight(Some(50 * GB), MAX_FACT_AGE + second),
        None
    ));
}

#[test]
fn disk_full_report_counts_briefly_without_disk_facts() {
    let settings = PreflightSettings::default();
    let remote = preflight(None, std::time::Duration::ZERO);
    assert_eq!(
        remote.check_creation(&settings, Some(MAX_FACT_AGE), None, NOW),
        Ok(())
    );
    assert_eq!(
        wait(remote.check_creation(&settings, Some(MAX_FACT_AGE), Some(NOW), NOW)),
        (Some(Code::DiskSpaceLow), Some(NOW + DISK_FULL_MEMORY))
    );
    assert_eq!(
        remote.check_creation(&settings, Some(MAX_FACT_AGE), Some(NOW - DISK_FULL_MEMORY), NOW),
        Ok(())
    );
}

#[test]
fn old_engine_blocks_creation_but_unknown_one_does_not() {
    let settings = PreflightSettings::default();
    let with = |engine| PreflightSnapshot {
        host: HostFacts {
            engine,
            ..passing_facts().host
        },
        ..preflight(Some(50 * GB), std::time::Duration::ZERO)
    };
    let old = with(engine_like(|engine| engine.api_version = "1.24".to_owned()));
    assert_eq!(
        wait(old.check_creation(&settings, None, None, NOW)).0,
        Some(Code::ApiTooOld)
    );
    let windows = with(engine_like(|engine| engine.os_type = "windows".to_owned()));
    assert_eq!(
        wait(windows.check_creation(&settings, None, None, NOW)).0,
        Some(Code::PrereqMissing)
    );
    let unreachable = with(Fact::unknown("no answer within 3 s"));
    assert_eq!(
        unreachable.check_creation(&settings, Some(MAX_FACT_AGE), None, NOW),
        Ok(())
    );
}

#[test]
fn unchanged_report_keeps_its_time() {
    let settings = PreflightSettings::default();
    let report = |preflight: &PreflightSnapshot, previous| {
        preflight.report(&settings, None, None, Vec::new(), previous, NOW)
    };
    let first = report(&preflight(Some(5 * GB), RECHECK_DELAY), None).unwrap();
    assert_eq!(first.as_of, (NOW - RECHECK_DELAY).to_string());
    let second = report(&preflight(Some(5 * GB), std::time::Duration::ZERO), Some(&first)).unwrap();
    assert_eq!(second, first);
    let unreachable = preflight(Some(5 * GB), RECHECK_DELAY)
        .report(&settings, Some("refused"), None, Vec::new(), Some(&first), NOW)
        .unwrap();
    assert_eq!(unreachable.overall, PreflightOverall::Unhealthy);
    assert_eq!(report(&PreflightSnapshot::default(), None), None);
}

#[test]
fn size_uses_the_units_of_spec_files() {
    for (bytes, text) in [
        (0, "0 B"),
        (999, "999 B"),
        (1_500, "1.5 kB"),
        (2 * GB, "2 GB"),
        (123_456_789, "123 MB"),
        (44_940_000_000, "44.9 GB"),
        (5_000_000_000_000, "5 TB"),
    ] {
        assert_eq!(size(bytes), text);
    }
}
