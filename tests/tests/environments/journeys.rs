//! Journeys of a user, on a real engine with the real binary.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use argus_tests::fixture::{
    IMAGE, LIMIT, condition, container_runs, engine, images, page, running, shop, text,
};
use argus_tests::{Controller, PrivateEngine, Proxy, Registry, RunOptions, wait};
use serde_json::Value;

use super::journal::actions;

fn through(proxy: &Proxy) -> RunOptions {
    RunOptions {
        host: Some(proxy.host()),
        ..RunOptions::default()
    }
}

fn with_waits(waits: &str, options: RunOptions) -> RunOptions {
    RunOptions {
        env: vec![("ARGUS_WAITS".to_owned(), waits.to_owned())],
        ..options
    }
}

/// Checks that two full lists cause no write to the engine, and that nothing is planned.
#[track_caller]
fn assert_idle(proxy: &Proxy, argus: &Controller<'_>, environment: &str) {
    let lists = || {
        let seen = proxy.seen().into_iter();
        let seen =
            seen.filter(|call| call.class == "GET /volumes" && call.request.contains("argusai.managed"));
        seen.count()
    };
    let before = lists();
    // The second list follows the reconcile pass of the first one.
    argus.wait_until(LIMIT, "two full lists", || (lists() >= before + 2).then_some(()));
    argus.assert_settled(environment);
    assert_eq!(proxy.writes_but_the_lease(), []);
}

#[test]
fn spec_file_becomes_a_stable_environment() {
    let engine = engine();
    let proxy = Proxy::start(&engine.scratch("stays").join("p.sock"), &engine.socket());
    let argus = Controller::start(engine, with_waits("listInterval=2s", through(&proxy)));
    argus.write_spec("e2e.yaml", &shop("stays", 18100, "one"));
    let status = argus.wait_ready("stays", LIMIT);
    for name in ["db", "api", "web"] {
        let service = Controller::service(&status, name);
        assert!(service["containerId"].is_string(), "{service:#}");
        assert!(
            service["waitingOn"].is_null(),
            "a Ready service waits for nothing: {service:#}"
        );
    }
    assert_eq!(page(engine, 18100).as_deref(), Some("hello"));

    let before = container_runs(engine, "stays");
    assert_eq!(before.len(), 3);
    proxy.reset_counts();
    assert_idle(&proxy, &argus, "stays");

    // A restarted controller adopts the containers.
    assert!(argus.stop().success(), "{}", argus.logs());
    argus.start_again();
    argus.wait_ready("stays", LIMIT);
    assert_idle(&proxy, &argus, "stays");
    assert_eq!(container_runs(engine, "stays"), before);
}

#[test]
fn removed_objects_are_recreated() {
    let engine = engine();
    let argus = Controller::start(engine, with_waits("externalStop=1s", RunOptions::default()));
    // A recoverable service restarts alone, as any other.
    let recoverable = "  api:\n    criticality: recoverable\n";
    let file = shop("drift", 18110, "one").replacen("  api:\n", recoverable, 1);
    assert!(file.contains(recoverable), "{file}");
    argus.write_spec("drift.e2e.yaml", &file);
    argus.wait_ready("drift", LIMIT);
    let away: [&[&str]; 5] = [
        &["kill", "drift-api"],
        &["rm", "-f", "drift-api"],
        &["stop", "-t", "1", "drift-api"],
        &["pause", "drift-api"],
        &[
            "network",
            "disconnect",
            "-f",
            "argusai-drift-network",
            "drift-api",
        ],
    ];
    for action in away {
        let others = |mut all: BTreeMap<_, _>| {
            all.remove("drift-api");
            all
        };
        let before = container_runs(engine, "drift");
        // The engine can report a killed container as running for a moment.
        let ends_the_run = ["kill", "rm", "stop"].contains(&action[0]);
        engine.docker_ok(action);
        argus.wait_until(LIMIT, &format!("repair of {action:?}"), || {
            let networks = engine.inspect("drift-api")?["NetworkSettings"]["Networks"].clone();
            let attached = networks.get("argusai-drift-network").is_some();
            let is_new_run = container_runs(engine, "drift").get("drift-api") != before.get("drift-api");
            (running(engine, "drift-api") && attached && (is_new_run || !ends_the_run)).then_some(())
        });
        argus.wait_ready("drift", LIMIT);
        assert_eq!(
            others(container_runs(engine, "drift")),
            others(before),
            "after {action:?} the others are unchanged"
        );
    }
}

