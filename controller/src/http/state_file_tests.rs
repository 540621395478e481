//! Random damage to the state directory: readers and controllers start with any content, and the next start is clean.

use std::cell::{Cell, RefCell};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use argus_backend::sim::{Engine, ExitScript, FaultProfile, Rng, Sim};
use argus_core::ident::{EnvName, Protocol, ProtocolPort};
use argus_core::mode::Mode;
use argus_core::time::Timestamp;
use argus_reconciler::clock::Clock;
use argus_reconciler::journal::checksum::with_checksum;
use argus_reconciler::state_dir::StateDir;
use argus_reconciler::{Controller, Handle, Options, Running, Snapshot, identity};
use argus_tests::fuzz::{Seeds, below, mutate, one_of};
use rustix::fs::{CWD, FileType, Mode as FileMode, mknodat};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::listen::serve_connection;
use super::token::load_token;
use super::{Guard, routes};
use crate::api::Method;
use crate::app::controller_start::reconciler_options;
use crate::client::ControllerClient;
use crate::engine::find_endpoint;
use crate::operations;
use crate::settings::{Options as Flags, Settings, SpecOptions};
use crate::view::http_address::HttpAddress;
use crate::view::{About, StatusBuilder};

/// Number of seeds of a run without a time.
const SEEDS: u64 = 20;
/// Maximum virtual time until a controller is settled.
const LIMIT: Duration = Duration::from_secs(1_800);
/// Time of the first start.
const START: Timestamp = Timestamp(1_763_000_000_000);
const MAX_MEMORY_KIB: u64 = 2 * 1024 * 1024;

const SHOP: &str = "version: '1.0'\nproject:\n  name: shop\nservices:\n  - name: api\n    image: app:1\n    container:\n      name: shop-api\n      ports: ['8080:80']\n  - name: job\n    image: app:1\n    container:\n      name: shop-job\n";

/// Parts that JSON, the journal or the identity treat specially.
const PARTS: &[&[u8]] = &[
    b"\n",
    b"\0",
    b"\xff\xfe",
    b"{}",
    b"[]",
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e999",
    b"18446744073709551615",
    b"18446744073709551616",
    b"9223372036854775807",
    b"\"\"",
    b"\"",
    b",",
    b":",
    b"\\ud800",
    b"[[[[[[[[[[[[[[[[",
    b"\"schemaVersion\":99",
    b"\"v\":99",
    b"\"seq\":18446744073709551615",
    b"+292277026596-12-04T15:30:07Z",
    b"../../..",
    b"shop",
];

thread_local! {
    static PANICS: Cell<u64> = const { Cell::new(0) };
}

/// Counts the panics of this thread, also those that a task or a server survives.
fn count_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.set(PANICS.get() + 1);
        print(panic);
    }));
}

/// Directories of a test.
struct Fixture {
    dir: tempfile::TempDir,
    /// Damages of the current seed, in words.
    damages: RefCell<Vec<String>>,
}

