//! `argus plan`: what a controller would do now, and why.

use std::sync::Arc;

use argus_core::brain::{Brain, Inputs, Site};
use argus_core::ident::EnvName;
use argus_core::memory::Memory;
use argus_core::plan as core;
use argus_core::status::words;
use argus_crds::complaint;
use argus_reconciler::clock;
use argus_reconciler::reconciler::Remembered;
use argus_reconciler::specs::{Kept, SpecBook};
use argus_reconciler::state::StateDir;
use clap::Args;
use serde_json::{Value, json};

use super::engine::Eyes;
use super::output::{self, Format};
use super::reading;
use crate::exit::{Exit, Failure};
use crate::settings::{Options, Settings, SpecOptions};
use crate::wire;

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Environment; all of them without
    environment: Option<String>,
    #[command(flatten)]
    specs: SpecOptions,
    /// Format
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

/// One environment's steps and waits.
type Planned = (EnvName, Arc<core::Plan>);

impl Plan {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &self.specs)?;
        let state = StateDir::at(settings.state.clone());
        let identity = std::fs::read_to_string(state.identity()).unwrap_or_default().trim().to_owned();
        // Another user's state is private: then nothing is remembered, as at a first start.
        let remembered: Remembered = peek(&state.memory_json());
        let kept: Kept = peek(&state.book_json());
        let book = reading::folder(&settings, &settings.specs, &identity, kept)?;
        if let Some(why) = &book.unavailable {
            return Err(Failure::of(argus_crds::error::Code::SpecInvalid, why.clone()));
        }
        let refused = tell_refused(&book);
        let site = Site { controller: identity, run: String::new(), publish_address: settings.publish_address };
        let mut plans = super::block_on(plans(&settings, &book, site, remembered))?;
        plans.retain(|(env, _)| self.environment.as_deref().is_none_or(|wanted| wanted == env.as_str()));
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::json(&value(&plans))?,
            Format::Yaml => output::yaml(&value(&plans))?,
            Format::Name => output::data(&output::lines(plans.iter().map(|(env, _)| env)))?,
            Format::Table | Format::Wide => output::data(&text(&plans))?,
        }
        Ok(if refused { Exit::Refused } else { Exit::Done })
    }
}

fn peek<T: Default + serde::de::DeserializeOwned>(path: &std::path::Path) -> T {
    std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

async fn plans(
    settings: &Settings,
    book: &SpecBook,
    site: Site,
    remembered: Remembered,
) -> Result<Vec<Planned>, Failure> {
    let eyes = Eyes::open(&wire::docker(settings)?, None).await?;
    let memory = Memory { environments: remembered.environments, ..Memory::default() };
    let mut specs = book.environments.clone();
    specs.retain(|env, accepted| remembered.down.get(env) != Some(&accepted.desired.revision));
    let inputs = Inputs {
        specs: &specs,
        scanned: true,
        world: &eyes.world,
        health: &std::collections::BTreeMap::new(),
        now: clock::now(),
    };
    let turn = Brain::new(site, memory).turn(&inputs);
    Ok(turn.plans.into_iter().collect())
}

fn tell_refused(book: &SpecBook) -> bool {
    let mut refused = false;
    for (path, entry) in &book.files {
        if entry.complaints.iter().any(argus_crds::Complaint::is_error) {
            refused = true;
            let text = entry.text.as_ref().map(|text| String::from_utf8_lossy(&text.bytes).into_owned());
            let name = path.display().to_string();
            output::note(&complaint::render(&name, &text.unwrap_or_default(), &entry.complaints));
        }
    }
    refused
}

fn text(plans: &[Planned]) -> String {
    let mut lines = Vec::new();
    for (env, plan) in plans {
        if plan.is_settled() {
            lines.push(format!("{env}: nothing to do"));
            continue;
        }
        lines.push(format!("{env}:"));
        for step in &plan.steps {
            lines.push(format!("  {} {} ({})", output::green(step.act.verb()), step.subject, step.because));
        }
        for wait in &plan.waits {
            let told = words(&wait.on);
            lines.push(format!("  {} {}: {}", output::yellow("wait"), wait.subject, told.message));
        }
    }
    if plans.is_empty() {
        lines.push("nothing to do".to_owned());
    }
    output::lines(lines)
}

fn value(plans: &[Planned]) -> Value {
    let one = |(env, plan): &Planned| {
        let steps = plan.steps.iter().map(|step| {
            json!({ "subject": step.subject, "verb": step.act.verb(), "because": step.because, "cause": step.because.to_string() })
        });
        let waits = plan.waits.iter().map(|wait| json!({ "subject": wait.subject, "waitingOn": words(&wait.on) }));
        json!({
            "environment": env,
            "revision": plan.revision,
            "settled": plan.is_settled(),
            "steps": steps.collect::<Vec<_>>(),
            "waits": waits.collect::<Vec<_>>(),
        })
    };
    json!({ "environments": plans.iter().map(one).collect::<Vec<_>>() })
}
