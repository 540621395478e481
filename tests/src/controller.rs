//! The real `argus` binary as a process next to a private engine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{PrivateEngine, binary, cleanup, http, wait};

/// Time that a controller gets for a clean end after its test.
const CLEAN_END: Duration = Duration::from_secs(3);
const STOP_LIMIT: Duration = Duration::from_secs(30);
const SYNC_LIMIT: Duration = Duration::from_secs(180);

/// Options of a controller. Missing directories are created.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// The spec directory. Default: a new one.
    pub specs: Option<PathBuf>,
    /// Git worktree that contains the default spec directory, so that several controllers have one project. Default: each has its own.
    pub project: Option<PathBuf>,
    /// The state directory. Default: a new one.
    pub state: Option<PathBuf>,
    /// `DOCKER_HOST`, if it is not the engine's own socket (for example that of a [`crate::Proxy`]).
    pub host: Option<String>,
    /// Further arguments of `argus run`.
    pub args: Vec<String>,
    /// Helper containers are used. False by default, because tests count calls and containers.
    pub helpers: bool,
    /// Further environment variables.
    pub env: Vec<(String, String)>,
    /// Program and arguments that execute argus, such as `setpriv`.
    pub launcher: Vec<String>,
}

/// A controller process with its two directories. Drop kills the process; the engine removes the directories, and the end of the thread
/// its containers and networks.
#[derive(Debug)]
pub struct Controller<'e> {
    engine: &'e PrivateEngine,
    options: RunOptions,
    /// The spec directory.
    pub specs: PathBuf,
    /// The state directory.
    pub state: PathBuf,
    log: PathBuf,
    process: Mutex<Option<Child>>,
}

impl RunOptions {
    /// Puts the spec directory into the project with this name.
    #[must_use]
    pub fn in_project(self, engine: &PrivateEngine, name: &str) -> Self {
        Self {
            project: Some(engine.scratch(name)),
            ..self
        }
    }
}

impl<'e> Controller<'e> {
    /// Starts `argus run` in the engine's network namespace.
    #[must_use]
    pub fn start(engine: &'e PrivateEngine, options: RunOptions) -> Self {
        let controller = Self::prepare(engine, options);
        controller.start_again();
        controller
    }

    /// Creates the directories and starts nothing yet, for specs that must exist before the start.
    #[must_use]
    pub fn prepare(engine: &'e PrivateEngine, options: RunOptions) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("c{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let home = engine.scratch(&name);
        let in_project = options.project.as_ref().map(|project| {
            fs::create_dir_all(project.join(".git")).expect("a worktree");
            project.join(&name)
        });
        let specs = options.specs.clone().or(in_project);
        let specs = specs.unwrap_or_else(|| home.join("specs"));
        let state = options.state.clone().unwrap_or_else(|| home.join("state"));
        fs::create_dir_all(&specs).expect("a spec directory");
        fs::create_dir_all(&state).expect("a state directory");
        cleanup::at_end_of_thread(engine.socket(), state.join("private/identity"));
        Self {
            engine,
            options,
            specs,
            state,
            log: home.join("log"),
            process: Mutex::new(None),
        }
    }

