//! The place of one private engine: a folder whose creation claims its name and its addresses, for one owner process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const FOLDER: &str = "/tmp/argus-engines";
const SLOTS: u32 = 4096;
const SCRIPT: &str = include_str!("cleanup.sh");

/// A claimed place. Making the folder is atomic, so two processes never get the same one.
#[derive(Debug)]
pub(super) struct Slot {
    /// Name of netns, cgroup and veth (`-h` and `-n` are appended: at most 15 letters in all).
    pub(super) name: String,
    /// The folder, short: a unix socket's path has at most 107 bytes.
    pub(super) root: PathBuf,
    number: u32,
}

impl Slot {
    /// Claims a free place, after removing what owners left behind whose watchdog is gone too (a machine that was reset, say).
    pub(super) fn take() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Held to the end of this function: a place is not claimed while someone else still sweeps it.
        let _lock = lock();
        remove_leftovers();
        let first = std::process::id()
            .wrapping_mul(31)
            .wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        for step in 0..SLOTS {
            let number = first.wrapping_add(step) % SLOTS;
            let slot = Self::numbered(number);
            if fs::create_dir(&slot.root).is_ok() {
                fs::write(slot.root.join("owner"), owner_mark(std::process::id()))
                    .expect("the owner is noted");
                return slot;
            }
        }
        panic!("all {SLOTS} places for private engines are taken; see {FOLDER}");
    }

    fn numbered(number: u32) -> Self {
        let name = format!("argus-e{number}");
        let root = Path::new(FOLDER).join(number.to_string());
        Self { name, root, number }
    }

    /// The veth's address inside the namespace.
    pub(super) fn inner_address(&self) -> String {
        let (third, fourth) = self.subnet();
        format!("10.213.{third}.{}", fourth + 2)
    }

    fn subnet(&self) -> (u32, u32) {
        (self.number / 64, self.number % 64 * 4)
    }

    pub(super) fn make_network(&self) {
        let (third, fourth) = self.subnet();
        let outer = format!("10.213.{third}.{}", fourth + 1);
        let (name, inner) = (&self.name, self.inner_address());
        ip(&format!("netns add {name}"));
        inside(name, "link set lo up");
        ip(&format!(
            "link add {name}-h type veth peer name {name}-n netns {name}"
        ));
        ip(&format!("addr add {outer}/30 dev {name}-h"));
        ip(&format!("link set {name}-h up"));
        inside(name, &format!("addr add {inner}/30 dev {name}-n"));
        inside(name, &format!("link set {name}-n up"));
        inside(name, &format!("route add default via {outer}"));
    }

    /// A file system in memory under the daemon's data; the watchdog takes it away with all else that is mounted here.
    pub(super) fn make_small_data_root(&self, size: &str) {
        let data = self.root.join("data");
        fs::create_dir_all(&data).expect("a data root");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(data);
        run(&mut mount, "mount");
    }

    /// A process of its own that cleans up when its standard input ends. Our end of that pipe closes when we want it to or
    /// when we die; no child of ours inherits it.
    pub(super) fn spawn_watchdog(&self) -> Child {
        let mut command = self.cleaner();
        command.env("WAIT", "1").stdin(Stdio::piped());
        command.spawn().expect("a shell starts")
    }

    fn cleaner(&self) -> Command {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new("sh");
        command
            .args(["-c", SCRIPT])
            .env("ROOT", &self.root)
            .env("NAME", &self.name);
        // In a group of its own, so that Ctrl-C in a terminal ends the tests and not their broom.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        command
    }
}

fn lock() -> fs::File {
    fs::create_dir_all(FOLDER).expect("the folder for engines can be made");
    let file = fs::File::create(Path::new(FOLDER).join("lock")).expect("the lock file can be made");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("the lock is granted");
    file
}

fn remove_leftovers() {
    let Ok(folders) = fs::read_dir(FOLDER) else { return };
    for folder in folders.flatten() {
        let Some(number) = folder.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let slot = Slot::numbered(number);
        if is_left_behind(&slot.root) {
            drop(slot.cleaner().status());
        }
    }
}

fn is_left_behind(root: &Path) -> bool {
    let Ok(mark) = fs::read_to_string(root.join("owner")) else {
        // Just being claimed, or claimed by someone who died in that very moment.
        let age = fs::metadata(root)
            .and_then(|meta| meta.modified())
            .ok()
            .and_then(|time| time.elapsed().ok());
        return age.is_some_and(|age| age > Duration::from_secs(60));
    };
    let pid = mark.split(' ').next().and_then(|pid| pid.parse().ok());
    pid.is_none_or(|pid| owner_mark(pid) != mark)
}

/// Pid and start time: a pid alone may have been given to someone else since.
fn owner_mark(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let started = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.split(' ').nth(19))
        .unwrap_or("gone");
    format!("{pid} {started}")
}

fn ip(arguments: &str) {
    run(Command::new("ip").args(arguments.split(' ')), arguments);
}

/// Not `ip -n`, which changes mounts and fails where the root is no mount of its own.
fn inside(name: &str, arguments: &str) {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{name}")).args(["--", "ip"]);
    run(command.args(arguments.split(' ')), arguments);
}

fn run(command: &mut Command, arguments: &str) {
    let output = command.output().expect("ip runs; hint: ./scripts/setup");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {err}");
}
