//! Requirements of the first seed: every one names its tests, and `docs/requirements.md` lists them.
//!
//! A comment above a test names its requirements: `// Requirements: FR-R08, FR-R09`. With `UPDATE=1`, the test writes the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{none, read, root, sources};

const PAGE: &str = "docs/requirements.md";
const MARK: &str = "// Requirements: ";
/// Maximum number of lines between a mark and its test function.
const MAX_DISTANCE: usize = 8;

/// Requirements with their short statements, in the order of the seed.
const REQUIREMENTS: [(&str, &str); 39] = [
    ("FR-R01", "error codes cover all known failures"),
    (
        "FR-R02",
        "every error has code, category, severity, message, details and suggested actions",
    ),
    ("FR-R03", "preflight checks engine, disk space and orphans"),
    (
        "FR-R04",
        "each check passes, warns or fails; the result is healthy, degraded or unhealthy",
    ),
    (
        "FR-R05",
        "preflight runs before creation and builds, and blocks them if it is unhealthy",
    ),
    (
        "FR-R06",
        "every object on the engine has labels with project and run",
    ),
    (
        "FR-R07",
        "out of memory, exits and failed health checks have their own codes",
    ),
    ("FR-R08", "failed containers restart up to `maxRestarts` times"),
    (
        "FR-R09",
        "restart delays grow exponentially or linearly from `restartDelay`",
    ),
    (
        "FR-R10",
        "logs, exit code, memory and time are stored before a restart",
    ),
    ("FR-R11", "a spent restart budget is reported with all attempts"),
    (
        "FR-R12",
        "under strategy `auto`, a taken port moves with all variables that name it",
    ),
    (
        "FR-R13",
        "a moved port is reported with its original and its actual number",
    ),
    (
        "FR-R14",
        "under strategy `fail`, a taken port is an error and does not move",
    ),
    ("FR-R15", "orphans of earlier runs are removed"),
    ("FR-R16", "objects of other projects and foreign objects stay"),
    (
        "FR-R17",
        "an orphan that cannot be removed delays no other removal",
    ),
    ("FR-R18", "the circuit breaker is closed, open or half-open"),
    (
        "FR-R19",
        "the breaker opens after a number of failures, five by default",
    ),
    (
        "FR-R20",
        "an open breaker refuses every engine call with `CIRCUIT_OPEN`",
    ),
    ("FR-R21", "a reset half-opens the breaker"),
    ("FR-R22", "one test call closes or opens a half-open breaker"),
    ("FR-R23", "connections and names are checked before a test"),
    (
        "FR-R24",
        "a health timeout contains probe output, logs, connections and names",
    ),
    ("FR-R25", "`argus_preflight_check` returns the report"),
    ("FR-R26", "`argus_preflight_check` can skip checks and fix causes"),
    ("FR-R27", "`argus_reset_circuit` resets a breaker"),
    (
        "FR-R28",
        "a reset returns the states before and after, and the failures",
    ),
    ("FR-R29", "the `resilience` section configures all of this"),
    ("FR-R30", "without that section, recovery is enabled"),
    ("FR-R31", "the JSON Schema describes every key"),
    ("SC-R01", "nine of ten injected faults are recovered without help"),
    (
        "SC-R02",
        "preflight prevents 70 % of the failures during operations",
    ),
    ("SC-R03", "an open breaker answers within 100 ms"),
    ("SC-R04", "ten taken ports are replaced within two seconds"),
    (
        "SC-R05",
        "one crash costs at most its restart delay and five seconds",
    ),
    ("SC-R06", "every error is structured"),
    ("SC-R07", "the defaults need no section in the file"),
    (
        "SC-R08",
        "the tools of preflight and breaker return structured data",
    ),
];

/// Tests by requirement: name and file.
type Tests = BTreeMap<String, Vec<(String, String)>>;

/// Finds all marks. Returns marks without a test, and unknown requirements, as offences.
fn marked_tests() -> (Tests, Vec<String>) {
    let (mut tests, mut offences) = (Tests::new(), Vec::new());
    for path in sources() {
        let text = read(&path);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (index, line) in lines.iter().enumerate() {
            let Some(ids) = line.strip_prefix(MARK) else {
                continue;
            };
            let mut after = lines.iter().skip(index + 1).take(MAX_DISTANCE);
            let Some(name) = after.find_map(|line| function_name(line)) else {
                offences.push(format!("{path}:{}: no test follows", index + 1));
                continue;
            };
            for id in ids.split(", ") {
                if !REQUIREMENTS.iter().any(|(known, _)| *known == id) {
                    offences.push(format!("{path}:{}: unknown requirement `{id}`", index + 1));
                }
                let of_id = tests.entry(id.to_owned()).or_default();
                of_id.push((name.to_owned(), path.clone()));
            }
        }
    }
    (tests, offences)
}

fn function_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
    rest.split_once('(').map(|(name, _)| name)
}

fn page(tests: &Tests) -> String {
    let mut page = "# Requirements and their tests

This page is for contributors. It lists the functional requirements and the success criteria of the first specification, each with the tests that
show it. The statements are short forms. The tests below `tests/tests` other than `simulation` and `golden` run on a real engine.

`tests/tests/tidy/requirements.rs` generates this page from the comments `// Requirements: ` above the tests:
`UPDATE=1 cargo test -p argus-tests --test tidy`.

| requirement | statement | tests |
|---|---|---|
"
    .to_owned();
    for (id, statement) in REQUIREMENTS {
        let of_id = tests.get(id).map(Vec::as_slice).unwrap_or_default();
        let of_id: Vec<String> = of_id
            .iter()
            .map(|(name, path)| format!("`{name}` in `{path}`"))
            .collect();
        // Writing to a string cannot fail.
        let _ = writeln!(page, "| {id} | {statement} | {} |", of_id.join("<br>"));
    }
    page
}

#[test]
fn every_requirement_has_a_test_and_a_row() {
    let (mut tests, mut offences) = marked_tests();
    for of_id in tests.values_mut() {
        of_id.sort();
    }
    let missing = REQUIREMENTS.iter().filter(|(id, _)| !tests.contains_key(*id));
    offences.extend(missing.map(|(id, statement)| format!("{id} ({statement}): no test names it")));
    none("requirements without tests", &offences);
    let current = page(&tests);
    let written = std::fs::read_to_string(root().join(PAGE)).unwrap_or_default();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(root().join(PAGE), &current).expect("the page is writable");
    } else {
        assert!(written == current, "{PAGE} is outdated; hint: UPDATE=1 writes it");
    }
}
