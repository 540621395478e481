//! Mounted files of the host: the first remedy names the file with its fault, and the edit repairs the environment.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use argus_tests::fixture::{LIMIT, engine, text};
use argus_tests::{Controller, RunOptions, wait};

use super::first_remedy;
use super::specs::{NEVER, script, service};

const RUN: &str = "#!/bin/sh\nexec sleep 3600\n";

/// An environment with the mounted folder `NAME`, whose file has a fault.
struct Faulty {
    name: &'static str,
    command: String,
    file: &'static str,
    text: String,
    mode: u32,
    /// File and text of the first remedy.
    expected: (&'static str, &'static str),
}

impl Faulty {
    fn spec(&self) -> String {
        let lines = format!(
            "image: busybox:local\n    {}\n    container:\n      name: {}-bad\n      volumes: [\"./{}:/app:ro\"]",
            self.command, self.name, self.name
        );
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

fn all() -> [Faulty; 4] {
    let program = "command: [/app/run.sh]".to_owned();
    let reading = "grep -q servr /app/web.conf || exec sleep 3600; \
                   echo '[emerg] unknown directive \"servr\" in /app/web.conf:2' >&2; echo closing >&2; echo bye >&2; exit 1";
    [
        Faulty {
            name: "host-mode",
            command: program.clone(),
            file: "run.sh",
            text: RUN.to_owned(),
            mode: 0o644,
            expected: ("host-mode/run.sh", "chmod +x"),
        },
        Faulty {
            name: "host-lines",
            command: program,
            file: "run.sh",
            text: RUN.replace('\n', "\r\n"),
            mode: 0o755,
            expected: ("host-lines/run.sh", "CRLF"),
        },
        Faulty {
            name: "host-config",
            command: script(reading),
            file: "web.conf",
            text: "listen 80\nservr on\n".to_owned(),
            mode: 0o644,
            expected: ("host-config/web.conf", "web.conf:2"),
        },
        Faulty {
            name: "host-name",
            command: "command: [sh, /app/mian.sh]".to_owned(),
            file: "main.sh",
            text: RUN.to_owned(),
            mode: 0o644,
            expected: ("host-name.e2e.yaml", "to `/app/main.sh`"),
        },
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
    for one in &all {
        drop(argus.cli(&["retry", one.name]));
        argus.wait_ready(one.name, LIMIT);
    }
}
