//! Commands: options, subcommands, variables of a shell, users, and data of another version.

use std::sync::Arc;

use super::*;
use crate::labels;
use crate::observed::Volume;

#[test]
fn options_and_subcommands_of_the_command_are_named() {
    for (rule, command, text, lines) in [
        (
            "unknown-option",
            "[web, --prot, \"8080\"]",
            "--prot",
            &[
                "error: unknown option '--prot'",
                "web: unrecognized option '--prot'",
                "flag provided but not defined: -prot",
                "Error: unknown flag: --prot",
                "usage: web [-h]\nweb: error: unrecognized arguments: --prot 8080",
                "node: bad option: --prot",
                "Error: No such option: --prot Did you mean --port?",
                "error: unexpected argument '--prot' found",
                "[ERROR] [MY-000067] [Server] unknown variable 'prot=8080'.",
                "statsd_exporter: error: unknown long flag '--prot', try --help",
            ][..],
        ),
        (
            "unknown-option",
            "[java, \"-XX:+UseFoo\", -jar, x]",
            "-XX:+UseFoo",
            &["Unrecognized VM option 'UseFoo'"],
        ),
        (
            "unknown-option",
            "[httpd, -z]",
            "-z",
            &["httpd: illegal option -- z", "unknown shorthand flag: 'z' in -z"],
        ),
        (
            "required-option",
            "[web, serve]",
            "--config",
            &[
                "web: error: the following arguments are required: --config",
                "Error: required flag(s) \"config\" not set",
                "Error: Missing option '--config'.",
                "error: the following required arguments were not provided:\n  --config <FILE>",
                "Missing required option: --config",
            ],
        ),
        (
            "unknown-command",
            "[web, serv]",
            "to `serve`",
            &[
                "Error: unknown command \"serv\" for \"web\"\nDid you mean this?\n\tserve",
                "web: error: argument cmd: invalid choice: 'serv' (choose from 'serve', 'migrate')",
                "Error: No such command 'serv'. Did you mean one of these: serve?",
                "error: unrecognized subcommand 'serv'\n  tip: a similar subcommand exists: 'serve'",
            ],
        ),
        (
            "shell-variable",
            "[web, \"--port=$PORT\"]",
            "[\"sh\", \"-c\", \"web --port=$PORT\"]",
            &["Error: cannot use port $PORT", "could not connect to $PORT"],
        ),
        (
            "shell-words",
            "[web, \"&&\", worker]",
            "web && worker",
            &["error: extra operand"],
        ),
    ] {
        for line in lines {
            let lines: Vec<&str> = line.split('\n').collect();
            let scenario = Scenario::new(command, "db", TCP, 2, &lines);
            assert_rule(rule, "web.command", text, &[scenario]);
        }
    }
}

#[test]
fn missing_script_has_the_similar_one() {
    let lines = [
        "npm error Missing script: \"strat\"",
        "npm error Did you mean this?",
        "npm error   npm run start",
    ];
    let scenario = Scenario::new("[npm, run, strat]", "db", TCP, 1, &lines);
    assert_rule("unknown-command", "web.command", "to `start`", &[scenario]);
}

/// An option is one of a shell only if the program is a shell, and a placeholder of a framework is no variable of a shell.
#[test]
fn texts_of_other_programs_are_not_those_of_a_shell() {
    for (command, line) in [
        ("[web, -c, \"a && b\"]", "error: no such table"),
        ("[sh, -c, \"web && worker\"]", "worker failed"),
        ("[sh, -c, \"web --url=$DB_URL\"]", "cannot reach $DB_URL"),
        ("[web]", "Failed to bind properties: ${DB_URL} is no URL"),
        ("[web, -c, x]", "invalid argument"),
        ("[find, /tmp, -exec, rm, x, \";\"]", "exit"),
        ("[web, \"*.txt\", \"&&\", worker]", "exit"),
        (
            "[web, --level, info]",
            "warning: unknown option `pool` in the request",
        ),
    ] {
        let scenario = Scenario::new(command, "db", TCP, 1, &[line]);
        assert_eq!(scenario.edits(), (None, vec![]), "{command}: {line}");
    }
}

#[test]
fn options_in_variables_are_named() {
    let edits = [(
        "        UPSTREAM: db\n",
        "        UPSTREAM: db\n        NODE_OPTIONS: --badd --inspect\n",
    )];
    let line = "node: --badd is not allowed in NODE_OPTIONS";
    let scenario = Scenario::edited(&edits, 9, &[line]);
    assert_rule(
        "unknown-option",
        "environment.NODE_OPTIONS",
        "--badd",
        &[scenario],
    );
}

