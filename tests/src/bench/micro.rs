//! Micro benchmarks of the pure planner: one reconcile pass without changes, after one change, and from scratch.

use std::sync::Arc;

use argus_core::desired::admit::admit;
use argus_core::desired::hash::revision_of;
use argus_core::ident::PortMap;
use argus_core::plan::render;
use argus_core::reconcile::Planner;
use argus_core::state::PlannerState;
use argus_tests::pure::{PlannerFixture, desired, place, plain, site, written};
use argus_tests::wait;

use crate::figure::Figure;

fn milliseconds<T>(rounds: usize, mut work: impl FnMut() -> T) -> Vec<f64> {
    let mut took = Vec::new();
    for _ in 0..rounds {
        let (time, result) = wait::timed(&mut work);
        drop(result);
        took.push(time.as_secs_f64() * 1e3);
    }
    took
}

pub(crate) fn run(figures: &mut Vec<Figure>) {
    at_rest(figures);
    from_scratch(figures);
    pieces(figures);
}

fn at_rest(figures: &mut Vec<Figure>) {
    for (environments, goal) in [(10, ("≤ 1 ms", 1.0)), (100, ("≤ 10 ms", 10.0))] {
        let mut fixture = PlannerFixture::new(environments, 10);
        let mut planner = Planner::new(site(), PlannerState::default());
        fixture.settle(&mut planner);
        assert_eq!(fixture.containers(), environments * 10, "all containers run");
        let took = milliseconds(300, || {
            let turn = fixture.turn(&mut planner);
            assert!(turn.steps.is_empty(), "nothing left to do: {:?}", turn.steps);
            turn
        });
        let what = format!(
            "reconcile pass, no change, {} containers in {environments} environments",
            environments * 10
        );
        figures.push(Figure::new(what, "ms", took).goal(goal));
        if environments == 100 {
            one_changed(&mut fixture, &mut planner, figures);
        }
    }
}

fn one_changed(fixture: &mut PlannerFixture, planner: &mut Planner, figures: &mut Vec<Figure>) {
    let mut last = fixture.turn(planner);
    let mut took = Vec::new();
    for round in 0..300 {
        fixture.change(round);
        let (time, turn) = wait::timed(|| fixture.turn(planner));
        took.push(time.as_secs_f64() * 1e3);
        assert!(turn.steps.is_empty(), "nothing left to do: {:?}", turn.steps);
        let again = turn
            .plans
            .iter()
            .filter(|(env, plan)| !last.plans.get(*env).is_some_and(|old| Arc::ptr_eq(old, plan)))
            .count();
        assert_eq!(again, 1, "only the changed environment is planned again");
        last = turn;
    }
    let what = "reconcile pass, one of 100 environments changed (the pass did not plan the 99 others)";
    figures.push(Figure::new(what, "ms", took));
}

fn from_scratch(figures: &mut Vec<Figure>) {
    let mut fixture = PlannerFixture::new(200, 50);
    let fresh = |memory: &PlannerState| Planner::new(site(), memory.clone());
    let goal = ("≤ 100 ms", 100.0);
    let nothing = PlannerState::default();
    let took = milliseconds(9, || fixture.turn(&mut fresh(&nothing)));
    figures.push(Figure::new("10,000 containers planned from scratch, empty engine", "ms", took).goal(goal));
    let mut planner = fresh(&nothing);
    fixture.settle(&mut planner);
    assert_eq!(fixture.containers(), 10_000, "all containers run");
    let memory = planner.state().clone();
    let took = milliseconds(9, || {
        let turn = fixture.turn(&mut fresh(&memory));
        assert!(
            turn.steps.is_empty(),
            "nothing left to do: {:?}",
            turn.steps.first()
        );
        turn
    });
    figures.push(Figure::new("10,000 containers planned from scratch, all present", "ms", took).goal(goal));
}

fn pieces(figures: &mut Vec<Figure>) {
    let (text, spec, ten) = (plain("shop", 10), written("shop", 10), desired("shop", 10));
    let mut piece = |what: &str, took| figures.push(Figure::new(what, "ms", took));
    piece(
        "read a file of 10 services",
        milliseconds(300, || argus_crds::yaml::read("e2e.yaml", text.as_bytes())),
    );
    piece("admit 10 services", milliseconds(300, || admit(&spec, &place())));
    piece(
        "revision hash of 10 services",
        milliseconds(300, || revision_of(&ten)),
    );
    piece(
        "render and hash 10 services",
        milliseconds(300, || render::render_all(&ten, &PortMap::new(), &site())),
    );
}
