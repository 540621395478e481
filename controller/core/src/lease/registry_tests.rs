//! Who lives, who was there first, and what is not believed.

use super::super::{LeaseSpec, TTL};
use super::*;

const SECOND: i64 = 1_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp(1_000_000 + seconds * SECOND)
}

fn env(name: &str) -> EnvName {
    EnvName::new(name).unwrap()
}

fn me(holds: bool) -> OwnIdentity {
    OwnIdentity {
        controller: "a".to_owned(),
        run: "run-a".to_owned(),
        place: "place-a".to_owned(),
        holds,
    }
}

/// The lease of controller `who`, renewed then, that claims `shop` since `since`.
fn lease(who: &str, renewed: i64, since: Option<i64>) -> ControllerLease {
    ControllerLease {
        name: format!("argus-lease-{who}-{renewed}"),
        spec: LeaseSpec {
            controller: who.to_owned(),
            run: format!("run-{who}"),
            place: format!("place-{who}"),
            host: "host".to_owned(),
            pid: 1,
            processes: String::new(),
            ttl: TTL,
            claims: since
                .map(|since| (env("shop"), Some(at(since))))
                .into_iter()
                .collect(),
        },
        made_at: at(renewed),
        renewed_at: at(renewed),
    }
}

fn book(found: Vec<ControllerLease>, now: i64) -> Leases {
    let mut book = Leases::of(me(true));
    book.take(found, at(now));
    book
}

/// `ours`, `unsaid`, or whose it is.
fn standing(book: &Leases, now: i64) -> String {
    match book.ownership(&env("shop"), true, at(now)) {
        Ownership::Ours => "ours".to_owned(),
        Ownership::Unclaimed => "unsaid".to_owned(),
        Ownership::Theirs(lease) => lease.spec.controller.clone(),
    }
}

#[test]
fn nothing_is_ours_before_our_lease_says_so() {
    assert_eq!(standing(&Leases::of(me(true)), 0), "unsaid");
    assert_eq!(standing(&book(vec![], 0), 0), "unsaid");
    assert_eq!(standing(&book(vec![lease("a", 0, None)], 0), 0), "unsaid");
    assert_eq!(standing(&book(vec![lease("a", 0, Some(0))], 0), 0), "ours");
    // What is only left of it needs no claim, but a lease.
    let left = book(vec![lease("a", 0, None)], 0);
    assert_eq!(left.ownership(&env("shop"), false, at(0)), Ownership::Ours);
}

#[test]
fn who_claimed_first_has_it_and_a_tie_is_decided_the_same_everywhere() {
    for (ours, theirs, whose) in [(5, 9, "ours"), (9, 5, "b"), (5, 5, "ours")] {
        let seen = vec![lease("a", 20, Some(ours)), lease("b", 20, Some(theirs))];
        assert_eq!(standing(&book(seen, 20), 20), whose, "{ours} {theirs}");
    }
    let from_b = OwnIdentity {
        controller: "b".to_owned(),
        run: "run-b".to_owned(),
        place: "place-b".to_owned(),
        holds: true,
    };
    let mut book = Leases::of(from_b);
    book.take(vec![lease("a", 20, Some(5)), lease("b", 20, Some(5))], at(20));
    assert_eq!(standing(&book, 20), "a");
}

#[test]
fn a_newcomer_keeps_off_what_a_living_one_claims_even_before_it_has_a_lease() {
    assert_eq!(standing(&book(vec![lease("b", 0, Some(0))], 10), 10), "b");
}

#[test]
fn a_lease_dies_when_it_was_not_renewed_for_its_time() {
    let both = |now| {
        let mut book = book(vec![lease("a", 0, Some(5)), lease("b", 0, Some(0))], 0);
        for look in (10..=now).step_by(10) {
            book.take(vec![lease("a", look, Some(5)), lease("b", 0, Some(0))], at(look));
        }
        book
    };
    assert_eq!(standing(&both(80), 89), "b");
    assert_eq!(standing(&both(90), 90), "ours");
    assert_eq!(both(80).next_change(at(85)), Some(at(90)));
}

#[test]
fn we_stop_to_act_before_others_think_us_dead() {
    let book = book(vec![lease("a", 0, Some(0))], 0);
    assert_eq!(standing(&book, 59), "ours");
    assert_eq!(standing(&book, 60), "unsaid");
}

