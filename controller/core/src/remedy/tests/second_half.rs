//! Second half of the corpus: environments that were written from public threads, without knowledge of the rules. The result is reported
//! as it is, and only becomes better.

use serde::Deserialize;

use super::*;
use crate::ident::ServiceName;

/// Cases with the right first edit, at least.
const RIGHT: usize = 79;
/// Controls with an edit, at most.
const FALSE_ALARMS: usize = 0;

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
}

impl Expected {
    fn is_met_by(&self, edit: &SpecEdit, services: &BTreeMap<ServiceName, Service>) -> bool {
        let service = self.service.as_deref().unwrap_or("web");
        let place = edit.key.strip_prefix(&format!("services.{service}."));
        let place = place.unwrap_or(&edit.key);
        // A renamed variable has its new name after the edit.
        let renamed = || {
            let (parent, name) = place.rsplit_once('.')?;
            let new = edit
                .suggest
                .as_ref()
                .filter(|_| edit.now.as_deref() == Some(name))?;
            Some(format!("{parent}.{new}"))
        };
        // An entry of a list is a part of the list.
        let is_within = |key: &str| {
            let rest = place.strip_prefix(key);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
        };
        let is_key = self
            .key
            .as_deref()
            .is_none_or(|key| is_within(key) || renamed().is_some_and(|place| place == key));
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

/// Value of a variable after the edit, which often changes a part of it. An edit repeats no password, it names the variable of the sibling.
fn value_after(edit: &SpecEdit, services: &BTreeMap<ServiceName, Service>) -> Option<String> {
    let (service, name) = edit
        .key
        .strip_prefix("services.")?
        .split_once(".container.environment.")?;
    let value_of = |service: &str, name: &str| {
        let service = services.get(&ServiceName::new(service).ok()?)?;
        service.env_vars.get(name)
    };
    if let (Some(now), Some(suggest)) = (&edit.now, &edit.suggest) {
        return Some(value_of(service, name)?.replacen(now, suggest, 1));
    }
    let reference = edit.hint.as_deref()?.strip_prefix("write the value of `")?;
    let (name, rest) = reference.split_once("` of `")?;
    value_of(rest.trim_end_matches('`'), name).cloned()
}

impl Broken {
    /// Returns whether this version reads the file.
    fn is_readable(&self) -> bool {
        let spec = argus_crds::yaml::read("e2e.yaml", self.spec.as_bytes()).spec;
        spec.is_some_and(|spec| {
            let desired = admit(&spec, &SpecContext::default()).desired;
            desired.is_some_and(|desired| desired.services.contains_key("web"))
        })
    }

    /// First edit, and whether it is one of the expected ones.
    fn edit(&self) -> Option<(SpecEdit, bool)> {
        if !self.is_readable() {
            println!("{}: the file is refused", self.name);
            return None;
        }
        let mut scenario = Scenario::of_spec(&self.spec, self.exit_code, &[]);
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
                run.probe_output = self.probe.iter().cloned().collect();
            }
            "oom" => run.oom_killed = true,
            "exit" | "signal" | "not-runnable" => {}
            other => panic!("{}: `{other}` is not a failure", self.name),
        }
        let volumes = scenario.observe();
        let edit = scenario.edits_with(&volumes).0?;
        let mut expected = self.expect.iter().chain(&self.any_of);
        let services = &scenario.accepted.desired.services;
        let is_right = expected.any(|expected| expected.is_met_by(&edit, services));
        Some((edit, is_right))
    }
}

fn read(text: &str) -> Vec<Broken> {
    serde_json::from_str(text).unwrap()
}

#[test]
fn second_half_keeps_its_result() {
    let cases = read(include_str!("second-half.json"));
    let mut right = 0;
    for case in &cases {
        match case.edit() {
            Some((_, true)) => right += 1,
            Some((edit, false)) => println!("{}: `{}`: {edit}", case.name, edit.key),
            None => println!("{}: no edit", case.name),
        }
    }
    println!("{right} of {} first edits are right", cases.len());
    assert!(right >= RIGHT);
}

#[test]
fn second_controls_keep_their_result() {
    let controls = read(include_str!("second-controls.json"));
    let alarms: Vec<String> = controls
        .iter()
        .filter_map(|control| Some(format!("{}: {}", control.name, control.edit()?.0)))
        .collect();
    println!(
        "{} of {} controls have an edit:\n{}",
        alarms.len(),
        controls.len(),
        alarms.join("\n")
    );
    assert_eq!(alarms.len(), FALSE_ALARMS);
}
