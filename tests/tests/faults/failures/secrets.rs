//! Secrets that a file reads from outside stay inside.

use std::fs;
use std::path::Path;

use argus_tests::fixture::{LIMIT, engine};
use argus_tests::{Controller, RunOptions};

use super::case::shell;

const SECRET: &str = "swordfish";

/// Files below a directory that contain the secret, except those that contain the environment itself.
fn leaks(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(leaks(&path));
        } else if let Ok(bytes) = fs::read(&path) {
            let text = String::from_utf8_lossy(&bytes);
            let whole = ["state.json", "specs.json"].map(|name| path.ends_with(format!("private/{name}")));
            if text.contains(SECRET) && !whole.contains(&true) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[test]
fn external_variables_appear_on_no_interface() {
    let argus = Controller::start(engine(), RunOptions::default());
    fs::write(
        argus.specs.join(".env"),
        format!("PW={SECRET}\nTOOL=no-{SECRET}\n"),
    )
    .expect("a file of variables");
    // The secret in the first line crosses the end of the engine's first 16 KiB piece.
    let script = "head -c 16370 /dev/zero | tr '\\0' x; echo \" $URL\"; echo \"cannot open $URL\"; echo \"no $URL\" >&2; exit 3";
    let bad = shell("veiled", script, "").replace(
        "name: veiled-bad",
        "name: veiled-bad, environment: { URL: \"pg://app:{{env.PW}}@db\" }",
    );
    argus.write_spec(
        "e2e.yaml",
        &format!(
            "version: \"1\"\nproject: {{ name: veiled }}\nresilience: {{ container: {{ maxRestarts: 1, restartDelay: 500ms }} }}\nargus: {{ restart: {{ haltAfterSame: 1 }} }}\nservices:\n  bad:\n    {bad}\n  \
             absent:\n    image: busybox:local\n    command: [\"{{{{env.TOOL}}}}\"]\n    container: {{ name: veiled-absent }}\n"
        ),
    );
    let check = |when: &str| {
        let status = argus.wait_status("veiled", LIMIT, "both exhaust their restarts", |now| {
            let code = |name| Controller::service(now, name)["lastError"]["code"].clone();
            code("bad") == "LOOP_HALTED" && code("absent") == "ENTRYPOINT_NOT_FOUND"
        });
        let error = Controller::service(&status, "bad")["lastError"].clone();
        let line = "no pg://app:[redacted]@db";
        assert_eq!(
            error["stderrTail"].as_str().map(str::trim_end),
            Some(line),
            "{when}: {error:#}"
        );
        assert_eq!(error["details"]["fingerprint"]["line"], line);
        let absent = Controller::service(&status, "absent")["lastError"]["stderrTail"].to_string();
        assert!(
            absent.contains("exec no-[redacted]") || absent.contains("exec [redacted]"),
            "{when}: {absent}"
        );
        for words in [
            &["plan"][..],
            &["get", "veiled"],
            &["describe", "veiled"],
            &["why", "veiled"],
            &["logs", "veiled", "bad"],
            &["evidence", "veiled", "bad"],
            &["evidence", "veiled", "--list"],
        ] {
            for format in ["table", "json"] {
                let output = argus.cli(&[words, &["-o", format]].concat());
                let printed = [output.stdout, output.stderr].concat();
                let printed = String::from_utf8_lossy(&printed);
                // A plan also reports the rejected file.
                let good = output.status.success() || (words == ["plan"] && output.status.code() == Some(3));
                assert!(good, "{words:?}: {printed}");
                assert!(
                    !printed.contains(SECRET),
                    "{when}: argus {words:?} -o {format}: {printed}"
                );
            }
        }
        let output = argus.cli(&["logs", "veiled", "bad", "--previous"]);
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        assert!(
            printed.contains("cannot open pg://app:[redacted]@db"),
            "{printed}"
        );
        assert_eq!(leaks(&argus.state), [""; 0], "{when}");
        assert!(!argus.logs().contains(SECRET), "{when}: {}", argus.logs());
    };
    check("as it failed");
    // Container output is printed, but without secrets.
    let now = argus.cli(&["logs", "veiled", "bad"]);
    let printed = String::from_utf8_lossy(&now.stdout).into_owned();
    assert!(
        printed.contains("cannot open pg://app:[redacted]@db"),
        "{printed}"
    );
    argus.kill9();
    // The last good revision applies, and the controller must know its secrets.
    argus.write_spec("e2e.yaml", "version: [");
    argus.start_again();
    argus.wait_status("veiled", LIMIT, "the file is rejected", |now| {
        now.to_string().contains("SPEC_INVALID")
    });
    check("after a restart without its file");
}
