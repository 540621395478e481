//! Drift and life cycle on a real engine: manual changes, image health checks, crashes, data, expiry.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::sync::atomic::{AtomicBool, Ordering};

use argus_tests::fixture::{LIMIT, condition, container_runs, engine, running, shop, text};
use argus_tests::{Controller, RunOptions, wait};
use serde_json::Value;

use super::journal::actions;

#[test]
fn plain_container_name_resolves_within_a_namespace() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    let file = shop("spaced", 18604, "one") + "isolation: { namespace: grove }\n";
    argus.write_spec("e2e.yaml", &file);
    argus.wait_ready("grove", LIMIT);
    assert!(engine.inspect("spaced-api").is_none());
    let page = [
        "exec",
        "grove-spaced-web",
        "busybox",
        "wget",
        "-qO-",
        "http://spaced-api:8080/healthz",
    ];
    engine.docker_ok(&page);
    let before = container_runs(engine, "spaced");

    // A container has the name of an older version.
    engine.docker_ok(&["rename", "grove-spaced-api", "spaced-api-grove"]);
    argus.wait_until(LIMIT, "the name of this version", || {
        engine.inspect("grove-spaced-api").map(|_| ())
    });
    assert_eq!(container_runs(engine, "spaced"), before, "no container restarts");
    engine.docker_ok(&page);
}

#[test]
fn manual_changes_are_reverted() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &shop("byhand", 18600, "one"));
    argus.wait_ready("byhand", LIMIT);
    let before = container_runs(engine, "byhand");

    engine.docker_ok(&["rename", "byhand-api", "byhand-elsewhere"]);
    argus.wait_until(LIMIT, "the name is restored", || {
        engine.inspect("byhand-api").map(|_| ())
    });
    argus.wait_ready("byhand", LIMIT);
    assert_eq!(
        container_runs(engine, "byhand"),
        before,
        "a name is restored without a restart"
    );

    engine.docker_ok(&["update", "--restart", "always", "byhand-api"]);
    argus.wait_until(LIMIT, "the restart policy is restored", || {
        let policy = text(&engine.inspect("byhand-api")?["HostConfig"]["RestartPolicy"]["Name"]);
        (running(engine, "byhand-api") && policy == "no").then_some(())
    });
    argus.wait_ready("byhand", LIMIT);
    let after = container_runs(engine, "byhand");
    assert_eq!(after["byhand-db"], before["byhand-db"]);
    assert_eq!(after["byhand-web"], before["byhand-web"]);

    // Created by hand with the labels of Argus.
    let found = engine.inspect("byhand-api").expect("it is there");
    let labels = found["Config"]["Labels"].as_object().expect("labels");
    let labels: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect();
    assert!(argus.cli(&["hold", "byhand"]).status.success());
    engine.docker_ok(&["rm", "-f", "byhand-api"]);
    let mut words = vec![
        "run",
        "-d",
        "--name",
        "byhand-api",
        "--network",
        "argusai-byhand-network",
    ];
    words.extend(labels.iter().flat_map(|label| ["--label", label]));
    words.extend(["-v", "/tmp:/foreign", "busybox:local", "sleep", "7777"]);
    engine.docker_ok(&words);
    assert!(argus.cli(&["resume", "byhand"]).status.success());
    argus.wait_until(LIMIT, "it is replaced", || {
        let found = engine.inspect("byhand-api")?;
        let is_by_hand = found["Mounts"].to_string().contains("/foreign");
        (running(engine, "byhand-api") && !is_by_hand).then_some(())
    });
    argus.wait_ready("byhand", LIMIT);

    // On the network again, but without its aliases.
    let network = "argusai-byhand-network";
    engine.docker_ok(&["network", "disconnect", "-f", network, "byhand-api"]);
    engine.docker(
        "network connect argusai-byhand-network byhand-api"
            .split(' ')
            .collect::<Vec<_>>()
            .as_slice(),
    );
    argus.wait_until(LIMIT, "its aliases are restored", || {
        let at = engine.inspect("byhand-api")?["NetworkSettings"]["Networks"][network].clone();
        at["Aliases"].to_string().contains("\"api\"").then_some(())
    });
    argus.wait_ready("byhand", LIMIT);
}

