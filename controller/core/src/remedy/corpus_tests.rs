//! Corpus: messages of well-known programs, each with its first edit, and controls without one.

use std::collections::BTreeMap;

use super::*;
use crate::desired::admit::{SpecContext, admit};
use crate::desired::key_lines::KeyLines;
use crate::failed_run::FailureCause;
use crate::ident::ContainerId;
use crate::outcome::Evidence;
use crate::time::Timestamp;

const SPEC: &str = "project: { name: shop }
services:
  db:
    image: postgres:16
    container:
      name: shop-db
      environment: { POSTGRES_USER: shop, POSTGRES_PASSWORD: right, POSTGRES_DB: orders, REGION: eu }
      healthcheck: { type: tcp, port: 5432 }
  cache:
    image: redis:7
    container: { name: shop-cache, healthcheck: { type: tcp, port: 6379 } }
  web:
    image: web:1
    memory: 64MB
    user: \"1000\"
    command: COMMAND
    tmpfs: [\"/scratch:size=1m\"]
    container:
      name: shop-web
      volumes:
        - ./app:/app
        - ./conf:/etc/app:ro
        - ./seed.sql:/seed/seed.sql
      environment:
        DATABASE_URL: postgres://web:wrong@db:5433/order
        LISTEN_PORT: \"80\"
        UPSTREAM: HOST
      healthcheck: PROBE
";
const TCP: &str = "{ type: tcp, port: 8080 }";
const CURL: &str = "{ type: exec, command: [curl, \"-f\", \"http://localhost:8080/health\"] }";

/// A run of `web` in its environment.
struct Scenario {
    accepted: Accepted,
    run: FailedRun,
}

impl Scenario {
    fn new(command: &str, host: &str, probe: &str, code: i64, lines: &[&str]) -> Self {
        let text = SPEC
            .replace("COMMAND", command)
            .replace("HOST", host)
            .replace("PROBE", probe);
        let read = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
        let spec = read.spec.unwrap_or_else(|| panic!("{:?}", read.diagnostics));
        let admission = admit(&spec, &SpecContext::default());
        let accepted = Accepted {
            desired: admission
                .desired
                .unwrap_or_else(|| panic!("{:?}", admission.diagnostics)),
            spec_path: "e2e.yaml".to_owned(),
            lines: KeyLines::of(&spec, &read.source),
            accepted_at: Timestamp(0),
            has_pending_edit: false,
            allowed: false,
            is_ending: false,
            file_hash: None,
            mounted_files: std::collections::BTreeMap::new(),
        };
        let run = FailedRun {
            exit_code: code,
            evidence: Some(Evidence {
                stderr: lines.iter().map(ToString::to_string).collect(),
                ..Evidence::default()
            }),
            ..FailedRun::of(ContainerId::new("c1").unwrap(), Timestamp(5_000))
        };
        Self { accepted, run }
    }

    fn unhealthy(probe: &str, output: &str) -> Self {
        let mut scenario = Self::new("[web]", "db", probe, 0, &[]);
        scenario.run.cause = FailureCause::Unhealthy;
        scenario.run.probe_output = vec![output.to_owned()];
        scenario
    }

    /// First edit, and the names of the rules that derive one.
    fn edits(&self) -> (Option<SpecEdit>, Vec<&'static str>) {
        let (history, volumes) = (EnvHistory::default(), BTreeMap::new());
        let context = EditContext {
            accepted: &self.accepted,
            service: &self.accepted.desired.services["web"],
            history: &history,
            volumes: &volumes,
        };
        let case = context.case(&self.run);
        let fired = RULES.iter().filter(|(_, _, edit)| edit(&case).is_some());
        (
            context.of_run(&self.run),
            fired.map(|(name, _, _)| *name).collect(),
        )
    }
}

/// Asserts for lines of one rule: only this rule derives an edit, and the edit has this key (or file) and this text.
fn assert_rule(rule: &str, key: &str, text: &str, scenarios: &[Scenario]) {
    for scenario in scenarios {
        let lines = &scenario.run.evidence.as_ref().unwrap().stderr;
        let (edit, fired) = scenario.edits();
        let expected: &[&str] = if rule.is_empty() { &[] } else { &[rule] };
        assert_eq!(fired, expected, "{lines:?}");
        let edit = edit.unwrap_or_else(|| panic!("no edit for {lines:?}"));
        let place = if edit.key.is_empty() {
            &edit.file
        } else {
            &edit.key
        };
        assert!(place.ends_with(key), "{lines:?}: {edit:?}");
        assert!(edit.to_string().contains(text), "{lines:?}: {edit}");
    }
}

fn exits(lines: &[&str]) -> Vec<Scenario> {
    let of = |line: &&str| Scenario::new("[web]", "db", TCP, 1, &["starting", line, "bye"]);
    lines.iter().map(of).collect()
}

/// Cases of each rule: rule, end of the key or file, text of the edit, messages.
const EXITS: &[(&str, &str, &str, &[&str])] = &[
    (
        "pids",
        "argus.policy.pidsLimit",
        "2048",
        &[
            "/bin/sh: can't fork: Resource temporarily unavailable",
            "bash: fork: retry: Resource temporarily unavailable",
            "-bash: fork: Cannot fork",
            "runtime/cgo: pthread_create failed: Resource temporarily unavailable",
            "java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory or process/resource limits reached",
            "RuntimeError: can't start new thread",
            "ThreadError: can't create Thread: Resource temporarily unavailable",
            "OpenBLAS blas_thread_init: pthread_create failed for thread 3 of 8: Resource temporarily unavailable",
            "runtime: failed to create new OS thread (have 11 already; errno=11)",
            "BlockingIOError: [Errno 11] Resource temporarily unavailable: cannot fork",
        ],
    ),
    (
        "read-only-mount",
        "volumes[1]",
        "to `./conf:/etc/app`",
        &[
            "touch: /etc/app/lock: Read-only file system",
            "OSError: [Errno 30] Read-only file system: '/etc/app/state.db'",
            "Error: EROFS: read-only file system, open '/etc/app/out.json'",
            "open /etc/app/cache: read-only file system",
            "java.nio.file.FileSystemException: /etc/app/x: Read-only file system",
            "Errno::EROFS: Read-only file system @ rb_sysopen - /etc/app/pid",
            "System.IO.IOException: Read-only file system : '/etc/app/log.txt'",
        ],
    ),
    (
        "contents",
        "conf/nginx.conf",
        "argus_retry",
        &[
            "nginx: [emerg] unknown directive \"servr\" in /etc/app/nginx.conf:3",
            "nginx: [emerg] unexpected \"}\" in /etc/app/nginx.conf:12",
            "nginx: [emerg] invalid number of arguments in \"listen\" directive in /etc/app/nginx.conf:2",
            "error parsing /etc/app/nginx.conf: yaml: line 4: did not find expected key",
            "/etc/app/nginx.conf: line 3: syntax error: unexpected end of file",
            "SyntaxError: /etc/app/nginx.conf: Unexpected token } in JSON at position 12",
            "toml: parsing error in /etc/app/nginx.conf:7",
            "Failed to parse /etc/app/nginx.conf: bad indentation of a mapping entry (3:2)",
        ],
    ),
    (
        "first-process",
        "argus.policy.init",
        "false",
        &[
            "s6-overlay-suexec: fatal: can only run as pid 1",
            "my_init must be run as PID 1",
        ],
    ),
    (
        "privileges",
        "argus.policy.noNewPrivileges",
        "false",
        &[
            "sudo: effective uid is not 0, is /usr/bin/sudo on a file system with the 'nosuid' option set",
            "sudo: The \"no new privileges\" flag is set, which prevents sudo from running as root.",
            "sudo: /usr/bin/sudo must be owned by uid 0 and have the setuid bit set",
            "su: must be suid to work properly",
        ],
    ),
    (
        "heap",
        "services.web.memory",
        "memory",
        &[
            "java.lang.OutOfMemoryError: Java heap space",
            "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
            "Unhandled exception. System.OutOfMemoryException: Exception of type 'System.OutOfMemoryException' was thrown.",
            "fatal error: runtime: out of memory",
            "[FATAL] failed to allocate memory (NoMemoryError)",
        ],
    ),
    (
        "no-space",
        "tmpfs",
        "/dev/shm:size=256m",
        &[
            "ERROR:  could not resize shared memory segment \"/PostgreSQL.1\" to 8388608 bytes: No space left on device",
            "OSError: [Errno 28] No space left on device: '/dev/shm/torch_1'",
        ],
    ),
    (
        "no-space",
        "tmpfs[0]",
        "to `/scratch:size=4m`",
        &[
            "write /scratch/data.bin: no space left on device",
            "Error: ENOSPC: no space left on device, write '/scratch/a'",
            "cp: error writing '/scratch/b': No space left on device",
        ],
    ),
    (
        "low-port",
        "environment.LISTEN_PORT",
        "8080",
        &[
            "nginx: [emerg] bind() to 0.0.0.0:80 failed (13: Permission denied)",
            "Error: listen EACCES: permission denied 0.0.0.0:80",
            "listen tcp :80: bind: permission denied",
        ],
    ),
    (
        "low-port",
        "web.user",
        "a port from 1024",
        &[
            "java.net.BindException: Permission denied (Bind failed)",
            "listen tcp :443: bind: permission denied",
        ],
    ),
    (
        "unknown-database",
        "environment.DATABASE_URL",
        "to `orders`",
        &[
            "FATAL:  database \"order\" does not exist",
            "pq: database \"order\" does not exist",
            "ERROR 1049 (42000): Unknown database 'order'",
            "org.postgresql.util.PSQLException: FATAL: database \"order\" does not exist",
        ],
    ),
    (
        "unknown-role",
        "environment.DATABASE_URL",
        "to `shop`",
        &[
            "FATAL:  role \"web\" does not exist",
            "psycopg2.OperationalError: FATAL:  role \"web\" does not exist",
        ],
    ),
    (
        "password",
        "environment.DATABASE_URL",
        "POSTGRES_PASSWORD",
        &[
            "FATAL:  password authentication failed for user \"web\"",
            "pq: password authentication failed for user \"web\"",
            "error: password authentication failed for user \"web\"",
            "ERROR 1045 (28000): Access denied for user 'web'@'10.0.0.4' (using password: YES)",
            "MongoServerError: Authentication failed.",
            "amqp: ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN",
        ],
    ),
    (
        "refused",
        "environment.DATABASE_URL",
        "to `5432`",
        &[
            "Error: connect ECONNREFUSED 10.0.0.2:5433",
            "dial tcp 10.0.0.2:5433: connect: connection refused",
            "psycopg2.OperationalError: connection to server at \"db\" (10.0.0.2), port 5433 failed: Connection refused",
            "java.net.ConnectException: Connection refused",
            "Errno::ECONNREFUSED: Connection refused - connect(2) for 10.0.0.2:5433",
            "System.Net.Sockets.SocketException (111): Connection refused 10.0.0.2:5433",
        ],
    ),
    (
        "permission",
        "tmpfs",
        "/var/www/x:uid=1000",
        &[
            "mkdir: cannot create directory '/var/www/x': Permission denied",
            "mkdir /var/www/x: permission denied",
            "Error: EACCES: permission denied, mkdir '/var/www/x'",
        ],
    ),
    (
        "permission",
        "app/out",
        "owner",
        &[
            "PermissionError: [Errno 13] Permission denied: '/app/out'",
            "open /app/out: permission denied",
        ],
    ),
    (
        "",
        "environment.SEED_FILE",
        "/seed/seed.sql",
        &["usage: SEED_FILE must name the seed file"],
    ),
    (
        "",
        "environment.REGION",
        "eu",
        &["environment variable REGION is required"],
    ),
    (
        "",
        "environment.API_KEY",
        "API_KEY",
        &[
            "KeyError: 'API_KEY'",
            "sh: API_KEY: parameter not set",
            "panic: API_KEY must be set",
            "key not found: \"API_KEY\" (KeyError) missing",
            "Error: missing required environment variable API_KEY",
        ],
    ),
];

#[test]
fn each_message_has_the_edit_of_one_rule() {
    let count: usize = EXITS.iter().map(|(_, _, _, lines)| lines.len()).sum();
    assert!(count >= 75, "{count} cases");
    for (rule, key, text, lines) in EXITS {
        assert_rule(rule, key, text, &exits(lines));
    }
}

#[test]
fn commands_that_cannot_run_have_edits() {
    let of = |command: &str, code, line: &str| [Scenario::new(command, "db", TCP, code, &[line])];
    let text = "[\"sh\", \"-c\", \"sleep 1 && web\"]";
    assert_rule(
        "one-element",
        "web.command",
        text,
        &of(
            "[\"sleep 1 && web\"]",
            127,
            "[FATAL tini (7)] exec sleep 1 && web failed: No such file or directory",
        ),
    );
    let (denied, absent) = ("chmod +x app/run.sh", "convert CRLF line ends");
    for (code, line, text) in [
        (
            126,
            "[FATAL tini (7)] exec /app/run.sh failed: Permission denied",
            denied,
        ),
        (126, "/bin/sh: 1: /app/run.sh: Permission denied", denied),
        (
            127,
            "[FATAL tini (7)] exec /app/run.sh failed: No such file or directory",
            absent,
        ),
        (
            126,
            "bash: /app/run.sh: /bin/bash^M: bad interpreter: No such file or directory",
            absent,
        ),
    ] {
        assert_rule(
            "mounted-script",
            "app/run.sh",
            text,
            &of("[/app/run.sh]", code, line),
        );
    }
}

#[test]
fn scripts_of_built_images_name_the_interpreter_and_the_context() {
    let text = "project: { name: shop }\nservices:\n  web: { build: { context: /p/server }, container: { name: web } }\n";
    let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
    let context = SpecContext {
        directory: "/p".to_owned(),
        ..SpecContext::default()
    };
    let built = admit(&spec, &context).desired.unwrap().services["web"]
        .image
        .clone();
    for line in [
        "[FATAL tini (7)] exec /crlf.sh failed: No such file or directory",
        "/bin/sh: /crlf.sh: not found",
        "bash: /crlf.sh: /bin/bash^M: bad interpreter: No such file or directory",
    ] {
        let mut scenario = Scenario::new("[/crlf.sh]", "db", TCP, 127, &[line]);
        scenario.accepted.desired.services.get_mut("web").unwrap().image = built.clone();
        let expected = "convert CRLF line ends of `crlf.sh`";
        assert_rule("built-script", "/p/server", expected, &[scenario]);
    }
}

#[test]
fn unknown_hosts_have_the_name_of_the_sibling() {
    for line in [
        "Error: getaddrinfo ENOTFOUND cach_e",
        "dial tcp: lookup cach_e on 127.0.0.11:53: no such host",
        "nginx: [emerg] host not found in upstream \"cach_e\"",
        "java.net.UnknownHostException: cach_e",
        "redis.exceptions.ConnectionError: Error -2 connecting to cach_e:6379. Name or service not known.",
    ] {
        let scenario = Scenario::new("[web, --cache, \"cach_e:6379\"]", "db", TCP, 1, &[line]);
        assert_rule("unknown-host", "web.command", "`cache`", &[scenario]);
    }
}

#[test]
fn health_checks_that_cannot_succeed_have_edits() {
    for output in [
        "OCI runtime exec failed: exec failed: unable to start container process: exec: \"curl\": executable file not found in $PATH: unknown",
        "/bin/sh: curl: not found",
        "/bin/sh: 1: curl: not found",
        "bash: line 1: curl: command not found",
    ] {
        let scenario = Scenario::unhealthy(CURL, output);
        assert_rule(
            "",
            "healthcheck.command",
            "`port: 8080` and `path: /health`",
            &[scenario],
        );
    }
    let http = "{ path: /, port: 8443 }";
    let output = "GET / on 10.0.0.2:8443: 400 Bad Request: Client sent an HTTP request to an HTTPS server.";
    assert_rule(
        "",
        "healthcheck.type",
        "tcp",
        &[Scenario::unhealthy(http, output)],
    );
}

/// Lines that blame nothing: handled errors, access logs, retries, and causes outside the files.
const CONTROLS: &[&str] = &[
    "started",
    "GET /missing 404 12ms",
    "\"GET /favicon.ico HTTP/1.1\" 404 153",
    "INFO handled error: retry succeeded",
    "WARN slow query 1200 ms",
    "checked 12 files: 0 errors",
    "LOG:  database system is ready to accept connections",
    "LOG:  checkpoint complete: wrote 3 buffers",
    "Ready to accept connections tcp",
    "# Warning: Could not create server TCP listening socket ::*:6379: unable to bind socket",
    "Completed in 3 ms with status 500",
    "java.lang.NullPointerException: Cannot invoke \"String.length()\"",
    "panic: runtime error: index out of range [3] with length 2",
    "ZeroDivisionError: division by zero",
    "TypeError: Cannot read properties of undefined (reading 'id')",
    "NoMethodError: nil has no method `name'",
    "System.NullReferenceException: Object reference not set to an instance of an object.",
    "Segmentation fault (core dumped)",
    "Illegal instruction (core dumped)",
    "fatal error: all goroutines are asleep - deadlock!",
    "AssertionError: expected 3 to equal 4",
    "caught SIGTERM, bye",
    "shutting down",
    "recv: Resource temporarily unavailable",
    "EAGAIN: resource temporarily unavailable, read",
    "bind: Address already in use",
    "Error: listen EADDRINUSE: address already in use :::8080",
    "accept: too many open files",
    "x509: certificate signed by unknown authority",
    "INFO [kafka] Registered broker 1",
    "invalid credentials supplied by the client",
    "warning: deprecated option `pool`",
    "open /etc/shadow: permission denied",
    "connect: connection refused 10.0.0.2:9999",
    "usage: main.py [-h] --config-file CONFIG_FILE",
];

#[test]
fn noise_has_no_edit() {
    assert!(CONTROLS.len() >= 30);
    for scenario in exits(CONTROLS) {
        let lines = &scenario.run.evidence.as_ref().unwrap().stderr;
        assert_eq!(scenario.edits(), (None, vec![]), "{lines:?}");
    }
}

#[test]
fn edit_contains_no_secret() {
    let command = "[\"web --key right && sleep 1\"]";
    let line = "[FATAL tini (7)] exec web failed: No such file or directory";
    let (edit, fired) = Scenario::new(command, "db", TCP, 127, &[line]).edits();
    assert_eq!(fired, ["one-element"]);
    let edit = edit.unwrap();
    assert_eq!((edit.now, edit.suggest), (None, None));
}

#[test]
fn crash_of_the_program_is_not_the_fault_of_its_address() {
    let lines = ["dial tcp: connection refused", "Segmentation fault (core dumped)"];
    assert_eq!(Scenario::new("[web]", "db", TCP, 139, &lines).edits().0, None);
    assert_eq!(Scenario::new("[web]", "db", TCP, 1, &lines).edits().0, None);
}
