//! Tests of liveness, of the order of claims, and of outages and clock jumps.

use super::super::{LeaseSpec, TTL};
use super::*;

const SECOND: i64 = 1_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp(1_000_000 + seconds * SECOND)
}

fn env(name: &str) -> EnvName {
    EnvName::new(name).unwrap()
}

fn me(holds: bool) -> ProcessIdentity {
    ProcessIdentity {
        controller: "a".to_owned(),
        run: "run-a".to_owned(),
        state_dir: "place-a".to_owned(),
        holds_lease: holds,
    }
}

/// Lease of one controller, renewed at `renewed`, with a claim on `shop` since `since` (both in seconds).
fn lease(controller: &str, renewed: i64, since: Option<i64>) -> ControllerLease {
    ControllerLease {
        name: format!("argus-lease-{controller}-{renewed}"),
        spec: LeaseSpec {
            controller: controller.to_owned(),
            run: format!("run-{controller}"),
            state_dir: format!("place-{controller}"),
            specs: None,
            host: "host".to_owned(),
            pid: 1,
            pid_namespace: String::new(),
            ttl: TTL,
            since: Some(Timestamp(0)),
            claims: since
                .map(|since| (env("shop"), Some(at(since))))
                .into_iter()
                .collect(),
        },
        created_at: at(renewed),
        renewed_at: at(renewed),
    }
}

fn leases(found: Vec<ControllerLease>, now: i64) -> ControllerLeases {
    let mut leases = ControllerLeases::new(me(true));
    leases.on_listed(found, at(now));
    leases
}

/// Returns `ours`, `unclaimed`, or the controller that owns `shop`.
fn ownership(leases: &ControllerLeases, now: i64) -> String {
    match leases.ownership(&env("shop"), true, at(now)) {
        Ownership::Own => "ours".to_owned(),
        Ownership::Unclaimed => "unclaimed".to_owned(),
        Ownership::HeldByOther(lease) => lease.spec.controller.clone(),
    }
}

#[test]
fn environment_is_unclaimed_until_our_lease_claims_it() {
    assert_eq!(ownership(&ControllerLeases::new(me(true)), 0), "unclaimed");
    assert_eq!(ownership(&leases(vec![], 0), 0), "unclaimed");
    assert_eq!(ownership(&leases(vec![lease("a", 0, None)], 0), 0), "unclaimed");
    assert_eq!(ownership(&leases(vec![lease("a", 0, Some(0))], 0), 0), "ours");
    // Remaining objects need no claim, but a lease.
    let left = leases(vec![lease("a", 0, None)], 0);
    assert_eq!(left.ownership(&env("shop"), false, at(0)), Ownership::Own);
}

#[test]
fn first_claim_wins_and_ties_are_deterministic() {
    for (ours, theirs, owner) in [(5, 9, "ours"), (9, 5, "b"), (5, 5, "ours")] {
        let seen = vec![lease("a", 20, Some(ours)), lease("b", 20, Some(theirs))];
        assert_eq!(ownership(&leases(seen, 20), 20), owner, "{ours} {theirs}");
    }
    let from_b = ProcessIdentity {
        controller: "b".to_owned(),
        run: "run-b".to_owned(),
        state_dir: "place-b".to_owned(),
        holds_lease: true,
    };
    let mut leases = ControllerLeases::new(from_b);
    leases.on_listed(vec![lease("a", 20, Some(5)), lease("b", 20, Some(5))], at(20));
    assert_eq!(ownership(&leases, 20), "a");
}

#[test]
fn newcomer_without_lease_respects_claims_of_others() {
    assert_eq!(ownership(&leases(vec![lease("b", 0, Some(0))], 10), 10), "b");
}

#[test]
fn unrenewed_lease_is_dead_after_its_ttl() {
    let both = |now| {
        let mut leases = leases(vec![lease("a", 0, Some(5)), lease("b", 0, Some(0))], 0);
        for second in (10..=now).step_by(10) {
            leases.on_listed(
                vec![lease("a", second, Some(5)), lease("b", 0, Some(0))],
                at(second),
            );
        }
        leases
    };
    assert_eq!(ownership(&both(80), 89), "b");
    assert_eq!(ownership(&both(90), 90), "ours");
    assert_eq!(both(80).next_change(at(85)), Some(at(90)));
}

#[test]
fn own_lease_ends_before_others_consider_it_dead() {
    let leases = leases(vec![lease("a", 0, Some(0))], 0);
    assert_eq!(ownership(&leases, 59), "ours");
    assert_eq!(ownership(&leases, 60), "unclaimed");
}

