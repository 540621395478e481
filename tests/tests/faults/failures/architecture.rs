//! Programs for another architecture than that of the engine: the error states the cause.

use std::fs;

use argus_tests::fixture::{IMAGE, LIMIT, engine, text};
use argus_tests::image::Tree;
use argus_tests::{Controller, Proxy, RunOptions, binary};
use serde_json::Value;

use super::case::Case;

/// Response of crun, and of runc in some versions, to the start of such a program.
const REFUSAL: &str = concat!(
    "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 131\r\n\r\n",
    r#"{"message":"failed to create shim task: OCI runtime create failed: crun: exec container process `/bin/app`: Exec format error: x"}"#,
    "\n"
);

/// The field of the machine in an ELF header, and a machine that no kernel knows.
const MACHINE: std::ops::Range<usize> = 18..20;
const UNKNOWN_MACHINE: [u8; 2] = [0xfe, 0xfe];

/// Makes an image with a program for an unknown architecture.
fn make_foreign_image(tag: &str) {
    let busybox = binary::find("busybox").expect("busybox-static; hint: ./scripts/setup");
    let mut program = fs::read(busybox).expect("busybox");
    program[MACHINE].copy_from_slice(&UNKNOWN_MACHINE);
    let mut tree = Tree::new();
    // The init process tries the shell of the image next, which such an image has for the same architecture.
    for path in ["bin/app", "bin/sh"] {
        tree.bytes(path, &program, 0o755);
    }
    engine().import(tag, &tree.done(), &[r#"CMD ["/bin/app"]"#]);
}

fn assert_names_architecture(error: &Value) {
    let message = text(&error["message"]);
    assert!(message.contains("built for another architecture"), "{error:#}");
    assert!(message.to_lowercase().contains("exec format error"), "{error:#}");
}

#[test]
fn foreign_program_is_reported_with_its_architecture() {
    make_foreign_image("foreign:1");
    for (name, init) in [("foreign", true), ("foreignbare", false)] {
        let service = format!(
            "image: foreign:1\n    container: {{ name: {name}-bad }}\nargus: {{ policy: {{ init: {init} }} }}"
        );
        let case = Case::start(name, "restartDelay: 1s", &service);
        // The output of the program arrives after its exit code.
        let output = case.wait("names the architecture", |bad| {
            text(&bad["lastError"]["message"]).contains("another architecture")
        });
        assert_eq!(output["lastError"]["code"], "ENTRYPOINT_NOT_FOUND", "{output:#}");
        assert_names_architecture(&output["lastError"]);
        assert_eq!(case.service()["restarts"], 0, "a restart cannot help");
        assert!(case.argus.stop().success());
    }
}

#[test]
fn refused_start_of_a_foreign_program_names_the_cause() {
    let engine = engine();
    let proxy = Proxy::start(&engine.scratch("foreignstart").join("p.sock"), &engine.socket());
    let options = RunOptions {
        host: Some(proxy.host()),
        ..RunOptions::default()
    };
    let argus = Controller::start(engine, options);
    proxy.inject(
        "POST /containers/*/start",
        argus_tests::proxy::Fault::Answer(REFUSAL),
        1_000,
    );
    argus.write_spec(
        "e2e.yaml",
        &format!("project: {{ name: foreignstart }}\nservices:\n  bad: {{ image: {IMAGE}, container: {{ name: foreignstart-bad }} }}\n"),
    );
    let status = argus.wait_status("foreignstart", LIMIT, "reports the refused start", |status| {
        Controller::service(status, "bad")["lastError"]["code"] == "ENTRYPOINT_NOT_FOUND"
    });
    let bad = Controller::service(&status, "bad");
    assert_names_architecture(&bad["lastError"]);
    assert_eq!(bad["waitingOn"]["error"], "ENTRYPOINT_NOT_FOUND", "{bad:#}");
}
