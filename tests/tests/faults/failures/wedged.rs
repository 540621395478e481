//! A container that does not stop is reported and skipped, and delays no other.

use std::fs;
use std::path::{Path, PathBuf};

use argus_core::action::ActionKind;
use argus_tests::fixture::{LIMIT, running, text};
use argus_tests::{Controller, PrivateEngine, wait};

use super::case::{Case, shell};

/// A cgroup whose processes take no signal, not even SIGKILL, until the drop.
struct FrozenProcesses(PathBuf);

impl FrozenProcesses {
    /// Moves all processes of a container into it; `None` if the kernel has no such cgroup (cgroup v2).
    fn around(engine: &PrivateEngine, container: &str) -> Option<Self> {
        let hierarchy = Path::new("/sys/fs/cgroup/freezer");
        if !hierarchy.join("tasks").exists() {
            eprintln!(
                "skipped: the kernel has no cgroup v1 freezer, and frozen processes of cgroup v2 can be killed"
            );
            return None;
        }
        let found = engine.inspect(container).expect("the container exists");
        let frozen = Self(hierarchy.join(engine.netns()).join("ice"));
        fs::create_dir_all(&frozen.0).expect("a cgroup");
        let own = hierarchy.join(engine.netns()).join(text(&found["Id"]));
        let pids = fs::read_to_string(own.join("cgroup.procs")).expect("its processes");
        for pid in pids.lines() {
            fs::write(frozen.0.join("cgroup.procs"), pid).expect("a process can be moved");
        }
        fs::write(frozen.0.join("freezer.state"), "FROZEN").expect("it can be frozen");
        wait::until(LIMIT, "it is frozen", || {
            let state = fs::read_to_string(frozen.0.join("freezer.state")).ok()?;
            (state.trim() == "FROZEN").then_some(())
        });
        Some(frozen)
    }
}

impl Drop for FrozenProcesses {
    fn drop(&mut self) {
        drop(fs::write(self.0.join("freezer.state"), "THAWED"));
    }
}

#[test]
fn unstoppable_container_is_reported_and_delays_no_other() {
    let both = |command: &str| {
        format!(
            "{}\n  good:\n    image: busybox:local\n    command: [\"sh\", \"-c\", \"{command}\"]\n    stopGrace: 1s\n    container: {{ name: wedged-good }}",
            shell("wedged", command, "stopGrace: 1s")
        )
    };
    let case = Case::start("wedged", "restartDelay: 1s", &both("exec sleep 3600"));
    case.argus.wait_ready("wedged", LIMIT);
    let id = |name: &str| case.engine.inspect(name).map(|found| text(&found["Id"]));
    let (stuck, good) = (id("wedged-bad"), id("wedged-good"));
    let Some(frozen) = FrozenProcesses::around(case.engine, "wedged-bad") else {
        return;
    };

    case.write("restartDelay: 1s", &both("exec sleep 3601"));
    case.argus.wait_until(LIMIT, "the other one is replaced", || {
        (id("wedged-good") != good && running(case.engine, "wedged-good")).then_some(())
    });
    let output = case.wait("reports why it is not replaced", |bad| {
        bad["lastError"]["code"].is_string() && bad["waitingOn"]["reason"].is_string()
    });
    assert_eq!(
        (&output["lastError"]["code"], &output["lastError"]["stage"]),
        (&"TIMEOUT".into(), &"stop-container".into()),
        "{output:#}"
    );
    assert_eq!(id("wedged-bad"), stuck, "the container still exists");
    case.argus
        .wait_status("wedged", LIMIT, "the other one is Ready", |status| {
            Controller::service(status, "good")["state"] == "Ready"
        });
    assert_eq!(
        id("wedged-bad"),
        stuck,
        "it became Ready before the container stopped"
    );

    drop(frozen);
    case.argus
        .wait_until(LIMIT * 2, "it is replaced when it can stop", || {
            (id("wedged-bad").is_some() && id("wedged-bad") != stuck && running(case.engine, "wedged-bad"))
                .then_some(())
        });
    case.argus.wait_ready("wedged", LIMIT);
    assert!(running(case.engine, "wedged-good"));
    let created = case.count("good", ActionKind::CreateContainer);
    assert_eq!(created, 2, "the other one was not replaced again");
    case.argus.assert_settled("wedged");
}
