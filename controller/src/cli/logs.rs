//! `argus logs`: prints the logs of the containers of an environment.

use std::collections::{BTreeMap, BTreeSet};

use argus_backend::{Backend as _, LogLine, LogQuery};
use argus_core::ident::ContainerId;
use argus_core::observed::Store;
use argus_core::outcome::ActionError;
use argus_core::secrets::Secrets;
use argus_crds::error::Reason;
use argus_crds::status::{ServiceState, ServiceStatus};
use argus_docker::Docker;
use argus_reconciler::specs::PersistedSpecs;
use argus_reconciler::state_dir::StateDir;
use clap::Args;
use futures::StreamExt as _;
use futures::stream::{BoxStream, select_all};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::breaker;
use super::target::Target;
use crate::app;
use crate::blocking_io;
use crate::engine_observer::EngineObserver;
use crate::evidence_store;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::settings::{Options, Settings, SpecOptions};
use crate::status;

#[derive(Debug, Args)]
pub(crate) struct Logs {
    #[command(flatten)]
    target: Target,
    /// Wait for further lines
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
    /// Prefix each line with the engine's timestamp
    #[arg(long)]
    timestamps: bool,
    /// Output format; with `--follow`, one document per line [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

/// Logs for programs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogsResponse {
    /// Lines grouped by service, oldest first.
    pub(crate) items: Vec<Written>,
}

/// One line of the logs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Written {
    pub(crate) service: String,
    /// `stdout` or `stderr`.
    pub(crate) stream: &'static str,
    pub(crate) text: String,
}

impl Written {
    fn new(service: &str, line: LogLine) -> Self {
        Self {
            service: service.to_owned(),
            stream: if line.stderr { "stderr" } else { "stdout" },
            text: line.text,
        }
    }
}

/// Minimum length of a line that the backend may have cut, in bytes.
const MIN_CUT_BYTES: usize = 60 * 1024;

/// Name of a service and its container.
type Source = (String, ContainerId);

/// Containers whose logs are read, and the secrets that are redacted in the lines.
struct Sources {
    all: Vec<Source>,
    secrets: Secrets,
}

impl Sources {
    /// Redacts a line. The engine can return only the end of the first line.
    fn redact(&self, mut line: LogLine, is_first: bool) -> LogLine {
        line.text = if is_first || line.text.len() >= MIN_CUT_BYTES {
            self.secrets.redacted_fragment(&line.text)
        } else {
            self.secrets.redacted(&line.text)
        };
        line
    }
}

impl Logs {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let (env, service) = self.target.parse()?;
        if self.previous || self.run.is_some() {
            let Some(service) = service else {
                let failure = Failure::usage("failed runs are numbered per service, but no service is given");
                return Err(
                    failure.with_hint(format!("list the stored runs with `argus evidence {env} --list`"))
                );
            };
            self.replay(&StateDir::at(settings.state), &env, &service)?;
        } else {
            let result = super::block_on(self.show(&settings, &env, service.as_deref()));
            if let (Err(Failure::Error { .. }), Some(service)) = (&result, &service) {
                mention_stored_run(&StateDir::at(settings.state), &env, service, None);
            }
            result?;
        }
        Ok(Exit::Done)
    }

    /// Prints the stored logs of a failed run. It needs neither the engine nor the container.
    fn replay(&self, state: &StateDir, env: &str, service: &str) -> Result<(), Failure> {
        let run = evidence_store::select_run(state, env, service, self.run)?;
        for missing in &run.facts.missing {
            output::print_note(&format!("note: not stored: {missing}"));
        }
        let lines = run.read_lines()?;
        let tail = self.tail.and_then(|tail| usize::try_from(tail).ok());
        let skipped = tail.map_or(0, |tail| lines.len().saturating_sub(tail));
        let lines = lines[skipped..].iter().map(|line| LogLine {
            stderr: line.stderr,
            text: line.format(self.timestamps),
        });
        let Some(format) = self.output.filter(is_for_programs) else {
            return lines.into_iter().try_for_each(|line| print("", &line));
        };
        let items = lines.map(|line| Written::new(service, line)).collect();
        LogsResponse { items }.print(format)
    }

    async fn show(&self, settings: &Settings, env: &str, service: Option<&str>) -> Result<(), Failure> {
        let format = self.output.filter(is_for_programs);
        let query = LogQuery {
            tail: self.tail,
            follow: self.follow,
            timestamps: self.timestamps,
            ..LogQuery::default()
        };
        if let (Some(format), false) = (format, self.follow) {
            return Box::pin(read_lines(settings, env, service, query))
                .await?
                .print(format);
        }
        let state = StateDir::at(settings.state.clone());
        let docker = app::connect_docker(settings)?;
        let sources = find_sources(&docker, &state, env, service).await?;
        if let (Some(service), [(_, id)]) = (service, sources.all.as_slice()) {
            mention_stored_run(&state, env, service, Some(id));
        }
        let width = sources.all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let many = sources.all.len() > 1;
        let stream = |(name, id): &Source| -> BoxStream<'static, (String, Result<LogLine, ActionError>)> {
            let name = name.clone();
            let lines = docker.logs(id, query.clone());
            lines.map(move |line| (name.clone(), line)).boxed()
        };
        let mut lines = select_all(sources.all.iter().map(stream));
        let mut begun = BTreeSet::new();
        while let Some((name, line)) = lines.next().await {
            let line = line.map_err(|error| app::engine_failure("cannot read logs", &error))?;
            let is_first = begun.insert((name.clone(), line.stderr));
            let line = sources.redact(line, is_first);
            if format.is_some() {
                output::print(&format!("{}\n", json!(Written::new(&name, line))))?;
                continue;
            }
            let prefix = if many {
                format!("{name:width$} | ")
            } else {
                String::new()
            };
            print(&prefix, &line)?;
        }
        Ok(())
    }
}