struct Run {
    handle: Handle,
    running: Running,
    sim: Sim,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("specs")).unwrap();
        fs::write(dir.path().join("specs/shop.e2e.yaml"), SHOP).unwrap();
        Self {
            dir,
            damages: RefCell::default(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn settings(&self) -> Settings {
        let options = Flags {
            state: Some(self.path("state")),
            docker_host: Some("unix:///nonexistent/docker.sock".to_owned()),
            ..Flags::default()
        };
        let specs = SpecOptions {
            specs: Some(self.path("specs")),
            ..SpecOptions::default()
        };
        Settings::resolve(&options, &specs).unwrap()
    }

    fn start(&self, engine: Engine, clock: Clock) -> Run {
        let settings = self.settings();
        let options = Options {
            clock,
            journal_limit: 8 * 1024,
            ..reconciler_options(&settings, &find_endpoint(&settings).unwrap(), None)
        };
        let controller = Controller::open(options).unwrap();
        let about = About {
            namespace_from: argus_core::desired::namespace::NamespaceFrom::File,
            started_at: clock.now(),
            specs: settings.specs.clone(),
            state: settings.state.root().display().to_string(),
            endpoint: "sim".to_owned(),
            engine_host: None,
            engine: watch::channel(None).1,
            http: watch::channel(HttpAddress::Unbound).1,
            build_cache: watch::channel(None).1,
            changed: Arc::default(),
            debug: true,
        };
        let view = StatusBuilder::new(about, watch::channel(Arc::default()).0, controller.journal());
        let sim = Sim::new(engine, move || clock.now());
        let (handle, running) = controller.start(sim.clone(), Arc::new(view));
        Run { handle, running, sim }
    }

    /// Sends each request for data without a controller, and returns the responses.
    async fn read_all(&self) -> Vec<String> {
        let app = routes(
            ControllerClient::remote(self.settings()),
            Guard::Socket,
            CancellationToken::new(),
        );
        let mut responses = Vec::new();
        for entry in operations::all() {
            for route in entry.routes.iter().filter(|route| route.method == Method::Get) {
                let path = route
                    .path
                    .replace("{environment}", "shop")
                    .replace("{service}", "job")
                    .replace(['{', '}'], "");
                let request =
                    format!("GET {path}?debug=true HTTP/1.1\r\nHost: argus\r\nConnection: close\r\n\r\n");
                let (server, mut client) = duplex(64 * 1024);
                let mut serving = JoinSet::new();
                serving.spawn(serve_connection(
                    server,
                    app.clone(),
                    CancellationToken::new(),
                    false,
                ));
                client.write_all(request.as_bytes()).await.unwrap();
                let mut response = Vec::new();
                let read = tokio::time::timeout(LIMIT, client.read_to_end(&mut response)).await;
                assert!(read.is_ok(), "{path} did not end");
                serving.join_next().await.unwrap().unwrap();
                responses.push(format!("{path}: {}", String::from_utf8_lossy(&response)));
            }
        }
        responses
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dir.disable_cleanup(true);
            println!(
                "state: {:#?}, see {}",
                self.damages.borrow(),
                self.path("damaged").display()
            );
        }
    }
}

impl Run {
    async fn until(&self, what: &str, is: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        let mut snapshots = self.handle.snapshots();
        let waited = tokio::time::timeout(LIMIT, snapshots.wait_for(|snapshot| is(snapshot))).await;
        waited.map_or_else(
            |_| panic!("{what}: {:#?}", self.handle.snapshot()),
            |found| {
                found.map_or_else(
                    |_| panic!("{what}: the controller ended"),
                    |snapshot| snapshot.clone(),
                )
            },
        )
    }

    /// Waits until the environment is settled.
    async fn settled(&self) -> Arc<Snapshot> {
        let shop = EnvName::new("shop").unwrap();
        self.until("settled", |snapshot| {
            let plan = snapshot.plans.get(&shop);
            is_recovered(snapshot)
                && plan.is_some_and(|plan| plan.is_settled() && plan.revision.is_some())
                && snapshot.state.expectations.is_empty()
        })
        .await
    }

    fn engine(&self) -> Engine {
        self.sim.with(|engine, _| engine.clone())
    }

    async fn stop(self) {
        self.running.stop_token().cancel();
        self.running.ended().await.unwrap();
    }
}

fn is_recovered(snapshot: &Snapshot) -> bool {
    snapshot.is_complete() && snapshot.problems.recovering.is_none() && snapshot.problems.safe.is_none()
}

/// Runs a future in paused time.
fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(future)
}

/// Reads a file, unless it is a pipe, a link or large.
fn content(path: &Path) -> Option<Vec<u8>> {
    let meta = fs::symlink_metadata(path).ok()?;
    let is_small_file = meta.is_file() && meta.len() < 1 << 20;
    is_small_file.then(|| fs::read(path).unwrap())
}

