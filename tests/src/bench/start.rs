//! Cold start of many services: Argus, the baseline and Compose take turns on one engine.

use std::fs;
use std::time::UNIX_EPOCH;

use argus_core::time::Timestamp;
use argus_tests::fixture::LIMIT;
use argus_tests::{Controller, PrivateEngine, RunOptions, wait};

use super::compose::Compose;
use super::figure::median;
use super::{Figure, argus_down_file, pid_of, push, raw, spec, ticks};

/// First host port of services with health checks.
const PORT: u16 = 21_000;

/// One start.
#[derive(Default)]
struct Start {
    /// Milliseconds until the last container runs.
    running: Vec<f64>,
    /// Milliseconds until the command returns, or until the environment is Ready.
    done: Vec<f64>,
    /// Processor cores that the machine keeps busy until all containers run.
    cores: Vec<f64>,
}

/// Own work of Argus for one start, per service.
#[derive(Default)]
struct Work {
    cpu: Vec<f64>,
    written: Vec<f64>,
    to_disk: Vec<f64>,
    writes: Vec<f64>,
}

pub(crate) fn run(
    engine: &PrivateEngine,
    pairs: usize,
    count: usize,
    health: bool,
    figures: &mut Vec<Figure>,
) {
    let ports = health.then_some(PORT);
    let rivals = Compose::all();
    let controller = Controller::start(engine, RunOptions::default());
    let pid = pid_of(&controller);
    let (mut floor, mut ours, mut work) = (Start::default(), Start::default(), Work::default());
    let mut theirs: Vec<Start> = rivals.iter().map(|_| Start::default()).collect();
    let kind = if health { "h" } else { "p" };
    for pair in 0..pairs {
        let project = format!("base{count}{kind}{pair}");
        floor.measure(engine, &project, count, || {
            raw::up(engine, &project, count, ports);
        });
        raw::down(engine, &project, count);

        let project = format!("argus{count}{kind}{pair}");
        let before = OwnWork::read(&pid);
        let (file, text) = (format!("{project}.e2e.yaml"), spec(&project, count, ports));
        ours.measure(engine, &project, count, || {
            controller.write_spec(&file, &text);
            let all_run = |status: &serde_json::Value| {
                let services = status["services"]
                    .as_array()
                    .map(Vec::as_slice)
                    .unwrap_or_default();
                let runs = |service: &serde_json::Value| {
                    service["state"] == "Running" || service["state"] == "Ready"
                };
                services.len() == count && services.iter().all(runs)
            };
            controller.wait_status(&project, LIMIT * 2, "runs", all_run);
            if health {
                controller.wait_ready(&project, LIMIT * 2);
            }
        });
        controller.wait_ready(&project, LIMIT * 2);
        work.add(&before, &OwnWork::read(&pid), count);
        argus_down_file(engine, &controller, &project, &file);

        for (rival, start) in rivals.iter().zip(&mut theirs) {
            let project = format!("compose{}{count}{kind}{pair}", rival.version.replace('.', "-"));
            start.measure(engine, &project, count, || {
                rival.up(engine, &project, count, ports);
            });
            rival.down(engine, &project);
        }
    }
    report(count, health, &floor, &ours, &work, figures);
    for (rival, start) in rivals.iter().zip(&theirs) {
        compare(count, health, &rival.version, start, &ours, figures);
    }
}

impl Start {
    fn measure(&mut self, engine: &PrivateEngine, project: &str, count: usize, start: impl FnOnce()) {
        let (begin, busy) = (now(), busy_ticks());
        let (took, ()) = wait::timed(start);
        let cores = (busy_ticks() - busy) / 100.0 / took.as_secs_f64();
        let containers = engine.containers();
        let names = containers
            .iter()
            .filter_map(|container| container["Names"][0].as_str()?.strip_prefix('/'))
            .filter(|name| name.starts_with(project));
        let started: Vec<f64> = names
            .filter_map(|name| Timestamp::parse(engine.inspect(name)?["State"]["StartedAt"].as_str()?))
            .map(|at| at.since(begin).as_secs_f64() * 1e3)
            .collect();
        assert_eq!(started.len(), count, "the containers of {project}");
        self.running.push(started.iter().copied().fold(0.0, f64::max));
        self.done.push(took.as_secs_f64() * 1e3);
        self.cores.push(cores);
    }
}

/// Processor time and written bytes of a process.
pub(crate) struct OwnWork {
    pub(crate) cpu: f64,
    /// Bytes of `write` calls, to files and pipes, and to a part of the sockets.
    pub(crate) written: f64,
    /// Bytes to disk: whole blocks of 4 KiB, with those of folders and inodes.
    pub(crate) to_disk: f64,
    writes: f64,
}

impl OwnWork {
    pub(crate) fn read(pid: &str) -> Self {
        let io = fs::read_to_string(format!("/proc/{pid}/io")).expect("the process lives");
        let of = |key: &str| {
            let line = io.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|value| value.trim().parse().ok())
                .expect("a number")
        };
        Self {
            cpu: ticks(pid) * 10.0,
            written: of("wchar:"),
            to_disk: of("write_bytes:"),
            writes: of("syscw:"),
        }
    }
}