#[test]
fn misspelled_variables_have_the_name_that_the_program_reads() {
    let edits = [(
        "        UPSTREAM: db\n",
        "        UPSTREAM: db\n        DATABSE_HOST: db\n",
    )];
    for line in [
        "KeyError: 'DATABASE_HOST' in os.environ",
        "panic: DATABASE_HOST must be set",
        "DATABASE_HOST: unbound variable",
    ] {
        let scenario = Scenario::edited(&edits, 1, &[line]);
        assert_rule(
            "misspelled-variable",
            "environment.DATABSE_HOST",
            "DATABASE_HOST",
            &[scenario],
        );
    }
}

#[test]
fn fields_of_settings_classes_are_variables() {
    let lines = [
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings",
        "database_host",
        "  Field required [type=missing, input_value={}, input_type=dict]",
    ];
    let scenario = Scenario::edited(&[], 1, &lines);
    assert_rule(
        "missing-variable",
        "environment.DATABASE_HOST",
        "DATABASE_HOST",
        &[scenario],
    );
    let lines = [
        "Missing environment variables:",
        "    DATABASE_HOST: database host",
    ];
    let scenario = Scenario::edited(&[], 1, &lines);
    assert_rule(
        "missing-variable",
        "environment.DATABASE_HOST",
        "DATABASE_HOST",
        &[scenario],
    );
}

#[test]
fn programs_that_refuse_root_get_a_user() {
    for (user, line) in [
        ("", "initdb: error: cannot be run as root"),
        (
            "",
            "\"root\" execution of the PostgreSQL server is not permitted.",
        ),
        (
            "",
            "java.lang.RuntimeException: can not run elasticsearch as root",
        ),
        (
            "    user: root\n",
            "[ERROR] [MY-010123] Please read \"Security\" section of the manual to find out how to run mysqld as root!",
        ),
        (
            "",
            "Running as root without --no-sandbox is not supported. See https://crbug.com/638180.",
        ),
    ] {
        let scenario = Scenario::edited(&[("    user: \"1000\"\n", user)], 1, &[line]);
        assert_rule("root-refused", "web.user", "1000", &[scenario]);
    }
}

#[test]
fn first_passwords_of_databases_are_variables() {
    for (line, name) in [
        (
            "Error: Database is uninitialized and superuser password is not specified.",
            "POSTGRES_PASSWORD",
        ),
        (
            "error: database is uninitialized and password option is not specified",
            "MYSQL_ROOT_PASSWORD",
        ),
        (
            "error: database is uninitialized and MYSQL_ROOT_PASSWORD not set",
            "MYSQL_ROOT_PASSWORD",
        ),
    ] {
        let scenario = Scenario::edited(&[], 1, &[line]);
        let (edit, fired) = scenario.edits();
        assert_eq!(fired.first(), Some(&"known-cure"), "{line}: {fired:?}");
        assert!(edit.unwrap().key.ends_with(name), "{line}");
    }
}

#[test]
fn passwords_of_siblings_are_required() {
    let edits = [
        (
            "    image: redis:7\n",
            "    image: redis:7\n    command: [redis-server, --requirepass, sesame]\n",
        ),
        (
            "        UPSTREAM: db\n",
            "        CACHE_URL: redis://cache:6379\n",
        ),
    ];
    let scenario = Scenario::edited(&edits, 1, &["ReplyError: NOAUTH Authentication required."]);
    assert_rule(
        "no-password",
        "environment.CACHE_URL",
        "--requirepass",
        &[scenario],
    );
}

/// Scenario whose data is in a volume from before the edit.
fn with_old_data(line: &str) -> (Scenario, BTreeMap<String, Arc<Volume>>) {
    let edits = [("        - ./app:/app\n", "        - data:/var/lib/data\n")];
    let mut scenario = Scenario::edited(&edits, 1, &["starting", line, "bye"]);
    scenario.accepted.accepted_at = Timestamp(9_000);
    let name = scenario.accepted.desired.volumes[0].as_str().to_owned();
    let labels = BTreeMap::from([(labels::CREATED_AT.to_owned(), Timestamp(1_000).to_string())]);
    let volume = Volume {
        name: name.clone(),
        labels,
    };
    (scenario, BTreeMap::from([(name, Arc::new(volume))]))
}

#[test]
fn data_of_another_version_names_both_versions() {
    for (line, versions) in [
        (
            "DETAIL:  The data directory was initialized by PostgreSQL version 14, which is not compatible with this version 16.1 (Debian 16.1-1.pgdg120+1).",
            "version 14, the program of 16.1",
        ),
        (
            "[ERROR] [MY-014061] [InnoDB] Invalid MySQL server downgrade: Cannot downgrade from 80200 to 80036. Downgrade is only permitted between patch releases.",
            "version 8.2.0, the program of 8.0.36",
        ),
        (
            "UPGRADE PROBLEM: Found an invalid featureCompatibilityVersion document (ERROR: BadValue: Invalid value for version, found 7.0, expected '4.4' or '4.2'.",
            "version 7.0, the program of 4.4",
        ),
        (
            "java.lang.IllegalStateException: cannot upgrade a node from version [6.8.0] directly to version [8.1.0]",
            "version 6.8.0, the program of 8.1.0",
        ),
        (
            "the data was initialized by version 1, which is not compatible with version 2",
            "version 1, the program of 2",
        ),
    ] {
        let (scenario, volumes) = with_old_data(line);
        let (edit, fired) = scenario.edits_with(&volumes);
        assert_eq!(fired, ["data-version"], "{line}");
        let edit = edit.unwrap();
        assert!(edit.reason.contains(versions), "{edit:?}");
        assert_eq!(edit.suggest.as_deref(), Some("data-2:/var/lib/data"));
    }
}

