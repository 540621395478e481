//! `argus network`: who reaches whom inside an environment, as it was seen last or as it is seen now.

use argus_core::connectivity::{Topology, errors, matrix};
use argus_core::ident::EnvName;
use argus_core::probe::HealthStates;
use argus_crds::error::{Code, Reason, StructuredError};
use argus_crds::status::{Condition, Connectivity, EnvironmentStatus};
use argus_reconciler::clock::Clock;
use argus_reconciler::connectivity;
use argus_reconciler::state_dir::StateDir;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::offline::EngineObserver;
use super::output::{self, Format};
use super::preflight::Place;
use super::{status, table};
use crate::exit::{Exit, Failure};
use crate::settings::{Options, Settings, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Network {
    /// Environment
    environment: String,
    #[command(flatten)]
    specs: SpecOptions,
    /// Look now, with a helper in the network of each service, instead of telling what the controller saw last
    #[arg(long)]
    verify: bool,
    /// Format
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

/// What is told, for programs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NetworkReport {
    pub(crate) environment: String,
    /// Every link works.
    pub(crate) verified: bool,
    /// What the controller says of it; none where it was looked at now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) condition: Option<Condition>,
    /// Who reaches whom; none where it was never looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connectivity: Option<Connectivity>,
    /// Those of links that do not work, as `argus schema error` describes each.
    // Their schema is longer than all the rest, and is published already.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub(crate) errors: Vec<StructuredError>,
}

impl Network {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &self.specs)?;
        let env = status::named(&self.environment)?;
        let told = if self.verify {
            super::block_on(Box::pin(now(&settings, &env)))?
        } else {
            let state = StateDir::at(settings.state);
            status::say_if_alone(&state);
            last(status::existing(&state, env.as_str())?)
        };
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::json(&told)?,
            Format::Yaml => output::yaml(&told)?,
            Format::Name => {
                let links = told.connectivity.iter().flat_map(|seen| &seen.links);
                let broken = links.filter(|link| link.error.is_some());
                output::data(&output::lines(
                    broken.map(|link| format!("{}/{}", link.from, link.to)),
                ))?;
            }
            Format::Table | Format::Wide => output::data(&text(&told))?,
        }
        Ok(exit(&told))
    }
}

/// As the controller saw it last.
pub(crate) fn last(status: EnvironmentStatus) -> NetworkReport {
    let of_a_link =
        |error: &StructuredError| matches!(error.code, Code::DnsResolutionFailed | Code::NetworkUnreachable);
    let condition = status
        .conditions
        .into_iter()
        .find(|condition| condition.kind == "Verified");
    NetworkReport {
        environment: status.environment,
        verified: condition
            .as_ref()
            .is_some_and(|condition| condition.status == argus_crds::status::Truth::True),
        condition,
        connectivity: status.connectivity,
        errors: status.errors.into_iter().filter(of_a_link).collect(),
    }
}

/// As it is: no controller is asked.
pub(crate) async fn now(settings: &Settings, env: &EnvName) -> Result<NetworkReport, Failure> {
    let place = Place::of(settings)?;
    let wanted = place.wanted().await;
    let wanted = wanted.map_err(|why| Failure::missing(Reason::Unreadable, why).exit(Exit::Unexpected))?;
    let Some(accepted) = wanted.get(env) else {
        let names: Vec<&EnvName> = wanted.keys().collect();
        let message = format!("no environment `{env}`; {}", status::listed(&names));
        return Err(Failure::missing(Reason::NotFound, message)
            .exit(Exit::Usage)
            .hint(status::LIST));
    };
    let mut eyes = EngineObserver::open(place.docker(), Some([env.clone()].into())).await?;
    eyes.inspect().await?;
    let (nothing, health) = (std::sync::Arc::default(), HealthStates::new());
    let scene = Topology {
        desired: &accepted.desired,
        observed: eyes.store.of(env).unwrap_or(&nothing),
        hashes: None,
        health: &health,
        outages: &[],
        epoch: None,
    };
    let look = connectivity::look(place.docker(), scene.as_it_is(), Clock::system()).await;
    let told = |error: StructuredError| error.environment(env.as_str());
    Ok(NetworkReport {
        environment: env.to_string(),
        verified: look.is_good(),
        condition: None,
        errors: errors(&look, &scene).into_iter().map(told).collect(),
        connectivity: Some(matrix(&look)),
    })
}

/// Broken is broken; what was not looked at in full is not verified, and neither is it broken.
fn exit(told: &NetworkReport) -> Exit {
    match told.errors.first() {
        Some(error) => Exit::of(error.code),
        None if told.verified => Exit::Done,
        None => Exit::Late,
    }
}

/// The same for people.
pub(crate) fn text(told: &NetworkReport) -> String {
    let mut text = Vec::new();
    let links = told.connectivity.as_ref().map(|seen| seen.links.as_slice());
    let links = links.unwrap_or_default();
    if !links.is_empty() {
        let rows: Vec<Vec<String>> = links
            .iter()
            .map(|link| {
                let port = link.port.map_or_else(|| "-".to_owned(), |port| port.to_string());
                let mark = |good: bool| {
                    if good {
                        output::green("ok")
                    } else {
                        output::red("failed")
                    }
                };
                let unseen = link
                    .error
                    .as_ref()
                    .is_some_and(|error| error.starts_with("not checked"));
                let (dns, tcp) = match link.port {
                    _ if unseen => (String::new(), String::new()),
                    Some(_) if link.dns => (mark(true), mark(link.tcp)),
                    Some(_) | None => (mark(link.dns), String::new()),
                };
                let said = link.error.clone().unwrap_or_default();
                vec![
                    link.from.clone(),
                    link.to.clone(),
                    link.host.clone(),
                    port,
                    dns,
                    tcp,
                    said,
                ]
            })
            .collect();
        text.extend(table::lines(
            &["FROM", "TO", "HOST", "PORT", "DNS", "TCP", "SAID"],
            &rows,
        ));
        text.push(String::new());
    }
    text.extend(
        told.errors
            .iter()
            .map(|error| output::red(format!("{}: {}", error.code, error.message))),
    );
    text.push(match (&told.condition, told.verified) {
        (_, true) if links.is_empty() => "no service names another".to_owned(),
        (_, true) => output::green(format!("{} verified", output::count(links.len(), "link"))),
        (Some(condition), false) => output::yellow(format!(
            "not verified, {}: {}",
            condition.reason, condition.message
        )),
        (None, false) => output::yellow("not verified"),
    });
    let mut hints: Vec<String> = told.errors.iter().flat_map(output::hints).collect();
    hints.sort();
    hints.dedup();
    text.extend(
        hints
            .into_iter()
            .map(|hint| format!("{} {hint}", output::cyan("hint:"))),
    );
    output::lines(text)
}