#[test]
fn containers_are_confined_as_declared() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    let spec = |policy: &str| {
        format!(
            "project: {{ name: confined }}\n{policy}services:\n  one:\n    image: busybox:local\n    command: [\"sleep\", \"3600\"]\n    \
             container: {{ name: confined-one }}\n"
        )
    };
    let host = || engine.inspect("confined-one").expect("it is there")["HostConfig"].clone();
    argus.write_spec("e2e.yaml", &spec(""));
    argus.wait_ready("confined", LIMIT);
    let usual = host();
    assert_eq!((&usual["PidsLimit"], &usual["Init"]), (&512.into(), &true.into()));
    assert!(usual["SecurityOpt"].to_string().contains("no-new-privileges"));

    let policy = "{ init: false, noNewPrivileges: false, pidsLimit: 64, logMaxSize: 250KB, logMaxFiles: 2 }";
    argus.write_spec("e2e.yaml", &spec(&format!("argus: {{ policy: {policy} }}\n")));
    argus.wait_until(LIMIT, "it is replaced by a confined container", || {
        (engine.inspect("confined-one")?["HostConfig"]["PidsLimit"] == 64).then_some(())
    });
    let status = argus.wait_ready("confined", LIMIT);
    let request = host();
    assert_eq!(request["Init"], false);
    assert!(!request["SecurityOpt"].to_string().contains("no-new-privileges"));
    let log = &request["LogConfig"]["Config"];
    assert_eq!(
        (text(&log["max-size"]), text(&log["max-file"])),
        ("250000".into(), "2".into())
    );
    assert!(
        !status["notes"].to_string().contains("argus.policy"),
        "{status:#}"
    );

    // Argus restores a limit that was changed later.
    for limit in ["5000", "-1"] {
        let before = container_runs(engine, "confined");
        engine.docker_ok(&["update", "--pids-limit", limit, "confined-one"]);
        argus.wait_until(LIMIT, "the limit is restored", || {
            let now = engine.inspect("confined-one")?;
            (now["HostConfig"]["PidsLimit"] == 64 && container_runs(engine, "confined") != before)
                .then_some(())
        });
        argus.wait_ready("confined", LIMIT);
    }
}

#[test]
fn environment_ends_after_its_ttl() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    let spec = |ttl: &str| {
        format!(
            "project: {{ name: brief }}\nargus: {{ ttl: {ttl} }}\nservices:\n  one:\n    image: busybox:local\n    \
             command: [\"sleep\", \"3600\"]\n    container: {{ name: brief-one }}\n"
        )
    };
    let made = || (!container_runs(engine, "brief").is_empty()).then_some(());
    let gone = || {
        let networks = engine.docker_ok(&["network", "ls", "-q", "--filter", "label=argusai.project=brief"]);
        (container_runs(engine, "brief").is_empty() && networks.is_empty()).then_some(())
    };
    argus.write_spec("e2e.yaml", &spec("6s"));
    argus.wait_until(LIMIT, "it is created", made);
    argus.wait_until(LIMIT, "the environment expires", gone);
    argus.wait_until(LIMIT, "the status names the expiry", || {
        let get = argus.cli(&["get", "brief"]);
        let output = String::from_utf8_lossy(&get.stderr).into_owned();
        output.contains("expired after its `argus.ttl`").then_some(())
    });
    // The removed container belongs to no desired environment.
    let events = argus.cli(&["events", "--type", "intent"]);
    assert!(
        String::from_utf8_lossy(&events.stdout).contains("its `argus.ttl` is over"),
        "{events:?}"
    );

    // It does not return with the controller.
    let done = actions(&argus);
    argus.kill9();
    argus.start_again();
    argus.assert_settled("brief");
    assert_eq!(actions(&argus), done, "it stays removed");
    assert!(gone().is_some());

    assert_eq!(argus.cli(&["retry", "brief"]).status.code(), Some(0));
    argus.wait_until(LIMIT, "a retry restores it", made);
    argus.wait_until(LIMIT, "for the full time again", gone);
    argus.write_spec("e2e.yaml", &spec("2h"));
    argus.wait_ready("brief", LIMIT);
}

