//! Progress of pulls and builds: bars on a terminal, a few lines in a log.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use argus_tests::fixture::{LIMIT, engine};
use argus_tests::{Controller, PausablePipe, PrivateEngine, Registry, RunOptions, Terminal, binary, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const COLUMNS: u16 = 80;

/// Creates a project with a build of these steps.
fn project(engine: &PrivateEngine, name: &str, steps: &[String]) -> PathBuf {
    let home = engine.scratch(name);
    let context = home.join("environments/app");
    fs::create_dir_all(&context).expect("a directory");
    fs::write(
        context.join("Dockerfile"),
        format!("FROM busybox:local\n{}\n", steps.join("\n")),
    )
    .expect("a Dockerfile");
    let spec = format!(
        "version: \"1\"\nproject: {{ name: {name} }}\nservices:\n  app:\n    build: {{ context: ., image: \"{name}:test\" }}\n    \
         container: {{ name: {name}-app }}\n"
    );
    fs::write(context.join("e2e.yaml"), spec).expect("a spec");
    home
}

/// Seconds of a held step. They name the step and its engine: other engines run on the same machine.
fn held_seconds(engine: &PrivateEngine, step: u32) -> u32 {
    let number = engine
        .netns()
        .trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let slot: u32 = number.parse().expect("the number of the engine");
    1_000_000 + 100 * slot + step
}

/// A build step that lasts until [`end_step`]. Its number is below 100.
fn held_step(engine: &PrivateEngine, step: u32) -> String {
    format!("RUN sleep {} || true", held_seconds(engine, step))
}

/// Waits until the build executes this step, and ends it.
fn end_step(engine: &PrivateEngine, step: u32) {
    let wanted = format!("sleep\0{}\0", held_seconds(engine, step));
    let pid_of = |process: &fs::DirEntry| {
        let command = fs::read(process.path().join("cmdline")).ok()?;
        let number: i32 = process.file_name().to_str()?.parse().ok()?;
        Pid::from_raw(number).filter(|_| command == wanted.as_bytes())
    };
    let pid = wait::until(LIMIT, "the build executes the step", || {
        let mut processes = fs::read_dir("/proc").expect("the processes").flatten();
        processes.find_map(|process| pid_of(&process))
    });
    kill_process(pid, Signal::KILL).expect("a process of our own engine");
}

fn argus(engine: &PrivateEngine, home: &PathBuf, words: &[&str]) -> Command {
    let mut command = engine.command_in_netns(binary::argus());
    command.args(words).current_dir(home);
    command
        .env("DOCKER_HOST", engine.host())
        .env("XDG_STATE_HOME", engine.scratch("xdg"))
        .env("ARGUS_LISTEN", "off");
    command
}

/// The screen after each cursor move, without colours: one text per drawing.
fn frames(written: &str) -> Vec<String> {
    let mut frames = vec![String::new()];
    let mut parts = written.split("\u{1b}[");
    frames[0].push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part
            .find(|letter: char| letter.is_ascii_alphabetic())
            .unwrap_or(0);
        let (code, rest) = part.split_at(end + usize::from(end < part.len()));
        if code.ends_with('A') {
            frames.push(String::new());
        }
        frames.last_mut().expect("at least one frame").push_str(rest);
    }
    frames
}

fn no_line_is_too_wide(frames: &[String]) {
    // Log lines above the table have any length.
    let is_log = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
    let lines = frames
        .iter()
        .flat_map(|frame| frame.lines())
        .filter(|line| !is_log(line));
    let wide = lines.filter(|line| line.trim_start_matches('\r').chars().count() > usize::from(COLUMNS));
    assert_eq!(wide.collect::<Vec<_>>(), Vec::<&str>::new());
}

/// The bar of an image, which has one line.
fn bar_of<'f>(frame: &'f str, image: &str) -> Option<&'f str> {
    let mut bars = frame
        .lines()
        .filter(|line| line.starts_with(image) && line.contains('['));
    let bar = bars.next();
    assert!(bars.next().is_none(), "one line per image: {frame}");
    bar
}

