//! Sets of environments that were written from public threads, without knowledge of the rules. Each result is reported as it is, and only
//! becomes better.

use serde::Deserialize;

use super::*;
use crate::desired::ProbeHandler;
use crate::ident::ServiceName;
use crate::remedy::test_environment::context;

/// First edits of the first training set that were right.
const TRAINING_A_RIGHT: usize = 60;
/// First edits of the second training set that were right. Half of it was never read.
const TRAINING_B_RIGHT: usize = 56;
/// First edits of the third training set that are right: facts of well-known images.
const TRAINING_C_RIGHT: usize = 47;
/// Cases of the second half with the right first edit, at least.
const SECOND_RIGHT: usize = 80;
/// Cases of the third set with the right first edit, at least.
const THIRD_RIGHT: usize = 60;
/// Cases of the fourth set with the right first edit, at least.
const FOURTH_RIGHT: usize = 60;
/// First edits of the fifth set that are right. Its author knew no rule, and 41 were right at first.
const FIFTH_RIGHT: usize = 59;

/// First edits of the sixth set that are right. Its author knew no rule, and 26 were right at first.
const SIXTH_RIGHT: usize = 57;

/// First edits of the seventh set that are right. Its author knew no rule. This version refuses one of its files, which mounts
/// the socket of the engine.
const SEVENTH_RIGHT: usize = 56;

/// First edits of the eighth set that are right. Its author knew no rule, and 40 were right at first.
const EIGHTH_RIGHT: usize = 53;

/// First edits of the ninth set that are right. Its author knew no rule, and 54 were right at first.
const NINTH_RIGHT: usize = 57;

/// Controls that have an edit by design: a crash by a signal names the image, and a stored password its volume.
const DESIGNED: [&str; 8] = [
    "stale-password-in-the-volume",
    "control-password-of-an-earlier-volume",
    "native-service-segfault",
    "control-native-module-segfault",
    "control-exit-139-without-a-line",
    "control-dialoqbase-segmentation-fault",
    "control-filebrowser-139-without-output",
    "control-mariadb-corrupt-page",
];

/// Cases in which no value can be known: the key is the whole answer. All others need the value.
const NO_VALUE: [&str; 23] = [
    // Any text is right, or only a person has it.
    "rails-secret",
    "minio-short-password",
    "meili-short-key",
    "rails-without-secret-key-base",
    "mssql-weak-sa-password",
    "cache-fallback-before-the-missing-key",
    "superset-default-secret-key",
    "mysql-user-is-root",
    "cassandra-only-max-heap",
    "rabbitmq-deprecated-watermark-variable",
    "localstack-account",
    // The intention of the author decides.
    "busybox-quote",
    "traefik-v1-flags",
    "consul-data-dir",
    "cassandra-heap-pair",
    "celery-app-name",
    "log-readiness-other-words",
    "image-without-program",
    // The image that fits is not in the evidence.
    "glibc-too-old",
    "rust-glibc",
    // A key is removed.
    "mysql-user-root",
    "go-low-port",
    "apache-low-port-as-user",
];

/// A broken environment, or a control.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Broken {
    name: String,
    spec: String,
    failure: String,
    exit_code: i64,
    stderr: Vec<String>,
    stdout: Vec<String>,
    probe: Option<String>,
    listening: Option<Vec<String>>,
    expect: Option<Expected>,
    any_of: Vec<Expected>,
}

impl Default for Broken {
    fn default() -> Self {
        Self {
            name: String::new(),
            spec: String::new(),
            failure: "exit".to_owned(),
            exit_code: 0,
            stderr: Vec::new(),
            stdout: Vec::new(),
            probe: None,
            listening: None,
            expect: None,
            any_of: Vec::new(),
        }
    }
}

/// The right first edit.
#[derive(Deserialize)]
struct Expected {
    /// Key below its service.
    key: Option<String>,
    /// File of the host.
    file: Option<String>,
    service: Option<String>,
    /// Part of the value or hint.
    text: Option<String>,
    /// Other right edits.
    #[serde(default, rename = "anyOf")]
    any_of: Vec<Expected>,
}

