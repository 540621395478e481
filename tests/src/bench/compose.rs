//! Docker Compose on the same engine, with the same services.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use argus_tests::fixture::{IMAGE, LIMIT};
use argus_tests::{PrivateEngine, wait};

/// One version of Compose that `scripts/compose` downloaded.
pub(crate) struct Compose {
    pub(crate) version: String,
    program: PathBuf,
}

impl Compose {
    /// All downloaded versions, the newest first.
    pub(crate) fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/compose");
        let programs = ["sid", "13"].map(|name| folder.join(name).join("docker-compose"));
        let found = programs.into_iter().filter(|program| program.exists());
        let found: Vec<_> = found.map(Self::new).collect();
        if found.is_empty() {
            eprintln!(
                "Compose is not measured: none in {}\nhint: ./scripts/compose",
                folder.display()
            );
        }
        found
    }

    fn new(program: PathBuf) -> Self {
        let output = Command::new(&program).args(["version", "--short"]).output();
        let output = output.expect("Compose prints its version");
        let text = String::from_utf8_lossy(&output.stdout);
        // Without the revision of the package
        let version = text.trim().split('-').next().unwrap_or_default().to_owned();
        Self { version, program }
    }

    /// Creates the services. With ports, it waits until all are healthy.
    pub(crate) fn up(&self, engine: &PrivateEngine, project: &str, count: usize, ports: Option<u16>) {
        let file = engine.scratch(project).join("compose.yaml");
        fs::write(&file, services(count, ports)).expect("the file can be written");
        let wait: &[&str] = if ports.is_some() { &["--wait"] } else { &[] };
        self.run(engine, project, &[&["up", "--detach"], wait].concat());
    }

    /// Removes the services and their network. Docker 20.10 sometimes refuses the network at the first attempt.
    pub(crate) fn down(&self, engine: &PrivateEngine, project: &str) {
        wait::until(LIMIT, "Compose removes the project", || {
            let output = self.execute(engine, project, &["down", "--timeout", "0"]);
            output.status.success().then_some(())
        });
    }

    /// Builds the project of its folder, and replaces the containers of changed images.
    pub(crate) fn up_built(&self, engine: &PrivateEngine, project: &str) {
        self.run(engine, project, &["up", "--build", "--detach"]);
    }

    fn run(&self, engine: &PrivateEngine, project: &str, arguments: &[&str]) {
        let output = self.execute(engine, project, arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {arguments:?}: {text}", self.version);
    }

    fn execute(&self, engine: &PrivateEngine, project: &str, arguments: &[&str]) -> Output {
        let output = Command::new(&self.program)
            .args(["--progress", "quiet", "--project-name", project])
            .args(arguments)
            .current_dir(engine.scratch(project))
            .env("DOCKER_HOST", engine.host())
            // Its own BuildKit client instead of a plugin that its package does not contain.
            .env("COMPOSE_BAKE", "false")
            .stdin(Stdio::null())
            .output();
        output.expect("Compose runs")
    }
}

fn services(count: usize, ports: Option<u16>) -> String {
    let mut text = "services:\n".to_owned();
    for index in 0..count {
        let more = ports.map_or_else(
            || "    image: busybox:local\n".to_owned(),
            |first| {
                format!(
                    "    image: {IMAGE}\n    ports: [\"{}:8080\"]\n    healthcheck:\n      \
                     test: [CMD-SHELL, wget -q -O /dev/null http://127.0.0.1:8080/healthz]\n      \
                     interval: 1s\n      timeout: 2s\n      retries: 40\n",
                    usize::from(first) + index
                )
            },
        );
        write!(text, "  s{index}:\n{more}").expect("writing to a string succeeds");
    }
    text
}
