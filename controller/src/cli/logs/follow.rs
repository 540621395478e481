//! `argus logs --follow`: the lines of all runs of a service, of an environment or of all, each once.
//!
//! The watch of the engine shows the containers, and [`Progress`] decides which log is opened and which lines are new. A
//! lost engine is a pause. The status files show the two ends that the engine does not know: a completed service, and a
//! removed environment.

use std::collections::BTreeSet;
use std::time::Duration;

use argus_backend::{Backend as _, LogLine, LogQuery};
use argus_core::ident::ContainerId;
use argus_core::outcome::ActionError;
use argus_docker::Docker;
use argus_reconciler::clock;
use futures::stream::{self, BoxStream, SelectAll, StreamExt as _};

use super::end::{End, Scope, StatusFacts, find_end, read_facts};
use super::progress::{Border, ContainerView, Opening, Progress};
use super::{Logs, find_single, mention_stored_run, print_line};
use crate::api::logs::sources::{Sources, no_container_failure, read_last_run};
use crate::api::logs::time_range::{Stamp, TimeRange, split_stamp};
use crate::client::ControllerClient;
use crate::engine;
use crate::engine::observer::{EngineLink, EngineObserver};
use crate::local_state::status;
use crate::process::exit::Failure;
use crate::render::output;
use crate::render::output::Format;
use crate::settings::Settings;

/// Time between the end of a stream and the next attempt to read the same run.
const REOPEN_DELAY: Duration = Duration::from_secs(1);

/// Next item of a log.
enum Item {
    Line(LogLine),
    End(Option<ActionError>),
    /// [`REOPEN_DELAY`] after the end.
    Delay,
}

struct Follower<'a> {
    scope: &'a Scope,
    client: ControllerClient,
    docker: Docker,
    observer: EngineObserver,
    query: LogQuery,
    range: TimeRange,
    format: Option<Format>,
    progress: Progress,
    lines: SelectAll<BoxStream<'static, (ContainerId, Item)>>,
    sources: Sources,
    facts: StatusFacts,
    /// The first logs are opened. `--tail` counts only for them.
    is_started: bool,
    /// A followed environment or container exists or existed.
    has_seen: bool,
}

