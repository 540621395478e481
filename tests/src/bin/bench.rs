//! Implements `scripts/bench`: compares Argus with a baseline of raw API calls on one private engine, and writes the
//! results.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed measurement ends with a message"
)]

use std::fmt::Write;
use std::fs;
use std::process::{Command, ExitCode};
use std::time::{Duration, UNIX_EPOCH};

use argus_tests::fixture::{self, LIMIT};
use argus_tests::pure::plain;
use argus_tests::{Controller, Options, PrivateEngine, Proxy, RunOptions, binary, wait};
use figure::Figure;
use page::Page;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

#[path = "../bench/compose.rs"]
mod compose;
#[path = "../bench/crash.rs"]
mod crash;
#[path = "../bench/edit.rs"]
mod edit;
#[path = "../bench/figure.rs"]
mod figure;
#[path = "../bench/first_call.rs"]
mod first_call;
#[path = "../bench/micro.rs"]
mod micro;
#[path = "../bench/mock.rs"]
mod mock;
#[path = "../bench/outage.rs"]
mod outage;
#[path = "../bench/page.rs"]
mod page;
#[path = "../bench/ports.rs"]
mod ports;
#[path = "../bench/raw.rs"]
mod raw;
#[path = "../bench/refusals.rs"]
mod refusals;
#[path = "../bench/scale.rs"]
mod scale;
#[path = "../bench/start.rs"]
mod start;
#[path = "../bench/suite.rs"]
mod suite;

const IDLE_SECONDS: u64 = 20;

/// Selection of the parts that a run measures.
struct Plan {
    pairs: usize,
    /// The only part to measure.
    only: Option<String>,
    /// One pair of the parts that users wait for.
    is_quick: bool,
}

impl Plan {
    fn wants(&self, part: &str) -> bool {
        let is_short = matches!(part, "start" | "first-call" | "calls" | "no-op" | "program");
        match &self.only {
            Some(only) => only == part,
            None => !self.is_quick || is_short,
        }
    }

    /// True if the run writes the page.
    fn is_complete(&self) -> bool {
        self.only.is_none() && !self.is_quick
    }

    /// Engines to measure on. Without a flag: both in a complete run, otherwise the one of the machine.
    fn engines(&self) -> Vec<Options> {
        let first = Options::default();
        match (flag("--first"), flag("--second")) {
            (false, true) => vec![Options::newest_version()],
            (false, false) if self.is_complete() => vec![first, Options::newest_version()],
            _ => vec![first],
        }
    }
}

