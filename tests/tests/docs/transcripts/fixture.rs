//! Fixture of all transcripts: one controller, environments in typical states, and a directory whose path has a fixed
//! length.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{OnceLock, mpsc};

use argus_tests::fixture::{LIMIT, images, text};
use argus_tests::{Controller, PortHolder, PrivateEngine, RunOptions, Terminal, binary};
use serde_json::json;

const SHOP: &str = r#"version: "1"
project: { name: shop }
services:
  db:
    image: busybox:local
    command: ["sh", "-c", "echo takes orders; touch /up; exec sleep 3600"]
    container:
      name: shop-db
      healthcheck: { type: exec, command: ["test", "-e", "/up"], interval: 500ms, timeout: 2s, retries: 40, startPeriod: 5s }
  migrate:
    image: busybox:local
    dependsOn: [db]
    oneShot: true
    command: ["true"]
    container: { name: shop-migrate }
  api:
    image: journey-web:local
    dependsOn: [{ service: migrate, condition: completed }]
    container:
      name: shop-api
      ports: ["18501:8080", "18502:9090"]
      healthcheck: { path: /healthz, port: 8080, interval: 500ms, timeout: 1s, retries: 40, startPeriod: 5s }
"#;

/// Its `worker` cannot start, and `front` waits for it.
const BROKEN: &str = r#"version: "1"
project: { name: broken }
services:
  worker:
    image: busybox:local
    command: ["/nowhere/worker", "--queue", "orders"]
    container:
      name: broken-worker
      healthcheck: { type: exec, command: ["true"], startPeriod: 5s }
  front:
    image: busybox:local
    dependsOn: [worker]
    container: { name: broken-front }
"#;

/// A spec with errors and an unknown key.
const BAD: &str = r#"version: "1"
project: { name: bad }
services:
  api:
    imagee: busybox:local
    dependsOn: [dbb]
    container:
      name: bad-api
      ports: ["80800:8080"]
  db:
    image: busybox:local
    container: { name: bad-db }
"#;

/// A port that another process holds, so that the service's port moves.
const FOREIGN: u16 = 18_502;
/// Length of the path of the project directory.
const HOME: usize = 36;

/// The fixture of one test binary.
pub(crate) struct TranscriptFixture {
    engine: &'static PrivateEngine,
    home: PathBuf,
    _holder: PortHolder,
    _controller: Controller<'static>,
}

impl TranscriptFixture {
    /// The shared fixture, created once; its state does not change afterwards.
    pub(crate) fn set() -> &'static Self {
        static FIXTURE: OnceLock<TranscriptFixture> = OnceLock::new();
        FIXTURE.get_or_init(|| {
            let (sender, fixture) = mpsc::channel();
            // The end of a thread removes the containers of its controllers, so this one does not end.
            std::thread::spawn(move || {
                drop(sender.send(Self::make()));
                drop(sender);
                loop {
                    std::thread::park();
                }
            });
            fixture.recv().expect("the fixture")
        })
    }

    fn make() -> Self {
        static ENGINE: OnceLock<PrivateEngine> = OnceLock::new();
        // The transcripts show everything on the engine.
        let engine = ENGINE.get_or_init(PrivateEngine::start);
        images(engine);
        let home = home(engine);
        symlink(engine.socket(), home.join("engine.sock")).expect("a link");
        engine.make_busybox_image("busybox:local", &[]);
        // An existing file for the commands that would overwrite it.
        std::fs::create_dir_all(home.join("made")).expect("a directory");
        std::fs::write(home.join("made/e2e.yaml"), SHOP).expect("a file");
        leave_behind(engine);
        let holder = PortHolder::new(engine, FOREIGN);
        let controller = Controller::start(
            engine,
            RunOptions {
                specs: Some(home.join("environments")),
                state: Some(home.join(".argus")),
                host: Some(format!("unix://{}", home.join("engine.sock").display())),
                env: vec![(
                    "ARGUS_WAITS".to_owned(),
                    "orphanAge=2s,listInterval=2s".to_owned(),
                )],
                ..RunOptions::default()
            },
        );
        controller.write_spec("shop.e2e.yaml", SHOP);
        controller.wait_ready("shop", LIMIT);
        controller.write_spec("broken.e2e.yaml", BROKEN);
        controller.wait_status("broken", LIMIT, "exhausts its restarts", |status| {
            status["phase"] == "Failed" && Controller::service(status, "worker")["state"] == "Failed"
        });
        controller.write_spec("bad.e2e.yaml", BAD);
        controller.wait_status("bad", LIMIT, "is rejected", |status| {
            status["diagnostics"].as_array().is_some_and(|all| all.len() > 1)
        });
        controller.wait_until(LIMIT, "the orphans are older than the grace period", || {
            let orphans = controller.controller_status()["orphans"].as_array()?.clone();
            (orphans.len() == 2 && orphans.iter().all(|one| text(&one["result"]) == "reported")).then_some(())
        });
        Self {
            engine,
            home,
            _holder: holder,
            _controller: controller,
        }
    }

    /// `argus` with these arguments, in the project directory.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.engine.command_in_netns(binary::argus());
        let host = format!("unix://{}", self.home.join("engine.sock").display());
        command
            .env("DOCKER_HOST", host)
            .env("XDG_STATE_HOME", self.engine.scratch("xdg"))
            .args(words)
            .current_dir(&self.home);
        // The controller of the fixture has it, so that its paths in the output are short. Help shows variables, and so does the usage
        // of a command without its target.
        let shows_variables = words.contains(&"--help") || matches!(words, ["describe" | "wait"]);
        if !shows_variables {
            command.env("ARGUS_STATE", "./.argus");
        }
        command
    }

    /// The output to a pipe.
    pub(crate) fn piped(&self, words: &[&str]) -> Output {
        let mut command = self.command(words);
        command.stdin(Stdio::null()).output().expect("argus runs")
    }

    /// The output to a terminal, and the exit code.
    pub(crate) fn on_terminal(&self, words: &[&str], columns: u16) -> (String, i32) {
        let (text, ended) = Terminal::start(self.command(words), columns, 50).end(LIMIT);
        (text, ended.code().expect("argus exits normally"))
    }
}

/// A directory whose path has a fixed length, so that text wraps at the same word.
fn home(engine: &PrivateEngine) -> PathBuf {
    let above = engine.scratch("h").display().to_string().len();
    let padded = HOME.saturating_sub(above);
    engine.scratch(&format!("h{}", "o".repeat(padded)))
}

/// Creates orphans of a controller of another project that died long ago.
fn leave_behind(engine: &PrivateEngine) {
    let labels = json!({ "argusai.managed": "true", "argusai.project": "warehouse", "argusai.environment": "warehouse",
        "argusai.service": "stock", "argusai.controller": "01J0000000000000000000DEAD", "argusai.run-id": "r",
        "argusai.created-at": "2026-01-01T00:00:00Z" });
    let network = json!({ "Name": "warehouse-net", "Driver": "bridge", "Labels": labels });
    let container = json!({ "Image": "busybox:local", "Labels": labels, "HostConfig": { "NetworkMode": "warehouse-net" } });
    for (path, body) in [
        ("/networks/create", network),
        ("/containers/create?name=warehouse-stock", container),
    ] {
        let answer = engine.api("POST", path, Some(&body));
        assert!(answer.ok(), "{answer:?}");
    }
}
