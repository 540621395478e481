//! Own work and memory of Argus while the number of containers grows: environments of 50 services, one after the other.

use std::collections::BTreeMap;

use argus_tests::fixture::LIMIT;
use argus_tests::pure::plain;
use argus_tests::{Controller, PrivateEngine, RunOptions};

use super::start::OwnWork;
use super::{Figure, argus_down, memory, pid_of, push, write_spec_of};

/// Services of one environment.
const STEP: u32 = 50;
/// Containers in all, at the end.
const ALL: u32 = 250;

/// Values of each round, by number of containers.
type Rounds<const N: usize> = BTreeMap<u32, [Vec<f64>; N]>;

/// Measures each number of containers `rounds` times.
pub(crate) fn run(engine: &PrivateEngine, rounds: usize, figures: &mut Vec<Figure>) {
    let (mut work, mut sizes) = (Rounds::<3>::new(), Rounds::<2>::new());
    for _ in 0..rounds {
        let controller = Controller::start(engine, RunOptions::default());
        let pid = pid_of(&controller);
        let mut measure = |count: u32| {
            let of = |key: &str| memory(&pid, key);
            add(&mut sizes, count, [of("VmRSS:"), of("RssAnon:")]);
        };
        // An answer shows that the program is loaded and has read the engine.
        controller.sync();
        measure(0);
        let project = |count: u32| format!("scale{count}");
        for count in (STEP..=ALL).step_by(STEP as usize) {
            let before = OwnWork::read(&pid);
            write_spec_of(
                &controller,
                &project(count),
                &plain(&project(count), STEP as usize),
            );
            drop(controller.wait_ready(&project(count), LIMIT * 4));
            let after = OwnWork::read(&pid);
            let per_service = (after.cpu - before.cpu) / f64::from(STEP);
            let megabytes =
                [after.written - before.written, after.to_disk - before.to_disk].map(|bytes| bytes / 1e6);
            add(&mut work, count, [per_service, megabytes[0], megabytes[1]]);
            if count == 2 * STEP || count == ALL {
                measure(count);
            }
        }
        for count in (STEP..=ALL).step_by(STEP as usize) {
            argus_down(engine, &controller, &project(count));
        }
    }
    for (count, [cpu, written, to_disk]) in work {
        let what = format!("own processor time of Argus per service, {count} containers in all");
        push(figures, Figure::new(what, "ms", cpu).goal(("≤ 8 ms", 8.0)));
        let what = format!("bytes of `write` calls for {STEP} services, {count} containers in all");
        push(figures, Figure::new(what, "MB", written));
        let what =
            format!("bytes to disk for {STEP} services, in blocks of 4 KiB, {count} containers in all");
        push(figures, Figure::new(what, "MB", to_disk).goal(("≤ 0.5 MB", 0.5)));
    }
    for (count, [resident, anonymous]) in sizes {
        let goal = match count {
            0 => ("≤ 20 MiB", 20.0),
            250 => ("≤ 33 MiB", 33.0),
            _ => ("≤ 25 MiB", 25.0),
        };
        let what = format!("resident memory, {count} containers");
        push(figures, Figure::new(what, "MiB", resident).goal(goal));
        let what = format!("anonymous memory of it, {count} containers");
        let figure = Figure::new(what, "MiB", anonymous);
        push(
            figures,
            if count == 0 {
                figure.goal(("≤ 4 MiB", 4.0))
            } else {
                figure
            },
        );
    }
}

fn add<const N: usize>(all: &mut Rounds<N>, count: u32, values: [f64; N]) {
    let columns = all.entry(count).or_insert_with(|| [const { Vec::new() }; N]);
    for (column, value) in columns.iter_mut().zip(values) {
        column.push(value);
    }
}
