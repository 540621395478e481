//! What was found out as a tar file: for whoever is to help, so without secrets.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use argus_core::desired::Desired;
use argus_crds::error::Reason;
use argus_reconciler::clock;
use argus_reconciler::journal::Tail;
use argus_reconciler::specs::FileEntry;
use serde::Serialize;
use serde_json::{Value, json};

use super::findings::Finding;
use super::{DoctorInputs, OtherInputs, machine};
use crate::cli::status::peek;
use crate::exit::{Exit, Failure};

/// The newest records of the journal that come along.
const RECORDS: usize = 1_000;
const ABOUT: &str = "\
What `argus doctor` found, for whoever is to help.

Left out on purpose: the spec files, what containers wrote, the values of all variables. What a file reads from outside
and the values of variables with a secret's name are blacked out in everything else.

findings.json      what is wrong, the worst first
about.json         version, settings, engine
machine.json       system, kernel, processors, memory, disks
preflight.json     the checks, made anew
controller.json    status of the controller
environments/      status of each environment, with what was called before its errors
incidents/         what was found after runs that did not end well
journal.jsonl      the newest records of the journal
specs.json         the files: where, what is wrong with them, what they ask for in names
plan.txt           what would be done now
";

/// Writes all of it to a file that is not there yet, readable for nobody else.
pub(super) fn write(
    out: &Path,
    seen: &DoctorInputs,
    beside: &OtherInputs,
    findings: &[Finding],
) -> Result<(), Failure> {
    let name = out.display();
    let opened = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(out);
    let file = opened.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::missing(Reason::Exists, format!("`{name}` is there already"))
                .exit(Exit::Usage)
                .hint("give `--out` another name")
        }
        _ => Failure::fault(&format!("cannot write `{name}`"), &error),
    })?;
    fill(file, seen, beside, findings).map_err(|error| {
        // A bundle that is not whole is none.
        drop(fs::remove_file(out));
        Failure::fault(&format!("cannot write `{name}`"), &error)
    })
}

fn fill(file: File, seen: &DoctorInputs, beside: &OtherInputs, findings: &[Finding]) -> io::Result<()> {
    let mut bundle = Bundle {
        tar: tar::Builder::new(file),
        seen,
        at: u64::try_from(clock::now().0 / 1_000).unwrap_or_default(),
    };
    bundle.add("README", ABOUT.as_bytes())?;
    bundle.json("findings.json", &findings)?;
    bundle.json("about.json", &about(seen, beside))?;
    bundle.json("machine.json", &machine::facts(seen))?;
    bundle.json("preflight.json", &seen.preflight)?;
    bundle.json("controller.json", &seen.controller)?;
    for status in &seen.environments {
        let mut status = status.clone();
        status.put_calls(&peek(&seen.state.debug(&status.environment)));
        bundle.json(&format!("environments/{}.json", status.environment), &status)?;
    }
    for (number, incident) in seen.incidents.iter().enumerate() {
        bundle.json(&format!("incidents/{:04}.json", number + 1), incident)?;
    }
    bundle.journal()?;
    bundle.json("specs.json", &specs(seen))?;
    let plan = match &beside.plan {
        Ok(plan) => console::strip_ansi_codes(plan).into_owned(),
        Err(why) => format!("there is no plan: {why}\n"),
    };
    bundle.text("plan.txt", &plan)?;
    bundle.tar.into_inner()?.sync_all()
}

struct Bundle<'a> {
    tar: tar::Builder<File>,
    seen: &'a DoctorInputs,
    at: u64,
}

impl Bundle<'_> {
    fn json(&mut self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let value = self.seen.secrets.redacted_json(serde_json::to_value(value)?, &[]);
        self.add(name, (serde_json::to_string_pretty(&value)? + "\n").as_bytes())
    }

    fn text(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.add(name, self.seen.secrets.redacted(text).as_bytes())
    }

    fn journal(&mut self) -> io::Result<()> {
        let mut tail = Tail::of(self.seen.state.journal());
        let records = match tail.more() {
            Ok(records) => records,
            Err(error) => {
                return self.text(
                    "journal.jsonl",
                    &format!("{}\n", json!({ "unread": error.to_string() })),
                );
            }
        };
        let mut text = Vec::new();
        for record in &records[records.len().saturating_sub(RECORDS)..] {
            let value = self
                .seen
                .secrets
                .redacted_json(serde_json::to_value(record)?, &[]);
            writeln!(text, "{value}")?;
        }
        self.add("journal.jsonl", &text)
    }

    fn add(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.at);
        self.tar
            .append_data(&mut header, format!("argus-doctor/{name}"), bytes)
    }
}

fn about(seen: &DoctorInputs, beside: &OtherInputs) -> Value {
    let settings = &seen.settings;
    let (engine, why) = match &beside.engine {
        Ok(engine) => (Some(engine), None),
        Err(why) => (None, Some(why)),
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "at": clock::now().to_string(),
        "controllerRuns": seen.alive,
        "settings": {
            "specs": settings.specs,
            "state": settings.state,
            "publishAddress": settings.publish_address,
            "strict": settings.strict,
            "envAllow": settings.env_allow,
            "allowMount": settings.allow_mount,
            "listen": settings.listen,
        },
        "engine": engine,
        "engineUnknown": why,
    })
}

fn specs(seen: &DoctorInputs) -> Value {
    let one = |(path, entry): (&std::path::PathBuf, &FileEntry)| {
        json!({
            "path": seen.settings.specs.join(path),
            "bytes": entry.text.as_ref().map(|text| text.bytes.len()),
            "state": entry.state,
            "diagnostics": entry.diagnostics,
            "counts": entry.holds.as_ref().map(|held| shape(&held.desired)),
        })
    };
    json!({
        "folder": seen.settings.specs,
        "unavailable": seen.book.unavailable,
        "notes": seen.book.notes,
        "files": seen.book.files.iter().map(one).collect::<Vec<_>>(),
    })
}

/// What is asked for, in names: no values, no commands.
fn shape(desired: &Desired) -> Value {
    let service = |service: &argus_core::desired::Service| {
        json!({
            "name": service.name,
            "containerName": service.container_name,
            "image": service.image.reference(),
            "variables": service.environment.keys().collect::<Vec<_>>(),
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