/// Place of the spec file of `edited` after its rename.
const RENAMED: &str = "kiosk/edited.e2e.yaml";

/// Moves the spec file of `edited` to another folder under another name. Nothing restarts, and an edit of the file at its new place is applied.
fn rename_and_edit(engine: &PrivateEngine, argus: &Controller<'_>) {
    let (before, done) = (container_runs(engine, "edited"), actions(argus));
    std::fs::create_dir(argus.specs.join("kiosk")).expect("a folder");
    std::fs::rename(argus.specs.join("shop/e2e.yaml"), argus.specs.join(RENAMED)).expect("the file exists");
    argus.wait_status("edited", LIMIT, "names the renamed file", |now| {
        now["specPath"] == RENAMED
    });
    argus.assert_settled("edited");
    assert_eq!(actions(argus), done, "a rename changes nothing");
    assert_eq!(container_runs(engine, "edited"), before);

    argus.write_spec(RENAMED, &shop("edited", 18120, "three"));
    argus.wait_until(LIMIT, "the edit of the renamed file is applied", || {
        let env = engine.inspect("edited-web")?["Config"]["Env"].to_string();
        env.contains("GREETING=three").then_some(())
    });
    argus.wait_ready("edited", LIMIT);
    let after = container_runs(engine, "edited");
    assert_eq!(after["edited-db"], before["edited-db"]);
    assert_eq!(after["edited-api"], before["edited-api"]);
}

#[test]
fn file_is_edited_broken_repaired_and_removed() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("shop/e2e.yaml", &shop("edited", 18120, "one"));
    let status = argus.wait_ready("edited", LIMIT);
    let first = container_runs(engine, "edited");

    argus.write_spec("shop/e2e.yaml", &shop("edited", 18120, "two"));
    argus.wait_until(LIMIT, "the edit is applied", || {
        let env = engine.inspect("edited-web")?["Config"]["Env"].to_string();
        env.contains("GREETING=two").then_some(())
    });
    let edited = argus.wait_status("edited", LIMIT, "is Ready again", |now| {
        now["phase"] == "Ready" && now["revision"] != status["revision"]
    });
    let second = container_runs(engine, "edited");
    let done = actions(&argus);
    assert_ne!(second["edited-web"].0, first["edited-web"].0);
    assert_eq!(second["edited-db"], first["edited-db"]);
    assert_eq!(second["edited-api"], first["edited-api"]);

    argus.write_spec(
        "shop/e2e.yaml",
        "version: \"1\"\nproject: { name: edited }\nservices:\n\tweb: [\n",
    );
    let broken = argus.wait_status("edited", LIMIT, "reports the rejected file", |now| {
        condition(now, "SpecAccepted")["status"] == "False"
    });
    assert_eq!(
        broken["revision"], edited["revision"],
        "the last good revision stays active"
    );
    let waited = argus.cli(&["wait", "edited"]);
    let shown = String::from_utf8_lossy(&waited.stderr).into_owned();
    assert_eq!(waited.status.code(), Some(3), "{shown}");
    assert!(
        shown.contains("shop/e2e.yaml:4:") && shown.contains("keeps the content"),
        "{shown}"
    );
    argus.sync();
    assert_eq!(actions(&argus), done, "a rejected file changes nothing");

    argus.write_spec("shop/e2e.yaml", &shop("edited", 18120, "two"));
    argus.wait_status("edited", LIMIT, "accepts the repair", |now| {
        condition(now, "SpecAccepted")["status"] == "True"
    });
    argus.assert_settled("edited");
    assert_eq!(actions(&argus), done, "the repaired file is the earlier one");
    assert_eq!(container_runs(engine, "edited"), second);

    rename_and_edit(engine, &argus);
    argus.remove_spec(RENAMED);
    argus.wait_until(LIMIT, "the environment is removed", || {
        container_runs(engine, "edited").is_empty().then_some(())
    });
    argus.wait_until(LIMIT, "its network is removed too", || {
        let networks = engine.docker_ok(&["network", "ls", "-q", "--filter", "label=argusai.project=edited"]);
        networks.is_empty().then_some(())
    });
}

