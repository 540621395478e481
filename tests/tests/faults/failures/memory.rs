//! Memory: `CONTAINER_OOM` requires evidence.

use argus_tests::Controller;
use argus_tests::fixture::LIMIT;

use super::case::{Case, once, shell};
use super::evidence::{facts, shown};

const LIMIT_BYTES: u64 = 32 * 1024 * 1024;
/// Doubles a variable until the kernel kills the shell.
pub(super) const GROW: &str = "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done";

#[test]
fn process_over_its_memory_is_reported_as_oom() {
    let case = Case::start(
        "outgrows",
        "maxRestarts: 8, restartDelay: 1s, restartBackoff: linear",
        &shell("outgrows", &format!("echo growing; {GROW}"), "memory: 32m"),
    );
    // The engine omits both its flag and its event for some real kills, so one of several counts.
    let error = case.wait_error("CONTAINER_OOM");
    let details = &error["details"];
    assert_eq!(details["memoryLimit"], LIMIT_BYTES, "{error:#}");
    assert!(details["memoryPeak"].as_u64() >= Some(LIMIT_BYTES), "{error:#}");
    assert!(
        details["oomKilled"] == true || details["oomEvent"] == true,
        "{error:#}"
    );
    assert_eq!(error["exitCode"], 137);
    assert_eq!(details["oomConfidence"], "certain", "{error:#}");
    let kept = case.argus.wait_until(LIMIT, "its evidence is stored", || {
        std::fs::read_to_string(case.evidence(&error).join("stdout.log")).ok()
    });
    assert!(kept.ends_with(" growing\n"), "{kept}");
}

#[test]
fn child_oom_is_not_its_parents_oom() {
    let script = once(&format!("sh -c '{GROW}'; exit 0"));
    let case = Case::start(
        "childoom",
        "restartDelay: 1s",
        &shell("childoom", &script, "memory: 32m"),
    );
    let status = case
        .argus
        .wait_status("childoom", LIMIT, "is restarted", |status| {
            assert!(!status.to_string().contains("CONTAINER_OOM"), "{status:#}");
            let bad = Controller::service(status, "bad");
            bad["restarts"] == 1 && bad["state"] == "Ready"
        });
    let error = Controller::service(&status, "bad")["lastError"].clone();
    assert_eq!(error["code"], "CONTAINER_CRASH", "{error:#}");
    assert_eq!(error["exitCode"], 0);
}

#[test]
fn peak_is_measured_without_a_limit() {
    // The variable has 32 MiB at the end.
    let script =
        once("x=aaaaaaaaaaaaaaaa; n=0; while [ $n -lt 21 ]; do x=$x$x; n=$((n+1)); done; sleep 8; exit 3");
    let case = Case::start("unlimited", "restartDelay: 1s", &shell("unlimited", &script, ""));
    let output = case.wait("has the evidence of its run", |bad| {
        bad["lastError"]["details"]["missing"].is_array()
    });
    let error = &output["lastError"];
    assert_eq!(
        error["details"]["memoryLimit"],
        serde_json::Value::Null,
        "{error:#}"
    );
    assert!(
        error["details"]["memoryPeak"].as_u64() >= Some(LIMIT_BYTES),
        "{error:#}"
    );
    assert_eq!(facts(&case, error)["memoryPeak"], error["details"]["memoryPeak"]);
}

#[test]
fn use_near_the_limit_is_a_warning_until_it_is_normal() {
    let script = "busybox dd if=/dev/zero of=/dev/shm/fill bs=1M count=61; exec sleep 3600";
    let service = shell("nearlimit", script, "memory: 66m");
    let case = Case::start("nearlimit", "restartDelay: 1s", &service);
    let output = case.wait("has a warning", |bad| bad["memoryWarning"].is_object());
    let warning = &output["memoryWarning"];
    assert_eq!(warning["limitBytes"], 66 << 20, "{output:#}");
    assert!(warning["usedBytes"].as_u64() >= Some(61 << 20), "{output:#}");
    let described = shown(&case, &["describe", "nearlimit"]);
    assert!(
        described.contains("bad: uses 6") && described.contains("of the memory limit of 66 MiB (9"),
        "{described}"
    );
    let events = || {
        let text = shown(&case, &["events", "nearlimit", "--type", "memory_high"]);
        text.matches("memory_high").count()
    };
    assert_eq!(
        case.argus
            .wait_until(LIMIT, "the event is shown", || Some(events())
                .filter(|all| *all > 0)),
        1
    );
    case.engine
        .docker_ok(&["exec", "nearlimit-bad", "rm", "/dev/shm/fill"]);
    case.wait("has no warning any more", |bad| bad["memoryWarning"].is_null());
    assert_eq!(events(), 1);
}

#[test]
fn container_above_its_share_is_replaced_within_the_budget() {
    let script = "busybox dd if=/dev/zero of=/dev/shm/fill bs=1M count=61; exec sleep 3600";
    let service = shell("overfed", script, "memory: 66m");
    let service = format!("{service}\nargus: {{ restart: {{ memoryAbove: 90 }} }}");
    let case = Case::start("overfed", "maxRestarts: 1, restartDelay: 500ms", &service);
    let first = case.wait("has a container", |bad| bad["containerId"].is_string())["containerId"].clone();
    let output = case.wait("is replaced, and runs on", |bad| {
        bad["restarts"] == 1 && bad["state"] == "Ready" && bad["memoryWarning"].is_object()
    });
    assert_ne!(output["containerId"], first, "its state is clean");
    let failure = case.failure(1);
    assert_eq!(failure.memory_limit, Some(66 << 20));
    assert!(failure.memory_used > Some(59 << 20), "{failure:?}");
    let causes = case.actions("bad").into_iter().map(|action| action.cause);
    let is_stop = |cause: &String| cause == "memory use too high, restart 1";
    assert_eq!(causes.filter(is_stop).count(), 1);
    // The second failure has spent the budget.
    case.failure(2);
    case.assert_settled();
    assert_eq!(case.service()["restarts"], 1);
}
