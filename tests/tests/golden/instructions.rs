//! Instruction counts of the pure parts. Unlike times, they do not depend on the load of the machine.

use std::process::Command;

use argus_tests::pure::PARTS;

/// Instructions of one round, from two runs that differ in their rounds. The start of a run varies by 100,000 instructions, because its maps
/// have random seeds, so a short part needs many rounds.
fn count(part: &str, services: usize) -> u64 {
    let rounds = if part == "pass" { 40 } else { 2 };
    let all = |rounds: u64| -> u64 {
        let output = Command::new("valgrind")
            .args([
                "--tool=cachegrind",
                "--cache-sim=no",
                "--cachegrind-out-file=/dev/null",
            ])
            .args([env!("CARGO_BIN_EXE_pure"), part])
            .args([services.to_string(), rounds.to_string()])
            .env("LLVM_PROFILE_FILE", "/dev/null")
            .output()
            .unwrap_or_else(|error| panic!("valgrind, which ./scripts/setup installs: {error}"));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let number = text.lines().find_map(|line| line.split_once("refs:"));
        let number = number.map(|(_, number)| number.trim().replace(',', ""));
        number
            .and_then(|number| number.parse().ok())
            .unwrap_or_else(|| panic!("no count: {text}"))
    };
    (all(rounds + 1) - all(1)) / rounds
}

/// Instructions of each part for 20 services, in a build without optimization and without coverage. CI measures coverage, which adds
/// instructions, so a part may use twice as many.
const EXPECTED: [u64; PARTS.len()] = [4_400_000, 7_000_000, 4_100_000, 4_400_000, 150_000, 1_050_000];

/// Maximum growth from 20 to 100 services.
const GROWTH: u64 = 6;

#[test]
fn pure_parts_keep_their_instruction_counts() {
    std::thread::scope(|parts| {
        for (part, expected) in PARTS.into_iter().zip(EXPECTED) {
            parts.spawn(move || {
                let (small, large) = (count(part, 20), count(part, 100));
                assert!(
                    small <= expected * 2,
                    "{part}: {small} instructions, expected {expected}"
                );
                assert!(
                    large <= small * GROWTH,
                    "{part}: {large} instructions for 100 services, {small} for 20"
                );
            });
        }
    });
}
