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
        // With 420 lines below a `mod` for tests, which an earlier count left out, an earlier removal that `up` and `ci` complete, links
        // of failed cases, a description of each key of a suite file, and the environments that the file of `up` replaces.
        // With lengths of requests without a body, and the Compose options of a controller in the background, which ends next to a newer one.
        name: "suites, test runner, reports, `argus ci`",
        budget: 12_665,
        paths: &[
            "controller/suite/",
            "controller/src/test_runner",
            "controller/src/test_runner/ci_files",
            "controller/src/render/ci_system",
            "controller/src/session",
            "controller/src/render/run_summary",
            "controller/src/cli/ci",
            "controller/src/cli/test",
            "controller/src/api/test",
            "crds/src/suite",
            "crds/src/schema/suite",
        ],
    },
    Subject {
        // With the reason of an unmatched request in the log of requests.
        name: "mocks",
        budget: 6_270,
        paths: &["controller/mock/", "controller/src/mock", "crds/src/mock"],
    },
    Subject {
        // With the commands of health checks, and facts of well-known images, which rules link with the file. With the wait of shed services.
        // With 800 lines for settings that a version of an image renames, logins that a server has no variable for, configurations at
        // places that no image reads, and listeners that an output reports: the tables of these facts are no code. With health checks of images.
        // With remedies and warnings about a dependency whose health check fails.
        // With files of images below mounted folders, folders that no image reads, packages that nothing installed, lists of missing
        // variables, siblings that the name of a variable means, and flavours of images. With results of health checks during the
        // start, health checks that cannot succeed, and states of dependencies. With 180 lines for the rules of these facts that the count
        // of that change left out, and similar names in build contexts.
        // With listeners inside a container, completed jobs, passwords that a volume keeps, and commands behind conflicts.
        // With ten kinds of messages that a blind set showed, and 54 of 60 right first edits in the next one.
        // With folders of variables outside of the volume, undefined listeners, and key files.
        // With the order of failures along their dependencies.
        name: "errors, remedies, status texts",
        budget: 18_560,
        paths: &[
            "crds/src/error",
            "crds/src/incident",
            "crds/src/status",
            "crds/src/diagnostic",
            "controller/core/src/remedy",
            "controller/core/src/status",
            "controller/core/src/failed_run",
            "controller/src/render/status_text",
            "controller/src/error_fixtures",
        ],
    },
    Subject {
        // With the check that a project has no other files before `init` allows it, the options of Compose files, and `up` with names of
        // services, which keeps the services that exist. With a request between the services after each fault of the
        // self-test, redirected input of `exec`, and warnings of `up` about replaced environments and completed jobs, with
        // those of the running environment.
        name: "`init`, `selftest`, `up`, `exec`, `open`, `env`, `diff`",
        budget: 2_790,
        paths: &[
            "controller/src/init",
            "controller/src/selftest",
            "controller/src/compose/spec_draft",
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
        // variables. With selected services and their dependencies, and with selected names that a file need not have.
        // With a maximum of the values that variables insert. With the places of variables without a value.
        // With the tags `!reset` and `!override`, and the texts of values as the file writes them.
        name: "Compose files",
        budget: 3_610,
        paths: &["controller/src/compose", "crds/src/compose"],
    },
    Subject {
        // With an index of the keys of maps.
        // With tags of YAML, and halves of surrogate pairs.
        name: "formats without errors",
        budget: 6_080,
        paths: &["crds/src/"],
    },
    Subject {
        // With names of files in one line, tracked state, records of all changes, files of containers, sessions of builds, and several
        // networks, the addresses that Dockerfiles read, events of actions when they end, and links of containers to the places of a tmpfs.
        // With deadlines of all calls from the settings, shedding, stops of services on request, and volumes and holders of Compose projects. With
        // containers that start once. With restarts of containers near their memory limit. With notes for the next task, and invariants at
        // their modules. With bounds of links in a worktree. With rollbacks that keep what they do not change. With processes
        // of cgroup version 1, ends of both streams of a command, and second listeners of a port. With limits of the rules of a
        // `.dockerignore`, of the components of a path, and of the texts of names, replicas and ports. With 140 lines for the variables
        // that a stage of a Dockerfile surely sets, reserved addresses, and a home folder behind a link. With results of probes during the
        // start, hashes of the health checks of healthy runs, warnings about variables of the shell, and quiet build contexts.
        // With Dockerfiles apart from their context, early preflights, removals next to a live controller, and values as the file writes
        // them. With notes about environments that do not have the name of a spec file.
        // With the order of builds of the same time, and the run time of good revisions. With results of probes that a busy host
        // interrupts, and runs that start after an outage.
        name: "the loop: core, docker, reconciler, backend",
        budget: 61_915,
        paths: &[
            "controller/core/",
            "controller/docker/",
            "controller/reconciler/",
            "controller/backend/",
        ],
    },
    Subject {
        // With deadlines of tools and breakers in the answers of MCP, `stop SERVICE`, `start`, `config` and `--allow-external`. With `pull` and
        // `build`. With marks of rollbacks. With second listeners of a port. With repeated requests to read the files, waits of
        // `stop SERVICE`, `start` and `restart`, and the counterparts of commands of Compose.
        // With the counterparts of flags of Compose, and warnings about a running environment in `ps` and `get`. With logs of several services.
        // With the only environment as the default of MCP tools.
        // With whole lines of output in default answers. With groups of earlier runs.
        name: "interfaces: api, cli, http, mcp, client, views",
        budget: 29_780,
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
