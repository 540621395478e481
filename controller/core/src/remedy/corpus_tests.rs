//! Corpus: messages of well-known programs, each with its first edit, and controls without one.

use std::collections::BTreeMap;

#[path = "tests/blind.rs"]
mod blind;
#[path = "tests/commands.rs"]
mod commands;
#[path = "tests/controls.rs"]
mod controls;
#[path = "tests/host.rs"]
mod host;
#[path = "tests/kinds.rs"]
mod kinds;
#[path = "tests/messages.rs"]
mod messages;
#[path = "tests/more_controls.rs"]
mod more_controls;
#[path = "tests/more_messages.rs"]
mod more_messages;
#[path = "tests/observed.rs"]
mod observed;

use super::case::Case;
use super::rule::{RULES, Scope};
use super::test_environment::accept;
use super::*;
use crate::desired::admit::admit;
use crate::failed_run::FailureCause;
use crate::ident::ContainerId;
use crate::outcome::{Evidence, HostFile};
use crate::time::Timestamp;
use controls::CONTROLS;
use messages::EXITS;

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
    history: EnvHistory,
    run: FailedRun,
}

impl Scenario {
    fn new(command: &str, host: &str, probe: &str, code: i64, lines: &[&str]) -> Self {
        let text = SPEC
            .replace("COMMAND", command)
            .replace("HOST", host)
            .replace("PROBE", probe);
        Self::of_spec(&text, code, lines)
    }