#[test]
fn command_after_an_edit_sees_the_edit() {
    let argus = Controller::start(engine(), RunOptions::default());
    let file = |mood: &str| {
        format!(
            "project: {{ name: prompt }}\nservices:\n  - name: web\n    image: {IMAGE}\n    \
             container: {{ name: prompt-web, environment: {{ MOOD: {mood} }} }}\n"
        )
    };
    argus.write_spec("e2e.yaml", &file("first"));
    argus.wait_ready("prompt", LIMIT);
    for mood in ["second", "third"] {
        argus.write_spec("e2e.yaml", &file(mood));
        let waited = argus.cli(&["wait", "prompt"]);
        assert!(waited.status.success(), "{waited:?}");
        let output = engine().inspect("prompt-web").expect("the container runs")["Config"]["Env"].to_string();
        assert!(output.contains(&format!("MOOD={mood}")), "{output}");
    }
    argus.write_spec("e2e.yaml", &file("fourth"));
    let down = argus.cli(&["down", "prompt"]);
    assert!(down.status.success(), "{down:?}");
    assert_eq!(engine().inspect("prompt-web"), None, "the edit is applied first");
    let gone = argus.cli(&["get", "prompt"]);
    assert!(!gone.status.success(), "it stays removed: {gone:?}");
}

#[test]
fn taken_port_moves_and_is_reported_everywhere() {
    let engine = engine();
    engine.docker_ok(&[
        "run",
        "-d",
        "--name",
        "foreign-port",
        "-p",
        "127.0.0.1:18130:8080",
        IMAGE,
    ]);
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &shop("moved", 18130, "one"));
    let status = argus.wait_ready("moved", LIMIT);
    let mapping = status["portMappings"][0].clone();
    assert_eq!(
        (
            &mapping["service"],
            &mapping["originalPort"],
            &mapping["reassigned"]
        ),
        (&Value::from("web"), &Value::from(18130), &Value::from(true))
    );
    let port = mapping["actualPort"].as_u64().expect("a port");
    assert!((9000..=9999).contains(&port), "{mapping}");
    assert_eq!(page(engine, port).as_deref(), Some("hello"));
    let env = std::fs::read_to_string(argus.state.join("environments/moved.env")).expect("the .env file");
    assert!(env.contains(&format!("ARGUS_WEB_8080=127.0.0.1:{port}")), "{env}");
    assert!(
        running(engine, "foreign-port"),
        "the holder of the port is untouched"
    );
    engine.docker_ok(&["rm", "-f", "foreign-port"]);
}

#[test]
fn foreign_container_with_the_name_is_never_changed() {
    let engine = engine();
    engine.docker_ok(&["run", "-d", "--name", "named-web", "busybox:local"]);
    let before = engine.inspect("named-web").expect("the container exists");
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &shop("named", 18140, "one"));
    argus.wait_status("named", LIMIT, "reports the conflict", |now| {
        now.to_string().contains("NAME_CONFLICT")
    });
    assert_eq!(
        engine.inspect("named-web").expect("it still exists")["State"],
        before["State"]
    );
    engine.docker_ok(&["rm", "-f", "named-web"]);
    argus.wait_ready("named", LIMIT);
}

