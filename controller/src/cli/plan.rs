//! `argus plan`: what a controller would do now, and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use argus_backend::Backend as _;
use argus_core::desired::Accepted;
use argus_core::ident::EnvName;
use argus_core::observed::Store;
use argus_core::plan::{self as core, Subject, image};
use argus_core::preflight::PreflightSnapshot;
use argus_core::reconcile::{ControllerIdentity, Inputs, Planner};
use argus_core::secrets::Secrets;
use argus_core::state::PlannerState;
use argus_core::status::words;
use argus_crds::diagnostic;
use argus_crds::error::{Code, Reason};
use argus_reconciler::clock;
use argus_reconciler::reconciler::PersistedState;
use argus_reconciler::specs::{FileEntry, SpecRegistry, StartingPoint};
use argus_reconciler::state_dir::StateDir;
use clap::Args;

mod health;
mod report;

pub(crate) use report::{EnvironmentPlan, plan_report};

use super::offline::{self, EngineObserver};
use super::output::{self, Format};
use super::spec_files;
use super::status::{self, peek};
use super::table;
use crate::app;
use crate::blocking_io;
use crate::exit::{Exit, Failure};
use crate::settings::{Options, Settings, SpecOptions};

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

/// What lies ahead of one environment.
#[derive(Debug, Default)]
struct Forecast {
    /// The plan of this moment; none where nothing is desired or seen.
    plan: Arc<core::Plan>,
    /// Every step from here to rest, those of this moment first.
    steps: Vec<core::Step>,
    /// It was taken down, and nothing has brought it back yet.
    down: bool,
    /// Nobody took it down: its time was over.
    expired: bool,
    /// What is not said.
    secrets: Secrets,
}

type Forecasts = BTreeMap<EnvName, Forecast>;

impl Plan {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &self.specs)?;
        if let Some(wanted) = &self.environment {
            status::named(wanted)?;
        }
        let (book, refused) = folder(&settings)?;
        tell_refused(&book);
        let roads = super::block_on(ahead_of(&settings, &book, self.environment.as_deref(), refused))?;
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::json(&report::told(&roads))?,
            Format::Yaml => output::yaml(&report::told(&roads))?,
            Format::Name => output::data(&output::lines(roads.keys()))?,
            Format::Table | Format::Wide => output::data(&table::prose(&text(&roads), output::width()))?,
        }
        Ok(if refused { Exit::Refused } else { Exit::Done })
    }
}

/// The folder of the specs as a controller would have it, and whether some file in it is refused.
fn folder(settings: &Settings) -> Result<(SpecRegistry, bool), Failure> {
    let state = StateDir::at(settings.state.clone());
    let kept: StartingPoint = peek(&state.specs_json());
    let book = spec_files::folder(
        settings,
        &settings.specs,
        &identity(settings, &state).controller,
        kept,
    )?;
    if let Some(why) = &book.unavailable {
        let details = serde_json::json!({ "path": settings.specs, "reason": why });
        return Err(Failure::of(Code::SpecInvalid, why.clone()).about(details));
    }
    let is_refused = |entry: &FileEntry| entry.diagnostics.iter().any(argus_crds::Diagnostic::is_error);
    let refused = book.files.values().any(is_refused);
    Ok((book, refused))
}

/// What lies ahead of one environment, which has to be there, or of all.
async fn ahead_of(
    settings: &Settings,
    book: &SpecRegistry,
    wanted: Option<&str>,
    refused: bool,
) -> Result<Forecasts, Failure> {
    let (own, named) = (settings.clone(), wanted.map(str::to_owned));
    let (identity, persisted, known) = blocking_io::read(move || {
        let state = StateDir::at(own.state.clone());
        let known = named.map(|env| status::one(&state, &env)).transpose()?.flatten();
        Ok((identity(&own, &state), persisted(&state), known.is_some()))
    })
    .await?;
    let mut roads = forecasts(settings, book, identity, persisted).await?;
    if let Some(wanted) = wanted {
        if !known && !roads.keys().any(|env| env.as_str() == wanted) {
            return Err(unknown(wanted, &roads, refused));
        }
        roads.retain(|env, _| env.as_str() == wanted);
    }
    Ok(roads)
}

/// The same of all environments of a book, as people read it.
pub(super) async fn as_text(settings: &Settings, book: &SpecRegistry) -> Result<String, Failure> {
    let state = StateDir::at(settings.state.clone());
    let identity = identity(settings, &state);
    let roads = forecasts(settings, book, identity, persisted(&state)).await?;
    Ok(text(&roads))
}

fn identity(settings: &Settings, state: &StateDir) -> ControllerIdentity {
    ControllerIdentity {
        controller: argus_reconciler::identity::peek(&state.identity()).unwrap_or_default(),
        run: String::new(),
        publish_address: settings.publish_address,
    }
}

/// Another user's state is private: then nothing is remembered, as at a first start.
fn persisted(state: &StateDir) -> PersistedState {
    peek(&state.state_json())
}

fn unknown(wanted: &str, roads: &Forecasts, refused: bool) -> Failure {
    let known: Vec<_> = roads.keys().collect();
    let beside = if refused {
        ", and files that are refused"
    } else {
        ""
    };
    let message = format!("no environment `{wanted}`; {}{beside}", status::listed(&known));
    Failure::missing(Reason::NotFound, message)
        .exit(Exit::Usage)
        .hint("`argus plan` is given the name of an environment, not of a file; without one it shows all")
}

