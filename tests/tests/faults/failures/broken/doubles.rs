//! Environments with two faults: each first remedy uncovers the next one.

use argus_tests::PortHolder;
use argus_tests::fixture::{IMAGE, LIMIT, engine};

use super::super::case::shell;
use super::specs::{GROW, LITTLE, NEVER, SERVE, SOON, STRICT, client, probed, script, service};
use super::{Broken, Group, Suggest};

/// Host port of another process.
const TAKEN: u16 = 18_373;
/// Container that Argus does not own.
const FOREIGN: &str = "double-name-bad";
const HELD: &str = "double-held";

fn all() -> Vec<Broken> {
    let wrong_path = "path: /nowhere\n        port: 8080";
    vec![
        Broken::edit(
            "double-probe",
            probed("double-probe", "1s", "path: /nowhere\n        port: 8081", ""),
            "HEALTH_CHECK_TIMEOUT",
            "services.bad.container.healthcheck.port",
            Suggest::Exactly("8080"),
        ),
        Broken::edit(
            "double-memory",
            probed(
                "double-memory",
                "5s",
                wrong_path,
                &format!("{LITTLE}\n    {}", script(&format!("{GROW}; {SERVE}"))),
            ),
            "CONTAINER_OOM",
            "services.bad.memory",
            Suggest::Any,
        ),
        Broken::edit(
            "double-image",
            probed("double-image", "1s", wrong_path, "").replace(IMAGE, "journey-web:locla"),
            "IMAGE_PULL_FAILED",
            "services.bad.image",
            Suggest::Exactly(IMAGE),
        ),
        Broken::edit(
            "double-start",
            client("double-start", "started", "databse", "./gate:/gate:ro"),
            "CONTAINER_CRASH",
            "services.bad.container.environment.DB",
            Suggest::Exactly("database"),
        ),
        Broken::edit(
            "double-file",
            client("double-file", "healthy", "databse", "./config/ap.txt:/app.txt"),
            "BAD_MOUNT",
            "services.bad.container.volumes[0]",
            Suggest::Exactly("./config/app.txt:/app.txt"),
        ),
        Broken::edit(
            "double-name",
            service(
                STRICT,
                &format!("image: {IMAGE}\n    container: {{ name: {FOREIGN}, ports: [\"{TAKEN}:8080\"] }}"),
            ),
            "NAME_CONFLICT",
            "services.bad.container.name",
            Suggest::Exactly("double-name-bad-2"),
        ),
        Broken::edit(
            "double-needs",
            service(
                NEVER,
                "image: busybox:locla\n    command: [sleep, \"3600\"]\n    dependsOn: [othr]\n    container: { name: double-needs-bad }\n  \
                 other:\n    image: busybox:local\n    container: { name: double-needs-other }",
            ),
            "SPEC_INVALID",
            "services[0].dependsOn[0]",
            Suggest::Exactly("other"),
        ),
        Broken::action(
            HELD,
            service(SOON, &shell(HELD, "exec sleep 3600", "")).replace("busybox:local", "busybox:locla"),
            "HELD",
            "contact_holder",
        ),
    ]
}

#[test]
fn first_remedies_repair_double_faults_one_by_one() {
    let engine = engine();
    let _holder = PortHolder::new(engine, TAKEN);
    engine.docker_ok(&["create", "--name", FOREIGN, "busybox:local", "sleep", "1"]);
    let group = Group::of(all());
    group.add_file("config/app.txt", "x");
    let good = service(SOON, &shell(HELD, "exec sleep 3600", ""));
    let good = Broken::action(HELD, good, "", "");
    group.argus.write_spec(&good.spec_file(), &good.spec());
    group.argus.wait_ready(HELD, LIMIT);
    group.hold(HELD);
    let answers = group.assert_first_remedies();
    let effort = group.repair(answers);
    let is_double = |answer: &super::agent::Answer| answer.calls.is_none_or(|calls| calls == 3);
    assert!(effort.iter().all(is_double), "each fault needs its own edit");
    assert!(engine.inspect(FOREIGN).is_some(), "the foreign container stays");
    engine.docker_ok(&["rm", FOREIGN]);
}