#[test]
fn outage_gap_or_clock_jump_postpones_expiry() {
    let old = || vec![lease("a", 0, Some(5)), lease("b", 0, Some(0))];
    let ours_at = |now| lease("a", now, Some(5));
    let mut lost = leases(old(), 0);
    assert!(lost.on_unreachable() && !lost.on_unreachable());
    assert_eq!(ownership(&lost, 95), "b");
    lost.on_listed(vec![ours_at(100), lease("b", 0, Some(0))], at(100));
    assert_eq!(ownership(&lost, 100), "b");
    for second in (110..=190).step_by(10) {
        lost.on_listed(vec![ours_at(second), lease("b", 0, Some(0))], at(second));
    }
    assert_eq!(ownership(&lost, 189), "b");
    assert_eq!(ownership(&lost, 190), "ours");
    let mut resumed = leases(old(), 0);
    resumed.on_listed(vec![ours_at(3600), lease("b", 0, Some(0))], at(3600));
    assert_eq!(ownership(&resumed, 3600), "b");
    let mut jumped_back = leases(vec![lease("a", 0, Some(5)), lease("b", -200, Some(0))], 0);
    assert_eq!(ownership(&jumped_back, 0), "ours");
    jumped_back.on_listed(vec![ours_at(-30), lease("b", -200, Some(0))], at(-30));
    assert_eq!(ownership(&jumped_back, -30), "b");
}

#[test]
fn lease_dead_at_the_first_list_needs_no_wait() {
    let seen = vec![lease("a", 0, Some(0)), lease("b", -91, Some(-500))];
    assert_eq!(ownership(&leases(seen, 0), 0), "ours");
}

#[test]
fn first_estimate_of_the_engine_clock_is_kept() {
    let mut leases = leases(vec![lease("b", 0, Some(0))], 0);
    let moved = ControllerLease {
        renewed_at: at(500),
        ..lease("b", 0, Some(0))
    };
    leases.on_listed(vec![moved], at(10));
    assert_eq!(leases.all().next().unwrap().renewed_at, at(0));
}

#[test]
fn another_run_in_our_state_directory_is_dead() {
    let mut before = lease("a", 0, Some(0));
    before.spec.run = "run-before".to_owned();
    assert_eq!(
        ownership(&leases(vec![before, lease("a", 1, Some(1))], 1), 1),
        "ours"
    );
}

#[test]
fn same_identity_in_another_state_directory_is_foreign() {
    let mut twin = lease("a", 0, Some(0));
    (twin.spec.run, twin.spec.state_dir) = ("run-0".to_owned(), "place-0".to_owned());
    assert_eq!(ownership(&leases(vec![twin, lease("a", 1, Some(1))], 1), 1), "a");
}

#[test]
fn creator_is_doubtful_right_after_its_lease_disappears() {
    let mut leases = leases(vec![lease("a", 0, Some(0)), lease("b", 0, None)], 0);
    assert_eq!(leases.liveness("a", at(0)), Liveness::Own);
    assert!(matches!(leases.liveness("b", at(0)), Liveness::Alive(_)));
    assert_eq!(leases.liveness("", at(0)), Liveness::Dead);
    assert!(
        !leases.can_take_over(&env("shop"), "b", at(0)) && leases.can_take_over(&env("shop"), "c", at(0))
    );
    leases.on_listed(vec![lease("a", 10, Some(0))], at(10));
    assert_eq!(leases.liveness("b", at(10)), Liveness::LeaseLostRecently);
    assert_eq!(leases.liveness("b", at(70)), Liveness::Dead);
    assert_eq!(
        ControllerLeases::default().liveness("b", at(0)),
        Liveness::Unknown
    );
    let later_claim = lease("b", 0, Some(9));
    assert!(
        super::tests::leases(vec![lease("a", 0, Some(0)), later_claim], 0).can_take_over(
            &env("shop"),
            "b",
            at(0)
        )
    );
}