impl Expected {
    fn is_met_by(&self, edit: &SpecEdit, services: &BTreeMap<ServiceName, Service>) -> bool {
        let service = self.service.as_deref().unwrap_or("web");
        let place = edit.key.strip_prefix(&format!("services.{service}."));
        let place = place.unwrap_or(&edit.key);
        // A renamed variable has its new name after the edit.
        let renamed = || {
            let variable = place.split_once(".environment.");
            let parent = variable.map(|(before, _)| format!("{before}.environment"));
            let (last, name) = place.rsplit_once('.')?;
            let (parent, name) = match (parent, variable) {
                (Some(parent), Some((_, name))) => (parent, name),
                _ => (last.to_owned(), name),
            };
            let new = edit
                .suggest
                .as_ref()
                .filter(|_| edit.now.as_deref() == Some(name))?;
            Some(format!("{parent}.{new}"))
        };
        // An entry of a list or of a map is a part of it.
        let is_within = |key: &str| {
            let rest = place.strip_prefix(key);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']))
        };
        // Another health check replaces each of its keys.
        let is_whole =
            |key: &str| place == "container.healthcheck" && key.starts_with("container.healthcheck.");
        let is_key = self
            .key
            .as_deref()
            .is_none_or(|key| is_within(key) || is_whole(key) || renamed().is_some_and(|place| place == key));
        let name = |path: &str| path.trim_start_matches("./").to_owned();
        let is_file = self
            .file
            .as_deref()
            .is_none_or(|file| name(&edit.file).ends_with(&name(file)));
        let is_text = self.text.as_deref().is_none_or(|text| {
            edit.to_string().contains(text)
                || value_after(edit, services).is_some_and(|value| value.contains(text))
        });
        is_key && is_file && is_text
    }
}

/// Returns whether a program can make the change. A file of the host has no key, and a secret is the value of a named variable.
fn has_value(edit: &SpecEdit) -> bool {
    edit.key.is_empty() || edit.suggest.is_some() || reference(edit).is_some()
}

/// Variable and service whose value the edit means.
fn reference(edit: &SpecEdit) -> Option<(&str, &str)> {
    let (_, reference) = edit.hint.as_deref()?.split_once("the value of `")?;
    let (name, rest) = reference.split_once("` of `")?;
    Some((name, rest.split('`').next()?))
}

/// Value of a variable after the edit, which often changes a part of it. An edit repeats no password, it names the variable of the sibling.
fn value_after(edit: &SpecEdit, services: &BTreeMap<ServiceName, Service>) -> Option<String> {
    let (service, name) = edit
        .key
        .strip_prefix("services.")?
        .split_once(".container.environment.")?;
    // An option of the command has its value in the next word.
    let value_of = |service: &str, name: &str| {
        let service = services.get(&ServiceName::new(service).ok()?)?;
        let mut words = service.command.iter().flatten().skip_while(|word| *word != name);
        service.env_vars.get(name).or_else(|| words.nth(1))
    };
    if let (Some(now), Some(suggest)) = (&edit.now, &edit.suggest) {
        return Some(value_of(service, name)?.replacen(now, suggest, 1));
    }
    let (name, service) = reference(edit)?;
    let value = value_of(service, name)?;
    // The login of an address has a user and this password.
    let user = edit
        .hint
        .as_deref()
        .and_then(|hint| hint.strip_prefix("write the user `")?.split('`').next());
    Some(user.map_or_else(|| value.clone(), |user| format!("{user}:{value}")))
}

impl Broken {
    /// Returns whether this version reads the file.
    fn is_readable(&self) -> bool {
        let spec = argus_crds::yaml::read("e2e.yaml", self.spec.as_bytes()).spec;
        spec.is_some_and(|spec| {
            let desired = admit(&spec, &context()).desired;
            desired.is_some_and(|desired| desired.services.contains_key("web"))
        })
    }

    /// Result of the health check in the words of the prober. A set can contain its meaning only.
    fn result(&self, probe: Option<&Probe>) -> Option<String> {
        const STATUSES: [&str; 8] = [
            "301 Moved Permanently",
            "302 Found",
            "400 Bad Request",
            "401 Unauthorized",
            "403 Forbidden",
            "404 Not Found",
            "405 Method Not Allowed",
            "503 Service Unavailable",
        ];
        let request = match (probe.map(|probe| &probe.kind), &self.probe) {
            (Some(ProbeHandler::Http { path, port, .. }), Some(_)) => format!("GET {path} on :{port}"),
            (Some(ProbeHandler::Log { pattern, times }), None) => {
                return Some(format!("log `{pattern}`: 0 of {times} lines match"));
            }
            _ => return self.probe.clone(),
        };
        let text = self.probe.as_deref()?;
        let status = text.strip_prefix("HTTP ").and_then(|rest| {
            let mut statuses = STATUSES.into_iter();
            statuses.find(|status| rest.get(..3) == status.get(..3))
        });
        let answer = match text {
            "connection refused" => "connection refused",
            _ if ["timeout", "timed out", "no answer", "context deadline"]
                .iter()
                .any(|part| text.starts_with(part)) =>
            {
                return Some(format!("{request}: no answer within the timeout"));
            }
            "connection closed before the response" => "connection closed before message completed",
            _ if text.starts_with("malformed HTTP response") => "invalid HTTP version parsed",
            _ => match status {
                Some(status) if text.contains("TLS") || text.contains("HTTPS") => {
                    let body = text.split_once(": ").map_or("", |(_, body)| body);
                    return Some(format!("{request}: {status}: {body}"));
                }
                Some(status) => status,
                None => return Some(text.to_owned()),
            },
        };
        Some(format!("{request}: {answer}"))
    }