#[test]
fn after_an_outage_a_long_silence_or_a_jump_nobody_is_called_dead_for_a_while() {
    let old = || vec![lease("a", 0, Some(5)), lease("b", 0, Some(0))];
    let ours_at = |now| lease("a", now, Some(5));
    let mut lost = book(old(), 0);
    assert!(lost.lost() && !lost.lost());
    assert_eq!(standing(&lost, 95), "b");
    lost.take(vec![ours_at(100), lease("b", 0, Some(0))], at(100));
    assert_eq!(standing(&lost, 100), "b");
    for look in (110..=190).step_by(10) {
        lost.take(vec![ours_at(look), lease("b", 0, Some(0))], at(look));
    }
    assert_eq!(standing(&lost, 189), "b");
    assert_eq!(standing(&lost, 190), "ours");
    let mut slept = book(old(), 0);
    slept.take(vec![ours_at(3600), lease("b", 0, Some(0))], at(3600));
    assert_eq!(standing(&slept, 3600), "b");
    let mut jumped_back = book(vec![lease("a", 0, Some(5)), lease("b", -200, Some(0))], 0);
    assert_eq!(standing(&jumped_back, 0), "ours");
    jumped_back.take(vec![ours_at(-30), lease("b", -200, Some(0))], at(-30));
    assert_eq!(standing(&jumped_back, -30), "b");
}

#[test]
fn what_was_dead_at_the_first_look_needs_no_wait() {
    let seen = vec![lease("a", 0, Some(0)), lease("b", -91, Some(-500))];
    assert_eq!(standing(&book(seen, 0), 0), "ours");
}

#[test]
fn the_first_translation_of_the_engines_clock_stands() {
    let mut book = book(vec![lease("b", 0, Some(0))], 0);
    let moved = ControllerLease {
        renewed_at: at(500),
        ..lease("b", 0, Some(0))
    };
    book.take(vec![moved], at(10));
    assert_eq!(book.all().next().unwrap().renewed_at, at(0));
}

#[test]
fn another_run_on_our_own_state_directory_is_dead_because_we_hold_its_lock() {
    let mut before = lease("a", 0, Some(0));
    before.spec.run = "run-before".to_owned();
    assert_eq!(
        standing(&book(vec![before, lease("a", 1, Some(1))], 1), 1),
        "ours"
    );
}

#[test]
fn a_process_with_our_identity_and_another_state_directory_is_somebody_else() {
    let mut twin = lease("a", 0, Some(0));
    (twin.spec.run, twin.spec.place) = ("run-0".to_owned(), "place-0".to_owned());
    assert_eq!(standing(&book(vec![twin, lease("a", 1, Some(1))], 1), 1), "a");
}

#[test]
fn a_maker_lives_is_dead_or_is_in_doubt_right_after_its_lease_went() {
    let mut book = book(vec![lease("a", 0, Some(0)), lease("b", 0, None)], 0);
    assert_eq!(book.liveness("a", at(0)), Liveness::Own);
    assert!(matches!(book.liveness("b", at(0)), Liveness::Alive(_)));
    assert_eq!(book.liveness("", at(0)), Liveness::Dead);
    assert!(!book.yields(&env("shop"), "b", at(0)) && book.yields(&env("shop"), "c", at(0)));
    book.take(vec![lease("a", 10, Some(0))], at(10));
    assert_eq!(book.liveness("b", at(10)), Liveness::Doubtful);
    assert_eq!(book.liveness("b", at(70)), Liveness::Dead);
    assert_eq!(Leases::default().liveness("b", at(0)), Liveness::Unknown);
    let loser = lease("b", 0, Some(9));
    assert!(super::tests::book(vec![lease("a", 0, Some(0)), loser], 0).yields(&env("shop"), "b", at(0)));
}

#[test]
fn whoever_comes_and_goes_needs_no_lease_and_keeps_off_what_is_claimed() {
    let mut visitor = Leases::of(me(false));
    assert_eq!(standing(&visitor, 0), "unsaid", "before anything was read");
    visitor.take(vec![], at(0));
    assert_eq!(standing(&visitor, 0), "ours");
    visitor.take(vec![lease("b", 0, Some(0))], at(0));
    assert_eq!(standing(&visitor, 0), "b");
}

#[test]
fn what_was_claimed_keeps_its_time_unless_somebody_took_it_over_meanwhile() {
    let wanted = BTreeSet::from([env("shop"), env("new")]);
    let kept = |since: Option<i64>| BTreeMap::from([(env("shop"), since.map(at)), (env("new"), None)]);
    let alone = book(vec![lease("a", 0, Some(-7))], 0);
    assert_eq!(alone.claims(&wanted, at(30)), kept(Some(-7)));
    assert_eq!(alone.claims(&wanted, at(300)), kept(Some(-7)));
    let other = || vec![lease("a", 0, Some(-7)), lease("b", 290, Some(100))];
    assert_eq!(book(other(), 300).claims(&wanted, at(300)), kept(None));
    let waiting = vec![lease("a", 0, Some(-7)), lease("b", 20, Some(-3))];
    assert_eq!(book(waiting, 30).claims(&wanted, at(30)), kept(Some(-7)));
}

#[test]
fn a_renewal_is_told_from_silence() {
    let mut book = book(vec![lease("b", 0, None)], 0);
    assert!(!book.renews(&lease("b", 0, None)));
    assert!(!book.take(vec![lease("b", 0, None)], at(10)), "nothing new");
    assert!(book.take(vec![lease("b", 0, None), lease("b", 20, None)], at(20)));
    assert!(book.renews(&lease("b", 20, None)));
}
