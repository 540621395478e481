//! Containers of an environment whose logs are read, and their last lines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use argus_backend::{LogLine, LogQuery};
use argus_core::ident::ContainerId;
use argus_core::observed::Store;
use argus_core::outcome::ActionError;
use argus_core::secrets::Secrets;
use argus_core::time::Timestamp;
use argus_crds::error::Reason;
use argus_crds::status::ServiceStatus;
use argus_docker::Docker;
use argus_reconciler::reconciler::PersistedState;
use argus_reconciler::specs::PersistedSpecs;
use argus_reconciler::state_dir::StateDir;
use futures::StreamExt as _;
use schemars::JsonSchema;
use serde::Serialize;

use super::time_range::{TimeRange, split_stamp};
use crate::api::evidence_store;
use crate::api::evidence_store::{Line, StoredRun};
use crate::engine;
use crate::engine::observer::EngineObserver;
use crate::local_state::status;
use crate::process::blocking_io;
use crate::process::exit::{Exit, Failure};
use crate::settings::Settings;

/// Logs for programs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogsResponse {
    /// Lines grouped by service, oldest first.
    pub(crate) items: Vec<LogEntry>,
    /// Number of the failed run whose stored lines these are. Absent for the lines of existing containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<u64>,
}

/// One line of the logs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogEntry {
    pub(crate) service: String,
    /// `stdout` or `stderr`.
    pub(crate) stream: &'static str,
    pub(crate) text: String,
}

impl LogEntry {
    pub(crate) fn new(service: &str, line: LogLine) -> Self {
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
pub(crate) type LogSource = (String, ContainerId);

/// Containers whose logs are read, and the secrets that are redacted in the lines.
pub(crate) struct Sources {
    pub(crate) all: Vec<LogSource>,
    secrets: Secrets,
}

impl Sources {
    /// Reads the secrets of an environment or of all, for lines of containers that are found later.
    pub(crate) fn only_secrets(state: &StateDir, env: Option<&str>) -> Self {
        Self {
            all: Vec::new(),
            secrets: read_secrets(state, env),
        }
    }

    /// Redacts the output of a command, which begins with `…` if its start is missing. With `is_cut`, its end may be missing, too.
    pub(crate) fn redact_output(&self, output: &str, is_cut: bool) -> String {
        match output.strip_prefix('…') {
            Some(end) => format!("…{}", self.secrets.redacted_fragment(end)),
            None if is_cut => self.secrets.redacted_fragment(output),
            None => self.secrets.redacted(output),
        }
    }

    /// Redacts a line. The engine can return only the end of the first line.
    pub(crate) fn redact(&self, mut line: LogLine, is_first: bool) -> LogLine {
        if !is_first && line.text.len() < MIN_CUT_BYTES {
            line.text = self.secrets.redacted(&line.text);
            return line;
        }
        // A fragment begins after the engine's timestamp.
        let stamp = line.text.split_once(' ').map(|(stamp, _)| stamp);
        let stamp = stamp.filter(|stamp| Timestamp::parse(stamp).is_some());
        let begin = stamp.map_or(0, |stamp| stamp.len() + 1);
        let redacted = self.secrets.redacted_fragment(&line.text[begin..]);
        line.text.replace_range(begin.., &redacted);
        line
    }
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
}

/// Lines of the logs of an environment or of one service, each with its service.
pub(crate) async fn read_lines(
    settings: &Settings,
    env: &str,
    service: Option<&str>,
    query: LogQuery,
    range: TimeRange,
) -> Result<LogsResponse, Failure> {
    let state = settings.state.clone();
    let docker = engine::connect_docker(settings).await?;
    let mut lookup = ContainerLookup::Status;
    'lookup: loop {
        let mut items = Vec::new();
        let sources = find_sources(&docker, &state, env, service, lookup).await?;
        if sources.all.is_empty() {
            return read_last_run(&state, env, service, query, range).await;
        }
        for (name, id) in &sources.all {
            let mut lines = range.read(&docker, id, &query);
            let mut streams = BTreeSet::new();
            while let Some(line) = lines.next().await {
                match line {
                    Ok(line) => {
                        let is_first = streams.insert(line.stderr);
                        items.push(LogEntry::new(name, sources.redact(line, is_first)));
                    }
                    Err(ActionError::Gone) if lookup == ContainerLookup::Status => {
                        lookup = ContainerLookup::Engine;
                        continue 'lookup;
                    }
                    // The container was removed, and the next one does not exist yet.
                    Err(ActionError::Gone) => {
                        return read_last_run(&state, env, service, query, range).await;
                    }
                    Err(error) => return Err(engine::engine_failure("cannot read logs", &error)),
                }
            }
        }
        return Ok(LogsResponse { items, run: None });
    }
}

/// Stored lines of the last failed run of a service without a container: Argus is replacing it, or gave up.
pub(crate) async fn read_last_run(
    state: &StateDir,
    env: &str,
    service: Option<&str>,
    query: LogQuery,
    range: TimeRange,
) -> Result<LogsResponse, Failure> {
    let (state, env, service) = (state.clone(), env.to_owned(), service.map(str::to_owned));
    let read = move || {
        let newest = |service: &String| evidence_store::select_run(&state, &env, service, None).ok();
        match service.as_ref().and_then(newest) {
            Some(run) => read_stored_lines(&run, &query, range),
            None => Err(no_container_failure(&state, &env, service.as_deref())?),
        }
    };
    blocking_io::read(read).await
}

/// Stored lines of a failed run. They are redacted.
pub(crate) fn read_stored_lines(
    run: &StoredRun,
    query: &LogQuery,
    range: TimeRange,
) -> Result<LogsResponse, Failure> {
    let mut lines = run.read_lines()?;
    lines.retain(|line| range.contains(split_stamp(&line.format(true)).0));
    let tail = query.tail.and_then(|tail| usize::try_from(tail).ok());
    let skipped = tail.map_or(0, |tail| lines.len().saturating_sub(tail));
    let format = |line: &Line| LogLine {
        stderr: line.stderr,
        text: line.format(query.timestamps),
    };
    let items = lines[skipped..].iter().map(format);
    Ok(LogsResponse {
        items: items
            .map(|line| LogEntry::new(&run.facts.service, line))
            .collect(),
        run: Some(run.facts.run.run),
    })
}

/// Failure of a request to containers that do not exist.
pub(crate) fn no_container_failure(
    state: &StateDir,
    env: &str,
    service: Option<&str>,
) -> Result<Failure, Failure> {
    let of = service.map_or_else(|| env.to_owned(), |service| format!("{env}/{service}"));
    let known = status::read_environment(state, env)?;
    let mut message = format!("`{of}` has no container");
    if let Some(known) = known.as_ref().filter(|_| !status::is_alive(state)) {
        message = format!(
            "{message}; its status of {} is stale, because the controller is not running",
            known.as_of
        );
    }
    let hint = match known {
        Some(_) => format!("list its services with `argus get {env}`"),
        None => status::hint_for_unknown(state, env),
    };
    Ok(Failure::with_reason(Reason::NotFound, message)
        .with_exit(Exit::Unexpected)
        .with_hint(hint))
}

/// Place where the ids of containers are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContainerLookup {
    /// The status file, else the engine.
    Status,
    /// The engine alone, after the container in the status file was replaced.
    Engine,
}

