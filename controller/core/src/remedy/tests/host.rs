//! Facts of host files below a mount.

use super::*;
use crate::outcome::HostFile;

const FILE: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;

fn file(mode: u32) -> HostFile {
    HostFile {
        mode: Some(FILE | mode),
        owner: 1_000,
        size: 10,
        ..HostFile::default()
    }
}

fn similar(name: &str) -> HostFile {
    HostFile {
        similar: Some(name.to_owned()),
        ..HostFile::default()
    }
}

impl Scenario {
    fn facts(mut self, path: &str, facts: HostFile) -> Self {
        let evidence = self.run.evidence.as_mut().unwrap();
        evidence.host_files.insert(path.to_owned(), facts);
        self
    }
}

#[test]
fn scripts_that_cannot_run_have_the_fact_of_the_host() {
    let script = |code, line: &str, facts| {
        [Scenario::new("[/app/run.sh]", "db", TCP, code, &[line]).facts("/app/run.sh", facts)]
    };
    let denied = [
        "[FATAL tini (7)] exec /app/run.sh failed: Permission denied",
        "/bin/sh: 1: /app/run.sh: Permission denied",
        "bash: line 1: /app/run.sh: Permission denied",
    ];
    for line in denied {
        assert_rule(
            "script-mode",
            "app/run.sh",
            "chmod +x app/run.sh",
            &script(126, line, file(0o644)),
        );
    }
    let absent = [
        "[FATAL tini (7)] exec /app/run.sh failed: No such file or directory",
        "/bin/sh: /app/run.sh: not found",
        "bash: /app/run.sh: /bin/bash^M: bad interpreter: No such file or directory",
    ];
    for line in absent {
        let facts = HostFile {
            has_crlf: true,
            interpreter: Some("/bin/bash".to_owned()),
            ..file(0o755)
        };
        assert_rule(
            "script-line-ends",
            "app/run.sh",
            "sed -i 's/\\r$//' app/run.sh",
            &script(127, line, facts),
        );
        let facts = HostFile {
            interpreter: Some("/bin/bash".to_owned()),
            ..file(0o755)
        };
        assert_rule(
            "script-interpreter",
            "app/run.sh",
            "no interpreter `/bin/bash`",
            &script(127, line, facts),
        );
    }
}

#[test]
fn missing_files_have_the_similar_name() {
    for (command, path, line) in [
        (
            "[node, /app/servr.js]",
            "/app/servr.js",
            "Error: Cannot find module '/app/servr.js'",
        ),
        (
            "[python, /app/servr.js]",
            "/app/servr.js",
            "python: can't open file '/app/servr.js': [Errno 2] No such file or directory",
        ),
        (
            "[java, -jar, /app/servr.js]",
            "/app/servr.js",
            "Error: Unable to access jarfile /app/servr.js",
        ),
        (
            "[php, /app/servr.js]",
            "/app/servr.js",
            "Could not open input file: /app/servr.js",
        ),
    ] {
        let scenario = Scenario::new(command, "db", TCP, 1, &[line]).facts(path, similar("server.js"));
        assert_rule("similar-name", "web.command", "/app/server.js", &[scenario]);
    }
    for line in [
        "open /etc/app/config.yml: no such file or directory",
        "FileNotFoundError: [Errno 2] No such file or directory: '/etc/app/config.yml'",
        "Error: ENOENT: no such file or directory, open '/etc/app/config.yml'",
        "java.io.FileNotFoundException: /etc/app/config.yml (No such file or directory)",
        "nginx: [emerg] open() \"/etc/app/config.yml\" failed (2: No such file or directory)",
        "Errno::ENOENT: No such file or directory @ rb_sysopen - /etc/app/config.yml",
        "System.IO.FileNotFoundException: Could not find file '/etc/app/config.yml'. does not exist",
    ] {
        let facts = similar("config.yaml");
        let scenario = Scenario::edited(&[], 1, &[line]).facts("/etc/app/config.yml", facts);
        assert_rule(
            "similar-name",
            "conf/config.yaml",
            "correct the name of one of them",
            &[scenario],
        );
        let scenario = Scenario::edited(&[], 1, &[line]).facts("/etc/app/config.yml", HostFile::default());
        assert_rule("missing-host-file", "conf/config.yml", "create it", &[scenario]);
    }
}

