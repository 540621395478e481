//! Measures the time from the rename of a spec file to the first call on the engine.

use argus_tests::fixture::LIMIT;
use argus_tests::{Controller, PrivateEngine, Proxy, RunOptions, wait};

use super::{Figure, argus_down_file, plain, push};

/// Files per pair of the other parts.
const FILES_PER_PAIR: usize = 4;
const FIRST_CALL: &str = "POST /networks/create";

pub(crate) fn run(engine: &PrivateEngine, pairs: usize, figures: &mut Vec<Figure>) {
    let home = engine.scratch("first-call");
    let proxy = Proxy::start(&home.join("p.sock"), &engine.socket());
    let options = RunOptions {
        host: Some(proxy.host()),
        ..RunOptions::default()
    };
    let controller = Controller::start(engine, options);
    let mut took = Vec::new();
    for round in 0..pairs * FILES_PER_PAIR {
        let project = format!("first{round}");
        let file = format!("{project}.e2e.yaml");
        let renamed = wait::now();
        controller.write_spec(&file, &plain(&project, 1));
        let call = controller.wait_until(LIMIT, "the first call", || {
            let seen = proxy.seen();
            seen.into_iter()
                .find(|seen| seen.class == FIRST_CALL && seen.at >= renamed)
        });
        took.push(call.at.duration_since(renamed).as_secs_f64() * 1e3);
        controller.wait_ready(&project, LIMIT);
        argus_down_file(engine, &controller, &project, &file);
    }
    let figure = Figure::new(
        "spec file renamed into place to the first call on the engine",
        "ms",
        took,
    );
    push(figures, figure.goal(("≤ 25 ms", 25.0)));
}
