//! Lines of product per subject. Growth needs a decision: a budget only rises together with its reason, and falls with its subject.

use super::{modules, product};

/// Subject with its budget of lines and the starts of its paths. The longest matching start decides.
struct Subject {
    name: &'static str,
    budget: usize,
    paths: &'static [&'static str],
}

const SUBJECTS: [Subject; 8] = [
    Subject {
        // With 420 lines below a `mod` for tests, which an earlier count left out, an earlier removal that `up` and `ci` complete, and links
        // of failed cases.
        name: "suites, test runner, reports, `argus ci`",
        budget: 12_400,
        paths: &[
            "controller/suite/",
            "controller/src/test_runner",
            "controller/src/ci_files",
            "controller/src/ci_system",
            "controller/src/session",
            "controller/src/run_summary",
            "controller/src/cli/ci",
            "controller/src/cli/test",
            "controller/src/api/test",
            "crds/src/suite",
            "crds/src/schema/suite",
        ],
    },
    Subject {
        name: "mocks",
        budget: 6_460,
        paths: &["controller/mock/", "controller/src/mock", "crds/src/mock"],
    },
    Subject {
        // With the commands of health checks, and facts of well-known images, which rules link with the file.
        name: "errors, remedies, status texts",
        budget: 16_200,
        paths: &[
            "crds/src/error",
            "crds/src/incident",
            "crds/src/status",
            "crds/src/diagnostic",
            "controller/core/src/remedy",
            "controller/core/src/status",
            "controller/core/src/failed_run",
            "controller/src/status_text",
            "controller/src/error_fixtures",
        ],
    },
    Subject {
        // With the check that a project has no other files before `init` allows it, and the options of Compose files.
        name: "`init`, `selftest`, `up`, `exec`, `open`, `env`, `diff`",
        budget: 2_490,
        paths: &[
            "controller/src/init",
            "controller/src/selftest",
            "controller/src/spec_draft",
            "controller/src/cli/up",
            "controller/src/cli/exec",
            "controller/src/cli/open",
            "controller/src/cli/env",
            "controller/src/cli/diff",
            "controller/src/cli/init",
            "controller/src/cli/selftest",
        ],
    },
    Subject {
        // With override and included files, all kinds of values, texts of secrets and configs, inputs of builds, networks, and a note or an
        // error for each key. With a maximum of what `include` and `extends` repeat, networks of other services, replicas, and raw files of
        // variables.
        name: "Compose files",
        budget: 3_240,
        paths: &["controller/src/compose", "crds/src/compose"],
    },
    Subject {
        // With an index of the keys of maps.
        name: "formats without errors",
        budget: 6_020,
        paths: &["crds/src/"],
    },
    Subject {
        // With names of files in one line, tracked state, records of all changes, files of containers, sessions of builds, and several
        // networks, the addresses that Dockerfiles read, events of actions when they end, and links of containers to the places of a tmpfs.
        name: "the loop: core, docker, reconciler, backend",
        budget: 60_480,
        paths: &[
            "controller/core/",
            "controller/docker/",
            "controller/reconciler/",
            "controller/backend/",
        ],
    },
    Subject {
        name: "interfaces: api, cli, http, mcp, client, views",
        budget: 28_750,
        paths: &["controller/src/"],
    },
];

/// The engine in memory and the contract of engines are tests in folders of the product.
fn is_for_tests(path: &str) -> bool {
    ["sim", "contract"].iter().any(|module| {
        path.contains(&format!("/src/{module}/")) || path.ends_with(&format!("/src/{module}.rs"))
    })
}

fn subject_of(path: &str) -> usize {
    let longest = |subject: &Subject| {
        let matching = subject.paths.iter().filter(|start| path.starts_with(**start));
        matching.map(|start| start.len()).max()
    };
    let found = (0..SUBJECTS.len()).max_by_key(|at| longest(&SUBJECTS[*at]));
    let found = found.filter(|at| longest(&SUBJECTS[*at]).is_some());
    found.unwrap_or_else(|| panic!("{path} belongs to no subject"))
}

#[test]
fn subject_stays_within_its_budget() {
    let mut totals = [0; SUBJECTS.len()];
    for path in modules().iter().filter(|path| !is_for_tests(path)) {
        totals[subject_of(path)] += product(path).lines().count();
    }
    println!("lines of product (budget):");
    for (subject, total) in SUBJECTS.iter().zip(totals) {
        println!("{total:7} ({:6})  {}", subject.budget, subject.name);
    }
    println!("{:7}           in all", totals.iter().sum::<usize>());
    for (subject, total) in SUBJECTS.iter().zip(totals) {
        let (name, budget) = (subject.name, subject.budget);
        assert!(
            total <= budget,
            "{name}: {total} lines, the budget is {budget}: remove code, or raise the budget with its reason"
        );
        assert!(
            total + budget / 20 >= budget,
            "{name}: {total} lines, so lower the budget of {budget}"
        );
    }
}