    /// Returns whether the set proposes no edit.
    fn is_control(&self) -> bool {
        self.expect.is_none() && self.any_of.is_empty()
    }

    /// First edit, and whether it is one of the expected ones.
    fn edit(&self) -> Option<(SpecEdit, bool)> {
        if !self.is_readable() {
            println!("{}: the file is refused", self.name);
            return None;
        }
        let mut scenario = Scenario::of_spec(&self.spec, self.exit_code, &[]);
        let result = self.result(scenario.accepted.desired.services["web"].probe.as_ref());
        let run = &mut scenario.run;
        if let Some(evidence) = &mut run.evidence {
            evidence.stderr.clone_from(&self.stderr);
            evidence.stdout.clone_from(&self.stdout);
            evidence.listening = self
                .listening
                .as_ref()
                .map(|all| all.iter().map(|at| at.parse().unwrap()).collect());
        }
        match self.failure.as_str() {
            "unhealthy" => {
                run.cause = FailureCause::Unhealthy;
                run.probe_output = result.into_iter().collect();
            }
            "oom" => run.oom_killed = true,
            "exit" | "signal" | "not-runnable" => {}
            other => panic!("{}: `{other}` is not a failure", self.name),
        }
        let volumes = scenario.observe();
        let edit = scenario.context(&volumes).of_run(&scenario.run)?;
        let other = self.expect.iter().flat_map(|expected| &expected.any_of);
        let mut expected = self.expect.iter().chain(other).chain(&self.any_of);
        let services = &scenario.accepted.desired.services;
        let is_met = expected.any(|expected| expected.is_met_by(&edit, services));
        let is_known = has_value(&edit) || NO_VALUE.contains(&self.name.as_str());
        if is_met && !is_known {
            println!("{}: the edit has no value", self.name);
        }
        Some((edit, is_met && is_known))
    }
}

fn read(text: &str) -> Vec<Broken> {
    serde_json::from_str(text).unwrap()
}

/// Asserts the number of right first edits, at least. No control has an edit.
fn assert_result(name: &str, set: &[Broken], least: usize) {
    let (controls, cases): (Vec<&Broken>, Vec<&Broken>) = set.iter().partition(|one| one.is_control());
    let mut right = 0;
    for case in &cases {
        match case.edit() {
            Some((_, true)) => right += 1,
            Some((edit, false)) => println!("{}: `{}`: {edit}", case.name, edit.key),
            None => println!("{}: no edit", case.name),
        }
    }
    let alarms: Vec<String> = controls
        .iter()
        .filter(|control| !DESIGNED.contains(&control.name.as_str()))
        .filter_map(|control| Some(format!("{}: {}", control.name, control.edit()?.0)))
        .collect();
    println!(
        "{name}: {right} of {} first edits are right, {} of {} controls have an edit",
        cases.len(),
        alarms.len(),
        controls.len()
    );
    assert!(alarms.is_empty(), "{}", alarms.join("\n"));
    assert!(right >= least, "{right}");
}

#[test]
fn second_half_keeps_its_result() {
    let mut set = read(include_str!("second-half.json"));
    set.extend(read(include_str!("second-controls.json")));
    assert_result("second half", &set, SECOND_RIGHT);
}

#[test]
fn third_set_keeps_its_result() {
    assert_result("third set", &read(include_str!("third-half.json")), THIRD_RIGHT);
}

#[test]
fn fifth_set_keeps_its_result() {
    assert_result("fifth set", &read(include_str!("fifth-set.json")), FIFTH_RIGHT);
}

#[test]
fn sixth_set_keeps_its_result() {
    assert_result("sixth set", &read(include_str!("sixth-set.json")), SIXTH_RIGHT);
}

#[test]
fn seventh_set_keeps_its_result() {
    assert_result(
        "seventh set",
        &read(include_str!("seventh-set.json")),
        SEVENTH_RIGHT,
    );
}

#[test]
fn eighth_set_keeps_its_result() {
    assert_result("eighth set", &read(include_str!("eighth-set.json")), EIGHTH_RIGHT);
}

#[test]
fn ninth_set_keeps_its_result() {
    assert_result("ninth set", &read(include_str!("ninth-set.json")), NINTH_RIGHT);
}

#[test]
fn fourth_set_keeps_its_result() {
    assert_result("fourth set", &read(include_str!("fourth-set.json")), FOURTH_RIGHT);
}

#[test]
fn training_sets_keep_their_results() {
    assert_result(
        "training set a",
        &read(include_str!("training-a.json")),
        TRAINING_A_RIGHT,
    );
    assert_result(
        "training set b",
        &read(include_str!("training-b.json")),
        TRAINING_B_RIGHT,
    );
    assert_result(
        "training set c",
        &read(include_str!("training-c.json")),
        TRAINING_C_RIGHT,
    );
}
