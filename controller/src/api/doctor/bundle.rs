//! Support bundle: the inputs and findings of `argus doctor` as a tar file without secrets.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use argus_core::desired::Desired;
use argus_core::quoting::PathText as _;
use argus_crds::error::Reason;
use argus_reconciler::clock;
use argus_reconciler::journal::Tail;
use argus_reconciler::specs::FileEntry;
use serde::Serialize;
use serde_json::{Value, json};

use super::findings::Finding;
use super::machine;
use super::report::{DoctorInputs, OtherInputs};
use crate::local_state::status::read_or_default;
use crate::process::exit::{Exit, Failure};

/// Maximum number of journal records in a bundle, newest first.
const RECORDS: usize = 1_000;
const README: &str = "\
Support bundle of `argus doctor`.

The bundle excludes the spec files, the output of containers and the values of all variables. In everything else, values that a
file reads from outside and values of variables with a secret's name are redacted.

findings.json      problems, most severe first
about.json         version, settings, engine
machine.json       system, kernel, processors, memory, disks
preflight.json     preflight checks of this run
controller.json    status of the controller
environments/      status of each environment, with the call traces of its errors
incidents/         reports after unclean stops of the controller
journal.jsonl      the newest records of the journal
specs.json         spec files: path, state, diagnostics, and contents by name
plan.txt           planned actions
";

/// Writes the bundle to a new file with mode 0600.
pub(crate) fn write_bundle(
    out: &Path,
    inputs: &DoctorInputs,
    other: &OtherInputs,
    findings: &[Finding],
) -> Result<(), Failure> {
    let name = out.shown();
    let opened = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(out);
    let file = opened.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::with_reason(Reason::Exists, format!("`{name}` already exists"))
                .with_exit(Exit::Usage)
                .with_hint("give `--out` another file name")
        }
        _ => Failure::operation_failed(&format!("cannot write `{name}`"), &error),
    })?;
    fill_bundle(file, inputs, other, findings).map_err(|error| {
        // Removes the incomplete bundle.
        drop(fs::remove_file(out));
        Failure::operation_failed(&format!("cannot write `{name}`"), &error)
    })
}

fn fill_bundle(
    file: File,
    inputs: &DoctorInputs,
    other: &OtherInputs,
    findings: &[Finding],
) -> io::Result<()> {
    let mut bundle = Bundle {
        tar: tar::Builder::new(file),
        inputs,
        at: u64::try_from(clock::now().0 / 1_000).unwrap_or_default(),
    };
    bundle.add_file("README", README.as_bytes())?;
    bundle.add_json("findings.json", &findings)?;
    bundle.add_json("about.json", &describe_controller(inputs, other))?;
    bundle.add_json("machine.json", &machine::gather_facts(inputs))?;
    bundle.add_json("preflight.json", &inputs.preflight)?;
    bundle.add_json("controller.json", &inputs.controller)?;
    for status in &inputs.environments {
        let mut status = status.clone();
        status.put_calls(&read_or_default(&inputs.state.debug(&status.environment)));
        bundle.add_json(&format!("environments/{}.json", status.environment), &status)?;
    }
    for (number, incident) in inputs.incidents.iter().enumerate() {
        bundle.add_json(&format!("incidents/{:04}.json", number + 1), incident)?;
    }
    bundle.add_journal()?;
    bundle.add_json("specs.json", &describe_specs(inputs))?;
    let plan = match &other.plan {
        Ok(plan) => console::strip_ansi_codes(plan).into_owned(),
        Err(reason) => format!("no plan: {reason}\n"),
    };
    bundle.add_text("plan.txt", &plan)?;
    bundle.tar.into_inner()?.sync_all()
}

struct Bundle<'a> {
    tar: tar::Builder<File>,
    inputs: &'a DoctorInputs,
    at: u64,
}

impl Bundle<'_> {
    fn add_json(&mut self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let value = self
            .inputs
            .secrets
            .redacted_json(serde_json::to_value(value)?, &[]);
        self.add_file(name, (serde_json::to_string_pretty(&value)? + "\n").as_bytes())
    }

    fn add_text(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.add_file(name, self.inputs.secrets.redacted(text).as_bytes())
    }

    fn add_journal(&mut self) -> io::Result<()> {
        let mut tail = Tail::new(self.inputs.state.journal());
        let records = match tail.read_new() {
            Ok(records) => records,
            Err(error) => {
                return self.add_text(
                    "journal.jsonl",
                    &format!("{}\n", json!({ "unread": error.to_string() })),
                );
            }
        };
        let mut text = Vec::new();
        for record in &records[records.len().saturating_sub(RECORDS)..] {
            let value = self
                .inputs
                .secrets
                .redacted_json(serde_json::to_value(record)?, &[]);
            writeln!(text, "{value}")?;
        }
        self.add_file("journal.jsonl", &text)
    }

    fn add_file(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.at);
        self.tar
            .append_data(&mut header, format!("argus-doctor/{name}"), bytes)
    }
}

fn describe_controller(inputs: &DoctorInputs, other: &OtherInputs) -> Value {
    let settings = &inputs.settings;
    let (engine, reason) = match &other.engine {
        Ok(engine) => (Some(engine), None),
        Err(reason) => (None, Some(reason)),
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "at": clock::now().to_string(),
        "controllerRuns": inputs.alive,
        "settings": {
            "specs": settings.specs,
            "state": settings.state.root(),
            "privateState": settings.state.private(),
            "publishAddress": settings.publish_address,
            "strict": settings.strict,
            "envAllow": settings.env_allow,
            "allowMount": settings.allow_mount,
            "allowExternal": settings.allow_external,
            "gitWritable": settings.git_writable,
            "allowPrivileged": settings.ceiling.allow_privileged,
            "listen": settings.listen,
            "dockerHost": settings.docker_host,
            "allowTestCommands": settings.allow_test_commands,
            "allowed": settings.allowed.is_some(),
        },
        "engine": engine,
        "engineUnknown": reason,
    })
}

fn describe_specs(inputs: &DoctorInputs) -> Value {
    let one = |(path, entry): (&std::path::PathBuf, &FileEntry)| {
        json!({
            "path": inputs.settings.spec_source().folder.join(path),
            "bytes": entry.text.as_ref().map(|text| text.bytes.len()),
            "state": entry.state,
            "diagnostics": entry.diagnostics,
            "counts": entry.accepted.as_ref().map(|held| describe_spec(&held.desired)),
        })
    };
    json!({
        "folder": inputs.settings.specs,
        "unavailable": inputs.registry.unavailable,
        "notes": inputs.registry.notes,
        "files": inputs.registry.files.iter().map(one).collect::<Vec<_>>(),
    })
}

/// Contents of a spec as names, without values and commands.
fn describe_spec(desired: &Desired) -> Value {
    let service = |service: &argus_core::desired::Service| {
        json!({
            "name": service.name,
            "containerName": service.container_name,
            "image": service.image.reference(),
            "variables": service.env_vars.keys().collect::<Vec<_>>(),
            "ports": service.ports.len(),
            "mounts": service.mounts.len(),
            "memory": service.memory,
            "probed": service.probe.is_some(),
            "dependsOn": service.depends_on,
        })
    };
    json!({
        "environment": desired.env,
        "project": desired.project,
        "revision": desired.revision,
        "services": desired.services.values().map(service).collect::<Vec<_>>(),
    })
}
