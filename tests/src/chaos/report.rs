//! Table of a run, and its goals.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::board::{Injected, Record, Sample};

/// All environments are Ready within this time of the last fault.
pub(crate) const CALM_GOAL: Duration = Duration::from_secs(60);
/// 99 % of the faults without an overlap recover within this time.
pub(crate) const SINGLE_GOAL: Duration = Duration::from_secs(20);
/// Share and amount by which the memory may grow between the first and the last third of a run, in KiB.
const GROWTH: (u64, u64) = (20, 3 * 1024);
/// Samples of a process that started less than this ago do not count.
const WARM: Duration = Duration::from_secs(15);

/// Recovery time of one fault: that of its slowest environment. `None` if one did not recover.
struct Recovery<'r> {
    fault: &'r Injected,
    took: Option<Duration>,
}

fn recoveries(record: &Record) -> Vec<Recovery<'_>> {
    let mut samples: Vec<Vec<&Sample>> = record.faults.iter().map(|_| Vec::new()).collect();
    for sample in &record.samples {
        samples[sample.fault].push(sample);
    }
    let took = |samples: Vec<&Sample>| {
        let all: Option<Vec<Duration>> = samples.iter().map(|sample| sample.took).collect();
        all.map(|all| all.into_iter().max().unwrap_or_default())
    };
    let pairs = record.faults.iter().zip(samples);
    pairs
        .map(|(fault, samples)| Recovery {
            fault,
            took: took(samples),
        })
        .collect()
}

/// Prints the table and the verdicts. Returns true if every goal is met.
pub(crate) fn print(record: &Record, calm: Option<Duration>) -> bool {
    let all = recoveries(record);
    let mut kinds: BTreeMap<&str, Vec<&Recovery<'_>>> = BTreeMap::new();
    for one in &all {
        kinds.entry(one.fault.kind).or_default().push(one);
    }
    println!(
        "{:<14} {:>5} {:>8} {:>8} {:>8} {:>7} {:>8} {:>8} {:>13}",
        "FAULT", "COUNT", "P50", "P99", "MAX", "SINGLE", "P99", "MAX", "NOT RECOVERED"
    );
    for (kind, rows) in &kinds {
        println!("{}", row(kind, rows));
    }
    let faults: Vec<&Recovery<'_>> = all.iter().filter(|one| one.fault.kind != "relapse").collect();
    println!("{}", row("all faults", &faults));
    slowest(&faults);
    let single: Vec<Duration> = sorted(faults.iter().filter(|one| one.fault.single));
    let p99 = percentile(&single, 99);
    let memory = memory(&record.memory);
    let verdicts = [
        (
            calm.is_some_and(|took| took <= CALM_GOAL),
            format!(
                "all environments Ready within 60 s of the last fault: {}",
                seconds(calm)
            ),
        ),
        (
            p99.is_none_or(|took| took <= SINGLE_GOAL),
            format!(
                "p99 of {} single faults at most 20 s: {}",
                single.len(),
                seconds(p99)
            ),
        ),
        (
            record.violations.is_empty(),
            format!(
                "no violation (foreign objects, two runs of one service): {}",
                record.violations.len()
            ),
        ),
        memory,
    ];
    for violation in &record.violations {
        println!("violation: {violation}");
    }
    for (met, text) in &verdicts {
        println!("{} {text}", if *met { "met   " } else { "MISSED" });
    }
    verdicts.iter().all(|(met, _)| *met)
}

fn row(name: &str, rows: &[&Recovery<'_>]) -> String {
    let times = sorted(rows.iter());
    let single = sorted(rows.iter().filter(|one| one.fault.single));
    let lost = rows.iter().filter(|one| one.took.is_none()).count();
    format!(
        "{name:<14} {:>5} {:>8} {:>8} {:>8} {:>7} {:>8} {:>8} {lost:>13}",
        rows.len(),
        seconds(percentile(&times, 50)),
        seconds(percentile(&times, 99)),
        seconds(times.last().copied()),
        single.len(),
        seconds(percentile(&single, 99)),
        seconds(single.last().copied()),
    )
}

/// Prints the faults that took longest, for a person who looks for the reason.
fn slowest(faults: &[&Recovery<'_>]) {
    let mut slow: Vec<_> = faults
        .iter()
        .filter(|one| one.took.is_none_or(|took| took > SINGLE_GOAL))
        .collect();
    slow.sort_by_key(|one| std::cmp::Reverse(one.took.unwrap_or(Duration::MAX)));
    for one in slow.iter().take(12) {
        let kind = if one.fault.single { "single" } else { "overlapped" };
        println!(
            "slow: {} at {} s: {} ({kind})",
            seconds(one.took),
            one.fault.at.trim(),
            one.fault.text
        );
    }
}

/// The verdict on the memory, from the medians of the first and the last third.
fn memory(samples: &[(Instant, u64, u64)]) -> (bool, String) {
    let mut first_seen: BTreeMap<u64, Instant> = BTreeMap::new();
    let mut warm = Vec::new();
    for (at, pid, kib) in samples {
        let since = *first_seen.entry(*pid).or_insert(*at);
        if at.duration_since(since) >= WARM {
            warm.push(*kib);
        }
    }
    let third = warm.len() / 3;
    let median = |part: &[u64]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part.get(part.len() / 2).copied().unwrap_or(0)
    };
    let (first, last) = (median(&warm[..third]), median(&warm[warm.len() - third..]));
    let peak = warm.iter().copied().max().unwrap_or(0);
    let flat = last <= first + first * GROWTH.0 / 100 + GROWTH.1;
    let mib = |kib: u64| format!("{}.{} MiB", kib / 1024, kib % 1024 * 10 / 1024);
    let text = format!(
        "memory of the controller flat: {} in the first third, {} in the last, at most {}",
        mib(first),
        mib(last),
        mib(peak)
    );
    (flat, text)
}

fn sorted<'r>(rows: impl Iterator<Item = &'r &'r Recovery<'r>>) -> Vec<Duration> {
    let mut times: Vec<Duration> = rows.filter_map(|one| one.took).collect();
    times.sort();
    times
}

/// The smallest value that `share` percent of the values do not exceed.
fn percentile(times: &[Duration], share: usize) -> Option<Duration> {
    let rank = (times.len() * share).div_ceil(100);
    times.get(rank.saturating_sub(1)).copied()
}

fn seconds(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{:.1} s", time.as_secs_f64()))
}
