//! Names, ports and environments that others hold, and names of images and files that do not exist.

use argus_tests::PortHolder;
use argus_tests::fixture::{IMAGE, LIMIT, engine, text};

use super::super::case::shell;
use super::specs::{SOON, STRICT, service};
use super::{Broken, Group, Suggest};

/// Host ports of other processes.
const TAKEN: [u16; 3] = [18_370, 18_371, 18_372];
/// Container that Argus does not own.
const FOREIGN: &str = "broken-name-bad";
/// Network that Argus does not own.
const FOREIGN_NETWORK: &str = "broken-network-other";

fn published(name: &str, more: &str) -> String {
    let lines = format!(
        "image: {IMAGE}\n    container: {{ name: {name}-bad, ports: [\"{}:8080\"] }}",
        TAKEN[0]
    );
    service(more, &lines)
}

fn sleeping(name: &str, image: &str, more: &str) -> String {
    service(
        more,
        &format!("image: {image}\n    command: [sleep, \"3600\"]\n    container: {{ name: {name}-bad }}"),
    )
}

fn held(name: &'static str) -> Broken {
    let text = service(SOON, &shell(name, "exec sleep 3600", ""));
    Broken::action(name, text, "HELD", "contact_holder")
}

fn all() -> Vec<Broken> {
    vec![
        Broken::edit(
            "broken-image",
            sleeping("broken-image", "busybox:locla", SOON),
            "IMAGE_PULL_FAILED",
            "services.bad.image",
            Suggest::Exactly("busybox:local"),
        ),
        Broken::edit(
            "broken-repository",
            sleeping("broken-repository", "busybxo:local", SOON),
            "IMAGE_PULL_FAILED",
            "services.bad.image",
            Suggest::Exactly("busybox:local"),
        ),
        Broken::edit(
            "broken-file",
            service(
                SOON,
                "image: busybox:local\n    command: [sleep, \"3600\"]\n    container:\n      name: broken-file-bad\n      \
                 volumes:\n        - ./config/ap.txt:/app.txt",
            ),
            "BAD_MOUNT",
            "services.bad.container.volumes[0]",
            Suggest::Exactly("./config/app.txt:/app.txt"),
        ),
        Broken::edit(
            "broken-taken",
            published("broken-taken", STRICT),
            "PORT_CONFLICT",
            "resilience.network.portConflictStrategy",
            Suggest::Exactly("auto"),
        ),
        Broken::edit(
            "broken-range",
            published("broken-range", "isolation: { portRange: [18371, 18372] }"),
            "PORT_EXHAUSTION",
            "isolation.portRange",
            Suggest::Exactly("[18371, 18472]"),
        ),
        Broken::edit(
            "broken-name",
            sleeping("broken-name", "busybox:local", SOON),
            "NAME_CONFLICT",
            "services.bad.container.name",
            Suggest::Exactly("broken-name-bad-2"),
        ),
        Broken::edit(
            "broken-network",
            sleeping(
                "broken-network",
                "busybox:local",
                &format!("network: {{ name: {FOREIGN_NETWORK} }}"),
            ),
            "NAME_CONFLICT",
            "network.name",
            Suggest::Exactly("broken-network-other-2"),
        ),
        Broken::edit(
            "broken-pause",
            sleeping("broken-pause", "busybox:local", "argus: { hold: true }"),
            "HELD",
            "argus.hold",
            Suggest::Exactly("false"),
        ),
        held("broken-held"),
        held("broken-part"),
    ]
}

#[test]
fn first_remedies_repair_conflicts_and_wrong_names() {
    let engine = engine();
    let _holders = TAKEN.map(|port| PortHolder::new(engine, port));
    engine.docker_ok(&["create", "--name", FOREIGN, "busybox:local", "sleep", "1"]);
    engine.docker_ok(&["network", "create", FOREIGN_NETWORK]);
    let group = Group::of(all());
    group.add_file("config/app.txt", "x");
    for name in ["broken-held", "broken-part"] {
        group
            .argus
            .write_spec(&format!("{name}.e2e.yaml"), &spec_of(&group, name));
        group.argus.wait_ready(name, LIMIT);
    }
    group.hold("broken-held");
    group.hold("broken-part/bad");
    let answers = group.assert_first_remedies();
    let error = group.argus.status("broken-held")["errors"][0]["message"].clone();
    assert!(text(&error).contains("by `ann`: inspection"), "{error}");
    drop(group.repair(answers));
    assert!(engine.inspect(FOREIGN).is_some(), "the foreign container stays");
    engine.docker_ok(&["rm", FOREIGN]);
    engine.docker_ok(&["network", "rm", FOREIGN_NETWORK]);
}

fn spec_of(group: &Group, name: &str) -> String {
    let mut all = group.all.iter();
    all.find(|one| one.name == name)
        .expect("a broken environment")
        .spec()
}
