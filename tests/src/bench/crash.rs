//! Time from the crash of a container until its environment is Ready again, above the restart delay.

use std::time::Duration;

use argus_tests::fixture::{self, LIMIT};
use argus_tests::{Controller, PrivateEngine, RunOptions, wait};

use crate::figure::Figure;
use crate::outage::ms;
use crate::{argus_down, argus_up, push};

const CRASHES: usize = 20;
/// Time between a recovery and the next crash: the host permits ten restarts of failing services per minute, and delays the eleventh.
const PAUSE: Duration = Duration::from_secs(6);
const OTHERS: usize = 9;
const ENV: &str = "crashes";
const CONTAINER: &str = "crashes-web";
/// Restart delay of the spec.
const DELAY: Duration = Duration::from_secs(1);
/// Goal of the first specification, above the delay.
const GOAL: (&str, f64) = ("each ≤ 5 s", 5_000.0);

/// A service that exits, or exceeds its memory, when a file exists. One second without a crash resets delay and budget. Its health check ends the
/// minimum run time, which is as long as the failed run.
fn spec() -> String {
    let script = "rm -f /exit /grow; until [ -e /grow ]; do [ -e /exit ] && exit 3; sleep 0.1; done; \
                  x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done";
    format!(
        "version: \"1\"\nproject: {{ name: {ENV} }}\n\
         resilience: {{ container: {{ maxRestarts: 10, restartDelay: 1s }} }}\n\
         argus: {{ restart: {{ resetAfter: 1s, haltAfterSame: off }} }}\nservices:\n  web:\n    image: busybox:local\n    \
         memory: 32m\n    command: [sh, -c, \"{script}\"]\n    container:\n      name: {CONTAINER}\n      \
         healthcheck: {{ type: exec, command: [\"true\"] }}\n"
    )
}

pub(crate) fn run(engine: &PrivateEngine, figures: &mut Vec<Figure>) {
    let controller = Controller::start(engine, RunOptions::default());
    argus_up(&controller, ENV, &spec());
    measure(engine, &controller, "alone", figures);
    let others: Vec<String> = (0..OTHERS).map(|number| format!("next{number}")).collect();
    for other in &others {
        argus_up(&controller, other, &crate::plain(other, 1));
    }
    measure(engine, &controller, "next to 9 other environments", figures);
    for project in others.iter().map(String::as_str).chain([ENV]) {
        argus_down(engine, &controller, project);
    }
}

fn measure(engine: &PrivateEngine, controller: &Controller<'_>, place: &str, figures: &mut Vec<Figure>) {
    for (kind, file) in [("exit", "/exit"), ("out of memory", "/grow")] {
        let times = (0..CRASHES).map(|_| crash(engine, controller, file)).collect();
        let what = format!("crash to Ready above the restart delay, {kind}, {place}");
        push(figures, Figure::new(what, "ms", times).goal_for_each(GOAL));
    }
}

/// Milliseconds from the cause of a crash until the environment is Ready again, without the delay. The script sees the file within 100 ms.
fn crash(engine: &PrivateEngine, controller: &Controller<'_>, file: &str) -> f64 {
    let is_running = || fixture::running(engine, CONTAINER);
    wait::all_the_while(PAUSE, "the budget is reset", is_running);
    let started = || {
        let found = engine.inspect(CONTAINER).unwrap_or_default();
        found["State"]["StartedAt"].to_string()
    };
    let before = started();
    let (took, ()) = wait::timed(|| {
        engine.docker_ok(&["exec", CONTAINER, "touch", file]);
        controller.wait_until(LIMIT, "the container runs again", || {
            (started() != before && is_running()).then_some(())
        });
        controller.wait_status(ENV, LIMIT, "is Ready again", |now| now["phase"] == "Ready");
    });
    ms(took.saturating_sub(DELAY))
}