#[test]
fn service_costs_create_start_and_one_inspect() {
    let engine = engine();
    let proxy = Proxy::start(&engine.scratch("frugal").join("p.sock"), &engine.socket());
    let argus = Controller::start(engine, through(&proxy));
    argus.write_spec("e2e.yaml", &shop("frugal", 18195, "one"));
    argus.wait_ready("frugal", LIMIT);
    let seen = proxy.seen();
    let made = |class: &str| seen.iter().filter(|call| call.class == class).count();
    assert_eq!(made("POST /containers/create"), 3, "{seen:#?}");
    assert_eq!(made("POST /containers/*/start"), 3, "{seen:#?}");
    assert_eq!(made("POST /networks/create"), 1, "{seen:#?}");
    for (name, (id, _)) in container_runs(engine, "frugal") {
        let checks = seen
            .iter()
            .filter(|call| call.request == format!("GET /containers/{id}/json"));
        // An event that follows the inspect after its call causes one more inspect.
        assert!(checks.count() <= 2, "{name}: {seen:#?}");
    }

    // A replacement exists before the old container stops.
    let first = argus.status("frugal")["revision"].clone();
    proxy.reset_counts();
    argus.write_spec("e2e.yaml", &shop("frugal", 18195, "two"));
    argus.wait_status("frugal", LIMIT, "is Ready with the edit", |now| {
        now["phase"] == "Ready" && now["revision"] != first
    });
    let seen = proxy.seen();
    let position = |class: &str| seen.iter().position(|call| call.class == class);
    let order = [
        "POST /containers/create",
        "POST /containers/*/stop",
        "DELETE /containers/*",
    ]
    .map(position);
    assert!(order[0].is_some() && order.is_sorted(), "{order:?}: {seen:#?}");
}

#[test]
fn image_is_built_and_a_one_shot_runs_first() {
    let engine = engine();
    let argus = Controller::prepare(engine, RunOptions::default());
    let folder = argus.specs.join("built");
    std::fs::create_dir_all(&folder).expect("a directory");
    std::fs::write(
        folder.join("Dockerfile"),
        format!("FROM {IMAGE}\nENV BUILT=yes\n"),
    )
    .expect("a Dockerfile");
    argus.write_spec(
        "built/e2e.yaml",
        r#"version: "1"
project: { name: built }
services:
  - name: migrate
    image: busybox:local
    command: ["true"]
    oneShot: true
    container: { name: built-migrate }
  - name: app
    build: { image: "journey-built:local", dockerfile: ./Dockerfile, context: . }
    dependsOn: [{ service: migrate, condition: completed }]
    container:
      name: built-app
      healthcheck: { type: tcp, port: 8080, interval: 500ms, timeout: 1s, retries: 20, startPeriod: 5s }
"#,
    );
    assert_dry_run(&argus, "built");
    argus.start_again();
    argus.wait_ready("built", LIMIT);
    let app = engine.inspect("built-app").expect("the container runs");
    assert!(
        app["Config"]["Env"].to_string().contains("BUILT=yes"),
        "{:#}",
        app["Config"]
    );
    let migrate = engine
        .inspect("built-migrate")
        .expect("the job stays for inspection");
    assert_eq!(migrate["State"]["ExitCode"], 0);
    assert!(text(&migrate["State"]["FinishedAt"]) <= text(&app["State"]["StartedAt"]));
    argus.assert_settled("built");
    let all = actions(&argus);
    let is_run = |action: &&String| action.starts_with("start-container") && action.contains("migrate");
    assert_eq!(all.iter().filter(is_run).count(), 1, "{all:#?}");
}

