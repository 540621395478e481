//! Tests of the harness itself, on a real engine: the guarantees that every other test relies on.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use argus_tests::proxy::{Fault, class_of};
use argus_tests::{Options, PrivateEngine, Proxy, Registry, binary, http, wait};

const LIMIT: Duration = Duration::from_secs(60);

fn run_container(engine: &PrivateEngine, name: &str) {
    engine.docker_ok(&["run", "-d", "--init", "--name", name, "busybox:local"]);
}

fn running(engine: &PrivateEngine, name: &str) -> bool {
    engine
        .inspect(name)
        .is_some_and(|found| found["State"]["Running"] == true)
}

fn exists(path: &str) -> bool {
    Path::new(path).exists()
}

#[test]
fn engine_starts_serves_and_leaves_nothing() {
    let engine = PrivateEngine::start();
    engine.make_busybox_image("busybox:local", &[]);
    run_container(&engine, "one");
    assert!(running(&engine, "one"));
    let (netns, socket) = (engine.netns().to_owned(), engine.socket());
    let pid = engine.inspect("one").unwrap()["State"]["Pid"].to_string();
    assert!(exists(&format!("/run/netns/{netns}")) && exists(&format!("/proc/{pid}")));
    engine.remove();
    assert!(!socket.exists() && !socket.parent().unwrap().exists());
    assert!(!exists(&format!("/run/netns/{netns}")) && !exists(&format!("/sys/class/net/{netns}-h")));
    let proof = format!("/proc/{pid}/exe");
    wait::until(LIMIT, "the container's process ends", || {
        std::fs::read_link(&proof).is_err().then_some(())
    });
}

#[test]
fn published_port_answers_in_its_namespace() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image("web:local", &[r#"CMD ["httpd", "-f", "-p", "80", "-h", "/bin"]"#]);
    engine.docker_ok(&[
        "run",
        "-d",
        "--name",
        "web",
        "-p",
        "127.0.0.1:18081:80",
        "web:local",
    ]);
    wait::until(LIMIT, "the port answers", || {
        let mut client = engine.command_in_netns("busybox");
        let output = client
            .args(["wget", "-q", "-O", "-", "http://127.0.0.1:18081/sh"])
            .output()
            .unwrap();
        output.status.success().then_some(())
    });
    engine.docker_ok(&["rm", "-f", "web"]);
}

#[test]
fn killed_daemon_returns_with_its_objects() {
    let engine = PrivateEngine::start_with(Options {
        live_restore: true,
        ..Options::default()
    });
    engine.make_busybox_image("busybox:local", &[]);
    run_container(&engine, "survivor");
    engine.kill9();
    assert!(!engine.answers());
    engine.start_again();
    assert!(running(&engine, "survivor"), "live-restore keeps the container");
    engine.restart();
    assert!(running(&engine, "survivor"));
    engine.freeze();
    assert!(!engine.answers(), "a frozen daemon does not answer");
    engine.thaw();
    wait::until(LIMIT, "a thawed daemon answers", || {
        engine.answers().then_some(())
    });
}

#[test]
fn registry_accepts_and_serves_images() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image("pushed:local", &[]);
    let registry = Registry::start(engine, 5055);
    let name = registry.push(engine, "pushed:local");
    assert!(!engine.docker(&["image", "inspect", &name]).status.success());
    engine.docker_ok(&["pull", "-q", &name]);
    assert!(engine.docker(&["image", "inspect", &name]).status.success());
}

#[test]
fn engine_is_the_requested_one() {
    let version = PrivateEngine::shared().api("GET", "/version", None).json()["Version"].clone();
    let folder = std::env::var_os("ARGUS_TEST_ENGINE").map(PathBuf::from);
    let installed = || binary::find("dockerd").expect("a dockerd; hint: ./scripts/setup");
    let program = folder.map_or_else(installed, |folder| folder.join("dockerd"));
    let output = Command::new(program)
        .arg("--version")
        .output()
        .expect("dockerd runs");
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = version.as_str().expect("a version");
    assert!(
        output.starts_with(&format!("Docker version {version}, ")),
        "{version}: {output}"
    );
}

