//! The fault of a controller that SIGKILL ended: the next run of its project gets the same port, and the leftovers go.

use std::time::Duration;

use argus_tests::fixture::LIMIT;
use argus_tests::{Controller, PrivateEngine, RunOptions, wait};

use crate::{Bench, HEALED_WITHIN, Row, now, spec};

pub(crate) const NAME: &str = "killed-run";
const PROJECT: &str = "st-killed";
const LABEL: &str = "argusai.project=st-killed";
const FILE: &str = "e2e.yaml";

pub(crate) fn rounds(engine: &PrivateEngine, port: usize, rounds: u32) -> Row {
    let times = (0..rounds)
        .filter_map(|number| round(engine, port, number))
        .collect();
    Row {
        name: NAME.to_owned(),
        rounds,
        times,
    }
}

/// Time from the start of the next controller until its environment is Ready on the same port, without leftovers. `None` if that takes too
/// long.
fn round(engine: &PrivateEngine, port: usize, number: u32) -> Option<Duration> {
    let prepare = |environment: &str| {
        let argus = Controller::prepare(engine, RunOptions::default().in_project(engine, PROJECT));
        let text = spec(PROJECT, port, "20MB");
        argus.write_spec(
            FILE,
            &format!("{text}isolation: {{ namespace: {environment} }}\n"),
        );
        argus
    };
    let (before, after) = (format!("killed-{number}"), format!("next-{number}"));
    let killed = prepare(&before);
    killed.start_again();
    killed.wait_ready(&before, LIMIT);
    killed.kill9();
    let argus = prepare(&after);
    let started = now();
    argus.start_again();
    let is_whole = || {
        let status = argus.status(&after);
        status["phase"] == "Ready"
            && status["portMappings"][0]["actualPort"] == port
            && engine.containers_with(LABEL).len() == 2
    };
    let whole = wait::poll(HEALED_WITHIN, || is_whole().then_some(()));
    let took = whole.and_then(|()| now().duration_since(started).ok());
    let bench = Bench {
        engine,
        argus: &argus,
    };
    let took = took.filter(|_| bench.passes_suites(&after));
    argus.remove_spec(FILE);
    let gone = wait::poll(LIMIT, || engine.containers_with(LABEL).is_empty().then_some(()));
    argus.stop();
    gone.and(took)
}
