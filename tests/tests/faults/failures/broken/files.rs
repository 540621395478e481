//! Wrong files: spec files that Argus rejects, documents of mocks, and builds.

use argus_tests::fixture::engine;
use argus_tests::{Registry, RunOptions};

use super::super::case::shell;
use super::specs::{SOON, service};
use super::{Broken, Group, Suggest};

const INVALID: &str = "SPEC_INVALID";
/// Port of a registry that starts late.
const REGISTRY: u16 = 5_055;

fn other(name: &str, lines: &str) -> String {
    format!("  other:\n    image: busybox:local\n    {lines}\n    container: {{ name: {name}-other }}\n")
}

/// Service `bad` with a dependency on the service `other`.
fn dependent(name: &str, depends_on: &str, lines_of_other: &str) -> String {
    let bad = shell(name, "exec sleep 3600", &format!("dependsOn: {depends_on}"));
    service(SOON, &bad) + &other(name, lines_of_other)
}

fn built(name: &str, build: &str) -> String {
    service(
        SOON,
        &format!("build: {build}\n    container: {{ name: {name}-bad }}"),
    )
}

fn mock(name: &str, openapi: &str) -> String {
    let port = if name.ends_with("openapi") { 18_375 } else { 18_376 };
    service(SOON, &shell(name, "exec sleep 3600", ""))
        + &format!("mocks:\n  api:\n    port: {port}\n    openapi: {openapi}\n")
}

fn of_dependencies() -> Vec<Broken> {
    vec![
        Broken::edit(
            "broken-needs",
            dependent("broken-needs", "[othr]", ""),
            INVALID,
            "services[0].dependsOn[0]",
            Suggest::Exactly("other"),
        ),
        Broken::edit(
            "broken-cycle",
            dependent("broken-cycle", "[other]", "dependsOn: [bad]"),
            INVALID,
            "services[0].dependsOn",
            Suggest::Nothing,
        ),
        Broken::edit(
            "broken-itself",
            dependent("broken-itself", "[bad]", ""),
            INVALID,
            "services[0].dependsOn[0]",
            Suggest::Nothing,
        ),
        Broken::edit(
            "broken-condition",
            dependent(
                "broken-condition",
                "[{ service: other, condition: healthy }]",
                "oneShot: true\n    command: [\"true\"]",
            ),
            INVALID,
            "services[0].dependsOn[0].condition",
            Suggest::Exactly("completed"),
        ),
        Broken::edit(
            "broken-end",
            dependent(
                "broken-end",
                "[{ service: other, condition: completed }]",
                "command: [sleep, \"3600\"]",
            )
            .replace("-other }", "-other, ports: [\"18377:80\"] }"),
            INVALID,
            "services[0].dependsOn[0].condition",
            Suggest::Exactly("healthy"),
        ),
    ]
}

fn of_text() -> Vec<Broken> {
    vec![
        Broken::edit(
            "broken-yaml",
            "services:\n  bad: [\n".to_owned(),
            INVALID,
            "",
            Suggest::Nothing,
        ),
        Broken::edit(
            "broken-tab",
            "services:\n  bad:\n\timage: busybox:local\n".to_owned(),
            INVALID,
            "",
            Suggest::Nothing,
        ),
        Broken::edit(
            "broken-key",
            service(SOON, &shell("broken-key", "exec sleep 3600", "")).replace("image:", "imgae:"),
            INVALID,
            "services.bad.imgae",
            Suggest::Exactly("image"),
        ),
        Broken::edit(
            "broken-openapi",
            mock("broken-openapi", "api/shp.yaml"),
            INVALID,
            "mocks.api.openapi",
            Suggest::Exactly("api/shop.yaml"),
        ),
        Broken {
            file: "api/wrong.yaml",
            ..Broken::edit(
                "broken-document",
                mock("broken-document", "api/wrong.yaml"),
                INVALID,
                "paths.users",
                Suggest::Exactly("/users"),
            )
        },
    ]
}

/// An environment whose first remedy is a change of the Dockerfile in a folder.
fn of_dockerfile(name: &'static str, file: &'static str, code: &'static str) -> Broken {
    let folder = file.trim_end_matches("/Dockerfile");
    let text = built(name, &format!("{{ context: ./{folder} }}"));
    Broken {
        file,
        ..Broken::edit(name, text, code, "", Suggest::Nothing)
    }
}

fn of_builds() -> Vec<Broken> {
    vec![
        Broken::edit(
            "broken-dockerfile",
            built(
                "broken-dockerfile",
                "{ context: ./app, dockerfile: Dockerfile.dv }",
            ),
            INVALID,
            "services[0].build.dockerfile",
            Suggest::Exactly("Dockerfile.dev"),
        ),
        Broken::action(
            "broken-step",
            built("broken-step", "{ context: ./step }"),
            "BUILD_FAILED",
            "fix_build",
        ),
        of_dockerfile("broken-stage", "stage/Dockerfile", "BUILD_FAILED"),
        of_dockerfile("broken-command", "command/Dockerfile", "ENTRYPOINT_NOT_FOUND"),
        Broken::action(
            "broken-base",
            built("broken-base", "{ context: ./base }"),
            "BUILD_FAILED",
            "wait",
        ),
    ]
}

#[test]
fn first_remedies_repair_broken_files_and_builds() {
    let all = of_dependencies().into_iter().chain(of_text()).chain(of_builds());
    // The build without its registry is repeated soon after the registry has started.
    let options = RunOptions {
        args: vec!["--action-retry-interval".to_owned(), "5s".to_owned()],
        ..RunOptions::default()
    };
    let group = Group::with(options, all.collect());
    let document = |path: &str| {
        format!(
            "openapi: 3.1.0\ninfo: {{ title: shop, version: \"1\" }}\npaths:\n  {path}:\n    get:\n      responses:\n        \
             \"200\": {{ description: all users }}\n"
        )
    };
    group.add_file("api/shop.yaml", &document("/users"));
    group.add_file("api/wrong.yaml", &document("users"));
    group.add_file("app/Dockerfile.dev", "FROM busybox:local\nENV A=1\n");
    group.add_file("step/Dockerfile", "FROM busybox:local\nRUN false\n");
    group.add_file(
        "stage/Dockerfile",
        "FROM busybox:local AS build\nFROM busybox:local\nCOPY --from=biuld /bin/busybox /b\n",
    );
    group.add_file(
        "command/Dockerfile",
        "FROM busybox:local\nENV A=3\nCMD [\"srvx\", \"8080\"]\n",
    );
    group.add_file(
        "base/Dockerfile",
        &format!("FROM 127.0.0.1:{REGISTRY}/busybox:local\nENV A=2\n"),
    );
    let answers = group.assert_first_remedies();
    let registry = Registry::start(engine(), REGISTRY);
    let _image = registry.push(engine(), "busybox:local");
    drop(group.repair(answers));
}
