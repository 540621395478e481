//! A private Docker engine of the test run, in its own network namespace.
//!
//! It never touches the host's engine, its iptables or its containers. A watchdog process owns the cleanup: it waits at
//! the end of a pipe until the owner stops or dies, so that nothing remains even after SIGKILL.
//! Invariant 15: the tests leave nothing on the machine.

mod permit;
mod pool;
mod slot;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use crate::http::{self, Answer};
use crate::{binary, cleanup, wait};
use permit::Permit;
use pool::Idle;
use slot::Slot;

const START_LIMIT: Duration = Duration::from_secs(30);
const CALL_LIMIT: Duration = Duration::from_secs(30);

/// Options of the daemon.
#[derive(Debug, Clone)]
pub struct Options {
    /// One docker-proxy process per published port, which is Docker's default.
    pub userland_proxy: bool,
    /// Containers survive a restart of the daemon.
    pub live_restore: bool,
    /// Further arguments of dockerd.
    pub args: Vec<String>,
    /// Further environment variables of dockerd.
    pub env: Vec<(String, String)>,
    /// The data root is a separate file system in memory, of this size (such as `96m`).
    pub data_size: Option<String>,
    /// Directory with the programs of another engine version (`dockerd`, `containerd`, `runc`), put first on PATH.
    /// `ARGUS_TEST_ENGINE` sets it for all engines of a test run.
    pub programs: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            userland_proxy: true,
            live_restore: false,
            args: Vec::new(),
            env: Vec::new(),
            data_size: None,
            programs: std::env::var_os("ARGUS_TEST_ENGINE").map(|folder| {
                let folder = PathBuf::from(folder);
                assert!(
                    folder.join("dockerd").is_file(),
                    "no engine at {}",
                    folder.display()
                );
                folder
            }),
        }
    }
}

impl Options {
    /// The newest engine version, which `./scripts/second-engine` downloads.
    #[must_use]
    pub fn newest_version() -> Self {
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"));
        let folder = target.join("engine-newest/bin");
        assert!(
            folder.join("dockerd").is_file(),
            "no engine at {}; hint: ./scripts/second-engine",
            folder.display()
        );
        Self {
            programs: Some(folder),
            ..Self::default()
        }
    }
}

/// A running private engine. Drop removes every trace of its test, and keeps an engine with Docker's defaults for the next test.
#[derive(Debug)]
pub struct PrivateEngine {
    slot: Slot,
    options: Options,
    daemon: Mutex<Option<Child>>,
    watchdog: Option<Child>,
    prepared: Once,
    /// Content and id of each imported image, by tag.
    imported: Mutex<BTreeMap<String, (u64, String)>>,
    /// True if another test can use the engine after this one.
    is_reusable: bool,
    /// Released after everything else. An idle engine has none.
    _permit: Option<Permit>,
}

impl PrivateEngine {
    /// Returns an engine without any object: an idle one, or a new one with Docker's defaults. Its data is in memory if the machine has enough:
    /// a container then costs a tenth less CPU time, and its start waits for no write. All tests together write less than 3 GB to one engine.
    #[must_use]
    pub fn start() -> Self {
        let permit = Permit::take();
        if let Some(idle) = pool::take() {
            return Self::of(idle, Some(permit));
        }
        let options = Options {
            data_size: slot::has_much_memory().then(|| "8g".to_owned()),
            ..Options::default()
        };
        let mut engine = Self::start_new(options, permit);
        engine.is_reusable = true;
        engine
    }

    /// Takes an idle engine: for a test, which has a permit, or for its end.
    fn of(idle: Idle, permit: Option<Permit>) -> Self {
        Self {
            slot: idle.slot,
            options: Options::default(),
            daemon: Mutex::new(Some(idle.daemon)),
            watchdog: Some(idle.watchdog),
            prepared: Once::new(),
            imported: Mutex::default(),
            is_reusable: permit.is_some(),
            _permit: permit,
        }
    }

    /// Starts an engine with these options.
    #[must_use]
    pub fn start_with(options: Options) -> Self {
        let permit = Permit::take();
        pool::end_surplus();
        Self::start_new(options, permit)
    }

    /// Starts an engine; also removes leftovers of earlier test runs.
    fn start_new(options: Options, permit: Permit) -> Self {
        need_root_and_programs();
        let slot = Slot::take();
        let watchdog = slot.spawn_watchdog();
        slot.make_network();
        if let Some(size) = &options.data_size {
            slot.make_data_root_in_memory(size);
        }
        let engine = Self {
            slot,
            options,
            daemon: Mutex::new(None),
            watchdog: Some(watchdog),
            prepared: Once::new(),
            imported: Mutex::default(),
            is_reusable: false,
            _permit: Some(permit),
        };
        engine.start_again();
        engine
    }

