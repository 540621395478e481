//! Crash points: the controller is killed at any call, and its successor at any of its own calls, before and after the
//! engine executes it.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_backend::sim::FaultProfile;
use argus_core::desired::{Condition, Desired, Image, Mount};
use argus_core::observed::ContainerState;

use crate::fixture::{Crash, SimFixture, is_ours};
use crate::specs::{PULLED, depends, desired, env, plain, probe, published, resource};
use crate::{all, foreign_objects};

const LIMIT: Duration = Duration::from_secs(600);

/// The interrupted work.
#[derive(Debug, Clone, Copy)]
enum Work {
    Convergence,
    Replacement,
    Teardown,
}

/// A job that must complete, a service that needs it, and one that needs that service; with a volume, ports, a probe
/// and an image to pull.
fn shop(version: &str) -> Desired {
    let job = plain("one", "job0");
    let (mut api, mut web) = (plain("one", "api"), plain("one", "web"));
    api.depends_on = vec![depends("job0", Condition::Completed)];
    api.ports = vec![published(80, Some(8_080))];
    api.probe = Some(probe());
    api.mounts = vec![Mount::Volume {
        name: resource("argus-one-data"),
        target: "/data".to_owned(),
        read_only: false,
    }];
    web.depends_on = vec![depends("api", Condition::Healthy)];
    web.image = Image::Named(PULLED.to_owned());
    for service in [&mut api, &mut web] {
        service.env_vars.insert("VERSION".to_owned(), version.to_owned());
    }
    desired("one", [job, api, web])
}

/// The fixture at the start of the work.
fn before(work: Work) -> SimFixture {
    let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
    foreign_objects::plant(&mut fixture);
    match work {
        Work::Convergence => fixture.wants(shop("1")),
        Work::Replacement => {
            fixture.wants(shop("1"));
            assert!(fixture.run_to_rest(LIMIT));
            fixture.wants(shop("2"));
        }
        Work::Teardown => {
            fixture.wants(shop("1"));
            assert!(fixture.run_to_rest(LIMIT));
            fixture.specs.remove(&env("one"));
        }
    }
    fixture
}

/// The end state: every change except pulls, the runs of every service, and all objects.
#[derive(Debug, PartialEq, Eq)]
struct End {
    changes: Vec<&'static str>,
    runs: BTreeMap<&'static str, u32>,
    there: Vec<(String, Option<ContainerState>)>,
}

fn end(fixture: &SimFixture) -> End {
    let model = &fixture.engine.model;
    let mut changes = fixture.changes();
    // A controller that does not know an existing image pulls it again.
    changes.retain(|verb| *verb != "pull-image");
    changes.sort_unstable();
    let runs = ["one/job0", "one/api", "one/web"].map(|service| (service, model.start_count(service)));
    let containers = model.containers().filter(|c| is_ours(c));
    let containers = containers.map(|c| (c.name.clone(), Some(c.state)));
    let networks = model.networks().map(|network| (network.name.clone(), None));
    let volumes = model.volumes().map(|volume| (volume.name.clone(), None));
    let mut there: Vec<_> = containers.chain(networks).chain(volumes).collect();
    there.sort_by(|a, b| a.0.cmp(&b.0));
    End {
        changes,
        runs: runs.into(),
        there,
    }
}

/// One run with these crashes. The first value is `None` if the end state equals that without crashes, else the
/// difference.
fn crashed(work: Work, crashes: &[Crash], calm: &End) -> (Option<String>, bool) {
    let mut fixture = before(work);
    let mut settled = false;
    for crash in crashes {
        fixture.crash = Some(*crash);
        settled = fixture.run_to_rest_or_crash(LIMIT);
        if fixture.crash.is_some() {
            break;
        }
    }
    let all_met = fixture.crash.take().is_none();
    settled = settled || fixture.run_to_rest(LIMIT);
    let ended = end(&fixture);
    // A new planner with only the engine's facts has nothing left to do.
    let calls = fixture.engine.model.calls().len();
    fixture.kill_controller(Duration::from_secs(1), true);
    let rests = fixture.run_to_rest(LIMIT);
    let later = fixture.now + Duration::from_secs(30);
    fixture.run_until(later);
    let more = &fixture.engine.model.calls()[calls..];
    let trespasses = fixture.engine.model.foreign_actions();
    let good = settled && rests && ended == *calm && more.is_empty() && trespasses.is_empty();
    let output = (!good).then(|| {
        let (stuck, short) = (fixture.stuck(), fixture.shortfalls());
        format!("settled {settled}, rests {rests}: {stuck:?} {short:?}\nended {ended:#?}\nnext {more:?}\n{trespasses:?}")
    });
    (output, all_met)
}

fn interrupted(work: Work) {
    let mut calm = before(work);
    let from = calm.started.len();
    assert!(calm.run_to_rest(LIMIT), "{work:?}: {:?}", calm.stuck());
    let calls = calm.started.len() - from;
    assert!(calls > 4, "{work:?} takes {calls} calls");
    let calm = end(&calm);
    let points = |at: usize| {
        [false, true].into_iter().flat_map(move |sent| {
            [false, true].map(move |keeps_state| Crash {
                at,
                sent,
                keeps_state,
                away: Duration::from_millis(if at.is_multiple_of(2) { 0 } else { 1_500 }),
            })
        })
    };
    let firsts: Vec<u64> = (0..u64::try_from(4 * calls).unwrap()).collect();
    let offences = all(&firsts, |first| {
        let first = usize::try_from(first).unwrap();
        let crash = points(first / 4).nth(first % 4).unwrap();
        let (mut offences, mut pairs) = (Vec::new(), 0);
        // The successor is killed at each of its calls, until it completes before the crash.
        'seconds: for at in 0..=2 * calls {
            for second in points(at) {
                let (offence, all_met) = crashed(work, &[crash, second], &calm);
                offences.extend(offence.map(|what| format!("{work:?}, {crash:?}, then {second:?}: {what}")));
                if !all_met {
                    break 'seconds;
                }
                pairs += 1;
            }
        }
        (offences, pairs)
    });
    let pairs: usize = offences.iter().map(|(_, pairs)| pairs).sum();
    assert!(pairs > 8 * calls, "{work:?}: {pairs} pairs");
    let all: Vec<_> = offences.into_iter().flat_map(|(offences, _)| offences).collect();
    assert!(all.is_empty(), "{} of {pairs} pairs: {}", all.len(), all[0]);
}

#[test]
fn convergence_killed_at_any_two_calls_ends_the_same() {
    interrupted(Work::Convergence);
}

#[test]
fn replacement_killed_at_any_two_calls_ends_the_same() {
    interrupted(Work::Replacement);
}

#[test]
fn teardown_killed_at_any_two_calls_ends_the_same() {
    interrupted(Work::Teardown);
}
