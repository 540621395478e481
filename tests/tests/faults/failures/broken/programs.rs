//! Programs that end: too little memory, a wrong host, an early start, a missing variable or program, data of another version.

use argus_tests::fixture::LIMIT;

use super::super::case::shell;
use super::specs::{GROW, LITTLE, NEVER, SOON, client, script, service};
use super::{Broken, Group, Suggest};

const CRASH: &str = "CONTAINER_CRASH";
const OUT_OF_MEMORY: &str = "CONTAINER_OOM";
const VOLUME: &str = "broken-volume";
/// More restarts than a check needs. The engine omits its flag and its event for some real kills, so that one of several runs counts.
const PATIENT: &str =
    "resilience: { container: { restartDelay: 1s, restartBackoff: linear, maxRestarts: 8 } }";

/// Service whose program accepts only data of this version.
fn versioned(version: u8) -> String {
    let lines = format!(
        "image: busybox:local\n    {}\n    container:\n      name: {VOLUME}-bad\n      volumes: [\"data:/data\"]",
        script(&format!(
            "[ -e /data/version ] || echo {version} > /data/version; found=$(cat /data/version); [ $found = {version} ] && exec sleep 3600; \
             echo \"the data was initialized by version $found, which is not compatible with version {version}\" >&2; exit 1"
        ))
    );
    service(NEVER, &lines)
}

fn all() -> Vec<Broken> {
    vec![
        Broken::edit(
            "broken-memory",
            service(
                PATIENT,
                &shell("broken-memory", &format!("{GROW}; sleep 3600"), LITTLE),
            ),
            OUT_OF_MEMORY,
            "services.bad.memory",
            Suggest::Any,
        ),
        Broken::edit(
            "broken-peak",
            service(
                PATIENT,
                &shell("broken-peak", &format!("sleep 3; {GROW}; sleep 3600"), LITTLE),
            ),
            OUT_OF_MEMORY,
            "services.bad.memory",
            Suggest::Any,
        ),
        Broken::edit(
            "broken-success",
            service(
                PATIENT,
                &shell(
                    "broken-success",
                    &format!("({GROW}) && exec sleep 3600; sleep 1; exit 0"),
                    LITTLE,
                ),
            ),
            CRASH,
            "services.bad.memory",
            Suggest::Any,
        ),
        Broken::edit(
            "broken-host",
            client("broken-host", "healthy", "databse", "./gate:/gate:ro"),
            CRASH,
            "services.bad.container.environment.DB",
            Suggest::Exactly("database"),
        ),
        Broken::edit(
            "broken-order",
            client("broken-order", "started", "database", "./gate:/gate:ro"),
            CRASH,
            "services.bad.dependsOn[0].condition",
            Suggest::Exactly("healthy"),
        ),
        Broken::edit(
            "broken-variable",
            service(
                NEVER,
                &shell("broken-variable", ": ${API_KEY?}; exec sleep 3600", ""),
            ),
            CRASH,
            "services.bad.container.environment.API_KEY",
            Suggest::Nothing,
        ),
        Broken::edit(
            "broken-command",
            service(
                SOON,
                "image: busybox:local\n    command: [slepp, \"3600\"]\n    container: { name: broken-command-bad }",
            ),
            "ENTRYPOINT_NOT_FOUND",
            "services.bad.command",
            Suggest::Exactly("sleep"),
        ),
        Broken::edit(
            VOLUME,
            versioned(2),
            CRASH,
            "services.bad.container.volumes[0]",
            Suggest::Exactly("data-2:/data"),
        ),
        Broken::action(
            "broken-crash",
            service(NEVER, &shell("broken-crash", "exit 3", "")),
            CRASH,
            "inspect_logs",
        ),
    ]
}

#[test]
fn first_remedies_repair_broken_programs() {
    let group = Group::of(all());
    let earlier = Broken::edit(VOLUME, versioned(1), CRASH, "", Suggest::Nothing);
    group.argus.write_spec(&earlier.spec_file(), &earlier.spec());
    group.argus.wait_ready(VOLUME, LIMIT);
    let answers = group.assert_first_remedies();
    drop(group.repair(answers));
}
