//! `argus validate`: all that is wrong with spec files, without an engine.

use std::path::{Path, PathBuf};

use argus_crds::complaint::{self, Complaint};
use argus_reconciler::specs::{Kept, Standing};
use clap::Args;
use serde_json::{Value, json};

use super::output::{self, Format};
use super::reading::{self, Looked};
use crate::exit::{Exit, Failure};
use crate::settings::{Options, Settings, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Files, or folders as `argus run --specs` takes them [default: the specs folder]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    specs: SpecOptions,
    /// Format
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Validate {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &self.specs)?;
        let paths = if self.paths.is_empty() {
            vec![settings.specs.clone()]
        } else {
            self.paths
        };
        let mut all = Vec::new();
        for path in &paths {
            if path.is_dir() {
                all.extend(folder(&settings, path)?);
            } else {
                all.push(reading::file(&settings, path));
            }
        }
        let refused = all.iter().filter(|file| is_refused(file)).count();
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::json(&value(&all))?,
            Format::Yaml => output::yaml(&value(&all))?,
            Format::Name => {
                let good = all.iter().filter_map(|file| file.desired.as_ref());
                output::data(&output::lines(good.map(|desired| &desired.env)))?;
            }
            Format::Table | Format::Wide => show(&all)?,
        }
        if all.is_empty() {
            output::note("no spec files: they are called `e2e.yaml` or `NAME.e2e.yaml`");
        }
        Ok(if refused > 0 { Exit::Refused } else { Exit::Done })
    }
}

fn is_refused(file: &Looked) -> bool {
    file.desired.is_none() || file.complaints.iter().any(Complaint::is_error)
}

fn folder(settings: &Settings, path: &Path) -> Result<Vec<Looked>, Failure> {
    let book = reading::folder(settings, path, "", Kept::default())?;
    if let Some(why) = book.unavailable {
        return Err(Failure::of(argus_crds::error::Code::SpecInvalid, why));
    }
    book.notes
        .iter()
        .for_each(|note| output::note(&format!("note: {note}")));
    let looked = |(name, entry): (PathBuf, argus_reconciler::specs::FileEntry)| Looked {
        path: path.join(name),
        text: entry
            .text
            .map(|text| String::from_utf8_lossy(&text.bytes).into_owned())
            .unwrap_or_default(),
        complaints: entry.complaints,
        desired: match entry.standing {
            Standing::Accepted => entry.holds.map(|held| held.desired.clone()),
            Standing::Unread | Standing::Rejected | Standing::Conflict { .. } => None,
        },
    };
    Ok(book.files.into_iter().map(looked).collect())
}

fn show(all: &[Looked]) -> Result<(), Failure> {
    for file in all {
        let name = file.path.display().to_string();
        if !file.complaints.is_empty() {
            output::note(&complaint::render(&name, &file.text, &file.complaints));
        }
        let line = if let Some(desired) = &file.desired {
            let services = output::count(desired.services.len(), "service");
            let revision: String = desired.revision.as_str().chars().take(12).collect();
            let ok = output::green("ok");
            format!(
                "{name}: {ok} environment `{}`, {services}, revision {revision}\n",
                desired.env
            )
        } else {
            let errors = file
                .complaints
                .iter()
                .filter(|complaint| complaint.is_error())
                .count();
            format!(
                "{name}: {} {}\n",
                output::red("refused"),
                output::count(errors, "error")
            )
        };
        output::data(&line)?;
    }
    Ok(())
}

fn value(all: &[Looked]) -> Value {
    let one = |file: &Looked| {
        json!({
            "specPath": file.path.display().to_string(),
            "accepted": !is_refused(file),
            "environment": file.desired.as_ref().map(|desired| &desired.env),
            "revision": file.desired.as_ref().map(|desired| &desired.revision),
            "services": file.desired.as_ref().map(|desired| desired.services.keys().collect::<Vec<_>>()),
            "complaints": file.complaints,
        })
    };
    json!({ "accepted": !all.iter().any(is_refused), "files": all.iter().map(one).collect::<Vec<_>>() })
}
