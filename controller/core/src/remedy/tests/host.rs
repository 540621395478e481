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
    pub(super) fn facts(mut self, path: &str, facts: HostFile) -> Self {
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

/// Messages about the program `/app.d/run.sh` that could not run, and those of a script that ran.
const DENIED: [&str; 2] = [
    "[FATAL tini (7)] exec /app.d/run.sh failed: Permission denied",
    "/entry.sh: exec: line 3: /app.d/run.sh: Permission denied",
];
const ABSENT: [&str; 5] = [
    "[FATAL tini (7)] exec /app.d/run.sh failed: No such file or directory",
    "exec /app.d/run.sh: no such file or directory",
    "/bin/sh: ./run.sh: not found",
    "/entry.sh: line 3: /app.d/run.sh: not found",
    "env: can't execute 'bash': No such file or directory",
];
const RAN: [&str; 2] = [
    "/app.d/run.sh: exec: line 2: web: not found",
    "/app.d/run.sh: line 2: web: not found",
];

#[test]
fn copied_scripts_name_the_file_of_the_context() {
    let copied = |code, line: &str, mode, facts| {
        let facts = HostFile {
            copied_from: Some("/p/bin/run.sh".to_owned()),
            interpreter: Some("bash".to_owned()),
            mode: Some(FILE | mode),
            ..facts
        };
        [Scenario::new("[web]", "db", TCP, code, &[line]).facts("/app.d/run.sh", facts)]
    };
    let crlf = || HostFile {
        has_crlf: true,
        ..HostFile::default()
    };
    for mode in [0o644, 0o744] {
        for line in DENIED {
            let scenario = copied(126, line, mode, HostFile::default());
            assert_rule(
                "script-mode",
                "/p/bin/run.sh",
                "chmod +x /p/bin/run.sh",
                &scenario,
            );
        }
    }
    for line in ABSENT {
        let change = "sed -i 's/\\r$//' /p/bin/run.sh";
        let scenario = copied(127, line, 0o755, crlf());
        assert_eq!(scenario[0].edits().1[0], "script-line-ends", "{line}");
        assert!(
            scenario[0].edits().0.unwrap().to_string().contains(change),
            "{line}"
        );
        let scenario = copied(127, line, 0o755, HostFile::default());
        let (edit, _) = scenario[0].edits();
        assert_eq!(
            edit.as_ref().map(|edit| edit.file.as_str()),
            Some("/p/bin/run.sh"),
            "{line}"
        );
        assert!(
            edit.unwrap().to_string().contains("no interpreter `bash`"),
            "{line}"
        );
    }
    for line in RAN {
        let scenario = copied(127, line, 0o755, crlf());
        assert!(!scenario[0].edits().1.contains(&"script-line-ends"), "{line}");
    }
}

#[test]
fn shell_with_a_script_of_crlf_lines_names_the_script() {
    let failed = |command: &str, code, line: &str, has_crlf| {
        let facts = HostFile {
            has_crlf,
            ..file(0o644)
        };
        let scenario = Scenario::new(command, "db", TCP, code, &[line]).facts("/app/run.sh", facts);
        let (edit, _) = scenario.edits();
        edit.is_some_and(|edit| edit.to_string().contains("sed -i 's/\\r$//' app/run.sh"))
    };
    for (code, line) in [
        (127, "/app/run.sh: line 2: : not found"),
        (
            2,
            "/app/run.sh: line 9: syntax error: unexpected end of file (expecting \"then\")",
        ),
        (1, "sleep: invalid number '3600'"),
    ] {
        assert!(failed("[sh, /app/run.sh]", code, line, true), "{line}");
        assert!(!failed("[sh, /app/run.sh]", code, line, false), "{line}");
        assert!(!failed("[python, /app/run.sh]", code, line, true), "{line}");
    }
}

#[test]
fn written_scripts_name_the_key_of_the_file() {
    let written = |code, line: &str, file: &str| {
        let with_file = format!(
            "      files: [{{ path: /x, content: x }}, {{ path: /app.d/run.sh, {file} }}]\n      environment:\n"
        );
        let before = "      environment:\n        DATABASE";
        let after = format!("{with_file}        DATABASE");
        [Scenario::edited(&[(before, after.as_str())], code, &[line])]
    };
    let text = "content: \"#!/usr/bin/env bash\\nexec web\\n\"";
    for line in DENIED {
        let key = "web.container.files[1].mode";
        assert_rule(
            "script-mode",
            key,
            "files[1].mode: 0755`",
            &written(126, line, text),
        );
        let with_mode = format!("{text}, mode: 0440");
        assert_rule(
            "script-mode",
            key,
            "from `0440` to `0755`",
            &written(126, line, &with_mode),
        );
    }
    let with_mode = format!("{text}, mode: 0755");
    for line in ABSENT {
        let scenario = written(127, line, &with_mode);
        let edit = scenario[0].edits().0.unwrap();
        assert!(edit.key.ends_with("files[1].content"), "{}", edit.key);
        assert!(edit.to_string().contains("no interpreter `bash`"), "{edit}");
        let scenario = written(127, line, &with_mode.replace("\\n", "\\r\\n"));
        let edit = scenario[0].edits().0.unwrap();
        assert!(edit.key.ends_with("files[1].content"), "{}", edit.key);
        assert!(edit.to_string().contains("CRLF"), "{edit}");
    }
    for line in RAN {
        let scenario = written(127, line, &with_mode);
        assert!(!scenario[0].edits().1.contains(&"script-interpreter"), "{line}");
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
        assert_rule("folder-for-file", "seed.sql", "empty folder", &[scenario]);
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
        "/app/run.sh: exec: line 3: psql: not found",
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