#[test]
fn image_healthcheck_decides_ready() {
    let engine = engine();
    engine.make_busybox_image(
        "checked:local",
        &[
            "CMD [\"sleep\", \"3600\"]",
            "HEALTHCHECK --interval=1s --timeout=2s --retries=2 CMD [\"test\", \"-f\", \"/tmp/good\"]",
        ],
    );
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec(
        "e2e.yaml",
        "project: { name: checked }\nservices:\n  one:\n    image: checked:local\n    container: { name: checked-one }\n",
    );
    argus.wait_status("checked", LIMIT, "reports that it is unhealthy", |now| {
        Controller::service(now, "one")["health"] == "Unhealthy" && now["phase"] != "Ready"
    });
    engine.docker_ok(&["exec", "checked-one", "touch", "/tmp/good"]);
    let status = argus.wait_ready("checked", LIMIT);
    assert_eq!(Controller::service(&status, "one")["health"], "Healthy");
}

#[test]
fn crash_loop_is_delayed_and_then_given_up() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec(
        "e2e.yaml",
        "project: { name: loops }\nresilience: { container: { maxRestarts: 2, restartDelay: 1s } }\nservices:\n  \
         bad:\n    image: busybox:local\n    command: [\"sh\", \"-c\", \"exit 3\"]\n    container: { name: loops-bad }\n",
    );
    let status = argus.wait_status("loops", LIMIT, "gives up", |now| {
        now.to_string().contains("CONTAINER_RESTART_EXHAUSTED")
    });
    assert_eq!(Controller::service(&status, "bad")["restarts"], 2, "{status:#}");
    let starts = text(&engine.inspect("loops-bad").expect("it stays for inspection")["State"]["StartedAt"]);
    // A plan contains the steps that only time delays, but an exhausted budget allows none. The file with the budget follows the status.
    let done = actions(&argus);
    argus.wait_until(LIMIT, "an exhausted budget allows no restart", || {
        (argus.plan("loops")["steps"] == serde_json::json!([])).then_some(())
    });
    assert_eq!(actions(&argus), done);
    // A person requests a retry.
    assert_eq!(argus.cli(&["retry", "loops"]).status.code(), Some(0));
    argus.wait_until(LIMIT, "it is started again", || {
        let now = engine.inspect("loops-bad")?;
        (text(&now["State"]["StartedAt"]) != starts).then_some(())
    });
}

#[test]
fn given_up_service_is_retried_with_a_moved_tag() {
    let engine = engine();
    engine.make_busybox_image("turned:local", &["CMD [\"sh\", \"-c\", \"exit 3\"]"]);
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec(
        "e2e.yaml",
        "project: { name: turned }\nresilience: { container: { maxRestarts: 1, restartDelay: 1s } }\nservices:\n  \
         one:\n    image: turned:local\n    container: { name: turned-one }\n",
    );
    argus.wait_status("turned", LIMIT, "gives up", |now| {
        now.to_string().contains("CONTAINER_RESTART_EXHAUSTED")
    });
    engine.make_busybox_image("turned:local", &[]);
    // Without a request of a person.
    let status = argus.wait_ready("turned", LIMIT);
    assert_eq!(
        Controller::service(&status, "one")["state"],
        "Ready",
        "{status:#}"
    );
    let events = argus.cli(&["events", "turned", "--type", "intent"]);
    let output = String::from_utf8_lossy(&events.stdout).into_owned();
    assert!(output.contains("image retagged"), "{output}");
}

