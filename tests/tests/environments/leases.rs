//! Controllers that share a real engine, and leftovers of dead ones.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step ends the test with a message"
)]

use std::collections::BTreeSet;

use argus_tests::fixture::{LIMIT, container_runs, engine, proxied, proxied_with, running, shop, text};
use argus_tests::proxy::Fault;
use argus_tests::{Controller, PrivateEngine, Proxy, RunOptions, wait};
use rustix::process::Signal;
use serde_json::Value;

use super::journal::{actions, records};

/// Options with leases that expire soon, so that a test can wait for it.
fn soon() -> RunOptions {
    RunOptions {
        args: vec!["--lease-ttl".to_owned(), "9s".to_owned()],
        ..RunOptions::default()
    }
}

/// Options with which orphans are old enough after two seconds.
fn young() -> RunOptions {
    RunOptions {
        env: vec![("ARGUS_WAITS".to_owned(), "orphanAge=2s".to_owned())],
        ..soon()
    }
}

fn is_held(status: &Value) -> bool {
    let errors = status["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    errors.iter().any(|error| error["code"] == "LEASE_HELD")
}

fn leases(engine: &PrivateEngine) -> Vec<String> {
    let all = engine.docker_ok(&["volume", "ls", "-q", "--filter", "label=argusai.lease"]);
    all.lines().map(str::to_owned).collect()
}

#[test]
fn second_controller_waits_and_takes_over_after_a_kill() {
    let engine = engine();
    let first = Controller::start(engine, soon().in_project(engine, "twice"));
    first.write_spec("e2e.yaml", &shop("twice", 18700, "one"));
    first.wait_ready("twice", LIMIT);
    let before = container_runs(engine, "twice");
    let second = Controller::start(engine, soon().in_project(engine, "twice"));
    second.write_spec("e2e.yaml", &shop("twice", 18700, "one"));
    let status = second.wait_status("twice", LIMIT, "names the owner", is_held);
    assert_eq!(status["phase"], "Pending", "{status:#}");
    let identity = first.controller_status()["controller"].clone();
    let errors = status["errors"].as_array().expect("errors");
    let held = errors.iter().find(|error| error["code"] == "LEASE_HELD");
    let held = held.expect("the error");
    let holder = &held["details"]["holder"];
    assert_eq!(holder["controller"], identity);
    // Its process is visible, and reads the file of another folder.
    assert_eq!(holder["renews"], true, "{held:#}");
    assert_eq!(held["remedies"][0]["action"], "set_namespace", "{held:#}");
    let waited = second.cli(&["wait", "twice", "--timeout", "60s"]);
    assert_eq!(
        waited.status.code(),
        Some(7),
        "{}",
        String::from_utf8_lossy(&waited.stderr)
    );

    first.kill9();
    second.wait_ready("twice", LIMIT);
    assert_eq!(
        container_runs(engine, "twice"),
        before,
        "adopted without a restart"
    );

    // The killed controller returns as the second one, and owns the environment again when the other stops.
    first.start_again();
    first.wait_status("twice", LIMIT, "names the owner", is_held);
    assert!(second.stop().success());
    first.wait_ready("twice", LIMIT);
    assert_eq!(container_runs(engine, "twice"), before, "adopted again");
    // An adopted environment is removed with its file, regardless of its creator.
    first.remove_spec("e2e.yaml");
    first.wait_until(LIMIT, "the environment is removed", || {
        let networks = engine.docker_ok(&["network", "ls", "-q", "--filter", "name=argusai-twice-network"]);
        (container_runs(engine, "twice").is_empty() && networks.is_empty()).then_some(())
    });
}

/// Requests that only the owner of an environment makes.
const CREATIONS: [&str; 3] = [
    "POST /containers/create",
    "POST /containers/*/start",
    "POST /networks/create",
];

fn has_requested(proxy: &Proxy) -> bool {
    proxy.counts().contains_key("POST /volumes/create")
}

/// True if the controller has listed the leases after it wrote its own.
fn has_listed_after_its_write(proxy: &Proxy) -> bool {
    let seen = proxy.seen().into_iter();
    let mut after = seen.skip_while(|call| call.class != "POST /volumes/create");
    after.any(|call| call.class == "GET /volumes" && call.request.contains("argusai.lease"))
}

#[test]
fn controllers_that_start_together_never_both_act() {
    let engine = engine();
    let parties = ["together-a", "together-b"].map(|name| proxied(engine, name));
    let rounds = std::env::var("ARGUS_ROUNDS").map_or(3, |rounds| rounds.parse().expect("a number"));
    for round in 0..rounds {
        let name = format!("together{round}");
        for (proxy, controller) in &parties {
            controller.stop();
            controller.write_spec("e2e.yaml", &shop(&name, 18_720 + round % 100, "one"));
            proxy.reset_counts();
            // No lease is written before both controllers have asked.
            proxy.inject("POST /volumes/create", Fault::Hang, 1);
            controller.start_again();
        }
        for (proxy, controller) in &parties {
            controller.wait_until(LIMIT, "it writes its lease", || {
                has_requested(proxy).then_some(())
            });
        }
        // Both write together, or one of them writes after the first list of the other.
        let (first, second) = if round % 3 == 1 { (1, 0) } else { (0, 1) };
        parties[first].0.heal();
        if round % 3 > 0 {
            parties[first].1.wait_until(LIMIT, "it lists the leases", || {
                has_listed_after_its_write(&parties[first].0).then_some(())
            });
        }
        parties[second].0.heal();

        let is_ready = |at: &usize| parties[*at].1.status(&name)["phase"] == "Ready";
        let owner = wait::until(LIMIT, "one controller converges the environment", || {
            [first, second].into_iter().find(is_ready)
        });
        let (proxy, other) = &parties[1 - owner];
        other.wait_status(&name, LIMIT, "names the owner", is_held);
        other.sync();
        let seen = proxy.seen().into_iter();
        let acts: Vec<_> = seen
            .filter(|call| CREATIONS.contains(&call.class.as_str()))
            .collect();
        assert_eq!(
            acts,
            [],
            "round {round}: the controller that does not own it acts"
        );
        // Neither does it stop, remove, rename or connect anything of it: the journal has each action before its call.
        let intents = records(other, &name, "intent");
        assert_eq!(intents, [Value::Null; 0], "round {round}");
        let intents = records(&parties[owner].1, &name, "intent");
        assert!(
            !intents.is_empty(),
            "round {round}: the journal has the actions of the owner"
        );
    }
    // Each proxy ends before its controller, which then could not release its lease.
    for (_, controller) in &parties {
        controller.stop();
    }
}

#[test]
fn suspended_controller_notices_a_takeover_and_stops() {
    let engine = engine();
    let first = Controller::start(engine, soon().in_project(engine, "slept"));
    first.write_spec("e2e.yaml", &shop("slept", 18710, "one"));
    first.wait_ready("slept", LIMIT);
    let second = Controller::start(engine, soon().in_project(engine, "slept"));
    second.write_spec("e2e.yaml", &shop("slept", 18710, "two"));
    second.wait_status("slept", LIMIT, "names the owner", is_held);
    let before = container_runs(engine, "slept");
    let done = actions(&first);
    first.signal(Signal::STOP);
    // The process still exists, so only the missing renewals show its death; afterwards, changed containers are
    // replaced.
    second.wait_ready("slept", LIMIT);
    let after = container_runs(engine, "slept");
    assert_ne!(after["slept-web"], before["slept-web"]);
    assert_eq!(
        after["slept-db"], before["slept-db"],
        "unchanged containers are adopted"
    );
    first.signal(Signal::CONT);
    first.wait_status("slept", LIMIT, "names the owner", is_held);
    // `suspended_controller_leaves_a_takeover_alone` shows the same for minutes.
    first.sync();
    assert_eq!(actions(&first), done, "nothing is changed after the return");
    assert_eq!(container_runs(engine, "slept"), after);
}

#[test]
fn lease_is_one_volume_and_goes_with_a_clean_stop() {
    let engine = PrivateEngine::start();
    argus_tests::fixture::images(&engine);
    let argus = Controller::start(&engine, soon());
    let first = argus.wait_until(LIMIT, "a lease", || leases(&engine).first().cloned());
    argus.wait_until(LIMIT, "a new lease", || {
        let now = leases(&engine);
        (now.len() == 1 && now[0] != first).then_some(())
    });
    engine.docker_ok(&["volume", "rm", &leases(&engine)[0]]);
    argus.wait_until(LIMIT, "the lease is written again", || {
        (!leases(&engine).is_empty()).then_some(())
    });
    engine.restart();
    let old: BTreeSet<String> = leases(&engine).into_iter().collect();
    argus.wait_until(LIMIT, "it is renewed after an outage", || {
        leases(&engine)
            .iter()
            .any(|lease| !old.contains(lease))
            .then_some(())
    });
    assert!(argus.stop().success());
    assert_eq!(leases(&engine), [""; 0]);
}

/// A container that does not listen, with these labels.
fn ignores_sigterm(engine: &PrivateEngine, name: &str, image: &str, labels: &[(&str, &str)]) {
    let labels = labels
        .iter()
        .map(|(key, value)| format!("--label=argusai.{key}={value}"));
    let script = "trap '' TERM; while :; do sleep 1; done";
    let words: Vec<String> = ["run", "-d", "--name", name]
        .map(str::to_owned)
        .into_iter()
        .chain(labels)
        .chain([image, "sh", "-c", script].map(str::to_owned))
        .collect();
    engine.docker_ok(&words.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Labels of resources of a dead controller of a project.
fn dead<'a>(project: &'a str, controller: &'a str) -> [(&'a str, &'a str); 7] {
    [
        ("managed", "true"),
        ("project", project),
        ("environment", project),
        ("service", "gone"),
        ("controller", controller),
        ("run-id", "r"),
        ("created-at", "2026-01-01T00:00:00Z"),
    ]
}

fn names(engine: &PrivateEngine, prefix: &str) -> Vec<String> {
    let containers = engine.containers().into_iter();
    let names = containers.map(|found| text(&found["Names"][0]).trim_start_matches('/').to_owned());
    names.filter(|name| name.starts_with(prefix)).collect()
}

/// Number of containers to remove.
const LEFT: usize = 10;
/// Stops that run together.
const STOPS: usize = 8;

/// Creates containers and a network to remove, and objects to keep.
fn plant(engine: &PrivateEngine) {
    // Objects to keep: without labels, of another project, of a project with a common prefix, of a living controller,
    // and with labels only from the image.
    ignores_sigterm(engine, "keep-plain", "busybox:local", &[]);
    ignores_sigterm(engine, "keep-other", "busybox:local", &dead("orphother", "dead"));
    ignores_sigterm(engine, "keep-prefix", "busybox:local", &dead("orph-2", "dead"));
    ignores_sigterm(engine, "keep-leased", "busybox:local", &dead("orph", "living"));
    let lease = [
        "argusai.lease=run-living",
        "argusai.controller=living",
        "argusai.lease-state-dir=elsewhere",
        "argusai.lease-ttl=3600000",
        "argusai.lease-claims=",
    ];
    let labels = lease.iter().flat_map(|label| ["--label", label]);
    let words: Vec<&str> = ["volume", "create"]
        .into_iter()
        .chain(labels)
        .chain(["argus-lease-run-living-1"])
        .collect();
    engine.docker_ok(&words);
    for number in 1..LEFT {
        ignores_sigterm(
            engine,
            &format!("left-{number}"),
            "busybox:local",
            &dead("orph", "dead"),
        );
    }
    engine.docker_ok(&["commit", "left-1", "inherited:local"]);
    ignores_sigterm(engine, "keep-inherited", "inherited:local", &[]);
    // The four labels of the Node tool.
    let four: Vec<_> = dead("orph", "")
        .into_iter()
        .filter(|(key, _)| ["managed", "project", "run-id", "created-at"].contains(key))
        .collect();
    ignores_sigterm(engine, "left-node", "busybox:local", &four);
    let network: Vec<String> = dead("orph", "dead")
        .iter()
        .flat_map(|(key, value)| ["--label".to_owned(), format!("argusai.{key}={value}")])
        .collect();
    let words: Vec<&str> = ["network", "create"]
        .into_iter()
        .chain(network.iter().map(String::as_str))
        .chain(["left-network"])
        .collect();
    engine.docker_ok(&words);
    engine.docker_ok(&["network", "connect", "left-network", "left-1"]);
}

#[test]
fn deaf_orphans_are_stopped_together() {
    let engine = engine();
    plant(engine);
    let (keep, left) = (names(engine, "keep-"), names(engine, "left-"));
    assert_eq!(left.len(), LEFT);
    let id = |name: &String| text(&engine.inspect(name).expect("the container exists")["Id"]);
    let ids: Vec<String> = left.iter().map(id).collect();
    let user = id(&"left-1".to_owned());
    let network = engine.docker_ok(&["network", "inspect", "--format", "{{.Id}}", "left-network"]);
    let quiet = "resilience: { preflight: { cleanOrphans: false } }\n";
    let spec = |more: &str| {
        format!(
            "version: \"1\"\nproject: {{ name: orph }}\n{more}services:\n  app: {{ image: \"busybox:local\", container: {{ name: orph-app }} }}\n"
        )
    };
    let (proxy, argus) = proxied_with(engine, "orph", young());
    argus.write_spec("e2e.yaml", &spec(quiet));
    argus.wait_ready("orph", LIMIT);
    let output = argus.wait_until(LIMIT, "the orphans are reported", || {
        let status = argus.controller_status();
        let reported: BTreeSet<String> = status["orphans"]
            .as_array()?
            .iter()
            .filter(|orphan| orphan["result"] == "reported")
            .map(|orphan| text(&orphan["name"]))
            .collect();
        let others = ["left-network", "keep-other", "keep-prefix"];
        let mut wanted = left.iter().map(String::as_str).chain(others);
        wanted.all(|name| reported.contains(name)).then_some(status)
    });
    assert!(
        output["errors"].to_string().contains("ORPHAN_DETECTED"),
        "{output:#}"
    );
    assert!(
        !output["orphans"].to_string().contains("keep-leased"),
        "{output:#}"
    );
    assert!(
        !output["orphans"].to_string().contains("keep-inherited"),
        "{output:#}"
    );
    // Reported and not removed, although they are old enough.
    argus.assert_settled("orph");
    assert_eq!(names(engine, "left-"), left);

    proxy.reset_counts();
    proxy.inject("POST /containers/*/stop", Fault::Hang, LEFT);
    argus.write_spec("e2e.yaml", &spec(""));
    // No stop has returned yet.
    argus.wait_until(LIMIT, "orphans are stopped together", || {
        (proxy.counts().get("POST /containers/*/stop") == Some(&STOPS)).then_some(())
    });
    proxy.heal();
    argus.wait_until(LIMIT, "the orphans are removed", || {
        let networks = engine.docker_ok(&["network", "ls", "-q", "--filter", "name=left-network"]);
        (names(engine, "left-").is_empty() && networks.is_empty()).then_some(())
    });
    assert_eq!(names(engine, "keep-"), keep);
    let seen = proxy.seen();
    let find = |class: &str, id: &str| {
        let mut calls = seen.iter();
        let found = calls.position(|call| call.class == class && call.request.contains(id));
        found.unwrap_or_else(|| panic!("no {class} of {id}: {seen:#?}"))
    };
    for id in &ids {
        let (stop, removal) = (
            find("POST /containers/*/stop", id),
            find("DELETE /containers/*", id),
        );
        assert!(seen[stop].request.contains("t=3"), "{:?}", seen[stop]);
        assert!(stop < removal, "{:?}", seen[removal]);
    }
    let removal = find("DELETE /networks/*", &network);
    assert!(
        find("DELETE /containers/*", &user) < removal,
        "{:?}",
        seen[removal]
    );

    another_projects_go_when_a_person_names_it(engine, &argus, &keep);
    engine.docker_ok(&["rm", "-f", "keep-inherited", "keep-leased", "keep-plain"]);
}

/// Removes orphans through the controller, and without one.
fn another_projects_go_when_a_person_names_it(
    engine: &PrivateEngine,
    argus: &Controller<'_>,
    keep: &[String],
) {
    assert!(argus.cli(&["orphans", "--clean"]).status.success());
    assert_eq!(names(engine, "keep-"), *keep);
    let cleaned = argus.cli(&["orphans", "--project", "orphother", "--clean", "-o", "json"]);
    let text: Value = serde_json::from_slice(&cleaned.stdout).expect("JSON");
    assert_eq!(text["items"][0]["result"], "removed", "{text:#}");
    assert!(argus.stop().success());
    let alone = argus.cli(&["orphans", "-o", "name"]);
    let alone = String::from_utf8_lossy(&alone.stdout).into_owned();
    let of_these: Vec<&str> = alone.lines().filter(|name| name.starts_with("keep-")).collect();
    assert_eq!(of_these, ["keep-prefix"]);
    let cleaned = argus.cli(&["orphans", "--project", "orph-2", "--clean"]);
    assert!(
        cleaned.status.success(),
        "{}",
        String::from_utf8_lossy(&cleaned.stderr)
    );
    let left: BTreeSet<String> = names(engine, "keep-").into_iter().collect();
    assert_eq!(
        left,
        ["keep-inherited", "keep-leased", "keep-plain"]
            .map(str::to_owned)
            .into()
    );
}

#[test]
fn orphan_in_use_delays_no_other_removal() {
    let engine = engine();
    let label = |(key, value): &(&str, &str)| format!("--label=argusai.{key}={value}");
    let labels: Vec<String> = dead("busyorph", "dead").iter().map(label).collect();
    let words = ["network", "create", "busyorph-old"].map(str::to_owned);
    let words: Vec<&str> = words.iter().chain(&labels).map(String::as_str).collect();
    engine.docker_ok(&words);
    // A foreign container uses the network, so the engine refuses its removal.
    let user = [
        "run",
        "-d",
        "--name",
        "busyorph-user",
        "--network",
        "busyorph-old",
    ];
    engine.docker_ok(&[&user[..], &["busybox:local", "sleep", "3600"]].concat());
    for number in 0..3 {
        let name = format!("busyorph-{number}");
        ignores_sigterm(engine, &name, "busybox:local", &dead("busyorph", "dead"));
    }
    let argus = Controller::start(engine, young());
    argus.write_spec(
        "e2e.yaml",
        "version: \"1\"\nproject: { name: busyorph }\nservices:\n  app: { image: \"busybox:local\", container: { name: busyorph-app } }\n",
    );
    let failed = argus.wait_until(
        LIMIT * 2,
        "the network is reported, the containers are gone",
        || {
            let status = argus.controller_status();
            let orphans = status["orphans"].as_array()?;
            let network = orphans.iter().find(|one| one["name"] == "busyorph-old")?;
            let is_gone = (0..3).all(|number| engine.inspect(&format!("busyorph-{number}")).is_none());
            (network["result"] == "failed" && is_gone).then(|| network.clone())
        },
    );
    assert!(text(&failed["message"]).contains("busyorph-user"), "{failed:#}");
    assert!(
        running(engine, "busyorph-user"),
        "a foreign container is never changed"
    );
    // The removal continues automatically.
    engine.docker_ok(&["rm", "-f", "busyorph-user"]);
    argus.wait_until(LIMIT * 2, "the network is gone", || {
        let found = engine.docker_ok(&["network", "ls", "-q", "--filter", "name=busyorph-old"]);
        found.trim().is_empty().then_some(())
    });
}