/// Prints the lines as they arrive, until nothing more can follow.
pub(super) async fn follow(
    settings: &Settings,
    scope: &Scope,
    logs: &Logs,
    range: TimeRange,
    format: Option<Format>,
) -> Result<(), Failure> {
    let docker = engine::connect_docker(settings).await?;
    let client = ControllerClient::for_command(settings.clone());
    let mut changes = client.watch_statuses();
    let only = scope
        .environment
        .as_deref()
        .map(status::parse_environment)
        .transpose()?;
    let only = only.map(|env| BTreeSet::from([env]));
    let mut observer = EngineObserver::open(&docker, only).await?;
    observer.inspect().await?;
    let mut follower = Follower {
        scope,
        client,
        docker,
        observer,
        query: logs.query(),
        range,
        format,
        progress: Progress::default(),
        lines: SelectAll::new(),
        sources: Sources::only_secrets(&settings.state, scope.environment.as_deref()),
        facts: StatusFacts::default(),
        is_started: false,
        has_seen: false,
    };
    follower.start(logs).await?;
    let until = range.until.map(|until| until.timestamp().since(clock::now()));
    // All lines of a past time exist: the logs are read to their end.
    let is_past = until.is_some_and(|left| left.is_zero());
    follower.query.follow &= !is_past;
    let end = async {
        match until.filter(|_| !is_past) {
            Some(left) => tokio::time::sleep(left + REOPEN_DELAY).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(end);
    let mut has_changed = true;
    loop {
        if std::mem::take(&mut has_changed) {
            if is_past && follower.is_started && !follower.progress.is_reading() {
                return Ok(());
            }
            follower.update().await?;
            if let Some(end) = follower.find_end() {
                follower.print_end(&end);
                return Ok(());
            }
        }
        tokio::select! {
            Some((id, item)) = follower.lines.next() => has_changed = follower.on_item(&id, item)?,
            link = follower.observer.next_change() => {
                follower.on_link(link?);
                has_changed = true;
            }
            () = changes.changed() => has_changed = true,
            () = &mut end => return Ok(()),
        }
    }
}

impl Follower<'_> {
    /// Fails for an unknown service, and prints the stored lines of one without a container.
    async fn start(&mut self, logs: &Logs) -> Result<(), Failure> {
        self.update().await?;
        let Some(env) = self.scope.environment.as_deref() else {
            return Ok(());
        };
        let service = find_single(&self.scope.services);
        let state = self.client.state().clone();
        let containers = self.containers();
        if let Some(service) = service {
            let current = containers.first().map(|container| &container.id);
            if current.is_some() {
                mention_stored_run(&state, env, service, current);
                return Ok(());
            }
            if let Ok(stored) =
                read_last_run(&state, env, Some(service), self.query.clone(), self.range).await
            {
                logs.print_stored_run(env, service, &stored)?;
                self.has_seen = true;
                return Ok(());
            }
        }
        let can_follow = self.facts.is_alive && !self.facts.states.is_empty();
        if containers.is_empty() && !can_follow {
            return Err(no_container_failure(&state, env, service)?);
        }
        Ok(())
    }

    /// Reads the status files, and opens the logs that are due.
    async fn update(&mut self) -> Result<(), Failure> {
        let scope = self.scope.clone();
        let read = move |client: &ControllerClient| read_facts(client, &scope);
        self.facts = self.client.run_blocking(read).await?;
        // The objects from before an outage are not those of now.
        if !self.observer.store.is_synced() {
            return Ok(());
        }
        let containers = self.containers();
        self.has_seen |= !containers.is_empty() || !self.facts.environments.is_empty();
        self.progress.forget_missing(&containers);
        let openings = self.progress.open_due(&containers);
        if !openings.is_empty() {
            let env = self.scope.environment.clone();
            let read =
                move |client: &ControllerClient| Ok(Sources::only_secrets(client.state(), env.as_deref()));
            self.sources = self.client.run_blocking(read).await?;
        }
        for opening in openings {
            self.lines.push(self.open(opening));
        }
        self.is_started = true;
        Ok(())
    }

    fn open(&self, opening: Opening) -> BoxStream<'static, (ContainerId, Item)> {
        let Opening { id, since } = opening;
        let query = LogQuery {
            timestamps: true,
            tail: self.query.tail.filter(|_| !self.is_started && since.is_none()),
            since: since.or(self.range.since.map(Stamp::timestamp)),
            ..self.query.clone()
        };
        let lines = self.docker.logs(&id, query).map(|line| match line {
            Ok(line) => Item::Line(line),
            Err(error) => Item::End(Some(error)),
        });
        // The stream ends with its first error.
        let mut has_ended = false;
        let end = stream::once(async { Item::End(None) });
        let items = lines.chain(end).take_while(move |item| {
            let is_over = std::mem::replace(&mut has_ended, matches!(item, Item::End(_)));
            std::future::ready(!is_over)
        });
        let delay = stream::once(async {
            tokio::time::sleep(REOPEN_DELAY).await;
            Item::Delay
        });
        items.chain(delay).map(move |item| (id.clone(), item)).boxed()
    }

    /// Containers of the scope, in the order of their starts.
    fn containers(&self) -> Vec<ContainerView> {
        let view = |container: &std::sync::Arc<argus_core::observed::Container>| {
            let owner = container.owner()?;
            let (env, service) = (owner.environment.as_str(), owner.service?);
            let service = service.as_str();
            let is_of_env = match &self.scope.environment {
                Some(only) => only == env,
                None => self.facts.environments.contains(env),
            };
            if !is_of_env || !self.scope.has_service(service) {
                return None;
            }
            let name = match &self.scope.environment {
                Some(_) => service.to_owned(),
                None => format!("{env}/{service}"),
            };
            Some(ContainerView {
                id: container.id.clone(),
                name,
                is_up: container.state.is_up(),
                started_at: container.inspect.as_ref().and_then(|inspect| inspect.started_at),
            })
        };
        let mut containers: Vec<_> = self.observer.store.containers().filter_map(view).collect();
        containers.sort_by_key(|container| container.started_at);
        containers
    }

    /// Handles an item of a log. Returns true if the state of the log has changed.
    fn on_item(&mut self, id: &ContainerId, item: Item) -> Result<bool, Failure> {
        match item {
            Item::Line(line) => {
                self.on_line(id, line)?;
                return Ok(false);
            }
            Item::Delay => self.progress.on_delay(id),
            Item::End(None) => {
                let border = self.progress.on_end(id, true);
                self.print_border(border);
            }
            Item::End(Some(ActionError::Gone)) => {
                let border = self.progress.on_gone(id);
                self.print_border(border);
            }
            Item::End(Some(
                ActionError::Unreachable(_)
                | ActionError::ConnectionLost(_)
                | ActionError::TimedOut(_)
                | ActionError::Unknown(_)
                | ActionError::Busy(_)
                | ActionError::Engine(_),
            )) => {
                self.progress.on_end(id, false);
            }
            Item::End(Some(error)) => return Err(engine::engine_failure("cannot read logs", &error)),
        }
        Ok(true)
    }

    fn on_line(&mut self, id: &ContainerId, line: LogLine) -> Result<(), Failure> {
        let (stamp, _) = split_stamp(&line.text);
        let is_first = self.progress.is_first_line(id, line.stderr);
        let Ok(border) = self.progress.on_line(id, line.stderr, stamp) else {
            return Ok(());
        };
        if !self.range.contains(stamp) {
            return Ok(());
        }
        self.print_border(border);
        let mut line = self.sources.redact(line, is_first);
        if !self.query.timestamps {
            line.text = String::from(split_stamp(&line.text).1);
        }
        let width = (self.scope.services.len() != 1).then(|| self.progress.width());
        print_line(self.progress.name(id), width, line, self.format)
    }

    fn print_border(&self, border: Option<Border>) {
        let Some(border) = border else { return };
        let name = match &self.scope.environment {
            Some(env) => format!("{env}/{}", border.name),
            None => border.name,
        };
        let replaced = border.replaced.map_or_else(String::new, |id| {
            format!(", which replaces `{:.12}`", id.as_str())
        });
        output::print_note(&format!(
            "note: new run of `{name}`, started at {} in container `{:.12}`{replaced}",
            border.started_at,
            border.id.as_str()
        ));
    }

    #[allow(clippy::unused_self, reason = "all handlers of events are methods")]
    fn on_link(&self, link: EngineLink) {
        match link {
            EngineLink::Unchanged => {}
            EngineLink::Lost(reason) => {
                output::print_note(&format!("note: the engine does not answer: {reason}"));
            }
            EngineLink::Restored => output::print_note("note: the engine answers again"),
        }
    }

    /// Returns why nothing more can follow.
    fn find_end(&self) -> Option<End> {
        if !self.observer.store.is_synced() || self.progress.is_reading() || !self.has_seen {
            return None;
        }
        let containers = self.containers();
        if containers.iter().any(|container| container.is_up) {
            return None;
        }
        let is_all = self.scope.environment.is_none();
        find_end(&self.facts, containers.is_empty(), is_all)
    }

    fn print_end(&self, end: &End) {
        let Scope {
            environment,
            services,
        } = self.scope;
        let of = match environment {
            Some(env) if services.is_empty() => format!("`{env}`"),
            Some(env) => {
                let names = services.iter().map(|service| format!("`{env}/{service}`"));
                names.collect::<Vec<_>>().join(", ")
            }
            None => "the environments".to_owned(),
        };
        let (were, have) = if environment.is_some() && services.len() < 2 {
            ("was", "has")
        } else {
            ("were", "have")
        };
        let text = match end {
            End::Removed => format!("{of} {were} removed"),
            End::Completed => format!("{of} {have} completed"),
            End::NoController => {
                format!("no container of {of} runs, and the controller is not running; the status is stale")
            }
        };
        output::print_note(&format!("note: {text}"));
    }
}