#[test]
fn emptied_folder_removes_no_environment() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    let spec = |name: &str| {
        format!(
            "project: {{ name: {name} }}\nservices:\n  one:\n    image: busybox:local\n    command: [\"sleep\", \"3600\"]\n    \
             container: {{ name: {name}-one }}\n"
        )
    };
    let names = ["unmounted-a", "unmounted-b"];
    let write = || names.map(|name| argus.write_spec(&format!("{name}.e2e.yaml"), &spec(name)));
    write();
    for name in names {
        argus.wait_ready(name, LIMIT);
    }
    let runs = names.map(|name| container_runs(engine, name));
    let done = actions(&argus);
    for name in names {
        argus.remove_spec(&format!("{name}.e2e.yaml"));
    }
    let is_emptied = |status: &Value| {
        let found = condition(status, "SpecsAvailable");
        found["status"] == "False" && found["reason"] == "FolderEmptied"
    };
    for name in names {
        argus.wait_status(name, LIMIT, "reports the empty folder", is_emptied);
    }
    // `emptied_folder_removes_nothing_for_a_minute` shows that the grace period of one file does not end this.
    argus.sync();
    assert_eq!(actions(&argus), done, "nothing is removed");
    write();
    let is_back = |status: &Value| condition(status, "SpecsAvailable")["status"] == "True";
    for name in names {
        argus.wait_status(name, LIMIT, "has its file again", is_back);
        argus.assert_settled(name);
    }
    // A folder that is away limits what the controller does.
    let away = argus.specs.with_file_name("away");
    let is_mode = |mode: &str| {
        argus.wait_until(LIMIT, mode, || {
            let status = argus.controller_status();
            (status["mode"] == mode).then_some(status)
        })
    };
    std::fs::rename(&argus.specs, &away).expect("the folder exists");
    let limited = is_mode("Limited");
    let reason = text(&limited["modeReason"]);
    assert!(reason.contains("specs` cannot be read"), "{limited:#}");
    std::fs::rename(&away, &argus.specs).expect("the folder exists");
    is_mode("Full");
    assert_eq!(actions(&argus), done, "nothing was restarted");
    assert_eq!(names.map(|name| container_runs(engine, name)), runs);
}

#[test]
fn named_volume_outlives_its_environment() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    let spec = |name: &str, more: &str| {
        format!(
            "project: {{ name: {name} }}\n{more}services:\n  one:\n    image: busybox:local\n    command: [\"sleep\", \"3600\"]\n    \
             container: {{ name: {name}-one, volumes: [\"{name}-data:/data\"] }}\n"
        )
    };
    argus.write_spec("kept.e2e.yaml", &spec("kept", ""));
    argus.write_spec(
        "dropped.e2e.yaml",
        &spec("dropped", "argus: { deletion: { volumes: Delete } }\n"),
    );
    // An emptied folder postpones every removal.
    argus.write_spec("other.e2e.yaml", &spec("other", ""));
    argus.wait_ready("kept", LIMIT);
    argus.wait_ready("dropped", LIMIT);
    let labels = volume(engine, "argusai-kept_kept-data").expect("it was created")["Labels"].clone();
    assert_eq!(labels["argusai.environment"], "kept");
    assert_eq!(labels["argusai.role"], "volume");
    argus.remove_spec("kept.e2e.yaml");
    argus.remove_spec("dropped.e2e.yaml");
    argus.wait_until(LIMIT, "the volume is removed", || {
        volume(engine, "argusai-dropped_dropped-data")
            .is_none()
            .then_some(())
    });
    argus.wait_until(LIMIT, "the other environment is removed too", || {
        container_runs(engine, "kept").is_empty().then_some(())
    });
    assert!(volume(engine, "argusai-kept_kept-data").is_some(), "data is kept");
    engine.docker_ok(&["volume", "rm", "argusai-kept_kept-data"]);
}