impl Work {
    fn add(&mut self, before: &OwnWork, after: &OwnWork, count: usize) {
        let count = f64::from(u32::try_from(count).expect("small"));
        self.cpu.push((after.cpu - before.cpu) / count);
        self.written.push((after.written - before.written) / count);
        self.to_disk.push((after.to_disk - before.to_disk) / count);
        self.writes.push((after.writes - before.writes) / count);
    }
}

fn report(count: usize, health: bool, floor: &Start, ours: &Start, work: &Work, figures: &mut Vec<Figure>) {
    if health {
        let what = format!("baseline: {count} services healthy by its own probes");
        push(figures, Figure::new(what, "ms", floor.done.clone()));
        let what = format!("Argus: {count} services with health checks Ready");
        push(figures, Figure::new(what, "ms", ours.done.clone()));
        let what = format!("Argus / baseline, {count} services Ready");
        let ratio = Figure::new(what, "×", ratios(&ours.done, &floor.done));
        push(
            figures,
            ratio
                .goal(("≤ 1.03 ×", 1.03))
                .why(explain(ours, floor, "the baseline")),
        );
        return;
    }
    let what = format!(
        "baseline: {count} services run, {} calls in flight",
        raw::IN_FLIGHT
    );
    push(figures, Figure::new(what, "ms", floor.running.clone()));
    let what = format!("Argus: {count} services run");
    push(figures, Figure::new(what, "ms", ours.running.clone()));
    let what = format!("Argus / baseline, {count} services run");
    let ratio = Figure::new(what, "×", ratios(&ours.running, &floor.running));
    push(
        figures,
        ratio
            .goal(("≤ 1.03 ×", 1.03))
            .why(explain(ours, floor, "the baseline")),
    );
    let what = format!("cores busy, baseline / Argus, {count} services");
    let ratio = Figure::new(what, "×", ratios(&floor.cores, &ours.cores));
    push(
        figures,
        ratio
            .goal(("≤ 1.03 × (97 %)", 1.03))
            .why(explain(ours, floor, "the baseline")),
    );
    let what = format!("own processor time of Argus per service, {count} services");
    let cpu = Figure::new(what, "ms", work.cpu.clone()).goal(("≤ 2 ms", 2.0));
    let why = format!(
        "it contains {:.0} writes with {:.0} bytes per service: intents, results and evidence in the journal, and status files",
        median(&work.writes),
        median(&work.written)
    );
    push(figures, cpu.why(why));
    let what = format!("bytes of `write` calls per service, {count} services");
    push(figures, Figure::new(what, "bytes", work.written.clone()));
    let what = format!("bytes to disk per service, in blocks of 4 KiB, {count} services");
    push(figures, Figure::new(what, "bytes", work.to_disk.clone()));
    let what = format!("`write` calls per service, {count} services");
    push(figures, Figure::new(what, "calls", work.writes.clone()));
}

fn compare(
    count: usize,
    health: bool,
    version: &str,
    theirs: &Start,
    ours: &Start,
    figures: &mut Vec<Figure>,
) {
    if health {
        let what = format!("Compose {version}: `up --wait`, {count} services");
        push(figures, Figure::new(what, "ms", theirs.done.clone()));
        let what = format!("Argus / Compose {version}, {count} services Ready");
        let ratio = Figure::new(what, "×", ratios(&ours.done, &theirs.done));
        push(
            figures,
            ratio.goal(("≤ 0.5 ×", 0.5)).why(explain(ours, theirs, "Compose")),
        );
        return;
    }
    let what = format!("Compose {version}: {count} services run");
    push(figures, Figure::new(what, "ms", theirs.running.clone()));
    let what = format!("Argus / Compose {version}, {count} services run");
    let ratio = Figure::new(what, "×", ratios(&ours.running, &theirs.running));
    push(
        figures,
        ratio.goal(("≤ 1 ×", 1.0)).why(explain(ours, theirs, "Compose")),
    );
}

/// Explains the difference of two starts by the load of the processors.
fn explain(ours: &Start, theirs: &Start, name: &str) -> String {
    format!(
        "{:.2} cores are busy during a start by Argus, {:.2} during one by {name}",
        median(&ours.cores),
        median(&theirs.cores)
    )
}

fn ratios(of: &[f64], to: &[f64]) -> Vec<f64> {
    of.iter().zip(to).map(|(of, to)| of / to).collect()
}

/// The time of the machine, which the engine uses as well.
fn now() -> Timestamp {
    Timestamp(0) + UNIX_EPOCH.elapsed().expect("after 1970")
}

/// Time that all processors of the machine were busy, in ticks of 10 ms.
fn busy_ticks() -> f64 {
    let stat = fs::read_to_string("/proc/stat").expect("procfs");
    let line = stat.lines().next().unwrap_or_default();
    let numbers = line
        .split_whitespace()
        .skip(1)
        .filter_map(|word| word.parse::<f64>().ok());
    // user, nice, system, idle, iowait, irq, softirq
    let named = numbers.take(7).enumerate();
    named
        .filter(|(index, _)| !matches!(index, 3 | 4))
        .map(|(_, ticks)| ticks)
        .sum()
}