/// Asserts that `argus plan` shows the creation of an environment, each step with its cause.
fn assert_dry_run(argus: &Controller<'_>, environment: &str) {
    let planned = argus.cli(&["plan", environment, "-o", "json"]);
    let planned: Value = serde_json::from_slice(&planned.stdout).unwrap_or_default();
    let steps = planned["environments"][0]["steps"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let words = argus.cli(&["plan", environment]).stdout;
    let words = String::from_utf8_lossy(&words).into_owned();
    for step in &steps {
        let (verb, why) = (text(&step["verb"]), text(&step["why"]));
        let is_shown =
            |line: &str| line.trim_start().starts_with(&verb) && line.ends_with(&format!("({why})"));
        assert!(
            !why.is_empty() && words.lines().any(is_shown),
            "{step:#}: {words}"
        );
    }
    let verbs: BTreeSet<String> = steps.iter().map(|step| text(&step["verb"])).collect();
    let expected = [
        "build-image",
        "create-network",
        "create-container",
        "start-container",
    ];
    assert_eq!(verbs, expected.map(str::to_owned).into(), "{planned:#}");
}

#[test]
fn image_that_a_person_built_keeps_its_tag() {
    let engine = engine();
    let argus = Controller::prepare(engine, RunOptions::default());
    let folder = argus.specs.join("by-hand");
    std::fs::create_dir_all(&folder).expect("a directory");
    let dockerfile = |value: &str| {
        let text = format!("FROM {IMAGE}\nENV BUILT={value}\n");
        std::fs::write(folder.join("Dockerfile"), text).expect("a Dockerfile");
    };
    dockerfile("one");
    let tag = "journey-by-hand:local";
    // It has the labels of a build of Argus, as if it were based on one.
    let label = format!("LABEL argusai.build-tag={tag} argusai.build-digest=0");
    let container = engine.docker_ok(&["create", IMAGE]);
    engine.docker_ok(&["commit", "--change", &label, &container, tag]);
    engine.docker_ok(&["rm", &container]);
    let id = || engine.docker_ok(&["image", "inspect", "-f", "{{.Id}}", tag]);
    let by_hand = id();
    let text = format!(
        "project: {{ name: by-hand }}\nservices:\n  app:\n    image: {tag}\n    build: {{ context: . }}\n    stopGrace: 1s\n    \
         container: {{ name: by-hand-app }}\n"
    );
    argus.write_spec("by-hand/e2e.yaml", &text);
    argus.start_again();
    argus.wait_ready("by-hand", LIMIT);
    let variables = || engine.inspect("by-hand-app").expect("it runs")["Config"]["Env"].to_string();
    assert!(variables().contains("BUILT=one"), "{}", variables());
    assert_eq!(id(), by_hand);
    // A later controller keeps the container, and an edit builds the image again.
    let before = container_runs(engine, "by-hand");
    argus.kill9();
    argus.start_again();
    argus.wait_ready("by-hand", LIMIT);
    argus.assert_settled("by-hand");
    assert_eq!(container_runs(engine, "by-hand"), before);
    dockerfile("two");
    argus.sync();
    argus.wait_until(LIMIT, "the edited image runs", || {
        let seen = engine.inspect("by-hand-app")?;
        seen["Config"]["Env"]
            .to_string()
            .contains("BUILT=two")
            .then_some(())
    });
    assert_eq!(id(), by_hand);
}

#[test]
fn image_is_pulled_and_a_missing_one_reported() {
    let engine = engine();
    let registry = Registry::start(engine, 5050);
    engine.make_web_image("pulled:1", "hello");
    let name = registry.push(engine, "pulled:1");
    engine.docker_ok(&["rmi", "pulled:1"]);
    let argus = Controller::start(engine, RunOptions::default());
    let spec = |image: &str| shop("pulled", 18190, "one").replace(IMAGE, image);
    argus.write_spec("e2e.yaml", &spec(&format!("{}/absent:1", registry.address)));
    argus.wait_status("pulled", LIMIT, "reports the missing image", |now| {
        now.to_string().contains("IMAGE_NOT_FOUND")
    });
    argus.write_spec("e2e.yaml", &spec(&name));
    let ready = argus.wait_ready("pulled", LIMIT);
    assert_eq!(page(engine, 18190).as_deref(), Some("hello"));

    // The next revision has no image, so nothing replaces the containers.
    let before = container_runs(engine, "pulled");
    assert_eq!(before.len(), 3, "{before:?}");
    argus.write_spec("e2e.yaml", &spec(&format!("{}/absent:2", registry.address)));
    argus.wait_status("pulled", LIMIT, "reports the missing image of the edit", |now| {
        now["revision"] != ready["revision"] && now["errors"].to_string().contains("IMAGE_NOT_FOUND")
    });
    assert_eq!(container_runs(engine, "pulled"), before, "nothing is replaced");
    for container in before.keys() {
        assert!(running(engine, container), "{container}");
    }
    assert_eq!(page(engine, 18190).as_deref(), Some("hello"));
}

#[test]
fn repeatedly_killed_controller_reaches_the_same_end() {
    let engine = engine();
    let argus = Controller::prepare(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &shop("killed", 18150, "one"));
    for round in 0..10 {
        argus.start_again();
        // Each round ends at another point of the convergence; an earlier Ready ends it too.
        let moment = Duration::from_millis(150 + 250 * round);
        let _ = wait::poll(moment, || {
            (argus.status("killed")["phase"] == "Ready" && round < 9).then_some(())
        });
        argus.kill9();
    }
    argus.start_again();
    argus.wait_ready("killed", LIMIT);
    let settled = container_runs(engine, "killed");
    assert_eq!(settled.len(), 3, "no service is duplicated: {settled:?}");
    argus.assert_settled("killed");
    let done = actions(&argus);
    argus.kill9();
    argus.start_again();
    argus.wait_ready("killed", LIMIT);
    argus.assert_settled("killed");
    assert_eq!(actions(&argus), done, "healthy containers are adopted");
    assert_eq!(container_runs(engine, "killed"), settled);
}

#[test]
fn engine_restart_uses_no_budget() {
    let engine = PrivateEngine::start();
    images(&engine);
    let argus = Controller::start(&engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &shop("restart", 18160, "one"));
    argus.wait_ready("restart", LIMIT);
    for _ in 0..2 {
        engine.kill9();
        argus.wait_status(
            "restart",
            LIMIT,
            "reports that the engine is unreachable",
            |now| condition(now, "EngineReachable")["status"] == "False",
        );
        engine.start_again();
        let status = argus.wait_status("restart", LIMIT, "is Ready again", |now| {
            now["phase"] == "Ready" && condition(now, "EngineReachable")["status"] != "False"
        });
        for name in ["db", "api", "web"] {
            assert_eq!(
                Controller::service(&status, name)["restartBudget"]["used"],
                0,
                "{status:#}"
            );
        }
    }
}

#[test]
fn cli_reads_status_without_a_controller() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &shop("cli", 18170, "one"));
    argus.wait_ready("cli", LIMIT);
    let code = |args: &[&str]| argus.cli(args).status.code();
    assert_eq!(
        code(&["wait", "cli", "--for", "ready", "--timeout", "5s"]),
        Some(0)
    );
    assert!(argus.stop().success());
    let output = argus.cli(&["get", "-o", "json"]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
    assert!(json.to_string().contains("cli-web"), "{json:#}");
    assert_eq!(code(&["describe", "cli"]), Some(0));
    assert_eq!(code(&["explain", "PORT_CONFLICT"]), Some(0));
    assert_eq!(code(&["no-such-verb"]), Some(2));
    std::fs::write(argus.specs.join("bad.yaml"), "project: 7\nservices: {}\n").expect("a file");
    let bad = argus.specs.join("bad.yaml");
    assert_eq!(code(&["validate", &bad.to_string_lossy()]), Some(3));
}