/// Containers to read: from the status file, else by their labels on the engine. There can be none.
pub(crate) async fn find_sources(
    docker: &Docker,
    state: &StateDir,
    env: &str,
    service: Option<&str>,
    lookup: ContainerLookup,
) -> Result<Sources, Failure> {
    let (there, of, only) = (state.clone(), env.to_owned(), service.map(str::to_owned));
    let mut sources = blocking_io::read(move || {
        Ok(Sources {
            all: match lookup {
                ContainerLookup::Status => sources_from_status(&there, &of, only.as_deref())?,
                ContainerLookup::Engine => Vec::new(),
            },
            secrets: read_secrets(&there, Some(&of)),
        })
    })
    .await?;
    if sources.all.is_empty() {
        sources.all = sources_from_labels(&EngineObserver::open(docker, None).await?.store, env, service);
    }
    Ok(sources)
}

/// Secrets of an environment or of all, as far as the user may read the saved specs.
pub(crate) fn read_secrets(state: &StateDir, env: Option<&str>) -> Secrets {
    let stored: PersistedSpecs = status::read_or_default(&state.specs_json());
    let persisted: PersistedState = status::read_or_default(&state.state_json());
    // A fork has no file, and a rollback runs an earlier revision with the secrets of that time.
    let overrides = &persisted.overrides;
    let rollbacks = overrides.rollbacks.values().map(|rollback| &rollback.to);
    let earlier = overrides.known_good.values().flatten().chain(rollbacks);
    let stored_in_state = overrides.forks.values().chain(earlier).map(Arc::as_ref);
    let mut secrets = Secrets::default();
    for accepted in stored.accepted.values().chain(stored_in_state) {
        if env.is_none_or(|env| accepted.desired.env.as_str() == env) {
            secrets.join(&accepted.desired.secret_values());
        }
    }
    secrets
}

/// Containers in the status file.
pub(crate) fn sources_from_status(
    state: &StateDir,
    env: &str,
    service: Option<&str>,
) -> Result<Vec<LogSource>, Failure> {
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
pub(crate) fn sources_from_labels(store: &Store, env: &str, service: Option<&str>) -> Vec<LogSource> {
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
