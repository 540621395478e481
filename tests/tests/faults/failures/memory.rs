//! Memory: `CONTAINER_OOM` requires evidence.

use argus_tests::Controller;
use argus_tests::fixture::LIMIT;

use super::case::{Case, once, shell};

const LIMIT_BYTES: u64 = 32 * 1024 * 1024;
/// Doubles a variable until the kernel kills the shell.
const GROW: &str = "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done";

// Requirements: FR-R07
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
