//! The shell of a reader: in its own directory, next to a private engine, with `argus` on its path.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use argus_tests::fixture::LIMIT;
use argus_tests::{PrivateEngine, binary, wait};
use rustix::process::{Pid, Signal, kill_process};

/// A shell, and its directory.
pub(crate) struct Shell<'e> {
    pub(crate) engine: &'e PrivateEngine,
    pub(crate) home: PathBuf,
    /// Exported variables.
    pub(crate) exported: Vec<(&'static str, PathBuf)>,
}

impl<'e> Shell<'e> {
    /// Opens a shell in an empty directory.
    pub(crate) fn at(engine: &'e PrivateEngine, name: &str) -> Self {
        Self {
            engine,
            home: engine.scratch(name),
            exported: Vec::new(),
        }
    }

    /// Creates an editor that changes its file with this `sed` script, or copies `new` if the file is missing.
    pub(crate) fn editor(&self, script: &str, new: &str) {
        fs::write(self.home.join("new.yaml"), new).expect("a file");
        let text = format!(
            "#!/bin/sh\nif [ -e \"$1\" ]; then sed -i '{script}' \"$1\"; else cp new.yaml \"$1\"; fi\n"
        );
        let path = self.home.join("editor");
        fs::write(&path, text).expect("a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program can be run");
    }

    /// A command line, as typed.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = self.engine.command_in_netns("sh");
        let programs = binary::argus()
            .parent()
            .map(Path::to_path_buf)
            .unwrap_or_default();
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args(["-c", line])
            .current_dir(&self.home)
            .stdin(Stdio::null());
        command
            // Programs that a page installs take precedence.
            .env(
                "PATH",
                format!(
                    "{}:{}:{path}",
                    self.home.join("bin").display(),
                    programs.display()
                ),
            )
            .env("DOCKER_HOST", self.engine.host())
            .env("XDG_STATE_HOME", self.engine.scratch("xdg"))
            .env("EDITOR", "./editor")
            .env("NO_COLOR", "1");
        command.envs(self.exported.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a line of a page. Returns its output.
    pub(crate) fn run(&self, line: &str) -> String {
        self.run_to(line, 0)
    }

    /// Runs a line that ends with this exit code. Returns its output.
    pub(crate) fn run_to(&self, line: &str, code: i32) -> String {
        let done = self.command(line).output().expect("a shell runs");
        // A process that kills the first one of its container can die with it before it reports success.
        let can_die = line.starts_with("docker exec ") && line.ends_with(" kill 1");
        let is_expected = |found| found == code || (can_die && found == 137);
        assert!(done.status.code().is_some_and(is_expected), "`{line}`: {done:?}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// Runs a line that does not end, until lines of its output contain these texts, one after the other. Then it is killed, also after
    /// a text that does not appear in time.
    pub(crate) fn follow(&self, line: &str, texts: &[&str]) {
        let mut command = self.command(&format!("exec {line}"));
        let child = command.stdout(Stdio::piped()).spawn().expect("a shell runs");
        let mut background = Background(child);
        let output = background.0.stdout.take().expect("a pipe");
        let (shown, lines) = mpsc::channel();
        thread::spawn(move || {
            // The receiver is dropped after the last text.
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines
                .map(|line| shown.send(line))
                .take_while(Result::is_ok)
                .for_each(drop);
        });
        for text in texts {
            let found = wait::poll(LIMIT, || match lines.try_recv() {
                Ok(line) => line.contains(text).then_some(true),
                Err(mpsc::TryRecvError::Empty) => None,
                Err(mpsc::TryRecvError::Disconnected) => Some(false),
            });
            assert_eq!(found, Some(true), "`{line}` does not print `{text}`");
        }
    }

    /// Folder of the private state.
    pub(crate) fn private(&self) -> PathBuf {
        PathBuf::from(self.run("argus state -o name").trim())
    }

    /// Runs `argus run` with its arguments, as in a second terminal.
    pub(crate) fn start_in_background(&self, line: &str) -> Background {
        let log = fs::File::create(self.home.join("second-terminal.log")).expect("a file");
        let mut command = self.command(&format!("exec {line}"));
        let other = log.try_clone().expect("a second handle");
        let child = command.stdout(other).stderr(log).spawn();
        let background = Background(child.expect("argus runs"));
        // The reader continues when the controller serves.
        let socket = self.private().join("argus.sock");
        wait::until(LIMIT, "the controller serves", || {
            UnixStream::connect(&socket).ok()
        });
        background
    }
}

/// A process in a second terminal. Drop kills it.
pub(crate) struct Background(Child);

impl Background {
    /// Sends Ctrl-C, and expects a clean end.
    pub(crate) fn stop(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::INT).expect("our own child takes a signal");
        let child = &mut self.0;
        let ended = wait::until(LIMIT, "the process exits", || {
            child.try_wait().expect("our own child")
        });
        assert_eq!(ended.code(), Some(0), "Ctrl-C is a clean end");
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