    /// The engine that all tests of a program share. Its tests look only at objects of their own projects, names and ports. The watchdog
    /// removes the engine when the process ends.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PrivateEngine> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// Ends the engine, which no other test uses.
    pub fn remove(mut self) {
        self.is_reusable = false;
    }

    /// Removes every object, file and log line of the test. Returns false if that fails.
    fn empty(&self) -> bool {
        let socket = self.socket();
        let call = |method: &str, path: &str| {
            let answer = http::request(&socket, method, path, "application/json", b"", CALL_LIMIT).ok()?;
            answer.ok().then(|| answer.json())
        };
        if !self.answers() {
            return false;
        }
        cleanup::remove_all(&socket);
        let all = "%7B%22dangling%22%3A%5B%22false%22%5D%7D";
        call("POST", &format!("/images/prune?filters={all}"));
        call("POST", "/build/prune?all=1");
        let count = |path: &str| {
            let found = call("GET", path)?;
            let objects = if path == "/volumes" {
                &found["Volumes"]
            } else {
                &found
            };
            Some(objects.as_array().map_or(0, Vec::len))
        };
        // The engine has three networks of its own.
        let left = [
            "/containers/json?all=1",
            "/volumes",
            "/networks",
            "/images/json?all=1",
        ]
        .map(count);
        if left != [0, 0, 3, 0].map(Some) {
            return false;
        }
        let log = File::options()
            .write(true)
            .open(self.slot.root.join("dockerd.log"));
        let is_cut = log.and_then(|log| log.set_len(0)).is_ok();
        match fs::remove_dir_all(self.slot.root.join("t")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => false,
            _ => is_cut,
        }
    }

    /// Runs `prepare` at the first call on this engine only.
    pub fn prepare_once(&self, prepare: impl FnOnce()) {
        self.prepared.call_once(prepare);
    }

    /// Runs `import` unless the tag has this content already: another id under a tag in use would be a change for running environments.
    pub(crate) fn import_once(&self, tag: &str, content: u64, import: impl FnOnce()) {
        let mut imported = self.imported.lock().unwrap_or_else(PoisonError::into_inner);
        let id = || {
            let image = self.api("GET", &format!("/images/{tag}/json"), None);
            image.json()["Id"].as_str().map(str::to_owned)
        };
        let is_unchanged = |(old, image): &(u64, String)| *old == content && id().as_ref() == Some(image);
        if imported.get(tag).is_some_and(is_unchanged) {
            return;
        }
        import();
        imported.insert(tag.to_owned(), (content, id().expect("an imported image")));
    }