    /// A run of `web` after these replacements in the file.
    fn edited(edits: &[(&str, &str)], code: i64, lines: &[&str]) -> Self {
        let mut text = SPEC
            .replace("COMMAND", "[web]")
            .replace("HOST", "db")
            .replace("PROBE", TCP);
        for (from, to) in edits {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        Self::of_spec(&text, code, lines)
    }

    fn of_spec(text: &str, code: i64, lines: &[&str]) -> Self {
        let accepted = accept(text);
        let run = FailedRun {
            exit_code: code,
            evidence: Some(Evidence {
                stderr: lines.iter().map(ToString::to_string).collect(),
                ..Evidence::default()
            }),
            ..FailedRun::new(ContainerId::new("c1").unwrap(), Timestamp(5_000))
        };
        Self {
            accepted,
            history: EnvHistory::default(),
            run,
        }
    }

    fn unhealthy(probe: &str, output: &str) -> Self {
        let mut scenario = Self::new("[web]", "db", probe, 0, &[]);
        scenario.run.cause = FailureCause::Unhealthy;
        scenario.run.probe_output = vec![output.to_owned()];
        scenario
    }

    fn context<'a>(&'a self, volumes: &'a BTreeMap<String, Arc<Volume>>) -> EditContext<'a> {
        EditContext {
            accepted: &self.accepted,
            service: &self.accepted.desired.services["web"],
            history: &self.history,
            volumes,
        }
    }

    /// First edit, and the names of the rules that derive one.
    fn edits(&self) -> (Option<SpecEdit>, Vec<&'static str>) {
        self.edits_with(&BTreeMap::new())
    }

    fn edits_with(&self, volumes: &BTreeMap<String, Arc<Volume>>) -> (Option<SpecEdit>, Vec<&'static str>) {
        let context = self.context(volumes);
        let phases = context.phases(&self.run);
        let scopes = [Scope::Facts, Scope::Cause, Scope::Last, Scope::All];
        let cases = scopes.map(|scope| Case::new(context, &self.run, scope));
        let fires = |rule: &&rule::Rule| {
            let mut pairs = cases
                .iter()
                .flat_map(|case| phases.iter().map(move |phase| (case, *phase)));
            pairs.any(|(case, phase)| rule.edit_in(case, phase).is_some())
        };
        let mut names: Vec<&str> = RULES.iter().filter(fires).map(|rule| rule.name).collect();
        // The same rule with wider evidence.
        if names.contains(&"missing-variable") {
            names.retain(|name| *name != "late-variable");
        }
        (context.of_run(&self.run), names)
    }
}

/// Asserts for lines of one rule: only this rule derives an edit, and the edit has this key (or file) and this text.
fn assert_rule(rule: &str, key: &str, text: &str, scenarios: &[Scenario]) {
    let differences = differences(rule, key, text, scenarios);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Scenarios with another rule, or another edit.
fn differences(rule: &str, key: &str, text: &str, scenarios: &[Scenario]) -> Vec<String> {
    let difference = |scenario: &Scenario| {
        let lines = &scenario.run.evidence.as_ref().unwrap().stderr;
        let (edit, fired) = scenario.edits();
        let is_expected = edit.as_ref().is_some_and(|edit| {
            let place = if edit.key.is_empty() {
                &edit.file
            } else {
                &edit.key
            };
            place.ends_with(key) && edit.to_string().contains(text)
        });
        (fired != [rule] || !is_expected).then(|| format!("{rule}: {lines:?}: {fired:?}: {edit:?}"))
    };
    scenarios.iter().filter_map(difference).collect()
}

fn exits(lines: &[&str]) -> Vec<Scenario> {
    let of = |line: &&str| Scenario::new("[web]", "db", TCP, 1, &["starting", line, "bye"]);
    lines.iter().map(of).collect()
}

#[test]
fn each_message_has_the_edit_of_one_rule() {
    let all = EXITS.iter().chain(more_messages::EXITS);
    let count: usize = all.map(|(_, _, _, lines)| lines.len()).sum();
    assert!(count >= 135, "{count} cases");
    let all = EXITS.iter().chain(more_messages::EXITS);
    let found: Vec<String> = all
        .flat_map(|(rule, key, text, lines)| differences(rule, key, text, &exits(lines)))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
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

/// A service whose image Argus builds. `command` is its line in the file.
fn built(command: &str, line: &str) -> Scenario {
    let text = format!(
        "project: {{ name: shop }}\nservices:\n  web:\n    build: {{ context: /p/server }}\n{command}    container: {{ name: web }}\n"
    );
    Scenario::of_spec(&text, 127, &[line])
}

#[test]
fn programs_of_built_images_name_the_command() {
    let similar = || HostFile {
        similar: Some("start.sh".to_owned()),
        copied_from: Some("/p/server/start.sh".to_owned()),
        ..HostFile::default()
    };
    let tini = "[FATAL tini (7)] exec ./strat.sh failed: No such file or directory";
    for (command, line, path) in [
        ("[./strat.sh]", tini, "./"),
        (
            "[sh, \"-c\", \"./strat.sh --fast\"]",
            "sh: ./strat.sh: not found",
            "./",
        ),
        ("[/app/strat.sh]", "/bin/sh: 1: /app/strat.sh: not found", "/app/"),
    ] {
        let scenario = || built(&format!("    command: {command}\n"), line);
        let unknown = format!("no `{path}strat.sh`, or not the interpreter");
        assert_rule("built-script", "web.command", &unknown, &[scenario()]);
        let meant = format!("from `{path}strat.sh` to `{path}start.sh`");
        let known = scenario().facts("/app/strat.sh", similar());
        assert_rule("built-script", "web.command", &meant, &[known]);
    }
    // The Dockerfile has the command.
    let known = built("", tini).facts("/app/strat.sh", similar());
    assert_rule("built-script", "/p/server", "write `./start.sh`", &[known]);
    let present = HostFile {
        copied_from: Some("/p/server/strat.sh".to_owned()),
        ..HostFile::default()
    };
    let known = built("    command: [./strat.sh]\n", tini).facts("/app/strat.sh", present);
    assert_rule(
        "built-script",
        "/p/server",
        "not the interpreter or loader",
        &[known],
    );
    let line = "bash: /crlf.sh: /bin/bash^M: bad interpreter: No such file or directory";
    let expected = "sed -i 's/\\r$//' crlf.sh";
    assert_rule("built-script", "/p/server", expected, &[built("", line)]);
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
            "probe-program",
            "container.healthcheck",
            "path: /health, port: 8080",
            &[scenario],
        );
    }
    let http = "{ path: /, port: 8443 }";
    let output = "GET / on 10.0.0.2:8443: 400 Bad Request: Client sent an HTTP request to an HTTPS server.";
    assert_rule(
        "probe-tls",
        "healthcheck.scheme",
        "https",
        &[Scenario::unhealthy(http, output)],
    );
}

#[test]
fn noise_has_no_edit() {
    let all: Vec<&str> = CONTROLS.iter().chain(more_controls::CONTROLS).copied().collect();
    assert!(all.len() >= 70, "{}", all.len());
    let scenarios = exits(&all);
    let blamed = scenarios.iter().zip(&all).filter_map(|(scenario, line)| {
        let (edit, fired) = scenario.edits();
        (edit.is_some() || !fired.is_empty()).then(|| format!("{line}: {fired:?}: {edit:?}"))
    });
    let blamed: Vec<String> = blamed.collect();
    assert!(blamed.is_empty(), "{}", blamed.join("\n"));
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
    for code in [139, 132, 135, 136, 1] {
        let scenario = Scenario::new("[web]", "db", TCP, code, &lines);
        assert_rule("crash", "web.image", "another version of the image", &[scenario]);
    }
}
