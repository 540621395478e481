//! Implements `scripts/bench`: compares Argus with a baseline of raw API calls on one private engine, and writes the
//! results.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed measurement ends with a message"
)]

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use argus_tests::fixture::{self, LIMIT};
use argus_tests::{Controller, PrivateEngine, Proxy, RunOptions, binary, wait};
use figure::Figure;
use rustix::process::{Pid, Signal, kill_process};

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
#[path = "../bench/ports.rs"]
mod ports;
#[path = "../bench/raw.rs"]
mod raw;
#[path = "../bench/suite.rs"]
mod suite;

const IDLE_SECONDS: u64 = 20;

fn main() {
    let pairs = option("--pairs").map_or(5, |text| text.parse().expect("--pairs takes a number"));
    let out = option("--out").unwrap_or_else(|| "docs".to_owned());
    let before = load();
    let only = option("--only");
    if only.as_deref() == Some("mock") {
        // This part needs no engine.
        let mut figures = Vec::new();
        mock::run(&mut figures);
        println!("{}", figure::table(&figures));
        return;
    }
    let engine = PrivateEngine::start();
    fixture::images(&engine);
    let version = engine.docker_ok(&["version", "--format", "{{.Server.Version}}"]);
    let mut figures = Vec::new();
    let wanted = |part: &str| only.as_deref().is_none_or(|only| only == part);
    if wanted("ready") {
        for (count, health) in [(10, false), (10, true), (50, false), (50, true)] {
            ready(&engine, pairs, count, health, &mut figures);
        }
    }
    if wanted("first-call") {
        first_call::run(&engine, pairs, &mut figures);
    }
    if wanted("calls") {
        for count in [10, 50] {
            calls(&engine, count, &mut figures);
        }
    }
    if wanted("resident") {
        resident(&engine, &mut figures);
    }
    if wanted("heal") {
        heal(&engine, &mut figures);
    }
    if wanted("ports") {
        ports::run(&engine, pairs, &mut figures);
    }
    if wanted("breaker") {
        outage::breaker(&engine, &mut figures);
    }
    if wanted("preflight") {
        outage::preflight(&engine, pairs, &mut figures);
    }
    if wanted("orphans") {
        outage::orphans(&engine, pairs, &mut figures);
    }
    if wanted("recovery") {
        outage::recovery(&engine, pairs, &mut figures);
    }
    if wanted("suite") {
        suite::run(&engine, pairs, &mut figures);
    }
    drop(engine);
    if wanted("program") {
        program(&mut figures);
    }
    if wanted("mock") {
        mock::run(&mut figures);
    }
    if wanted("planner") {
        micro::run(&mut figures);
    }

    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let table = figure::table(&figures);
    println!("{table}");
    if only.is_some() {
        return;
    }
    let document = serde_json::json!({ "engine": version.trim(), "cores": cores, "pairs": pairs,
        "loadBefore": before, "loadAfter": load(), "figures": figure::document(&figures) });
    let json = serde_json::to_string_pretty(&document).expect("figures are JSON");
    fs::write(Path::new(&out).join("performance.json"), json + "\n").expect("the JSON can be written");
    let text = format!(
        "# Performance\n\nWritten by `./scripts/bench --pairs {pairs}`; do not edit.\n\n\
         Engine {}, {cores} cores; load average at the start: {before:.1} (other processes; above {cores} the times are noisy). \
         On a shared machine, times vary by half between runs: **compare only ratios from one run**. Baseline and Argus took \
         turns on one private engine.\n\n\
         The baseline is a small client on keep-alive connections that makes only the necessary calls, four in flight. With \
         health checks, it probes each service from its start while it creates the others. Argus' times run from the rename of \
         the spec to the status file with phase Ready.\n\n{table}",
        version.trim()
    );
    fs::write(Path::new(&out).join("performance.md"), text).expect("the page can be written");
}

/// The load average of the last minute.
fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(f64::NAN)
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
        Figure::new("`argus --version`", "ms", starts).goal(("≤ 10 ms", 10.0)),
    );
}

fn plain(project: &str, count: usize) -> String {
    let mut text = format!("version: \"1\"\nproject: {{ name: {project} }}\nservices:\n");
    for index in 0..count {
        writeln!(
            text,
            "  s{index}:\n    image: busybox:local\n    container: {{ name: {project}-s{index} }}"
        )
        .expect("writing to a string succeeds");
    }
    text
}

fn spec(project: &str, count: usize, ports: Option<u16>) -> String {
    ports.map_or_else(
        || plain(project, count),
        |first| fixture::singles(project, &(first..).take(count).collect::<Vec<_>>(), ""),
    )
}

fn argus_up(controller: &Controller<'_>, project: &str, text: &str) -> f64 {
    let file = format!("{project}/e2e.yaml");
    fs::create_dir_all(controller.specs.join(project)).expect("a directory");
    let (took, ()) = wait::timed(|| {
        controller.write_spec(&file, text);
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

fn ready(engine: &PrivateEngine, pairs: usize, count: usize, health: bool, figures: &mut Vec<Figure>) {
    let controller = Controller::start(engine, RunOptions::default());
    let (mut baselines, mut ours, mut ratios) = (vec![], vec![], vec![]);
    for pair in 0..pairs {
        let ports = health.then_some(21_000);
        let project = format!("base{count}{}{pair}", if health { "h" } else { "p" });
        let (baseline, ()) = wait::timed(|| raw::up(engine, &project, count, ports));
        let baseline = baseline.as_secs_f64() * 1e3;
        raw::down(engine, &project, count);
        let project = project.replace("base", "argus");
        let took = argus_up(&controller, &project, &spec(&project, count, ports));
        argus_down(engine, &controller, &project);
        baselines.push(baseline);
        ours.push(took);
        ratios.push(took / baseline);
    }
    let kind = if health {
        "with HTTP health checks"
    } else {
        "without health checks"
    };
    let goal = if health {
        ("≤ 1.05 × baseline", 1.05)
    } else {
        ("≤ 1.10 × baseline", 1.10)
    };
    let baseline = Figure::new(format!("baseline, {count} services {kind}"), "ms", baselines);
    push(figures, baseline);
    let took = Figure::new(format!("time to Ready, {count} services {kind}"), "ms", ours);
    push(figures, took);
    let ratio = Figure::new(format!("ratio, {count} services {kind}"), "×", ratios);
    push(figures, ratio.goal(goal));
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

fn rss(pid: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("VmRSS");
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

fn resident(engine: &PrivateEngine, figures: &mut Vec<Figure>) {
    let controller = Controller::start(engine, RunOptions::default());
    for count in [0, 50] {
        if count > 0 {
            argus_up(&controller, "resident", &plain("resident", count));
        }
        let pid = pid_of(&controller);
        let rest = |span| wait::all_the_while(Duration::from_secs(span), "idle", || !pid.is_empty());
        rest(2);
        let before = ticks(&pid);
        rest(IDLE_SECONDS);
        let cpu = (ticks(&pid) - before) * 10.0;
        let cpu = Figure::new(
            format!("CPU in {IDLE_SECONDS} s idle, {count} containers"),
            "ms",
            vec![cpu],
        );
        push(figures, cpu.goal(("≤ 0.2 % of a core: 40 ms", 40.0)));
        let resident = Figure::new(
            format!("resident, idle, {count} containers"),
            "MiB",
            vec![rss(&pid)],
        );
        push(figures, resident.goal(("≤ 20 MiB", 20.0)));
    }
    argus_down(engine, &controller, "resident");
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
    push(
        figures,
        Figure::new(what, "ms", vec![above]).goal(("≤ 5 ms", 5.0)),
    );
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