#[test]
fn modes_and_kinds_of_host_files_are_causes() {
    for line in [
        "nginx: [emerg] open() \"/etc/app/tls.key\" failed (13: Permission denied)",
        "PermissionError: [Errno 13] Permission denied: '/etc/app/tls.key'",
        "open /etc/app/tls.key: permission denied",
    ] {
        let scenario = Scenario::edited(&[], 1, &[line]).facts("/etc/app/tls.key", file(0o600));
        assert_rule(
            "host-mode",
            "conf/tls.key",
            "make this user its owner",
            &[scenario],
        );
    }
    for line in [
        "IsADirectoryError: [Errno 21] Is a directory: '/seed/seed.sql'",
        "Error: EISDIR: illegal operation on a directory, read '/seed/seed.sql'",
        "read /seed/seed.sql: is a directory",
    ] {
        let facts = HostFile {
            mode: Some(FOLDER | 0o755),
            ..HostFile::default()
        };
        let scenario = Scenario::edited(&[], 1, &[line]).facts("/seed/seed.sql", facts);
        assert_rule("folder-for-file", "volumes[2]", "name a file", &[scenario]);
    }
    for line in [
        "A server is already running. Check /app/tmp/pids/server.pid.",
        "A server is already running (pid: 10, file: /app/tmp/pids/server.pid).",
    ] {
        let scenario =
            Scenario::edited(&[], 1, &[line, "Exiting"]).facts("/app/tmp/pids/server.pid", file(0o644));
        assert_rule("stale-file", "web.tmpfs", "/app/tmp/pids", &[scenario]);
    }
    let line = "mkdir: cannot create directory '/app/data': Permission denied";
    let without_user = [("    user: \"1000\"\n", "")];
    let facts = HostFile {
        mode: Some(FOLDER | 0o755),
        ..HostFile::default()
    };
    let scenario = Scenario::edited(&without_user, 1, &[line]).facts("/app/data", facts);
    assert_rule("mount-owner", "app/data", "chmod a+rwx app/data", &[scenario]);
    let scenario = Scenario::edited(&without_user, 1, &[line]);
    assert_eq!(scenario.edits(), (None, vec![]));
}

/// A lock file of dependencies belongs to no run, and a script with the number of a line ran.
#[test]
fn other_files_of_the_host_are_not_blamed() {
    let line = "error: the lock file /app/Cargo.lock is locked, or needs to be updated";
    let scenario = Scenario::edited(&[], 1, &[line]).facts("/app/Cargo.lock", file(0o644));
    assert_eq!(scenario.edits(), (None, vec![]));
    for line in [
        "/app/run.sh: line 3: psql: not found",
        "/app/run.sh: 3: psql: not found",
    ] {
        let facts = HostFile {
            interpreter: Some("/bin/bash".to_owned()),
            ..file(0o755)
        };
        let scenario = Scenario::new("[/app/run.sh]", "db", TCP, 127, &[line]).facts("/app/run.sh", facts);
        assert!(!scenario.edits().1.contains(&"script-interpreter"), "{line}");
    }
}

#[test]
fn files_outside_of_the_mounts_have_a_mount() {
    let line = "open /srv/settings.yaml: no such file or directory";
    let scenario = Scenario::edited(&[], 1, &[line]).facts("/srv/settings.yaml", file(0o644));
    assert_rule(
        "unmounted",
        "container.volumes",
        "./settings.yaml:/srv/settings.yaml:ro",
        &[scenario],
    );
    let edits = [(
        "name: shop-cache,",
        "name: shop-cache, volumes: [\"./conf:/srv:ro\"],",
    )];
    let scenario = Scenario::edited(&edits, 1, &[line]);
    assert_rule("unmounted", "container.volumes", "./conf:/srv:ro", &[scenario]);
}

#[test]
fn mounts_that_hide_modules_are_named() {
    let lines = [
        "Error: Cannot find module 'express'",
        "Require stack:",
        "- /app/server.js",
    ];
    let scenario = Scenario::edited(&[], 1, &lines);
    assert_rule(
        "hidden-modules",
        "container.volumes",
        "web-modules:/app/node_modules",
        &[scenario],
    );
}

#[test]
fn paths_of_the_host_are_quoted_for_a_shell() {
    let line = "/bin/sh: 1: /app/run.sh: Permission denied";
    let edits = [
        ("./app:/app", "./my app's:/app"),
        ("command: [web]", "command: [/app/run.sh]"),
    ];
    let scenario = Scenario::edited(&edits, 126, &[line]).facts("/app/run.sh", file(0o644));
    assert_rule(
        "script-mode",
        "run.sh",
        "chmod +x 'my app'\\''s/run.sh'",
        &[scenario],
    );
}

#[test]
fn platforms_that_differ_name_the_image() {
    let mut scenario = Scenario::new("[web]", "db", TCP, 1, &["exec /usr/bin/web: exec format error"]);
    let evidence = scenario.run.evidence.as_mut().unwrap();
    evidence.wrong_platform = Some("the image is for linux/arm64, the engine for linux/amd64".to_owned());
    assert_rule("platform", "web.image", "linux/arm64", &[scenario]);
    let edits = [("image: web:1", "image: arm64v8/web:1")];
    let mut scenario = Scenario::edited(&edits, 1, &["exec /usr/bin/web: exec format error"]);
    let evidence = scenario.run.evidence.as_mut().unwrap();
    evidence.wrong_platform = Some("the image is for linux/arm64, the engine for linux/amd64".to_owned());
    assert_rule("platform", "web.image", "to `web:1`", &[scenario]);
}
