//! Files of mounts, build contexts and `container.files`: the first remedy names the file with its fault, and the edit repairs the
//! environment.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use argus_tests::fixture::{LIMIT, engine, text};
use argus_tests::{Controller, RunOptions, wait};

use super::first_remedy;
use super::specs::{NEVER, script, service};

const RUN: &str = "#!/bin/sh\nexec sleep 3600\n";
const DOCKERFILE: &str = "FROM busybox:local\nWORKDIR /srv\nCOPY *.sh ./\nENTRYPOINT [\"./run.sh\"]\n";

/// An environment with the folder `NAME` as a mount or as a build context. A file in it, or in the spec file, has a fault.
struct Faulty {
    name: &'static str,
    /// Lines of the service.
    service: String,
    file: &'static str,
    text: String,
    mode: u32,
    /// File and text of the first remedy.
    expected: (&'static str, &'static str),
}

impl Faulty {
    fn spec(&self) -> String {
        let lines = self.service.replace("NAME", self.name);
        format!(
            "version: \"1\"\nproject: {{ name: {} }}\n{}",
            self.name,
            service(NEVER, &lines)
        )
    }

    fn write(&self, argus: &Controller<'_>) {
        let path = argus.specs.join(self.name).join(self.file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, &self.text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(self.mode)).expect("a mode");
        fs::write(path.with_file_name("Dockerfile"), DOCKERFILE).expect("a file");
        argus.write_spec(&format!("{}.e2e.yaml", self.name), &self.spec());
    }

    /// Asserts the first remedy; after an edit of a host file, the next one is a retry.
    fn assert_remedy(&self, argus: &Controller<'_>) {
        let (file, part) = self.expected;
        let mut last = String::new();
        let found = wait::poll(LIMIT, || {
            let output = argus.cli(&["describe", self.name, "-o", "json"]);
            let status = serde_json::from_slice(&output.stdout).ok()?;
            let remedy = first_remedy(&status);
            last = format!("{:#}", status["errors"]);
            let is_named = text(&remedy["file"]).ends_with(file) && text(&remedy["summary"]).contains(part);
            let next = text(&status["errors"][0]["suggestedActions"][1]);
            let is_retried = remedy["key"] != "" || next == "retry";
            (is_named && is_retried).then_some(())
        });
        found.unwrap_or_else(|| panic!("`{}` names {file} and {part}: {last}", self.name));
    }
}

/// Lines of a service with the folder as a mount.
fn mounted(command: &str) -> String {
    format!(
        "image: busybox:local\n    {command}\n    container:\n      name: NAME-bad\n      volumes: [\"./NAME:/app:ro\"]"
    )
}

fn all() -> [Faulty; 7] {
    let program = mounted("command: [/app/run.sh]");
    let copied = "build: { context: ./NAME, image: \"NAME:test\" }\n    container: { name: NAME-bad }";
    let reading = "grep -q servr /app/web.conf || exec sleep 3600; \
                   echo '[emerg] unknown directive \"servr\" in /app/web.conf:2' >&2; echo closing >&2; echo bye >&2; exit 1";
    let script_of = |name, service: &str, text: String, mode, expected| Faulty {
        name,
        service: service.to_owned(),
        file: "run.sh",
        text,
        mode,
        expected,
    };
    [
        script_of(
            "host-mode",
            &program,
            RUN.to_owned(),
            0o644,
            ("host-mode/run.sh", "chmod +x"),
        ),
        script_of(
            "host-lines",
            &program,
            RUN.replace('\n', "\r\n"),
            0o755,
            ("host-lines/run.sh", "CRLF"),
        ),
        Faulty {
            name: "host-config",
            service: mounted(&script(reading)),
            file: "web.conf",
            text: "listen 80\nservr on\n".to_owned(),
            mode: 0o644,
            expected: ("host-config/web.conf", "web.conf:2"),
        },
        Faulty {
            name: "host-name",
            service: mounted("command: [sh, /app/mian.sh]"),
            file: "main.sh",
            text: RUN.to_owned(),
            mode: 0o644,
            expected: ("host-name.e2e.yaml", "to `/app/main.sh`"),
        },
        script_of(
            "copied-mode",
            copied,
            RUN.to_owned(),
            0o644,
            ("copied-mode/run.sh", "chmod +x"),
        ),
        script_of(
            "copied-bash",
            copied,
            RUN.replace("/bin/sh", "/usr/bin/env bash"),
            0o755,
            ("copied-bash/run.sh", "no interpreter `bash`"),
        ),
        script_of(
            "written-mode",
            "image: busybox:local\n    entrypoint: [/run.sh]\n    container:\n      name: NAME-bad\n      files:\n        \
             - path: /run.sh\n          content: \"#!/bin/sh\\nexec sleep 3600\\n\"",
            RUN.to_owned(),
            0o644,
            ("written-mode.e2e.yaml", "mode: 0755"),
        ),
    ]
}

#[test]
fn first_remedies_name_the_host_files() {
    let argus = Controller::start(engine(), RunOptions::default());
    let all = all();
    for one in &all {
        one.write(&argus);
    }
    for one in &all {
        one.assert_remedy(&argus);
    }
    // The edits, as the remedies describe them.
    let at = |path: &str| argus.specs.join(path);
    fs::set_permissions(at("host-mode/run.sh"), fs::Permissions::from_mode(0o755)).expect("a mode");
    fs::write(at("host-lines/run.sh"), RUN).expect("a file");
    fs::write(at("host-config/web.conf"), "listen 80\nserver on\n").expect("a file");
    let corrected = all[3].spec().replace("mian", "main");
    argus.write_spec("host-name.e2e.yaml", &corrected);
    fs::set_permissions(at("copied-mode/run.sh"), fs::Permissions::from_mode(0o755)).expect("a mode");
    fs::write(at("copied-bash/run.sh"), RUN).expect("a file");
    let fixed = argus.cli(&["fix", "written-mode", "--yes"]);
    assert!(
        fixed.status.success(),
        "{}",
        String::from_utf8_lossy(&fixed.stderr)
    );
    let notes = String::from_utf8_lossy(&fixed.stderr);
    assert_eq!(notes.matches("written-mode is Ready").count(), 1, "{notes}");
    // These edits start their builds and containers.
    for one in &all[4..] {
        argus.wait_ready(one.name, LIMIT);
    }
    for one in &all[..4] {
        drop(argus.cli(&["retry", one.name]));
        argus.wait_ready(one.name, LIMIT);
    }
}