/// Runs in a separate process, which the next test starts and kills.
#[test]
fn helper_that_is_killed_while_it_has_an_engine() {
    if std::env::var_os("ARGUS_HARNESS_HELPER").is_none() {
        return;
    }
    let engine = PrivateEngine::start();
    engine.make_busybox_image("busybox:local", &[]);
    run_container(&engine, "orphan");
    println!("\nengine {} {}", engine.netns(), engine.socket().display());
    std::io::stdout().flush().unwrap();
    // The end of the next test closes its input.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn killed_test_process_leaves_nothing() {
    use std::io::{BufRead, BufReader};
    let mut helper = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "harness::helper_that_is_killed_while_it_has_an_engine",
            "--nocapture",
        ])
        .env("ARGUS_HARNESS_HELPER", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(helper.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let line = lines
        .find(|line| line.starts_with("engine "))
        .expect("the helper has an engine");
    let words: Vec<&str> = line.split(' ').collect();
    let (netns, socket) = (format!("/run/netns/{}", words[1]), words[2].to_owned());
    assert!(exists(&netns) && exists(&socket));
    helper.kill().unwrap();
    helper.wait().unwrap();
    let root = Path::new(&socket).parent().unwrap();
    wait::until(LIMIT, "the watchdog cleans up", || {
        (!exists(&netns) && !root.exists()).then_some(())
    });
}

#[test]
fn proxy_counts_and_injects_faults() {
    let engine = PrivateEngine::shared();
    let socket = engine.scratch("proxy").join("p.sock");
    let proxy = Proxy::start(&socket, &engine.socket());
    let get_within = |path: &str, limit| http::request(&socket, "GET", path, "text/plain", b"", limit);
    let get = |path: &str| get_within(path, LIMIT);
    assert_eq!(get("/v1.41/containers/json?all=1").unwrap().status, 200);
    assert_eq!(get("/containers/missing/json").unwrap().status, 404);
    assert_eq!(proxy.counts()["GET /containers/json"], 1);
    assert_eq!(proxy.counts()["GET /containers/*/json"], 1);
    assert!(proxy.writes().is_empty());

    proxy.inject("POST /volumes/create", Fault::CloseBefore, 1);
    proxy.inject("POST /volumes/create", Fault::CloseAfter, 1);
    let create = |name: &str| {
        let body = format!("{{\"Name\":\"{name}\"}}");
        http::request(
            &socket,
            "POST",
            "/volumes/create",
            "application/json",
            body.as_bytes(),
            LIMIT,
        )
    };
    assert!(create("never").is_err() && create("unknown").is_err());
    assert_eq!(
        get("/volumes/never").unwrap().status,
        404,
        "closed before the engine receives it"
    );
    assert_eq!(
        get("/volumes/unknown").unwrap().status,
        200,
        "done, although the client got an error"
    );
    assert_eq!(create("clean").unwrap().status, 201);
    assert_eq!(proxy.writes().len(), 3);

    let mut watch = UnixStream::connect(&socket).unwrap();
    watch
        .write_all(b"GET /events HTTP/1.1\r\nHost: docker\r\n\r\n")
        .unwrap();
    wait::until(LIMIT, "the watch is counted", || {
        proxy.counts().contains_key("GET /events").then_some(())
    });
    assert_eq!(proxy.cut("GET /events"), 1);
    proxy.hang();
    let hanging = get_within("/_ping", Duration::from_millis(200));
    assert!(hanging.is_err(), "a hanging connection times out");
    proxy.heal();
    assert_eq!(get("/_ping").unwrap().status, 200);
    proxy.refuse();
    assert!(get("/_ping").is_err());
}

#[test]
fn request_class_follows_its_path() {
    let cases = [
        ("/v1.41/containers/abc/start", "POST /containers/*/start"),
        ("/containers/create?name=x", "POST /containers/create"),
        ("/networks/abc", "POST /networks/*"),
        ("/networks/abc/connect", "POST /networks/*/connect"),
        ("/v1.50/images/host:5000/a/b:1/json", "POST /images/*/json"),
        ("/images/json", "POST /images/json"),
        ("/volumes", "POST /volumes"),
        ("/build?t=x", "POST /build"),
    ];
    for (path, class) in cases {
        assert_eq!(class_of("POST", path), class, "{path}");
    }
}