    /// The API socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.slot.root.join("docker.sock")
    }

    /// The value for `DOCKER_HOST`.
    #[must_use]
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Name of the network namespace.
    #[must_use]
    pub fn netns(&self) -> &str {
        &self.slot.name
    }

    /// The address of published ports (0.0.0.0) from outside the namespace.
    #[must_use]
    pub fn address(&self) -> String {
        self.slot.inner_address()
    }

    /// Connects to an address inside the namespace, loopback included.
    ///
    /// # Errors
    /// If no process listens there.
    pub fn connect(&self, at: SocketAddr) -> io::Result<TcpStream> {
        let namespace = File::open(format!("/run/netns/{}", self.netns()))?;
        // A separate thread, because it stays in the namespace; its sockets remain where they were opened.
        let opened = std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            TcpStream::connect(at)
        });
        opened.join().expect("connecting does not panic")
    }

    /// A listener at an address inside the namespace, loopback included.
    #[must_use]
    pub fn listen(&self, at: SocketAddr) -> TcpListener {
        let namespace = File::open(format!("/run/netns/{}", self.netns())).expect("the engine's namespace");
        let opened = std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            TcpListener::bind(at)
        });
        let listener = opened.join().expect("listening does not panic");
        listener.unwrap_or_else(|error| panic!("{at}: {error}"))
    }

    /// A directory that lives as long as the engine; its path is short enough for unix sockets.
    #[must_use]
    pub fn scratch(&self, name: &str) -> PathBuf {
        let folder = self.slot.root.join("t").join(name);
        fs::create_dir_all(&folder).expect("a scratch folder can be made");
        folder
    }

    /// The daemon's data root.
    #[must_use]
    pub fn data_root(&self) -> PathBuf {
        self.slot.root.join("data")
    }

    /// Everything that the daemon has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.slot.root.join("dockerd.log")).unwrap_or_default()
    }

    /// Runs the docker CLI against this engine.
    pub fn docker(&self, args: &[&str]) -> Output {
        let program = binary::find("docker").expect("a docker CLI; hint: ./scripts/setup");
        let mut command = self.command_in_netns(program);
        command
            .args(args)
            .env("DOCKER_HOST", self.host())
            .stdin(Stdio::null());
        command
            .env("DOCKER_BUILDKIT", "0")
            .env("DOCKER_CLI_HINTS", "false");
        command.output().expect("the docker CLI runs")
    }

    /// Like [`Self::docker`], but must succeed. Returns the trimmed standard output.
    pub fn docker_ok(&self, args: &[&str]) -> String {
        let output = self.docker(args);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "docker {args:?}: {err}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Kills all processes of a container from inside. The shell may die with the container before it reports success,
    /// so its exit code means nothing: the caller waits for the effect.
    pub fn kill_all_in(&self, container: &str) {
        let ended = self.docker(&["exec", container, "sh", "-c", "kill -9 -1"]);
        let err = String::from_utf8_lossy(&ended.stderr);
        assert!(!err.contains("No such container"), "{err}");
    }

    /// Makes one API call with body and response as JSON. An engine that does not answer ends the test.
    pub fn api(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let bytes = body
            .map(|value| value.to_string().into_bytes())
            .unwrap_or_default();
        self.upload(method, path, "application/json", &bytes)
    }

    /// Makes one API call with a body of any type (such as a tar).
    pub fn upload(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> Answer {
        http::request(&self.socket(), method, path, kind, body, CALL_LIMIT)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// All containers, as `GET /containers/json?all=1` lists them.
    pub fn containers(&self) -> Vec<Value> {
        list(self.api("GET", "/containers/json?all=1", None).json())
    }

    /// All containers that carry `label` (`key` or `key=value`).
    pub fn containers_with(&self, label: &str) -> Vec<Value> {
        let filter = format!("%7B%22label%22%3A%5B%22{}%22%5D%7D", label.replace('=', "%3D"));
        list(
            self.api("GET", &format!("/containers/json?all=1&filters={filter}"), None)
                .json(),
        )
    }

    /// The inspect document of a container, by name or id; `None` if the container does not exist.
    pub fn inspect(&self, container: &str) -> Option<Value> {
        let answer = self.api("GET", &format!("/containers/{container}/json"), None);
        answer.ok().then(|| answer.json())
    }

    /// A command that will run inside the engine's network namespace, where published ports are on 127.0.0.1.
    /// It does not inherit variables that change the behaviour of `argus` or `docker`, so that tests pass on every terminal and CI system.
    pub fn command_in_netns(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        const PREFIXES: [&str; 5] = ["ARGUS_", "CLICOLOR", "DOCKER_", "GITHUB_", "GITLAB_"];
        const NAMES: [&str; 5] = ["CI", "COLORTERM", "COLUMNS", "NO_COLOR", "RUST_LOG"];
        let mut command = Command::new("nsenter");
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if PREFIXES.iter().any(|prefix| text.starts_with(prefix)) || NAMES.contains(&&*text) {
                command.env_remove(&name);
            }
        }
        command
            .arg(format!("--net=/run/netns/{}", self.netns()))
            .arg("--")
            .arg(program);
        command
    }

    /// True if the daemon answers a ping within a second.
    #[must_use]
    pub fn answers(&self) -> bool {
        let limit = Duration::from_secs(1);
        let answer = http::request(&self.socket(), "GET", "/_ping", "text/plain", b"", limit);
        answer.is_ok_and(|answer| answer.status == 200)
    }

    /// Starts the daemon after [`Self::kill9`] or [`Self::stop`], and waits until it answers.
    pub fn start_again(&self) {
        let mut daemon = self.daemon();
        assert!(daemon.is_none(), "the daemon runs already");
        let mut child = self.spawn_daemon();
        let up = wait::poll(START_LIMIT, || match child.try_wait() {
            Ok(None) => self.answers().then_some(true),
            _ => Some(false),
        });
        assert!(up == Some(true), "dockerd did not come up:\n{}", self.log());
        *daemon = Some(child);
    }

    /// Stops the daemon cleanly (SIGTERM), as `systemctl stop docker` does.
    pub fn stop(&self) {
        self.end(Signal::TERM);
    }

    /// Stops the daemon cleanly and starts it again.
    pub fn restart(&self) {
        self.stop();
        self.start_again();
    }

    /// Kills the daemon with SIGKILL; its containers keep running.
    pub fn kill9(&self) {
        self.end(Signal::KILL);
    }

    /// Freezes the daemon: it accepts connections and answers nothing.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        // The kernel stops the threads one by one; until then the daemon may still answer.
        let daemon = self.daemon().as_ref().map_or(0, Child::id);
        wait::until(START_LIMIT, "the daemon is frozen", || {
            let threads = std::fs::read_dir(format!("/proc/{daemon}/task")).ok()?;
            let stopped = |stat: String| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'));
            threads
                .flatten()
                .all(|thread| std::fs::read_to_string(thread.path().join("stat")).is_ok_and(stopped))
                .then_some(())
        });
    }

    /// Resumes a frozen daemon; it then executes the requests that arrived in between.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn daemon(&self) -> MutexGuard<'_, Option<Child>> {
        self.daemon.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, signal: Signal) {
        let daemon = self.daemon();
        let child = daemon.as_ref().expect("the daemon runs");
        kill_process(Pid::from_child(child), signal).expect("our own child takes a signal");
    }

    fn end(&self, signal: Signal) {
        self.signal(signal);
        let mut child = self.daemon().take().expect("the daemon runs");
        let ended = wait::poll(START_LIMIT, || child.try_wait().ok().flatten());
        assert!(ended.is_some(), "dockerd did not end:\n{}", self.log());
        // A daemon refuses to start while a pid file names a living process, and so does its containerd.
        let containerd = self.slot.root.join("exec/containerd/containerd.pid");
        wait::until(START_LIMIT, "containerd ends with its daemon", || {
            (!lives(&containerd)).then_some(())
        });
        drop(fs::remove_file(containerd));
        drop(fs::remove_file(self.slot.root.join("dockerd.pid")));
    }

    fn spawn_daemon(&self) -> Child {
        let root = &self.slot.root;
        let log = File::options()
            .create(true)
            .append(true)
            .open(root.join("dockerd.log"))
            .expect("a log file");
        let config = root.join("daemon.json");
        fs::write(&config, "{}").expect("a configuration file");
        let mut command = self.command_in_netns("dockerd");
        let path = |name: &str| root.join(name).display().to_string();
        command
            .args([
                "--config-file",
                &path("daemon.json"),
                "--data-root",
                &path("data"),
            ])
            .args([
                "--exec-root",
                &path("exec"),
                "--pidfile",
                &path("dockerd.pid"),
                "--host",
                &self.host(),
            ])
            .args([
                "--bip",
                "172.31.0.1/24",
                "--default-address-pool",
                "base=172.30.0.0/16,size=24",
            ])
            .args([
                "--exec-opt",
                "native.cgroupdriver=cgroupfs",
                "--shutdown-timeout",
                "5",
            ])
            .arg(format!("--cgroup-parent=/{}", self.slot.name))
            .arg(format!("--userland-proxy={}", self.options.userland_proxy))
            .args(self.options.live_restore.then_some("--live-restore"))
            .args(&self.options.args)
            .env("PATH", self.path())
            // The daemon executes itself about three times per container, and all its child processes take this setting over: with
            // fewer garbage collections, each start takes 60 % of the CPU time.
            .env("GOGC", "400")
            .envs(self.options.env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log);
        command.spawn().expect("dockerd starts; hint: ./scripts/setup")
    }

    fn path(&self) -> String {
        let given = std::env::var("PATH").unwrap_or_default();
        let first = self
            .options
            .programs
            .iter()
            .map(|folder| format!("{}:", folder.display()));
        format!(
            "{}{given}:/usr/sbin:/usr/bin:/sbin:/bin",
            first.collect::<String>()
        )
    }
}

