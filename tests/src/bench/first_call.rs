//! Measures the time from the rename of a spec file to the first call on the engine.

use argus_tests::fixture::LIMIT;
use argus_tests::{Controller, PrivateEngine, Proxy, RunOptions, wait};

use super::figure::median;
use super::{Figure, argus_down_file, plain, push};

/// Files per pair of the other parts.
const FILES_PER_PAIR: usize = 4;
const FIRST_CALL: &str = "POST /networks/create";
/// The claim of the environment, which precedes its first call.
const CLAIM: &str = "POST /volumes/create";

pub(crate) fn run(engine: &PrivateEngine, pairs: usize, figures: &mut Vec<Figure>) {
    let home = engine.scratch("first-call");
    let proxy = Proxy::start(&home.join("p.sock"), &engine.socket());
    let options = RunOptions {
        host: Some(proxy.host()),
        ..RunOptions::default()
    };
    let controller = Controller::start(engine, options);
    let (mut claims, mut took) = (Vec::new(), Vec::new());
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
        let claim = proxy
            .seen()
            .into_iter()
            .find(|seen| seen.class == CLAIM && seen.at >= renamed);
        let after = |at: std::time::Instant| at.duration_since(renamed).as_secs_f64() * 1e3;
        claims.extend(claim.map(|claim| after(claim.at)));
        took.push(after(call.at));
        controller.wait_ready(&project, LIMIT);
        argus_down_file(engine, &controller, &project, &file);
    }
    let why = format!(
        "the lease that claims the environment is written after {:.1} ms",
        median(&claims)
    );
    let what = "spec file renamed into place to the write of the lease, the first call on the engine";
    push(figures, Figure::new(what, "ms", claims).goal(("≤ 25 ms", 25.0)));
    let what = "spec file renamed into place to the first call for a resource of the environment";
    push(
        figures,
        Figure::new(what, "ms", took).goal(("≤ 25 ms", 25.0)).why(why),
    );
}
