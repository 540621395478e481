//! `argus logs`: prints the logs of the containers of an environment.

use argus_backend::LogQuery;
use argus_core::ident::ContainerId;
use argus_crds::status::ServiceState;
use argus_reconciler::clock;
use argus_reconciler::state_dir::StateDir;
use clap::Args;

use crate::api::evidence_store;
use crate::api::logs::sources::{
    ContainerLookup, LogSource, LogsResponse, find_sources, read_last_run, read_lines, read_stored_lines,
};
use crate::api::logs::time_range::TimeRange;
use crate::api::target::{check_service, parse_target, resolve_target};
use crate::engine;
use crate::local_state::status;
use crate::process::exit::{Exit, Failure};
use crate::process::runtime;
use crate::render::output;
use crate::render::output::Format;
use crate::settings::{Options, Settings, SpecOptions};

mod end;
mod follow;
mod print;
mod progress;

use print::{Printed, is_for_programs, print, print_document, print_entry, print_line, print_sources};

#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Environment, or ENVIRONMENT/SERVICE [default: the only one; with `--follow` all]
    target: Option<String>,
    /// Service names [default: all services]
    #[arg(value_name = "SERVICE")]
    services: Vec<String>,
    /// Wait for further lines, also of later runs and containers
    #[arg(short, long, conflicts_with_all = ["run", "previous"])]
    follow: bool,
    /// Logs of failed run N of a service, if stored
    #[arg(long, value_name = "N", conflicts_with = "previous")]
    run: Option<u64>,
    /// Logs of the last failed run of a service
    #[arg(short, long)]
    previous: bool,
    /// Maximum number of lines per container [default: all]
    #[arg(long, value_name = "N")]
    tail: Option<u32>,
    /// Only lines since TIME: a duration such as `10m`, or RFC 3339
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only lines until TIME
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Prefix each line with the engine's timestamp
    #[arg(long)]
    timestamps: bool,
    /// Output format; with `--follow`, one document per line [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Logs {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let range = TimeRange::parse(self.since.as_deref(), self.until.as_deref(), clock::now())
            .map_err(Failure::usage)?;
        if self.follow {
            let scope = self.find_scope(&settings.state)?;
            let format = self.output.filter(is_for_programs);
            runtime::block_on(follow::follow(&settings, &scope, &self, range, format))?;
            return Ok(Exit::Done);
        }
        let (env, services) = self.find_services(&settings.state)?;
        let service = find_single(&services);
        if self.previous || self.run.is_some() {
            let Some(service) = service else {
                let failure =
                    Failure::usage("failed runs are numbered per service, so the command needs exactly one");
                return Err(
                    failure.with_hint(format!("list the stored runs with `argus evidence {env} --list`"))
                );
            };
            self.replay(&settings.state, &env, service, range)?;
        } else {
            let result = runtime::block_on(self.show(&settings, &env, &services, range));
            if let (Err(Failure::Error { .. }), Some(service)) = (&result, service) {
                mention_stored_run(&settings.state, &env, service, None);
            }
            result?;
        }
        Ok(Exit::Done)
    }

    /// Returns the services to follow. Without a target, these are all.
    fn find_scope(&self, state: &StateDir) -> Result<end::Scope, Failure> {
        if self.target.is_none() {
            return Ok(end::Scope::default());
        }
        let (env, services) = self.find_services(state)?;
        Ok(end::Scope {
            environment: Some(env),
            services,
        })
    }

    /// Returns the environment and the selected services. Without any, these are all.
    fn find_services(&self, state: &StateDir) -> Result<(String, Vec<String>), Failure> {
        let (env, first) = resolve_target(state, self.target.as_deref(), None)?;
        let mut services: Vec<String> = first.into_iter().collect();
        for service in &self.services {
            let (_, named) = parse_target(&env, Some(service.as_str()))?;
            services.extend(named.filter(|named| !services.contains(named)));
        }
        // The failure of a single service contains more facts.
        if services.len() > 1
            && let Some(status) = status::read_environment(state, &env)?
        {
            services
                .iter()
                .try_for_each(|service| check_service(&status, service))?;
        }
        Ok((env, services))
    }

    /// Prints the stored logs of a failed run. It needs neither the engine nor the container.
    fn replay(&self, state: &StateDir, env: &str, service: &str, range: TimeRange) -> Result<(), Failure> {
        let run = evidence_store::select_run(state, env, service, self.run)?;
        for missing in &run.facts.missing {
            output::print_note(&format!("note: not stored: {missing}"));
        }
        self.print_stored(&read_stored_lines(&run, &self.query(), range)?)
    }

    /// Prints the stored lines of a failed run like those of a container.
    fn print_stored(&self, logs: &LogsResponse) -> Result<(), Failure> {
        match self.output.filter(is_for_programs) {
            Some(_) if self.follow => logs.items.iter().try_for_each(print_entry),
            Some(format) => print_document(logs, format),
            None => logs
                .items
                .iter()
                .try_for_each(|line| print("", line.stream == "stderr", &line.text)),
        }
    }

    fn query(&self) -> LogQuery {
        LogQuery {
            tail: self.tail,
            follow: self.follow,
            timestamps: self.timestamps,
            ..LogQuery::default()
        }
    }

    async fn show(
        &self,
        settings: &Settings,
        env: &str,
        services: &[String],
        range: TimeRange,
    ) -> Result<(), Failure> {
        let format = self.output.filter(is_for_programs);
        let query = self.query();
        if let Some(format) = format {
            return self.print_documents(settings, env, services, range, format).await;
        }
        let service = find_single(services);
        let state = settings.state.clone();
        let docker = engine::connect_docker(settings).await?;
        for lookup in [ContainerLookup::Status, ContainerLookup::Engine] {
            let mut sources = find_sources(&docker, &state, env, service, lookup).await?;
            sources
                .all
                .retain(|(name, _)| services.is_empty() || services.contains(name));
            if let (Some(service), [(_, id)]) = (service, sources.all.as_slice()) {
                mention_stored_run(&state, env, service, Some(id));
            }
            if !sources.all.is_empty()
                && print_sources(&docker, &sources, &query, range).await? == Printed::All
            {
                return self
                    .print_absent(&state, env, services, &sources.all, range)
                    .await;
            }
        }
        if services.is_empty() {
            let stored = read_last_run(&state, env, None, query, range).await?;
            return self.print_stored(&stored);
        }
        self.print_absent(&state, env, services, &[], range).await
    }

    /// Prints the logs of all services, or of the selected ones, as one document.
    async fn print_documents(
        &self,
        settings: &Settings,
        env: &str,
        services: &[String],
        range: TimeRange,
        format: Format,
    ) -> Result<(), Failure> {
        let selected = services.iter().map(|service| Some(service.as_str()));
        let selected: Vec<_> = selected.chain(services.is_empty().then_some(None)).collect();
        let (mut all, mut failed) = (None::<LogsResponse>, Vec::new());
        for service in &selected {
            match Box::pin(read_lines(settings, env, *service, self.query(), range)).await {
                Ok(logs) => match &mut all {
                    Some(all) => {
                        all.items.extend(logs.items);
                        all.run = None;
                    }
                    None => all = Some(logs),
                },
                Err(failure) => failed.push(failure),
            }
        }
        report_failed(failed, selected.len())?;
        all.map_or(Ok(()), |logs| print_document(&logs, format))
    }

    /// Prints the stored logs of the selected services without a container.
    async fn print_absent(
        &self,
        state: &StateDir,
        env: &str,
        services: &[String],
        found: &[LogSource],
        range: TimeRange,
    ) -> Result<(), Failure> {
        let mut failed = Vec::new();
        for service in services {
            if found.iter().any(|(name, _)| name == service) {
                continue;
            }
            match read_last_run(state, env, Some(service.as_str()), self.query(), range).await {
                Ok(stored) => self.print_stored_run(env, service, &stored)?,
                Err(failure) => failed.push(failure),
            }
        }
        report_failed(failed, services.len())
    }

    /// Prints the stored lines of a service without a container, after a note.
    fn print_stored_run(&self, env: &str, service: &str, stored: &LogsResponse) -> Result<(), Failure> {
        if let Some(run) = stored.run {
            output::print_note(&format!(
                "note: `{env}/{service}` has no container, these are the stored logs of failed run {run}"
            ));
        }
        self.print_stored(stored)
    }
}