#[test]
fn environment_is_down_until_an_edit_of_its_spec_file() {
    let engine = engine();
    let argus = Controller::prepare(engine, RunOptions::default());
    let spec = "project: { name: shelved }\nservices:\n  web:\n    build: { context: ./app }\n    command: [\"sleep\", \"3600\"]\n    stopGrace: 1s\n    \
         container: { name: shelved-web, environment: { GREETING: \"{{env.GREETING}}\" }, volumes: [\"shelved-data:/data\"] }\n";
    let specs = argus.specs.clone();
    let write = |name: &str, text: &str| std::fs::write(specs.join(name), text).expect("a file");
    std::fs::create_dir(argus.specs.join("app")).expect("a build context");
    write("app/Dockerfile", "FROM busybox:local\nCOPY main.c /main.c\n");
    write("app/main.c", "int main;");
    write(".env", "GREETING=one\n");
    write("e2e.yaml", spec);
    argus.start_again();
    argus.wait_ready("shelved", LIMIT);
    engine.docker_ok(&["kill", "shelved-web"]);
    argus.wait_status("shelved", LIMIT, "runs again", |status| {
        status["phase"] == "Ready" && Controller::service(status, "web")["restarts"] == 1
    });

    // The removal completes, although the build context changes all the time.
    let is_done = AtomicBool::new(false);
    let down = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut edits = 0;
            let edit = || {
                edits += 1;
                write("app/main.c", &format!("int main; // {edits}"));
                is_done.load(Ordering::Relaxed).then_some(())
            };
            wait::until(2 * LIMIT, "the removal ends", edit);
        });
        let down = argus.cli(&["down", "shelved"]);
        is_done.store(true, Ordering::Relaxed);
        down
    });
    assert!(down.status.success(), "{}", String::from_utf8_lossy(&down.stderr));
    let is_down = || {
        // The plan contains all edits so far.
        let plan = argus.plan("shelved");
        assert_eq!(plan["down"], true, "{plan:#}");
        assert!(argus.status("shelved").is_null());
        assert!(engine.inspect("shelved-web").is_none());
    };
    write("app/main.c", "int main; // after the removal");
    write(".env", "GREETING=two\n");
    is_down();
    assert!(argus.stop().success());
    write("app/main.c", "int main; // while no controller runs");
    argus.start_again();
    is_down();

    argus.write_spec("e2e.yaml", &format!("{spec}# edited\n"));
    let status = argus.wait_ready("shelved", LIMIT);
    let env = &engine.inspect("shelved-web").expect("it runs")["Config"]["Env"];
    assert!(env.to_string().contains("GREETING=two"), "{env}");
    // The counters belong to one life of the environment, although its volume stayed.
    assert_eq!(Controller::service(&status, "web")["restarts"], 0, "{status:#}");
    argus.remove_spec("e2e.yaml");
    argus.wait_until(LIMIT, "the environment is removed", || {
        container_runs(engine, "shelved").is_empty().then_some(())
    });
    engine.docker_ok(&["volume", "rm", "argusai-shelved_shelved-data"]);
}

#[test]
fn stop_after_a_requested_restart_is_of_another_client() {
    let engine = engine();
    // No periodic list follows the first one within the limits of this test: only events show the changes.
    let waits = "externalStop=1s,listInterval=600s";
    let options = RunOptions {
        env: vec![("ARGUS_WAITS".to_owned(), waits.to_owned())],
        ..RunOptions::default()
    };
    let argus = Controller::start(engine, options);
    let spec = "project: { name: bystander }\nservices:\n  web:\n    image: busybox:local\n    command: [\"sleep\", \"3600\"]\n    \
         stopGrace: 1s\n    container: { name: bystander-web }\n";
    argus.write_spec("e2e.yaml", spec);
    argus.wait_ready("bystander", LIMIT);
    let runs = || container_runs(engine, "bystander");
    let first = runs();
    for command in [["restart", "bystander/web"], ["wait", "bystander"]] {
        let ended = argus.cli(&command);
        assert!(
            ended.status.success(),
            "{}",
            String::from_utf8_lossy(&ended.stderr)
        );
    }
    let restarted = runs();
    assert_ne!(restarted, first);
    engine.docker_ok(&["stop", "-t", "1", "bystander-web"]);
    argus.wait_until(LIMIT, "it runs again", || {
        (running(engine, "bystander-web") && runs() != restarted).then_some(())
    });
    argus.wait_ready("bystander", LIMIT);
    let events = argus.cli(&["events", "-o", "json"]);
    let events = String::from_utf8_lossy(&events.stdout);
    assert!(events.contains("stopped externally"), "{events}");
    assert!(!events.contains("CONTAINER_CRASH"), "{events}");

    let removed = runs()["bystander-web"].0.clone();
    engine.docker_ok(&["rm", "-f", "bystander-web"]);
    argus.wait_until(LIMIT, "it is replaced before the next list", || {
        let is_new = runs().get("bystander-web").is_some_and(|(id, _)| *id != removed);
        (is_new && running(engine, "bystander-web")).then_some(())
    });
}

fn volume(engine: &argus_tests::PrivateEngine, name: &str) -> Option<Value> {
    let output = engine.docker(&["volume", "inspect", name]);
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).ok()?;
    all.into_iter().next()
}