#[test]
fn only_an_expired_lease_or_an_ended_process_is_a_proof() {
    let mut all = leases(vec![lease("a", 0, None), lease("b", 0, None)], 0);
    let is_proven = |all: &ControllerLeases, now| all.is_proven_dead("b", at(now));
    assert!(!is_proven(&all, 0), "it lives");
    assert!(
        !all.is_proven_dead("c", at(0)),
        "a missing lease may be written again"
    );
    let expiring = leases(vec![lease("a", 80, None), lease("b", 0, None)], 80);
    assert!(!is_proven(&expiring, 89) && is_proven(&expiring, 90));
    // Its process ended, so nothing waits for the expiry.
    let version = all.version();
    assert!(all.on_exited(&[lease("b", 0, None)]));
    all.on_listed(vec![lease("a", 10, None)], at(10));
    assert!(is_proven(&all, 10) && all.version() > version);
    assert!(!all.on_exited(&[lease("b", 0, None)]), "nothing changed");
    // A new run of the same controller lives.
    let next = ControllerLease {
        spec: LeaseSpec {
            run: "next".to_owned(),
            ..lease("b", 20, None).spec
        },
        ..lease("b", 20, None)
    };
    all.on_listed(vec![lease("a", 20, None), next], at(20));
    assert!(!is_proven(&all, 20));
    // The lease of the new run disappears: the end of the old process proves nothing about it.
    all.on_listed(vec![lease("a", 30, None)], at(30));
    assert!(!is_proven(&all, 30));
}

#[test]
fn command_without_lease_respects_claims() {
    let mut command = ControllerLeases::new(me(false));
    assert_eq!(ownership(&command, 0), "unclaimed", "before the first list");
    command.on_listed(vec![], at(0));
    assert_eq!(ownership(&command, 0), "ours");
    command.on_listed(vec![lease("b", 0, Some(0))], at(0));
    assert_eq!(ownership(&command, 0), "b");
}

#[test]
fn claim_keeps_its_time_unless_taken_over() {
    let wanted = BTreeSet::from([env("shop"), env("new")]);
    let claims = |since: Option<i64>| BTreeMap::from([(env("shop"), since.map(at)), (env("new"), None)]);
    let alone = leases(vec![lease("a", 0, Some(-7))], 0);
    assert_eq!(alone.claims(&wanted, at(30)), claims(Some(-7)));
    assert_eq!(alone.claims(&wanted, at(300)), claims(Some(-7)));
    let other = || vec![lease("a", 0, Some(-7)), lease("b", 290, Some(100))];
    assert_eq!(leases(other(), 300).claims(&wanted, at(300)), claims(None));
    let waiting = vec![lease("a", 0, Some(-7)), lease("b", 20, Some(-3))];
    assert_eq!(leases(waiting, 30).claims(&wanted, at(30)), claims(Some(-7)));
}

#[test]
fn renewal_is_detected_by_a_new_lease_object() {
    let mut leases = leases(vec![lease("b", 0, None)], 0);
    assert!(!leases.renews(&lease("b", 0, None)));
    assert!(
        !leases.on_listed(vec![lease("b", 0, None)], at(10)),
        "nothing new"
    );
    assert!(leases.on_listed(vec![lease("b", 0, None), lease("b", 20, None)], at(20)));
    assert!(leases.renews(&lease("b", 20, None)));
}

#[test]
fn renewal_of_valid_leases_keeps_the_version() {
    let at_time = |time| vec![lease("a", time, Some(0)), lease("b", time, Some(0))];
    let mut leases = leases(at_time(0), 0);
    assert!(leases.on_listed(at_time(30), at(30)), "the first renewal is new");
    let version = leases.version();
    for time in [60, 90, 120] {
        let until = leases.next_change(at(time));
        assert!(
            leases.on_listed(at_time(time), at(time)),
            "readers see the renewal"
        );
        assert_eq!(leases.version(), version, "{time}");
        assert!(leases.next_change(at(time)) > until, "the leases end later");
    }
    // A lease that records its first claim writes the time that it had before.
    let mut implied = lease("a", 120, None);
    implied.spec.claims = [(env("shop"), None)].into();
    implied.created_at = at(0);
    leases.on_listed(vec![implied, lease("b", 120, Some(0))], at(125));
    assert_eq!(leases.version(), version);
}

#[test]
fn change_of_a_decision_changes_the_version() {
    let both = |time| vec![lease("a", time, Some(0)), lease("b", time, Some(5))];
    let changes: [(&str, Vec<ControllerLease>, i64); 6] = [
        (
            "a claim is new",
            vec![lease("a", 60, Some(0)), lease("b", 60, None)],
            60,
        ),
        (
            "a claim has another time",
            vec![lease("a", 60, Some(0)), lease("b", 60, Some(6))],
            60,
        ),
        ("a lease is gone", vec![lease("a", 60, Some(0))], 60),
        ("an expired own lease is renewed", both(95), 95),
        ("nothing was observed for long", both(30), 90),
        (
            "another process has the lease",
            vec![lease("a", 60, Some(0)), {
                let mut other = lease("b", 60, Some(5));
                other.spec.pid = 2;
                other
            }],
            60,
        ),
    ];
    for (what, found, now) in changes {
        let mut leases = leases(both(0), 0);
        leases.on_listed(both(30), at(30));
        let version = leases.version();
        leases.on_listed(found, at(now));
        assert_ne!(leases.version(), version, "{what}");
    }
}