/// Returns a failure if no selected service has logs. Otherwise, those without logs are notes.
fn report_failed(mut failed: Vec<Failure>, selected: usize) -> Result<(), Failure> {
    if failed.len() == selected
        && let Some(last) = failed.pop()
    {
        return Err(last);
    }
    for failure in failed {
        output::print_note(&format!("note: {}", failure.message()));
    }
    Ok(())
}

/// Returns the selected service if there is exactly one.
fn find_single(services: &[String]) -> Option<&str> {
    match services {
        [service] => Some(service.as_str()),
        _ => None,
    }
}

/// Prints a note about the stored logs of a failed run, because the logs of a recreated container do not contain them.
fn mention_stored_run(state: &StateDir, env: &str, service: &str, current: Option<&ContainerId>) {
    let row = status::read_environment(state, env)
        .ok()
        .flatten()
        .and_then(|status| status.services.into_iter().find(|row| row.name == service));
    let good = row.is_some_and(|row| matches!(row.state, ServiceState::Ready | ServiceState::Completed));
    let newest = evidence_store::select_run(state, env, service, None).ok();
    let Some(run) =
        newest.filter(|run| !good && current.is_none_or(|id| id.as_str() != run.facts.run.container_id))
    else {
        return;
    };
    output::print_note(&format!(
        "note: run {} failed, see its logs with `argus logs {env} {service} --previous`",
        run.facts.run.run
    ));
}