/// Returns true for formats that wrap each line. All others print the lines as the containers wrote them.
#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "`Option::filter` passes a reference"
)]
fn is_for_programs(format: &Format) -> bool {
    match format {
        Format::Json | Format::Yaml => true,
        Format::Table | Format::Wide | Format::Name => false,
    }
}

/// Prints a line to the stream on which the container wrote it.
fn print(prefix: &str, line: &LogLine) -> Result<(), Failure> {
    let text = format!("{prefix}{}", line.text);
    if line.stderr {
        output::print_note(&text);
        return Ok(());
    }
    output::print(&format!("{text}\n"))
}

impl LogsResponse {
    /// Keeps the last lines of each service.
    pub(crate) fn keep_last(&mut self, most: usize) {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        self.items.reverse();
        self.items.retain(|line| {
            let count = counts.entry(line.service.clone()).or_default();
            *count += 1;
            *count <= most
        });
        self.items.reverse();
    }

    fn print(&self, format: Format) -> Result<(), Failure> {
        match format {
            Format::Yaml => output::print_yaml(self),
            Format::Json | Format::Table | Format::Wide | Format::Name => output::print_json(self),
        }
    }
}

/// Last lines of the logs of an environment or of one service, each with its service.
pub(crate) async fn read_tail(
    settings: &Settings,
    env: &str,
    service: Option<&str>,
    lines: u32,
) -> Result<LogsResponse, Failure> {
    let query = LogQuery {
        tail: Some(lines),
        ..LogQuery::default()
    };
    read_lines(settings, env, service, query).await
}

async fn read_lines(
    settings: &Settings,
    env: &str,
    service: Option<&str>,
    query: LogQuery,
) -> Result<LogsResponse, Failure> {
    let state = StateDir::at(settings.state.clone());
    let docker = app::connect_docker(settings)?;
    let mut items = Vec::new();
    let sources = find_sources(&docker, &state, env, service).await?;
    for (name, id) in &sources.all {
        let mut lines = docker.logs(id, query.clone());
        let mut begun = BTreeSet::new();
        while let Some(line) = lines.next().await {
            let line = line.map_err(|error| app::engine_failure("cannot read logs", &error))?;
            let is_first = begun.insert(line.stderr);
            items.push(Written::new(name, sources.redact(line, is_first)));
        }
    }
    Ok(LogsResponse { items })
}

/// Containers to read: from the status file, else by their labels on the engine.
async fn find_sources(
    docker: &Docker,
    state: &StateDir,
    env: &str,
    service: Option<&str>,
) -> Result<Sources, Failure> {
    let (there, of, only) = (state.clone(), env.to_owned(), service.map(str::to_owned));
    let mut sources = blocking_io::read(move || {
        breaker::check_engine_breaker(&there)?;
        Ok(Sources {
            all: sources_from_status(&there, &of, only.as_deref())?,
            secrets: read_secrets(&there, &of),
        })
    })
    .await?;
    if sources.all.is_empty() {
        sources.all = sources_from_labels(&EngineObserver::open(docker, None).await?.store, env, service);
    }
    if sources.all.is_empty() {
        let of = service.map_or_else(|| env.to_owned(), |service| format!("{env}/{service}"));
        let (there, named) = (state.clone(), env.to_owned());
        let hint = if blocking_io::read(move || status::read_environment(&there, &named))
            .await?
            .is_some()
        {
            format!("list its services with `argus get {env}`")
        } else {
            status::LIST.to_owned()
        };
        return Err(
            Failure::with_reason(Reason::NotFound, format!("`{of}` has no container"))
                .with_exit(Exit::Unexpected)
                .with_hint(hint),
        );
    }
    Ok(sources)
}

/// Secrets of an environment, as far as the user may read the saved specs.
pub(crate) fn read_secrets(state: &StateDir, env: &str) -> Secrets {
    let stored: PersistedSpecs = status::read_or_default(&state.specs_json());
    let mut all = Secrets::default();
    let accepted = stored.accepted.values();
    for accepted in accepted.filter(|accepted| accepted.desired.env.as_str() == env) {
        all.join(&accepted.desired.secret_values());
    }
    all
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
        newest.filter(|run| !good && current.is_none_or(|id| id.as_str() != run.facts.container_id))
    else {
        return;
    };
    output::print_note(&format!(
        "note: run {} failed, see its logs with `argus logs {env} {service} --previous`",
        run.facts.run
    ));
}

/// Containers in the status file.
fn sources_from_status(state: &StateDir, env: &str, service: Option<&str>) -> Result<Vec<Source>, Failure> {
    let Some(status) = status::read_environment(state, env)? else {
        return Ok(Vec::new());
    };
    let wanted = status
        .services
        .into_iter()
        .filter(|row| service.is_none_or(|name| name == row.name));
    let source = |row: ServiceStatus| {
        let id = ContainerId::new(row.container_id?).ok()?;
        Some((row.name, id))
    };
    Ok(wanted.filter_map(source).collect())
}

/// Containers with matching labels on the engine.
fn sources_from_labels(store: &Store, env: &str, service: Option<&str>) -> Vec<Source> {
    let source = |container: &std::sync::Arc<argus_core::observed::Container>| {
        let owner = container
            .owner()
            .filter(|owner| owner.environment.as_str() == env)?;
        let name = owner.service?.to_string();
        service
            .is_none_or(|wanted| wanted == name)
            .then(|| (name, container.id.clone()))
    };
    store.containers().filter_map(source).collect()
}