#[test]
fn build_shows_a_growing_bar_in_run_and_wait() {
    let engine = engine();
    let echo = || "RUN echo slowly".to_owned();
    let steps = [echo(), held_step(engine, 3), echo(), held_step(engine, 5), echo()];
    let home = project(engine, "slowly", &steps);
    let mut running = argus(engine, &home, &["run"]);
    running.env("NO_COLOR", "1");
    let running = Terminal::start(running, COLUMNS, 40);
    running.wait_until(LIMIT, "the build continues", |text| text.contains("slowly:test"));
    let waiting = argus(engine, &home, &["wait", "slowly", "--timeout", "10m"]);
    let waiting = Terminal::start(waiting, COLUMNS, 40);
    for (step, number) in [("3/6] RUN", 3), ("5/6] RUN", 5)] {
        for terminal in [&running, &waiting] {
            terminal.wait_until(LIMIT, step, |text| text.contains(step));
        }
        end_step(engine, number);
    }
    running.wait_until(LIMIT, "the environment is Ready", |text| text.contains("Ready"));
    let (waited, ended) = waiting.end(LIMIT);
    assert!(ended.success(), "{waited}");
    assert!(
        waited.ends_with("Ready\u{1b}[0m\n"),
        "the bar is removed: {waited:?}"
    );
    running.signal(Signal::TERM);
    let (ran, ended) = running.end(LIMIT);
    assert!(ended.success(), "{ran}");
    assert!(!ran.contains("\u{1b}[3"), "colours are disabled: {ran}");

    for (name, text) in [("run", &ran), ("wait", &waited)] {
        let frames = frames(text);
        no_line_is_too_wide(&frames);
        let bars: Vec<&str> = frames
            .iter()
            .filter_map(|frame| bar_of(frame, "slowly:test"))
            .collect();
        for step in ["3/6] RUN", "5/6] RUN"] {
            assert!(
                bars.iter().any(|bar| bar.contains(step)),
                "{name}: no {step} in {bars:#?}"
            );
        }
        let full: Vec<usize> = bars.iter().map(|bar| bar.matches('=').count()).collect();
        assert!(
            full.is_sorted() && full.last() > full.first(),
            "{name}: {full:?} in {bars:#?}: {ran}"
        );
        assert!(
            bar_of(frames.last().expect("a last frame"), "slowly:test").is_none(),
            "{name}: {text}"
        );
    }
}

#[test]
fn build_logs_a_few_lines_without_a_terminal() {
    let engine = engine();
    let numbers = 11..=18;
    let steps: Vec<String> = numbers.clone().map(|number| held_step(engine, number)).collect();
    let home = project(engine, "logged", &steps);
    let start = |name: &str, words: &[&str]| {
        let log = fs::File::create(home.join(name)).expect("a log");
        let other = log.try_clone().expect("a second handle");
        let mut command = argus(engine, &home, words);
        command.stdin(Stdio::null()).stdout(log).stderr(other);
        command.spawn().expect("argus runs")
    };
    let read = |name: &str| fs::read_to_string(home.join(name)).expect("a log");
    let line_count = |name: &str| {
        let log = read(name);
        let lines = log.lines();
        let of_image = lines.filter(|line| line.starts_with("image `logged:test` is being built: ["));
        of_image.count()
    };
    let started_at = wait::now();
    let mut running = start("run", &["run"]);
    let mut waiting = start("wait", &["wait", "--all", "--timeout", "10m"]);
    // A line follows a step that begins five seconds after the last line; `lines_about_an_image_are_paced` has the time.
    for number in numbers {
        let both = || (line_count("run") > 0 && line_count("wait") > 0).then_some(());
        wait::poll(Duration::from_secs(2), both);
        end_step(engine, number);
    }
    let waited = waiting.wait().expect("our own child");
    wait::until(LIMIT, "the log reports it", || {
        read("run").contains("logged Ready").then_some(())
    });
    running.kill().expect("our own child");
    running.wait().expect("our own child");
    let seconds = wait::now().duration_since(started_at).as_secs();
    // At most one line per five seconds, however long the build takes.
    let most = usize::try_from(seconds / 5 + 1).expect("a small number");
    assert!(waited.success(), "{}", read("wait"));
    for name in ["run", "wait"] {
        let text = read(name);
        assert!((1..=most).contains(&line_count(name)), "{name}: {text}");
        assert!(
            !text.contains('\u{1b}') && !text.contains("[="),
            "{name}: no bars: {text}"
        );
    }
}

#[test]
fn pull_shows_a_bar_with_its_progress() {
    let engine = engine();
    let home = engine.scratch("pulled");
    fs::create_dir_all(home.join("environments")).expect("a directory");
    fs::write(
        home.join("Dockerfile"),
        "FROM busybox:local\nRUN head -c 48m /dev/urandom > /big\n",
    )
    .expect("a file");
    engine.docker_ok(&["build", "-q", "-t", "big:local", home.to_str().expect("a path")]);
    let registry = Registry::start(engine, 5017);
    let pushed = registry.push(engine, "big:local");
    // A fast network with a slow terminal could skip the bar, so the pipe holds a part back until the bar is visible.
    let server = registry.address.parse().expect("an address");
    let front = SocketAddr::from(([127, 0, 0, 1], 5018));
    let dam = PausablePipe::build(engine, front, server, 16 * 1024 * 1024);
    let image = pushed.replace(&registry.address, &front.to_string());
    engine.docker_ok(&["rmi", "big:local"]);
    let spec = format!(
        "version: \"1\"\nproject: {{ name: pulled }}\nservices:\n  app:\n    image: {image}\n    container: {{ name: pulled-app }}\n"
    );
    fs::write(home.join("environments/e2e.yaml"), spec).expect("a spec");
    let running = Terminal::start(argus(engine, &home, &["run"]), COLUMNS, 40);
    running.wait_until(LIMIT, "a part is transferred", |text| text.contains(" MB"));
    dam.open();
    running.wait_until(LIMIT, "the environment is Ready", |text| text.contains("Ready"));
    running.signal(Signal::TERM);
    let (ran, ended) = running.end(LIMIT);
    assert!(ended.success(), "{ran}");
    let frames = frames(&ran);
    no_line_is_too_wide(&frames);
    let bars: Vec<&str> = frames.iter().filter_map(|frame| bar_of(frame, &image)).collect();
    assert!(
        bars.iter()
            .any(|bar| bar.contains("pulled") && bar.contains(" MB")),
        "{bars:#?}\n{ran}"
    );
}

