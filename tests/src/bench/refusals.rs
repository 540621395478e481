//! Refused operations of all surfaces while the engine's breaker is open: commands, routes and tools of MCP that need the engine.

use std::path::Path;
use std::process::Stdio;

use argus_tests::fixture::LIMIT;
use argus_tests::proxy::Fault;
use argus_tests::{Controller, PrivateEngine, Proxy, RunOptions, http, wait};
use serde_json::{Value, json};

use crate::figure::Figure;
use crate::outage::{ms, quantile};
use crate::push;

/// Calls of each operation.
const CALLS: usize = 200;
/// Goal of each surface: its name and the milliseconds of a call.
const GOAL: (&str, f64) = ("< 100 ms", 100.0);
const ENV: &str = "barred";

const COMMANDS: [&[&str]; 6] = [
    &["plan"],
    &["preflight"],
    &["prune"],
    &["logs", ENV, "s0"],
    &["network", ENV, "--verify"],
    &["exec", "barred/s0", "--", "true"],
];
const ROUTES: [(&str, &str); 5] = [
    ("GET", "/api/v1/plan"),
    ("GET", "/api/v1/preflight"),
    ("GET", "/api/v1/prune"),
    ("GET", "/api/v1/environments/barred/logs"),
    ("POST", "/api/v1/environments/barred/network"),
];

fn tools() -> [(&'static str, Value); 4] {
    [
        ("argus_plan", json!({ "environment": ENV })),
        ("argus_preflight_check", json!({})),
        ("argus_logs", json!({ "environment": ENV })),
        ("argus_network", json!({ "environment": ENV, "verify": true })),
    ]
}

/// Opens the breaker with an engine that accepts requests and answers none, and times the refusals.
pub(crate) fn run(engine: &PrivateEngine, figures: &mut Vec<Figure>) {
    let folder = engine.scratch("breaker");
    let proxy = Proxy::start(&folder.join("p.sock"), &engine.socket());
    let options = RunOptions {
        host: Some(proxy.host()),
        ..RunOptions::default()
    };
    let controller = Controller::start(engine, options);
    controller.write_spec("e2e.yaml", &crate::plain(ENV, 1));
    controller.wait_ready(ENV, LIMIT);
    proxy.inject("", Fault::Hang, 1_000_000);
    proxy.cut("");
    controller.wait_until(LIMIT, "the engine's breaker is open", || {
        (controller.controller_status()["breaker"]["state"] == "open").then_some(())
    });
    proxy.reset_counts();
    // This engine answers, but no command may call it.
    let direct = Proxy::start(&folder.join("direct.sock"), &engine.socket());
    let (refused, plain) = commands(&controller, &direct);
    let what = "baseline of a command: start and end of the program";
    surface(figures, what, &plain, None);
    let what = format!("`CIRCUIT_OPEN` of {} commands, start to end", COMMANDS.len());
    surface(figures, &what, &refused, Some(GOAL));
    let socket = controller.state.join("private/argus.sock");
    let answered = routes(&socket);
    let what = format!("`CIRCUIT_OPEN` of {} routes of HTTP", ROUTES.len());
    surface(figures, &what, &answered, Some(GOAL));
    let called = mcp(&socket);
    let what = format!("`CIRCUIT_OPEN` of {} tools of MCP", tools().len());
    surface(figures, &what, &called, Some(GOAL));
    // The controller itself only tries to reconnect.
    let reads = |class: &String| class.starts_with("GET /containers") || class.starts_with("GET /images");
    let counts = proxy.counts().into_iter().filter(|(class, _)| reads(class));
    let calls = direct.connections() + counts.map(|(_, count)| count).sum::<usize>();
    let calls = f64::from(u32::try_from(calls).expect("small"));
    let what = "calls of the engine by all refused operations";
    push(figures, Figure::new(what, "calls", vec![calls]).goal(("0", 0.0)));
    proxy.heal();
    controller.wait_status(ENV, LIMIT * 2, "is up to date again", |now| {
        now["phase"] == "Ready" && now["stale"] != true
    });
    crate::argus_down_file(engine, &controller, ENV, "e2e.yaml");
}

/// Adds the median and the 99.9th percentile of a surface.
fn surface(figures: &mut Vec<Figure>, what: &str, times: &[f64], goal: Option<(&'static str, f64)>) {
    for (part, name) in [(0.5, "p50"), (0.999, "p99.9")] {
        let what = format!("{what}, {name} of {} calls", times.len());
        let figure = Figure::new(what, "ms", vec![quantile(times, part)]);
        push(
            figures,
            match goal {
                Some(goal) => figure.goal(goal),
                None => figure,
            },
        );
    }
}

/// Times of refused commands and of a command that does nothing, taken in turns.
fn commands(controller: &Controller<'_>, direct: &Proxy) -> (Vec<f64>, Vec<f64>) {
    let run = |words: &[&str]| {
        let mut command = controller.command();
        command.args(words).env("DOCKER_HOST", direct.host());
        command.stdin(Stdio::null()).output().expect("argus runs")
    };
    let (mut refused, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        for words in COMMANDS {
            let (took, output) = wait::timed(|| run(words));
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(text.contains("circuit breaker"), "{words:?}: {text}");
            refused.push(ms(took));
        }
        let (took, output) = wait::timed(|| run(&["--version"]));
        assert!(output.status.success(), "argus --version");
        plain.push(ms(took));
    }
    (refused, plain)
}

fn routes(socket: &Path) -> Vec<f64> {
    let mut times = Vec::new();
    for _ in 0..CALLS {
        for (method, path) in ROUTES {
            let body: &[u8] = if method == "POST" { b"{}" } else { b"" };
            let kind = "application/json";
            let (took, answer) = wait::timed(|| http::request(socket, method, path, kind, body, LIMIT));
            let answer = answer.expect("a response");
            assert_eq!(
                answer.json()["code"],
                "CIRCUIT_OPEN",
                "{method} {path}: {answer:?}"
            );
            times.push(ms(took));
        }
    }
    times
}

fn mcp(socket: &Path) -> Vec<f64> {
    let mut times = Vec::new();
    for _ in 0..CALLS {
        for (tool, arguments) in tools() {
            let (took, result) = wait::timed(|| http::result(socket, tool, &arguments, LIMIT));
            let error = &result["structuredContent"];
            assert_eq!(error["code"], "CIRCUIT_OPEN", "{tool}: {result}");
            times.push(ms(took));
        }
    }
    times
}
