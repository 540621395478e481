//! Seeds of fuzz tests, and random changes of valid bytes.
//!
//! By default, a test takes a fixed number of seeds. `ARGUS_FUZZ_SECONDS=3600` sets a time instead, and `ARGUS_FROM` the first seed.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use argus_backend::sim::Rng;
use argus_core::time::Timestamp;
use argus_reconciler::clock;

/// Maximum time of one seed. A slow and busy machine needs seconds at most.
const HANG: Duration = Duration::from_secs(300);

/// Seeds of a run, until their number or their time is over. A failure prints its seed.
#[derive(Debug)]
pub struct Seeds {
    target: &'static str,
    first: u64,
    next: u64,
    end: Option<u64>,
    start: Timestamp,
    time: Option<Duration>,
    started: Sender<u64>,
}

impl Seeds {
    /// Creates the seeds for a target of `scripts/fuzz`. Without a time, there are `count` seeds.
    pub fn new(target: &'static str, count: u64) -> Self {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let first = number("ARGUS_FROM").unwrap_or_default();
        let time = number("ARGUS_FUZZ_SECONDS").map(Duration::from_secs);
        let (started, seeds) = channel();
        std::thread::spawn(move || {
            let mut seed = first;
            loop {
                match seeds.recv_timeout(HANG) {
                    Ok(next) => seed = next,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        eprintln!("fuzz: seed {seed} did not end. {}", repetition(target, seed));
                        std::process::abort();
                    }
                }
            }
        });
        Self {
            target,
            first,
            next: first,
            end: time.is_none().then(|| first.saturating_add(count)),
            start: clock::now(),
            time,
            started,
        }
    }
}

fn repetition(target: &str, seed: u64) -> String {
    format!("Repeat it with: ARGUS_FROM={seed} scripts/fuzz 1 {target}")
}

impl Iterator for Seeds {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let is_over = self
            .time
            .is_some_and(|time| clock::now().since(self.start) >= time && self.next > self.first);
        if is_over || self.end == Some(self.next) {
            return None;
        }
        let seed = self.next;
        self.next += 1;
        self.started.send(seed).expect("the watch of the seeds runs");
        Some(seed)
    }
}

impl Drop for Seeds {
    fn drop(&mut self) {
        let (target, first) = (self.target, self.first);
        if std::thread::panicking() {
            let seed = self.next.saturating_sub(1);
            eprintln!("fuzz: seed {seed} failed. {}", repetition(target, seed));
        }
        let took = clock::now().since(self.start).as_secs_f64();
        println!(
            "{target}: {} seeds from {first} in {took:.0} s",
            self.next - first
        );
    }
}

/// Returns a number below `end`; 0 if `end` is 0.
pub fn below(random: &mut Rng, end: usize) -> usize {
    usize::try_from(random.below(end as u64)).expect("the number is below a `usize`")
}

/// Returns one of `all`, which is not empty.
pub fn one_of<'a, T>(random: &mut Rng, all: &'a [T]) -> &'a T {
    random.pick(all).expect("a choice has alternatives")
}

/// Changes bytes at some places: removes, repeats or flips some, or inserts one of `parts` or the end of one of `others`.
pub fn mutate(random: &mut Rng, bytes: &mut Vec<u8>, parts: &[&[u8]], others: &[Vec<u8>]) {
    for _ in 0..below(random, 6) {
        let at = below(random, bytes.len() + 1);
        let end = (at + below(random, 12)).min(bytes.len());
        match below(random, 6) {
            0 => {
                bytes.drain(at..end);
            }
            1 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            2 => {
                let part = one_of(random, parts).to_vec();
                bytes.splice(at..at, part);
            }
            3 => {
                let other = one_of(random, others);
                let from = below(random, other.len() + 1);
                bytes.splice(at..end, other[from..].iter().copied());
            }
            4 => bytes.truncate(at),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << below(random, 8);
                }
            }
        }
    }
}

/// Reads the spec files below folders of the repository, sorted by path.
pub fn read_corpus(folders: &[&str]) -> Vec<Vec<u8>> {
    fn list(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("the corpus exists").flatten() {
            let path = entry.path();
            if path.is_dir() {
                list(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "yaml") {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for folder in folders {
        list(&root.join(folder), &mut found);
    }
    found.sort();
    found
        .iter()
        .map(|path| std::fs::read(path).expect("a corpus file is readable"))
        .collect()
}