    /// Starts the process after [`Self::prepare`], [`Self::kill9`] or [`Self::stop`], on the same directories.
    pub fn start_again(&self) {
        let mut process = self.process();
        assert!(process.is_none(), "the controller runs already");
        let log = File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .expect("a log file");
        let mut command = self.command();
        command
            .arg("run")
            .arg("--specs")
            .arg(&self.specs)
            .arg("--state")
            .arg(&self.state);
        command.args(&self.options.args).stdin(Stdio::null());
        if !self.options.args.iter().any(|arg| arg.starts_with("--listen")) {
            // Several controllers share the network namespace, and with it the default port.
            command.env("ARGUS_LISTEN", "off");
        }
        command
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log);
        *process = Some(command.spawn().expect("argus starts"));
    }

    /// The engine of the controller.
    #[must_use]
    pub fn engine(&self) -> &'e PrivateEngine {
        self.engine
    }

    /// Runs a command of the CLI against the same directories, with `ARGUS_STATE` set.
    pub fn cli(&self, args: &[&str]) -> Output {
        self.command()
            .args(args)
            .stdin(Stdio::null())
            .output()
            .expect("argus runs")
    }

    /// A command of the CLI against the same directories, not started yet.
    pub fn command(&self) -> Command {
        let mut words = self
            .options
            .launcher
            .iter()
            .map(PathBuf::from)
            .collect::<Vec<_>>();
        words.push(binary::argus());
        let mut command = self.engine.command_in_netns(&words[0]);
        command.args(&words[1..]);
        let host = self.options.host.clone().unwrap_or_else(|| self.engine.host());
        command.env("DOCKER_HOST", host).env("NO_COLOR", "1");
        command
            .env("ARGUS_STATE", &self.state)
            .env("ARGUS_SPECS", &self.specs)
            // Commands such as `argus init` write records of the user.
            .env("XDG_STATE_HOME", self.engine.scratch("xdg"))
            .env("ARGUS_NO_HELPERS", if self.options.helpers { "0" } else { "1" });
        command.envs(self.options.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Writes a spec as an editor does: to a new file, which replaces the old one. `name` is relative to the spec
    /// directory.
    pub fn write_spec(&self, name: &str, text: &str) {
        let path = self.specs.join(name);
        fs::create_dir_all(path.parent().expect("a spec has a directory")).expect("a directory for the spec");
        let temporary = path.with_extension("yaml.new");
        fs::write(&temporary, text).expect("a spec can be written");
        fs::rename(&temporary, &path).expect("a spec can be renamed");
    }

    /// Removes a spec.
    pub fn remove_spec(&self, name: &str) {
        fs::remove_file(self.specs.join(name)).expect("the spec exists");
    }

    /// The status document of an environment; `Null` if there is none. A partial document ends the test.
    #[must_use]
    pub fn status(&self, environment: &str) -> Value {
        read_json(
            &self
                .state
                .join("environments")
                .join(format!("{environment}.json")),
        )
    }

    /// The document `controller.json`.
    #[must_use]
    pub fn controller_status(&self) -> Value {
        read_json(&self.state.join("controller.json"))
    }

    /// Waits until the status files describe the current spec files.
    pub fn sync(&self) {
        let socket = self.state.join("private/argus.sock");
        self.wait_until(SYNC_LIMIT, "the controller has read the spec files", || {
            self.must_run();
            let path = "/api/v1/commands/sync";
            let answer = http::request(&socket, "POST", path, "application/json", b"{}", SYNC_LIMIT).ok()?;
            answer.ok().then_some(())
        });
    }

    /// The plan of an environment: its steps and waits, after [`Self::sync`].
    ///
    /// It is a forecast by another process from what is on disk, not the controller's own plan: it lacks what the controller only has in
    /// memory, such as results of probes. It proves nothing alone. Use it together with the journal, the writes at the proxy, or the absence
    /// of a wait that ends by time (`until == null`).
    #[must_use]
    pub fn plan(&self, environment: &str) -> Value {
        self.sync();
        // The engine may be too busy for the deadline of a call.
        let report = self.wait_until(SYNC_LIMIT, "argus plan", || {
            let output = self.cli(&["plan", environment, "-o", "json"]);
            serde_json::from_slice::<Value>(&output.stdout).ok()
        });
        report["environments"][0].clone()
    }

    /// Fails if the plan of the environment has a step. The same restriction as for [`Self::plan`] holds: assert as well that the controller
    /// did nothing.
    pub fn assert_settled(&self, environment: &str) {
        let plan = self.plan(environment);
        assert_eq!(plan["steps"], serde_json::json!([]), "{plan:#}");
    }

    /// Waits until the environment is `Ready` at the revision of the current spec files. Returns the status.
    pub fn wait_ready(&self, environment: &str, limit: Duration) -> Value {
        self.sync();
        self.wait_status(environment, limit, "is Ready", |status| {
            status["phase"] == "Ready"
        })
    }

    /// Waits until the status of an environment satisfies `holds`. Returns the status.
    pub fn wait_status(
        &self,
        environment: &str,
        limit: Duration,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut last = Value::Null;
        let found = wait::poll(limit, || {
            self.must_run();
            last = self.status(environment);
            holds(&last).then(|| last.clone())
        });
        found.unwrap_or_else(|| {
            panic!(
                "timed out after {limit:?}: {environment} {what}; status: {last:#}\n{}",
                self.tail()
            )
        })
    }

    /// Waits for any condition; a timeout prints the end of the log.
    pub fn wait_until<T>(&self, limit: Duration, what: &str, question: impl FnMut() -> Option<T>) -> T {
        wait::poll(limit, question)
            .unwrap_or_else(|| panic!("timed out after {limit:?}: {what}\n{}", self.tail()))
    }

    /// The service `name` in a status document; `Null` if it is missing.
    #[must_use]
    pub fn service(status: &Value, name: &str) -> Value {
        let services = status["services"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        services
            .iter()
            .find(|service| service["name"] == name)
            .cloned()
            .unwrap_or(Value::Null)
    }

    /// Kills the process with SIGKILL.
    pub fn kill9(&self) {
        self.end(Signal::KILL);
    }

    /// Stops the process with SIGTERM. Returns its exit status.
    pub fn stop(&self) -> ExitStatus {
        self.end(Signal::TERM)
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        let process = self.process();
        let child = process.as_ref().expect("the controller runs");
        kill_process(Pid::from_child(child), signal).expect("our own child takes a signal");
    }

    /// Waits until the process exits. Returns its exit status.
    pub fn wait_exit(&self, limit: Duration) -> ExitStatus {
        let mut child = self.process().take().expect("the controller runs");
        let ended = wait::poll(limit, || child.try_wait().expect("our own child"));
        ended.unwrap_or_else(|| {
            drop(child.kill());
            drop(child.wait());
            panic!("argus did not end in {limit:?}:\n{}", self.tail())
        })
    }

    /// Everything that the process wrote.
    #[must_use]
    pub fn logs(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn end(&self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        self.wait_exit(STOP_LIMIT)
    }

    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn must_run(&self) {
        if let Some(child) = self.process().as_mut() {
            let ended = child.try_wait().expect("our own child");
            assert!(ended.is_none(), "argus ended with {ended:?}:\n{}", self.tail());
        }
    }

    fn tail(&self) -> String {
        let logs = self.logs();
        let lines: Vec<&str> = logs.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Controller<'_> {
    fn drop(&mut self) {
        let Some(mut child) = self.process().take() else {
            return;
        };
        // A clean end writes the profile of a coverage run. A process that hangs is killed after the limit.
        let _gone = kill_process(Pid::from_child(&child), Signal::TERM);
        let ended = wait::poll(CLEAN_END, || child.try_wait().ok().flatten());
        if ended.is_none() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn read_json(path: &Path) -> Value {
    let Ok(bytes) = fs::read(path) else {
        return Value::Null;
    };
    serde_json::from_slice(&bytes)
        .unwrap_or_else(|error| panic!("{} is a partial document: {error}", path.display()))
}