fn main() -> ExitCode {
    let is_quick = flag("--quick");
    let pairs = option("--pairs").map_or(if is_quick { 1 } else { 5 }, |text| {
        text.parse().expect("--pairs takes a number")
    });
    let only = option("--only");
    let plan = Plan {
        pairs,
        only,
        is_quick,
    };
    let page = (plan.is_complete() || flag("--write")).then(Page::open);
    let mut missed = 0;
    let needs_engine = !matches!(plan.only.as_deref(), Some("program" | "mock" | "planner"));
    for options in if needs_engine { plan.engines() } else { Vec::new() } {
        let engine = PrivateEngine::start_with(options);
        fixture::images(&engine);
        let version = engine.docker_ok(&["version", "--format", "{{.Server.Version}}"]);
        let title = format!("Docker {}", version.trim());
        for (part, measure) in ON_ENGINE {
            missed += run_part(&plan, page.as_ref(), &title, part, |figures| {
                measure(&engine, &plan, figures);
            });
        }
    }
    let title = "Without an engine";
    missed += run_part(&plan, page.as_ref(), title, "program", program);
    missed += run_part(&plan, page.as_ref(), title, "mock", mock::run);
    missed += run_part(&plan, page.as_ref(), title, "planner", micro::run);
    if missed > 0 {
        eprintln!("bench: {missed} goals are missed");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Measures a part, prints its figures, and writes them to the page. Returns the number of missed goals.
fn run_part(
    plan: &Plan,
    page: Option<&Page>,
    title: &str,
    part: &str,
    measure: impl FnOnce(&mut Vec<Figure>),
) -> usize {
    if !plan.wants(part) {
        return 0;
    }
    let load = page::load();
    let mut figures = Vec::new();
    measure(&mut figures);
    let missed = figures.iter().filter(|figure| figure.reached() == Some(false));
    let missed = missed.count();
    let figures = figure::document(&figures);
    println!("## {title}: {part}\n\n{}", figure::table(&figures));
    if let Some(page) = page {
        page.replace(
            title,
            part,
            &json!({ "part": part, "pairs": plan.pairs, "load": load, "figures": figures }),
        );
    }
    missed
}

type Measure = fn(&PrivateEngine, &Plan, &mut Vec<Figure>);

/// The parts that need an engine.
const ON_ENGINE: [(&str, Measure); 15] = [
    ("start", |engine, plan, figures| {
        let counts: &[usize] = if plan.is_quick { &[10] } else { &[10, 50] };
        for &count in counts {
            for health in [false, true] {
                start::run(engine, plan.pairs, count, health, figures);
            }
        }
    }),
    ("scale", |engine, plan, figures| {
        scale::run(engine, plan.pairs, figures);
    }),
    ("first-call", |engine, plan, figures| {
        first_call::run(engine, plan.pairs, figures);
    }),
    ("edit", |engine, plan, figures| {
        edit::run(engine, plan.pairs, figures);
    }),
    ("no-op", |engine, plan, figures| {
        no_op(engine, plan.pairs, figures);
    }),
    ("calls", |engine, _, figures| {
        for count in [10, 50] {
            calls(engine, count, figures);
        }
    }),
    ("heal", |engine, _, figures| {
        heal(engine, figures);
    }),
    ("crash", |engine, _, figures| {
        crash::run(engine, figures);
    }),
    ("ports", |engine, plan, figures| {
        ports::run(engine, plan.pairs, figures);
    }),
    ("breaker", |engine, _, figures| {
        outage::breaker(engine, figures);
    }),
    ("preflight", |engine, plan, figures| {
        outage::preflight(engine, plan.pairs, figures);
    }),
    ("orphans", |engine, plan, figures| {
        outage::orphans(engine, plan.pairs, figures);
    }),
    ("recovery", |engine, plan, figures| {
        outage::recovery(engine, plan.pairs, figures);
    }),
    ("suite", |engine, plan, figures| {
        suite::run(engine, plan.pairs, figures);
    }),
    ("idle", |engine, _, figures| {
        idle(engine, figures);
    }),
];

fn flag(name: &str) -> bool {
    std::env::args().any(|found| found == name)
}

fn option(name: &str) -> Option<String> {
    std::env::args().skip_while(|found| found != name).nth(1)
}

fn push(figures: &mut Vec<Figure>, figure: Figure) {
    eprintln!("{}: {:.3} {}", figure.what, figure.median(), figure.unit);
    figures.push(figure);
}

fn program(figures: &mut Vec<Figure>) {
    let argus = binary::argus();
    let bytes = u32::try_from(fs::metadata(&argus).expect("argus is built").len()).expect("below 4 GiB");
    let mib = f64::from(bytes) / f64::from(1 << 20);
    push(
        figures,
        Figure::new("static release binary", "MiB", vec![mib]).goal(("≤ 15 MiB", 15.0)),
    );
    let mut starts = Vec::new();
    for _ in 0..20 {
        let (took, output) = wait::timed(|| Command::new(&argus).arg("--version").output());
        assert!(output.expect("argus runs").status.success(), "argus --version");
        starts.push(took.as_secs_f64() * 1e3);
    }
    push(
        figures,
        Figure::new("`argus --version`", "ms", starts).goal(("≤ 3 ms", 3.0)),
    );
}

fn spec(project: &str, count: usize, ports: Option<u16>) -> String {
    ports.map_or_else(
        || plain(project, count),
        |first| fixture::singles(project, &(first..).take(count).collect::<Vec<_>>(), ""),
    )
}

/// Writes the spec file of a project.
fn write_spec_of(controller: &Controller<'_>, project: &str, text: &str) {
    controller.write_spec(&format!("{project}/e2e.yaml"), text);
}

fn argus_up(controller: &Controller<'_>, project: &str, text: &str) -> f64 {
    let (took, ()) = wait::timed(|| {
        write_spec_of(controller, project, text);
        drop(controller.wait_ready(project, LIMIT * 2));
    });
    took.as_secs_f64() * 1e3
}

fn argus_down(engine: &PrivateEngine, controller: &Controller<'_>, project: &str) {
    argus_down_file(engine, controller, project, &format!("{project}/e2e.yaml"));
}

fn argus_down_file(engine: &PrivateEngine, controller: &Controller<'_>, project: &str, file: &str) {
    controller.remove_spec(file);
    let label = format!("argusai.project={project}");
    controller.wait_until(LIMIT * 2, "the environment is gone", || {
        engine.containers_with(&label).is_empty().then_some(())
    });
}

/// Counts the calls of a controller behind a proxy. Nothing is timed here.
fn calls(engine: &PrivateEngine, count: usize, figures: &mut Vec<Figure>) {
    // A new subscription replays the last seconds, which contain the removals of the previous part.
    wait::all_the_while(Duration::from_secs(4), "the engine answers", || engine.answers());
    let home = engine.scratch(&format!("calls{count}"));
    let proxy = Proxy::start(&home.join("p.sock"), &engine.socket());
    let options = RunOptions {
        host: Some(proxy.host()),
        ..RunOptions::default()
    };
    let controller = Controller::start(engine, options);
    let project = format!("count{count}");
    controller.wait_until(LIMIT, "the first list", || {
        proxy
            .counts()
            .keys()
            .any(|class| class.ends_with("/containers/json"))
            .then_some(())
    });
    proxy.reset_counts();
    argus_up(&controller, &project, &plain(&project, count));
    let counts = proxy.counts();
    let number = |found: usize| f64::from(u32::try_from(found).expect("small"));
    let own = |class: &str| {
        class.starts_with("POST /containers/")
            || (class.contains("/containers/*") && class.starts_with("GET "))
    };
    let grows: usize = counts
        .iter()
        .filter(|(class, _)| own(class))
        .map(|(_, found)| found)
        .sum();
    let all: usize = counts.values().sum();
    let listed = counts
        .iter()
        .map(|(class, found)| format!("{found} × `{class}`"))
        .collect::<Vec<_>>()
        .join(", ");
    let figure = Figure::new(
        format!("calls per converged service, {count} services"),
        "calls",
        vec![number(grows) / number(count)],
    );
    push(
        figures,
        figure
            .goal(("create, start, ≤ 1 read: 3", 3.0))
            .why(listed.clone()),
    );
    let shared = format!("calls per environment, not per service, {count} services (all: {listed})");
    push(figures, Figure::new(shared, "calls", vec![number(all - grows)]));
    proxy.reset_counts();
    let span = Duration::from_secs(5);
    wait::all_the_while(span, "the engine answers", || engine.answers());
    let writes = Figure::new(
        format!("writes in 5 s without changes, {count} services"),
        "calls",
        vec![number(proxy.writes_but_the_lease().len())],
    );
    push(figures, writes.goal(("0", 0.0)));
    argus_down(engine, &controller, &project);
}

/// Process id of a controller: the process whose command line contains its state directory.
fn pid_of(controller: &Controller<'_>) -> String {
    let state = controller.state.display().to_string();
    // The process starts as `nsenter`, which then executes argus.
    controller.wait_until(LIMIT, "the process of argus", || {
        let found = fs::read_dir("/proc")
            .expect("procfs")
            .filter_map(Result::ok)
            .find(|entry| {
                let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let line = String::from_utf8_lossy(&line).into_owned();
                let mut words = line.split('\0');
                words.next().is_some_and(|word| word.ends_with("argus")) && words.any(|word| word == state)
            });
        found.map(|entry| entry.file_name().to_string_lossy().into_owned())
    })
}

/// Memory of a process in MiB, by its key in `/proc/PID/status`.
fn memory(pid: &str, key: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .expect("a key");
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib / 1024.0
}

fn ticks(pid: &str) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process lives");
    let after = stat.rsplit(") ").next().expect("fields");
    after
        .split(' ')
        .skip(11)
        .take(2)
        .filter_map(|word| word.parse::<f64>().ok())
        .sum()
}

/// Time from a touch of an unchanged file to the end of `argus wait`, with the number of calls that change something.
fn no_op(engine: &PrivateEngine, pairs: usize, figures: &mut Vec<Figure>) {
    let home = engine.scratch("no-op");
    let proxy = Proxy::start(&home.join("p.sock"), &engine.socket());
    let options = RunOptions {
        host: Some(proxy.host()),
        ..RunOptions::default()
    };
    let controller = Controller::start(engine, options);
    argus_up(&controller, "touched", &plain("touched", 10));
    proxy.reset_counts();
    let mut took = Vec::new();
    for _ in 0..pairs * 4 {
        let (time, ()) = wait::timed(|| {
            write_spec_of(&controller, "touched", &plain("touched", 10));
            let waited = controller.cli(&["wait", "touched"]);
            assert!(waited.status.success(), "{waited:?}");
        });
        took.push(time.as_secs_f64() * 1e3);
    }
    let writes = proxy.writes_but_the_lease().len();
    let what = "no-op: an unchanged file and `argus wait`, 10 services";
    push(figures, Figure::new(what, "ms", took).goal(("≤ 30 ms", 30.0)));
    let what = "no-op: calls that change something";
    let writes = f64::from(u32::try_from(writes).expect("small"));
    push(figures, Figure::new(what, "calls", vec![writes]).goal(("0", 0.0)));
    argus_down(engine, &controller, "touched");
}

/// Processor time and memory of a controller without work, for growing numbers of containers.
fn idle(engine: &PrivateEngine, figures: &mut Vec<Figure>) {
    for (count, health, resident) in [
        (0, false, ("≤ 10 MiB", 10.0)),
        (10, false, ("≤ 14 MiB", 14.0)),
        (100, false, ("≤ 14 MiB", 14.0)),
        (10, true, ("≤ 14 MiB", 14.0)),
        (100, true, ("≤ 14 MiB", 14.0)),
        (1_000, true, ("≤ 25 MiB", 25.0)),
    ] {
        let controller = Controller::start(engine, RunOptions::default());
        // A bridge of Linux has at most 1,023 ports.
        let projects: Vec<(String, usize)> = match count {
            0 => Vec::new(),
            1_000 => (0..4).map(|part| (format!("idle{count}-{part}"), 250)).collect(),
            _ => vec![(format!("idle{count}"), count)],
        };
        for (project, count) in &projects {
            let text = if health {
                checked(project, *count)
            } else {
                plain(project, *count)
            };
            write_spec_of(&controller, project, &text);
            drop(controller.wait_ready(project, LIMIT * 10));
        }
        let pid = pid_of(&controller);
        let rest = |span| wait::all_the_while(Duration::from_secs(span), "idle", || !pid.is_empty());
        rest(5);
        let before = ticks(&pid);
        rest(IDLE_SECONDS);
        let cpu = (ticks(&pid) - before) * 10.0;
        let seconds = f64::from(u32::try_from(IDLE_SECONDS).expect("small"));
        let kind = if health {
            "with an HTTP check every 10 s each"
        } else {
            "without checks"
        };
        let name = format!("{count} containers {kind}");
        let percent = Figure::new(format!("idle, {name}"), "% of a core", vec![cpu / seconds / 10.0]);
        let probes = f64::from(u32::try_from(count).expect("small")) * seconds / 10.0;
        push(
            figures,
            match (health, count) {
                (true, 1_000) => percent
                    .goal(("≤ 3 %", 3.0))
                    .why(format!("a probe takes {:.2} ms, goal 0.3 ms", cpu / probes)),
                (true, _) => percent,
                (false, _) => percent.goal(("≤ 0.2 %", 0.2)),
            },
        );
        let of = |key: &str| memory(&pid, key);
        let memory = Figure::new(format!("resident memory, {name}"), "MiB", vec![of("VmRSS:")]);
        let why = format!(
            "{:.1} MiB of it are heap and stacks, {:.1} MiB pages of the program file",
            of("RssAnon:"),
            of("RssFile:")
        );
        push(figures, memory.goal(resident).why(why));
        for (project, _) in &projects {
            controller.remove_spec(&format!("{project}/e2e.yaml"));
        }
        controller.wait_until(LIMIT * 10, "the environments are gone", || {
            engine
                .containers_with("argusai.managed=true")
                .is_empty()
                .then_some(())
        });
    }
}

/// Services with an HTTP check every 10 s, which are not published.
fn checked(project: &str, count: usize) -> String {
    let mut text = format!("version: \"1\"\nproject: {{ name: {project} }}\nservices:\n");
    for index in 0..count {
        writeln!(
            text,
            "  s{index}:\n    image: {}\n    container:\n      name: {project}-s{index}\n      \
             healthcheck: {{ path: /healthz, port: 8080, interval: 10s, timeout: 2s, retries: 3, startPeriod: 20s }}",
            fixture::IMAGE
        )
        .expect("writing to a string succeeds");
    }
    text
}

/// Time from `die` to the next `start`, by the engine's event times: Argus without a delay, compared with a minimal
/// client.
fn heal(engine: &PrivateEngine, figures: &mut Vec<Figure>) {
    const COUNT: usize = 10;
    raw::up(engine, "bare", COUNT, None);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let baseline = std::thread::scope(|scope| {
        scope.spawn(move || raw::heal(engine, "bare", COUNT, &ready));
        is_ready.recv().expect("the event stream opens");
        kill_each(engine, "bare", COUNT)
    });
    raw::down(engine, "bare", COUNT);
    let controller = Controller::start(engine, RunOptions::default());
    let text = plain("heal", COUNT) + "resilience: { container: { restartDelay: 1ms } }\n";
    argus_up(&controller, "heal", &text);
    let took = kill_each(engine, "heal", COUNT);
    argus_down(engine, &controller, "heal");
    let (bare, own) = (
        Figure::new(
            "baseline of recovery, `die` → `start`: a raw client that restarts failed containers",
            "ms",
            baseline,
        ),
        Figure::new(
            "recovery, `die` → `start`, with evidence, without a delay",
            "ms",
            took,
        ),
    );
    let above = own.median() - bare.median();
    push(figures, bare);
    push(figures, own);
    let what = "recovery above its baseline: inspect, plan, evidence on disk, init process of the engine";
    let why = "Argus inspects the container and writes the evidence and the intent to disk before the start; the baseline does not";
    let above = Figure::new(what, "ms", vec![above]).goal(("≤ 5 ms", 5.0));
    push(figures, above.why(why.to_owned()));
}

/// Kills the main process of each container from outside. Returns the milliseconds from each `die` to the next `start`.
fn kill_each(engine: &PrivateEngine, project: &str, count: usize) -> Vec<f64> {
    let names: Vec<String> = (0..count).map(|index| format!("{project}-s{index}")).collect();
    let started = |name: &str| {
        engine
            .inspect(name)
            .map(|found| found["State"]["StartedAt"].to_string())
    };
    for name in &names {
        let (found, before) = (engine.inspect(name).expect("the container exists"), started(name));
        let pid = found["State"]["Pid"]
            .as_i64()
            .and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw).expect("the container runs");
        kill_process(pid, Signal::KILL).expect("our own container's process");
        // One after the other, so that no start waits for another one.
        wait::until(LIMIT, "the container runs again", || {
            (started(name) != before && fixture::running(engine, name)).then_some(())
        });
    }
    let now = UNIX_EPOCH.elapsed().expect("after 1970").as_secs() + 2;
    let raw = engine
        .api("GET", &format!("/events?since=0&until={now}"), None)
        .body;
    let events: Vec<serde_json::Value> = String::from_utf8_lossy(&raw)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let took: Vec<f64> = names
        .iter()
        .filter_map(|name| {
            let times = |action: &str| {
                let of = |event: &&serde_json::Value| {
                    event["Action"] == action && event["Actor"]["Attributes"]["name"] == name.as_str()
                };
                let all = events.iter().filter(of);
                all.filter_map(|event| event["timeNano"].as_i64())
                    .collect::<Vec<_>>()
            };
            let died = times("die").last().copied()?;
            let up = times("start").into_iter().find(|up| *up > died)?;
            Some(f64::from(i32::try_from((up - died) / 1000).ok()?) / 1e3)
        })
        .collect();
    assert_eq!(took.len(), count, "each died and started again");
    took
}