#[cfg(test)]
mod tests {
    use argus_crds::status::{EnvironmentStatus, ServiceStatus};
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        logs: Logs,
    }

    #[test]
    fn words_after_the_target_are_services() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::at(dir.path().join("state"));
        std::fs::create_dir_all(state.environments()).unwrap();
        let row = |name: &str| ServiceStatus {
            name: name.to_owned(),
            ..ServiceStatus::default()
        };
        let status = EnvironmentStatus {
            environment: "shop".to_owned(),
            services: vec![row("api"), row("db")],
            ..EnvironmentStatus::default()
        };
        let path = state.environments().join("shop.json");
        std::fs::write(path, serde_json::to_vec(&status).unwrap()).unwrap();
        let find = |words: &str| {
            let line = Line::try_parse_from(words.split(' ')).unwrap();
            line.logs.find_services(&state)
        };
        for (words, services) in [
            ("logs", ""),
            ("logs shop", ""),
            ("logs db", "db"),
            ("logs shop api", "api"),
            ("logs shop api db", "api db"),
            ("logs shop/api db", "api db"),
            ("logs api db", "api db"),
            ("logs shop/api api db api", "api db"),
        ] {
            let (env, found) = find(words).unwrap();
            assert_eq!(
                (env.as_str(), found.join(" ").as_str()),
                ("shop", services),
                "{words}"
            );
            assert_eq!(find_single(&found), Some(services).filter(|_| found.len() == 1));
        }
        assert!(find("logs shop api dbb").is_err());
        assert!(find("logs shop api /").is_err());
        let failed = |count: usize| (0..count).map(|_| Failure::usage("no logs")).collect();
        assert!(report_failed(failed(1), 2).is_ok() && report_failed(failed(0), 0).is_ok());
        assert!(report_failed(failed(2), 2).is_err());
    }
}
