//! The slot of one private engine: a directory whose creation claims its name and its addresses, for one owner process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const FOLDER: &str = "/tmp/argus-engines";
const SLOTS: u32 = 4096;
const SCRIPT: &str = include_str!("cleanup.sh");

/// A claimed slot. Creating the directory is atomic, so two processes never get the same one.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    /// Name of netns, cgroup and veth (`-h` and `-n` are appended: at most 15 letters in all).
    pub(super) name: String,
    /// The directory, with a short path: the path of a unix socket has at most 107 bytes.
    pub(super) root: PathBuf,
    number: u32,
}

impl Slot {
    /// Claims a free slot, after removing leftovers of owners whose watchdog has died too (for example after a reset of
    /// the machine).
    pub(super) fn take() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Held until the function returns: a slot is not claimed during the cleanup of another process.
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
                    .expect("the owner mark is written");
                return slot;
            }
        }
        panic!("all {SLOTS} slots for private engines are taken; see {FOLDER}");
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

    /// Mounts a file system in memory as the daemon's data root; the watchdog unmounts it with all other mounts.
    pub(super) fn make_data_root_in_memory(&self, size: &str) {
        let data = self.root.join("data");
        fs::create_dir_all(&data).expect("a data root");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(data);
        run(&mut mount, "mount");
    }

    /// Starts a separate process that cleans up when its standard input closes. That happens when the engine is dropped
    /// or this process dies; no child inherits our end of the pipe.
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
        // A separate process group, so that Ctrl-C in a terminal ends the tests but not their cleanup.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        command
    }
}

/// Returns true if this machine has at least 12 GB of available memory.
pub(super) fn has_much_memory() -> bool {
    let text = fs::read_to_string("/proc/meminfo").expect("the kernel reports its memory");
    let available = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:")?.strip_suffix("kB"));
    let kilobytes: u64 = available.map_or(0, |number| number.trim().parse().expect("a number"));
    kilobytes > 12_000_000
}

fn lock() -> fs::File {
    fs::create_dir_all(FOLDER).expect("the directory for engines can be created");
    let file = fs::File::create(Path::new(FOLDER).join("lock")).expect("the lock file can be created");
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
        // Another process is claiming this slot, or died while it did.
        let age = fs::metadata(root)
            .and_then(|meta| meta.modified())
            .ok()
            .and_then(|time| time.elapsed().ok());
        return age.is_some_and(|age| age > Duration::from_secs(60));
    };
    let pid = mark.split(' ').next().and_then(|pid| pid.parse().ok());
    pid.is_none_or(|pid| owner_mark(pid) != mark)
}

/// Pid and start time: the pid alone may belong to another process by now.
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

/// Not `ip -n`, which changes mounts and fails if the root is not a mount point.
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