#[test]
fn cancelled_pull_ends_in_the_engine() {
    let engine = engine();
    let home = engine.scratch("halved");
    fs::write(
        home.join("Dockerfile"),
        "FROM busybox:local\nRUN head -c 24m /dev/urandom > /half\n",
    )
    .expect("a file");
    engine.docker_ok(&["build", "-q", "-t", "half:local", home.to_str().expect("a path")]);
    let registry = Registry::start(engine, 5027);
    let pushed = registry.push(engine, "half:local");
    let server = registry.address.parse().expect("an address");
    let front = SocketAddr::from(([127, 0, 0, 1], 5028));
    // It holds back the rest of the layer.
    let dam = PausablePipe::build(engine, front, server, 8 * 1024 * 1024);
    let image = pushed.replace(&registry.address, &front.to_string());
    engine.docker_ok(&["rmi", "half:local"]);
    let argus = Controller::start(engine, RunOptions::default());
    let spec = format!(
        "version: \"1\"\nproject: {{ name: halved }}\nservices:\n  app:\n    image: {image}\n    container: {{ name: halved-app }}\n"
    );
    argus.write_spec("e2e.yaml", &spec);
    argus.wait_status("halved", LIMIT, "a part is transferred", |now| {
        now.to_string().contains(" MB")
    });
    assert!(argus.cli(&["cancel", "halved"]).status.success());
    // The engine sees the end of the request when it reads on.
    wait::until(LIMIT, "the engine closes its connection to the registry", || {
        dam.is_abandoned_after(512 * 1024).then_some(())
    });
    // The cancel holds the environment.
    let down = argus.cli(&["down", "halved"]);
    let errors = String::from_utf8_lossy(&down.stderr);
    assert!(errors.contains("the removal of `halved` waits: "), "{down:?}");
    for words in [&["resume", "halved"][..], &["wait", "halved", "--for", "gone"]] {
        assert!(argus.cli(words).status.success(), "{words:?}");
    }
}

#[test]
fn cancelled_build_keeps_its_log_and_others_continue() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    let build = |name: &str| {
        let context = argus.specs.join(name);
        fs::create_dir_all(&context).expect("a directory");
        let text = format!("FROM busybox:local\nRUN echo step-of-{name}\nRUN sleep 600\n");
        fs::write(context.join("Dockerfile"), text).expect("a Dockerfile");
        format!("build: {{ context: ./{name}, image: \"{name}:test\" }}")
    };
    let spec = |name: &str, builds: &[&String]| {
        let service = |(number, build): (usize, &&String)| {
            format!("  app-{number}:\n    {build}\n    container: {{ name: {name}-{number} }}\n")
        };
        let services: String = builds.iter().enumerate().map(service).collect();
        let text = format!("version: \"1\"\nproject: {{ name: {name} }}\nservices:\n{services}");
        argus.write_spec(&format!("{name}.e2e.yaml"), &text);
    };
    let (alone, shared) = (build("alone"), build("shared"));
    spec("first", &[&shared, &alone]);
    spec("second", &[&shared]);
    let building = |env: &str, image: &str| {
        let status = argus.status(env).to_string();
        let mut parts = status.split(image).skip(1);
        let step = |part: &str| part.chars().take(60).collect::<String>();
        parts.any(|part| step(part).contains("sleep 600")).then_some(())
    };
    argus.wait_until(LIMIT, "both build", || {
        building("first", "alone:test").and(building("second", "shared:test"))
    });
    assert!(argus.cli(&["cancel", "first"]).status.success());
    let cancelled = argus.wait_until(LIMIT, "one build is cancelled", || {
        let output = argus.cli(&["events", "--type", "cancelled", "-o", "json"]);
        let events: Value = serde_json::from_slice(&output.stdout).expect("`argus events` prints JSON");
        let events = events["items"].as_array().cloned().unwrap_or_default();
        (!events.is_empty()).then_some(events)
    });
    assert_eq!(cancelled.len(), 1, "{cancelled:#?}");
    assert_eq!(cancelled[0]["verb"], "build-image", "{cancelled:#?}");
    let logs = fs::read_dir(argus.state.join("private/builds")).expect("the build logs");
    let logs: Vec<String> = logs
        .flatten()
        .filter_map(|log| fs::read_to_string(log.path()).ok())
        .collect();
    assert!(
        logs.iter()
            .any(|log| log.contains("step-of-alone") && log.ends_with("cancelled\n")),
        "{logs:?}"
    );
    building("second", "shared:test").expect("the build that the other environment waits for continues");
}