/// Copies files and directories, without pipes, links and large files.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&entry.path(), &to);
        } else if let Some(bytes) = content(&entry.path()) {
            fs::write(to, bytes).unwrap();
        }
    }
}

fn remove(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

/// All paths below a directory, sorted.
fn paths_below(directory: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().unwrap().is_dir() {
            all.extend(paths_below(&entry.path()));
        }
        all.push(entry.path());
    }
    all.sort();
    all
}

fn quarantined(state: &Path) -> Vec<PathBuf> {
    let mut all = paths_below(state);
    all.retain(|path| path.display().to_string().contains(".corrupt-"));
    all
}

/// A damage, in words.
struct Damage {
    text: String,
    /// True if the content is consistent and possibly other than what a controller wrote. It may then ask for other actions.
    is_consistent: bool,
}

/// Damages one file or folder.
fn damage(random: &mut Rng, state: &Path, all: &[PathBuf]) -> Damage {
    let path = one_of(random, all).clone();
    let shown = path.strip_prefix(state).unwrap().display().to_string();
    let bytes = content(&path);
    let kind = below(random, if bytes.is_some() { 16 } else { 5 });
    let text = match kind {
        0 => {
            remove(&path);
            format!("{shown} is missing")
        }
        1 => {
            let targets = [
                "/nowhere",
                "/dev/zero",
                "/proc/self/mem",
                ".",
                "state.json",
                "../controller.json",
            ];
            let target = *one_of(random, &targets);
            replace(&path, |path| symlink(target, path).unwrap());
            format!("{shown} is a link to {target}")
        }
        2 => {
            replace(&path, |path| {
                mknodat(CWD, path, FileType::Fifo, FileMode::RUSR | FileMode::WUSR, 0).unwrap();
            });
            format!("{shown} is a pipe")
        }
        3 if bytes.is_some() => {
            replace(&path, |path| fs::create_dir_all(path.join("with/more")).unwrap());
            format!("{shown} is a folder")
        }
        3 => {
            replace(&path, |path| fs::write(path, "not a folder").unwrap());
            format!("{shown} is a file")
        }
        // Few, because they take long.
        4 if random.percent(10) => {
            replace(&path, |path| {
                fs::File::create(path).unwrap().set_len(300 << 20).unwrap();
            });
            format!("{shown} has 300 MiB of zeros")
        }
        4 | 5 => {
            let other = one_of(random, all).clone();
            let content = content(&other).unwrap_or_default();
            replace(&path, |path| fs::write(path, content).unwrap());
            format!("{shown} has the content of {}", other.display())
        }
        _ => {
            let others: Vec<Vec<u8>> = all.iter().filter_map(|path| content(path)).collect();
            let mut bytes = bytes.unwrap_or_default();
            let is_resealed = kind > 10;
            if is_resealed {
                mutate_sealed(random, &mut bytes, &others);
            } else {
                mutate(random, &mut bytes, PARTS, &others);
            }
            replace(&path, |path| fs::write(path, &bytes).unwrap());
            format!("{shown} is {:?}", String::from_utf8_lossy(&bytes))
        }
    };
    Damage {
        text,
        is_consistent: matches!(kind, 4.. if kind == 4 || kind == 5 || kind > 10),
    }
}

/// Changes one line with a checksum, and writes a new checksum.
fn mutate_sealed(random: &mut Rng, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
    let mut lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let at = below(random, lines.len());
    let text = String::from_utf8_lossy(&lines[at]).into_owned();
    let mut open = text
        .rsplit_once(",\"sum\":")
        .map_or(text.as_str(), |(open, _)| open)
        .as_bytes()
        .to_vec();
    mutate(random, &mut open, PARTS, others);
    lines[at] = with_checksum(&format!("{}}}", String::from_utf8_lossy(&open))).into_bytes();
    *bytes = lines.join(&b'\n');
}

