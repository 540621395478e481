//! `argus logs`: what the containers of an environment write.

use argus_backend::{Backend as _, LogLine, LogQuery};
use argus_core::ident::ContainerId;
use argus_core::observed::World;
use argus_core::outcome::ActError;
use argus_crds::error::Code;
use argus_reconciler::state::StateDir;
use clap::Args;
use futures::StreamExt as _;
use futures::stream::{BoxStream, select_all};

use super::engine::Eyes;
use super::{output, status};
use crate::exit::{Exit, Failure};
use crate::settings::{Options, Settings, SpecOptions};
use crate::wire;

#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Environment, or ENVIRONMENT/SERVICE
    target: String,
    /// Service
    service: Option<String>,
    /// Go on as long as the containers write
    #[arg(short, long)]
    follow: bool,
    /// Only the last lines of each container
    #[arg(long, value_name = "N")]
    tail: Option<u32>,
    /// With the engine's time in front
    #[arg(long)]
    timestamps: bool,
}

/// Name of a service and its container.
type Source = (String, ContainerId);

impl Logs {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let (env, service) = match self.target.split_once('/') {
            Some((env, service)) => (env.to_owned(), Some(service.to_owned())),
            None => (self.target.clone(), self.service.clone()),
        };
        super::block_on(self.show(&settings, &env, service.as_deref()))?;
        Ok(Exit::Done)
    }

    async fn show(&self, settings: &Settings, env: &str, service: Option<&str>) -> Result<(), Failure> {
        let docker = wire::docker(settings)?;
        let state = StateDir::at(settings.state.clone());
        let mut sources = known(&state, env, service)?;
        if sources.is_empty() {
            sources = labelled(&Eyes::open(&docker, None).await?.world, env, service);
        }
        if sources.is_empty() {
            let of = service.map_or_else(|| env.to_owned(), |service| format!("{env}/{service}"));
            let hint = if status::one(&state, env)?.is_some() {
                format!("`argus get {env}` shows its services")
            } else {
                status::LIST.to_owned()
            };
            return Err(
                Failure::of(Code::PrereqMissing, format!("`{of}` has no container"))
                    .exit(Exit::Unexpected)
                    .hint(hint),
            );
        }
        let query = LogQuery {
            tail: self.tail,
            follow: self.follow,
            timestamps: self.timestamps,
            ..LogQuery::default()
        };
        let width = sources.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let many = sources.len() > 1;
        let stream = |(name, id): &Source| -> BoxStream<'static, (String, Result<LogLine, ActError>)> {
            let prefix = if many {
                format!("{name:width$} | ")
            } else {
                String::new()
            };
            docker
                .logs(id, query.clone())
                .map(move |line| (prefix.clone(), line))
                .boxed()
        };
        let mut lines = select_all(sources.iter().map(stream));
        while let Some((prefix, line)) = lines.next().await {
            match line {
                Ok(line) if line.stderr => output::note(&format!("{prefix}{}", line.text)),
                Ok(line) => output::data(&format!("{prefix}{}\n", line.text))?,
                Err(error) => return Err(wire::engine_failure("cannot read logs", &error)),
            }
        }
        Ok(())
    }
}

/// By the status file: no look at the engine is needed.
fn known(state: &StateDir, env: &str, service: Option<&str>) -> Result<Vec<Source>, Failure> {
    let Some(status) = status::one(state, env)? else {
        return Ok(Vec::new());
    };
    let wanted = status
        .services
        .into_iter()
        .filter(|row| service.is_none_or(|name| name == row.name));
    let source = |row: argus_crds::status::ServiceStatus| {
        let id = ContainerId::new(row.container_id?).ok()?;
        Some((row.name, id))
    };
    Ok(wanted.filter_map(source).collect())
}

/// By the labels on the engine.
fn labelled(world: &World, env: &str, service: Option<&str>) -> Vec<Source> {
    let source = |container: &std::sync::Arc<argus_core::observed::Container>| {
        let owner = container
            .owner()
            .filter(|owner| owner.environment.as_str() == env)?;
        let name = owner.service?.to_string();
        service
            .is_none_or(|wanted| wanted == name)
            .then(|| (name, container.id.clone()))
    };
    world.containers().filter_map(source).collect()
}