impl Drop for PrivateEngine {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("ARGUS_TEST_ENGINE_LOG").is_some() {
            eprintln!("{}", self.log());
        }
        if self.is_reusable && !std::thread::panicking() && self.empty() {
            let daemon = self.daemon().take();
            let watchdog = self.watchdog.take();
            if let (Some(daemon), Some(watchdog)) = (daemon, watchdog) {
                pool::keep(Idle {
                    slot: self.slot.clone(),
                    daemon,
                    watchdog,
                });
                return;
            }
        }
        let Some(mut watchdog) = self.watchdog.take() else {
            return;
        };
        drop(watchdog.stdin.take());
        let cleaned = wait::poll(START_LIMIT, || watchdog.try_wait().ok().flatten());
        if let Some(mut child) = self.daemon().take() {
            drop(child.kill());
            drop(child.wait());
        }
        if cleaned.is_none() {
            eprintln!("the watchdog of {} did not end", self.slot.name);
        }
    }
}

fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        other => panic!("the engine answered no list: {other}"),
    }
}

/// True if the process named in a pid file exists and is not a zombie.
fn lives(pid_file: &Path) -> bool {
    let Ok(text) = fs::read_to_string(pid_file) else {
        return false;
    };
    let stat = fs::read_to_string(format!("/proc/{}/stat", text.trim())).unwrap_or_default();
    stat.rsplit(") ")
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

fn need_root_and_programs() {
    assert!(
        rustix::process::geteuid().is_root(),
        "a private engine needs root (network namespaces)"
    );
    for program in ["dockerd", "nsenter", "ip", "iptables"] {
        assert!(
            binary::find(program).is_some(),
            "no `{program}` on this machine; hint: ./scripts/setup"
        );
    }
}