#[test]
fn list_received_after_the_end_of_a_lease_changes_the_version() {
    let own = |time| vec![lease("a", time, Some(0))];
    for (received_at, is_changed) in [(61, false), (95, true)] {
        let mut leases = leases(own(0), 0);
        leases.on_listed(own(30), at(30));
        let version = leases.version();
        leases.on_listed_at(own(60), at(60), at(received_at));
        assert_eq!(leases.version() != version, is_changed, "{received_at}");
    }
}

/// A controller that starts at `start`, and whose calls reach the engine after `delay`, in milliseconds.
struct StartingController {
    leases: ControllerLeases,
    lease: ControllerLease,
    /// Time at which the engine executes the next call, and the time of the request.
    call: Option<(i64, i64)>,
    is_written: bool,
    delay: i64,
}

impl StartingController {
    fn new(name: &str, start: i64, delay: i64) -> Self {
        let mut spec = lease(name, 0, None);
        spec.spec.since = None;
        spec.spec.claims = [(env("shop"), None)].into();
        let identity = ProcessIdentity {
            controller: name.to_owned(),
            run: format!("run-{name}"),
            state_dir: format!("place-{name}"),
            holds_lease: true,
        };
        Self {
            leases: ControllerLeases::new(identity),
            lease: spec,
            call: Some((start + delay, start)),
            is_written: false,
            delay,
        }
    }

    fn owns(&self, now: i64) -> bool {
        self.leases.ownership(&env("shop"), true, Timestamp(now)) == Ownership::Own
    }

    /// Executes the call that is due: first the write of the lease, then reads. Each returns all leases.
    fn step(&mut self, engine: &mut Vec<ControllerLease>, now: i64) {
        let due = self.call.filter(|(at, _)| *at == now);
        let Some((_, requested_at)) = due else { return };
        if !self.is_written {
            self.is_written = true;
            self.lease.created_at = Timestamp(now - now.rem_euclid(SECOND));
            self.lease.renewed_at = self.lease.created_at;
            engine.push(self.lease.clone());
        }
        self.leases.on_listed(engine.clone(), Timestamp(requested_at));
        let next = self.leases.next_claim_check();
        self.call = next.map(|at| (at.0.max(now) + self.delay, at.0.max(now)));
    }
}

#[test]
fn two_controllers_that_start_together_never_act_together() {
    for seed in 0..300_i64 {
        let (start, gap) = (seed * 37 % SECOND, seed * 13 % 1_400);
        let (first, second) = (seed * 7 % 500, seed * 11 % 500);
        let mut both = [
            StartingController::new("a", 5_000 + start + gap, first),
            StartingController::new("b", 5_000 + start, second),
        ];
        if seed % 2 == 0 {
            both.swap(0, 1);
        }
        let mut engine = Vec::new();
        for now in 5_000..10_000 {
            for controller in &mut both {
                controller.step(&mut engine, now);
            }
            let owners = both.iter().filter(|one| one.owns(now)).count();
            assert!(owners < 2, "seed {seed}: both act at {now}");
        }
        let owners = both.iter().filter(|one| one.owns(10_000)).count();
        assert_eq!(owners, 1, "seed {seed}: no owner");
    }
}

#[test]
fn oldest_controller_claims_without_a_second_list() {
    let mut ours = lease("a", 20, Some(20));
    ours.spec.since = Some(at(10));
    let mut theirs = lease("b", 15, None);
    theirs.spec.since = Some(at(15));
    assert_eq!(
        ownership(&leases(vec![ours.clone(), theirs.clone()], 20), 20),
        "ours"
    );
    theirs.spec.since = Some(at(5));
    let mut waiting = leases(vec![ours.clone(), theirs.clone()], 20);
    assert_eq!(ownership(&waiting, 20), "unclaimed");
    let check = waiting.next_claim_check().unwrap();
    assert!(check > at(21) && check < at(22));
    assert!(
        waiting.on_listed(vec![ours, theirs], check),
        "the ownership changed"
    );
    assert_eq!(ownership(&waiting, 22), "ours");
    assert_eq!(waiting.next_claim_check(), None);
}