async fn forecasts(
    settings: &Settings,
    book: &SpecRegistry,
    identity: ControllerIdentity,
    persisted: PersistedState,
) -> Result<Forecasts, Failure> {
    let docker = app::docker(settings)?;
    let mut eyes = EngineObserver::open(&docker, None).await?;
    // A list does not tell how a container ended: what follows from that is not to be guessed.
    eyes.inspect().await?;
    let store = eyes.store;
    let leases = offline::leases(&docker, &identity, &StateDir::at(settings.state.clone())).await?;
    let preflight = PreflightSnapshot {
        host: docker.host_facts().await,
        at: Some(clock::now()),
        ..PreflightSnapshot::default()
    };
    let memory = PlannerState {
        environments: persisted.environments.clone(),
        ..PlannerState::default()
    };
    let mut specs = book.environments.clone();
    let is_down = |env: &EnvName, accepted: &Accepted| {
        persisted.overrides.down.get(env) == Some(&accepted.desired.revision)
    };
    specs.retain(|env, accepted| !is_down(env, accepted));
    let (planner, now) = (Planner::new(identity, memory), clock::now());
    let health = health::told(settings, &store, now).await?;
    let inputs = Inputs {
        requests: &persisted.overrides.requests,
        leases: &leases,
        specs: &specs,
        preflight: Some(&preflight),
        scanned: true,
        store: &store,
        health: &health,
        now,
    };
    let plans = planner.clone().reconcile(&inputs).plans;
    let mut roads: Forecasts = plans
        .into_iter()
        .map(|(env, plan)| {
            (
                env,
                Forecast {
                    plan,
                    ..Forecast::default()
                },
            )
        })
        .collect();
    // Who is only seen, and not to be changed, is nobody's plan.
    roads.retain(|env, road| specs.contains_key(env) || !road.plan.is_settled());
    for step in core::forecast::forecast(planner, &specs, &store, &health, &leases, now) {
        if let Some(env) = whose(&step.subject, &specs, &store) {
            roads.entry(env).or_default().steps.push(step);
        }
    }
    for (env, accepted) in &book.environments {
        let road = roads.entry(env.clone()).or_default();
        road.down = is_down(env, accepted);
        road.expired = road.down && persisted.overrides.expired.contains(env);
        road.secrets = accepted.desired.not_to_be_told();
    }
    Ok(roads)
}

/// The environment that a subject belongs to; of a shared image the first that wants it.
fn whose(subject: &Subject, specs: &BTreeMap<EnvName, Arc<Accepted>>, store: &Store) -> Option<EnvName> {
    match subject {
        Subject::Service { environment, .. }
        | Subject::Network { environment }
        | Subject::Volume { environment, .. } => Some(environment.clone()),
        Subject::Image { key } => specs.iter().find_map(|(env, accepted)| {
            let mut services = accepted.desired.services.values();
            services
                .any(|service| *key == image::key(&service.image))
                .then(|| env.clone())
        }),
        Subject::ExtraContainer { id } => Some(store.container(id)?.owner()?.environment),
        Subject::ExtraNetwork { id } => Some(store.network(id)?.owner()?.environment),
    }
}

fn tell_refused(book: &SpecRegistry) {
    for (path, entry) in &book.files {
        if entry.diagnostics.iter().any(argus_crds::Diagnostic::is_error) {
            let text = entry
                .text
                .as_ref()
                .map(|text| String::from_utf8_lossy(&text.bytes).into_owned());
            let name = path.display().to_string();
            output::note(&diagnostic::render(
                &name,
                &text.unwrap_or_default(),
                &entry.diagnostics,
            ));
        }
    }
}

fn text(roads: &Forecasts) -> String {
    let mut lines = Vec::new();
    for (
        env,
        Forecast {
            plan,
            steps,
            down,
            expired,
            secrets,
        },
    ) in roads
    {
        let said = |subject: &Subject| secrets.redacted(&subject.to_string());
        if *down {
            let by = if *expired {
                "its `argus.ttl` is over"
            } else {
                "taken down by `argus down`"
            };
            lines.push(format!(
                "{env}: {by}; an edit of its file or `argus retry {env}` brings it back"
            ));
            if steps.is_empty() && plan.is_settled() {
                continue;
            }
        }
        if steps.is_empty() && plan.is_settled() {
            lines.push(format!("{env}: nothing to do"));
            continue;
        }
        lines.push(format!("{env}: {}", output::count(steps.len(), "step")));
        for step in steps {
            lines.push(format!(
                "  {} {} ({})",
                output::green(step.action.verb()),
                said(&step.subject),
                step.cause
            ));
        }
        for wait in &plan.waits {
            let told = words(&wait.on);
            lines.push(format!(
                "  {} {}: {}",
                output::yellow("waits now"),
                said(&wait.subject),
                secrets.redacted(&told.message)
            ));
        }
    }
    if roads.is_empty() {
        lines.push("nothing to do".to_owned());
    }
    output::lines(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_down_is_said_as_such_and_who_is_unknown_is_an_error_of_usage() {
        let road = Forecast {
            down: true,
            ..Forecast::default()
        };
        let roads = Forecasts::from([(EnvName::new("shop").unwrap(), road)]);
        assert_eq!(
            text(&roads),
            "shop: taken down by `argus down`; an edit of its file or `argus retry shop` brings it back\n"
        );
        let road = Forecast {
            down: true,
            expired: true,
            ..Forecast::default()
        };
        assert_eq!(
            text(&Forecasts::from([(EnvName::new("shop").unwrap(), road)])),
            "shop: its `argus.ttl` is over; an edit of its file or `argus retry shop` brings it back\n"
        );
        let Failure::Error { error, exit, hint } = unknown("shpo", &roads, false) else {
            panic!("no error")
        };
        assert_eq!(
            (exit, error.message.as_str()),
            (Exit::Usage, "no environment `shpo`; there are: shop")
        );
        assert!(hint.is_some() && error.remedies.is_empty());
    }
}