fn replace(path: &Path, make: impl FnOnce(&Path)) {
    remove(path);
    // Another damage may have replaced the folder.
    if path.parent().is_some_and(Path::is_dir) {
        make(path);
    }
}

fn peak_memory_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn damaged_state_is_read_and_repaired() {
    count_panics();
    let fixture = Fixture::new();
    let (state, killed, stopped) = (
        fixture.path("state"),
        fixture.path("killed"),
        fixture.path("stopped"),
    );
    let (engine, later) = run(async {
        let clock = Clock::virtual_from(START);
        let mut engine = Engine::new(7, FaultProfile::no_faults());
        engine.model.add_image("app:1");
        engine.model.enable_output();
        engine.model.occupy_port(ProtocolPort {
            number: 8_080,
            protocol: Protocol::Tcp,
        });
        let script = ExitScript {
            after: Duration::from_secs(2),
            code: 3,
            times: 1,
        };
        engine.model.set_script("shop/job", script);
        let run = fixture.start(engine, clock);
        run.until("the job failed once", |_| {
            !paths_below(&state.join("private/evidence/shop/job")).is_empty()
        })
        .await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        run.settled().await;
        load_token(&StateDir::at(&state)).unwrap();
        copy(&state, &killed);
        let engine = run.engine();
        run.stop().await;
        (engine, clock.now() + Duration::from_secs(1))
    });
    copy(&state, &stopped);
    let controller = identity::peek(&state.join("private/identity")).unwrap();
    let calls = engine.model.calls().len();
    let (mut all_seeds, mut settled) = (0, 0);
    for seed in Seeds::new("state", SEEDS) {
        all_seeds += 1;
        let random = &mut Rng::new(seed);
        remove(&state);
        copy(if random.percent(50) { &killed } else { &stopped }, &state);
        let all = paths_below(&state);
        let damages: Vec<Damage> = (0..=below(random, 3))
            .map(|_| damage(random, &state, &all))
            .collect();
        *fixture.damages.borrow_mut() = damages.iter().map(|damage| damage.text.clone()).collect();
        let identity = identity::peek(&state.join("private/identity"));
        let is_ours = identity.is_none_or(|identity| identity == controller);
        let is_harmless = is_ours && !damages.iter().any(|damage| damage.is_consistent);
        remove(&fixture.path("damaged"));
        copy(&state, &fixture.path("damaged"));
        run(async {
            let clock = Clock::virtual_from(later);
            for response in fixture.read_all().await {
                assert!(response.contains(": HTTP/1.1 "), "{response}");
            }
            drop(load_token(&StateDir::at(&state)));
            let first = fixture.start(engine.clone(), clock);
            if is_harmless {
                let snapshot = first.settled().await;
                assert_eq!(snapshot.mode, Mode::Full);
                let after = first.engine();
                assert_eq!(after.model.calls()[calls..], [], "nothing is done");
                settled += 1;
            } else {
                first.until("recovered", is_recovered).await;
                tokio::time::sleep(Duration::from_secs(300)).await;
            }
            let engine = first.engine();
            first.stop().await;
            let before = quarantined(&state);
            let second = fixture.start(engine, clock);
            second.until("recovered", is_recovered).await;
            second.stop().await;
            assert_eq!(
                quarantined(&state),
                before,
                "the second start finds nothing to repair"
            );
            for response in fixture.read_all().await {
                // Evidence and logs are read on request only. A damaged file of them is an error that names the file.
                let is_fine = !response.contains(" 500 Internal Server Error")
                    || response.contains(&format!("{}/private/", state.display()));
                assert!(is_fine, "{response}");
            }
        });
        assert_eq!(PANICS.get(), 0, "a task panicked");
    }
    let memory = peak_memory_kib();
    println!("state: {settled} controllers settled without an action, at most {memory} KiB of memory");
    assert!(settled > 0 || all_seeds < SEEDS);
    assert!(memory < MAX_MEMORY_KIB);
}