#[test]
fn data_in_a_folder_of_another_version_needs_its_image() {
    let edits = [
        ("    image: web:1\n", "    image: postgres:16\n"),
        ("./app:/app", "./pg:/var/lib/postgresql/data"),
    ];
    let line = "The data directory \"/var/lib/postgresql/data\" was initialized by PostgreSQL version 14, which is not compatible with this version 16.1.";
    let scenario = Scenario::edited(&edits, 1, &[line]);
    assert_rule("data-version", "web.image", "to `postgres:14`", &[scenario]);
}

#[test]
fn data_in_a_volume_of_another_version_needs_its_image() {
    let (mut scenario, volumes) = with_old_data(
        "DETAIL:  The data directory was initialized by PostgreSQL version 14, which is not compatible with this version 16.1.",
    );
    let edits = [
        ("    image: web:1\n", "    image: postgres:16-alpine\n"),
        ("        - ./app:/app\n", "        - data:/var/lib/data\n"),
    ];
    scenario.accepted = Scenario::edited(&edits, 1, &[]).accepted;
    scenario.accepted.accepted_at = Timestamp(9_000);
    let edit = scenario.edits_with(&volumes).0.unwrap();
    assert_eq!(edit.suggest.as_deref(), Some("postgres:14-alpine"));
    assert!(edit.hint.unwrap().contains("data-2:/var/lib/data"));
}

/// A certain rule over many lines does not win over a likely rule about the line with the cause.
#[test]
fn cause_wins_over_earlier_lines() {
    let cause = "Error: connect ECONNREFUSED 10.0.0.2:5433";
    let mut lines = vec!["heartbeat: can't fork: Resource temporarily unavailable"];
    lines.extend(std::iter::repeat_n("waiting", 30));
    lines.push(cause);
    let scenario = Scenario::new("[web]", "db", TCP, 1, &lines);
    let edit = scenario.edits().0.unwrap();
    assert!(edit.key.ends_with("environment.DATABASE_URL"), "{edit:?}");
}

#[test]
fn errors_before_a_success_are_history() {
    for lines in [
        &[
            "Error: connect ECONNREFUSED 10.0.0.2:5433",
            "connected to db",
            "exit",
        ][..],
        &["KeyError: 'API_KEY'", "server started", "done"],
        &[
            "password authentication failed for user \"web\"",
            "connection established",
        ],
    ] {
        let scenario = Scenario::new("[web]", "db", TCP, 1, lines);
        assert_eq!(scenario.edits(), (None, vec![]), "{lines:?}");
    }
}

#[test]
fn warnings_before_the_cause_are_not_blamed() {
    for line in [
        "WARN invalid entry in /etc/app/x.yaml:3 was skipped",
        "warning: password authentication failed for user \"web\", trying the next method",
    ] {
        let mut lines = vec![line];
        lines.extend(std::iter::repeat_n("working", 8));
        lines.push("fatal: quota exceeded");
        let scenario = Scenario::new("[web]", "db", TCP, 1, &lines);
        assert_eq!(scenario.edits(), (None, vec![]), "{line}");
    }
}

#[test]
fn program_for_glibc_needs_an_image_with_its_loader() {
    let text = |image: &str| {
        format!(
            "project: {{ name: shop }}\nservices:\n  web:\n    image: {image}\n    command: [/bin/demo]\n    \
             container: {{ name: web, volumes: [\"./demo:/bin/demo:ro\"] }}\n"
        )
    };
    let line = "[FATAL tini (7)] exec /bin/demo failed: No such file or directory";
    let file = |interpreter: Option<&str>| HostFile {
        mode: Some(0o100_755),
        interpreter: interpreter.map(str::to_owned),
        ..HostFile::default()
    };
    let edit = |image, interpreter| {
        let scenario = Scenario::of_spec(&text(image), 127, &[line]);
        scenario.facts("/bin/demo", file(interpreter)).edits().0
    };
    let image = |image| edit(image, None).and_then(|edit| edit.suggest);
    assert_eq!(image("alpine:3.20").as_deref(), Some("debian:stable-slim"));
    assert_eq!(image("node:22-alpine3.20").as_deref(), Some("node:22"));
    assert_eq!(image("alpine/git:2.43"), None);
    let of_script = edit("alpine:3.20", Some("/bin/bash")).unwrap();
    assert_eq!(
        of_script.suggest.as_deref().unwrap_or_default(),
        "",
        "{of_script:?}"
    );
}
