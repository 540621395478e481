//! Fake engine for the tests of the tasks: the tests set its watch events and replies.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use argus_backend::{Backend, EngineInfo, ExecResult, LogLine, LogQuery, Progress};
use argus_core::action::Action;
use argus_core::connectivity::{LinkSource, Target, TargetResult};
use argus_core::ident::ContainerId;
use argus_core::labels::{ENVIRONMENT, MANAGED, SERVICE};
use argus_core::lease::{ControllerLease, LeaseSpec};
use argus_core::observed::{Attachment, Container, ContainerState, InspectInfo, Object, WatchEvent};
use argus_core::outcome::{ActionError, Done};
use argus_core::preflight::HostFacts;
use argus_core::time::Timestamp;
use futures::StreamExt;
use futures::stream::BoxStream;

/// Reply of the fake to an action.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FakeReply {
    /// Success after this time.
    After(Duration),
    /// No reply.
    Never,
    /// A panic.
    Panic,
}

pub(crate) struct FakeBackend {
    events: Mutex<Option<BoxStream<'static, WatchEvent>>>,
    pub(crate) replies: BTreeMap<&'static str, FakeReply>,
    /// Exit codes of exec probes; the last one repeats. A negative code stands for a call that fails.
    pub(crate) exit_codes: Mutex<Vec<i64>>,
    /// Logs of all containers, one per request; empty logs afterwards.
    pub(crate) logs: Mutex<VecDeque<BoxStream<'static, Result<LogLine, ActionError>>>>,
    /// Result of all targets of a connectivity check, by source container or network; without an entry all links work.
    pub(crate) link_results: Mutex<BTreeMap<String, Result<TargetResult, ActionError>>>,
    /// True if an inspect shows that no container runs any more.
    pub(crate) is_ended: AtomicBool,
    /// Number of inspects.
    pub(crate) inspects: AtomicUsize,
    /// Number of connectivity checks that reached the engine.
    pub(crate) check_count: AtomicUsize,
    /// Host facts that the fake returns.
    pub(crate) host_facts: Mutex<HostFacts>,
    in_flight: AtomicUsize,
    pub(crate) max_in_flight: AtomicUsize,
    /// Number of actions that reached the engine.
    pub(crate) actions: AtomicUsize,
}

impl FakeBackend {
    /// Creates an engine without objects.
    pub(crate) fn empty() -> Self {
        let list = [
            WatchEvent::Connected(crate::clock::now()),
            WatchEvent::Init,
            WatchEvent::InitDone,
        ];
        Self::with_events(
            futures::stream::iter(list)
                .chain(futures::stream::pending())
                .boxed(),
        )
    }

    /// Creates an engine with these watch events.
    pub(crate) fn with_events(events: BoxStream<'static, WatchEvent>) -> Self {
        Self {
            events: Mutex::new(Some(events)),
            replies: BTreeMap::new(),
            exit_codes: Mutex::default(),
            logs: Mutex::default(),
            link_results: Mutex::default(),
            is_ended: AtomicBool::new(false),
            inspects: AtomicUsize::new(0),
            check_count: AtomicUsize::new(0),
            host_facts: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            max_in_flight: AtomicUsize::new(0),
            actions: AtomicUsize::new(0),
        }
    }
}

impl Backend for FakeBackend {
    fn watch(&self) -> BoxStream<'static, WatchEvent> {
        self.events.lock().unwrap().take().unwrap()
    }

    fn request_relist(&self) {}

    fn reconnect(&self) {}

    fn keep_images(&self, _: BTreeSet<String>) {}

    async fn execute(&self, action: &Action, progress: &dyn Progress) -> Result<Done, ActionError> {
        let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.max_in_flight.fetch_max(now, Ordering::SeqCst);
        self.actions.fetch_add(1, Ordering::SeqCst);
        progress.report_step("started".to_owned().into());
        let reply = self
            .replies
            .get(action.verb())
            .copied()
            .unwrap_or(FakeReply::After(Duration::ZERO));
        match reply {
            FakeReply::After(time) => tokio::time::sleep(time).await,
            FakeReply::Never => std::future::pending().await,
            FakeReply::Panic => panic!("no way"),
        }
        progress.report_step("ended".to_owned().into());
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        Ok(Done::Applied)
    }

    fn logs(&self, _: &ContainerId, _: LogQuery) -> BoxStream<'static, Result<LogLine, ActionError>> {
        let next = self.logs.lock().unwrap().pop_front();
        next.unwrap_or_else(|| futures::stream::empty().boxed())
    }

    async fn exec(&self, _: &ContainerId, _: &[String], _: Duration) -> Result<ExecResult, ActionError> {
        let mut exit_codes = self.exit_codes.lock().unwrap();
        let exit_code = if exit_codes.len() > 1 {
            exit_codes.remove(0)
        } else {
            exit_codes.first().copied().unwrap_or(0)
        };
        if exit_code < 0 {
            return Err(ActionError::Unreachable("connection refused".to_owned()));
        }
        Ok(ExecResult {
            exit_code: Some(exit_code),
            output: "output".to_owned(),
        })
    }

    async fn is_run_intact(&self, _: &ContainerId, _: Option<Timestamp>) -> Result<bool, ActionError> {
        self.inspects.fetch_add(1, Ordering::SeqCst);
        Ok(!self.is_ended.load(Ordering::SeqCst))
    }

    async fn check_links(
        &self,
        source: &LinkSource,
        targets: &[Target],
    ) -> Result<Vec<TargetResult>, ActionError> {
        self.check_count.fetch_add(1, Ordering::SeqCst);
        let results = self.link_results.lock().unwrap().clone();
        let source = match source {
            LinkSource::Container(id) => id.as_str(),
            LinkSource::Network { network, .. } => network.as_str(),
        };
        let reply = results
            .get(source)
            .cloned()
            .unwrap_or_else(|| Ok(TargetResult::default()));
        Ok(vec![reply?; targets.len()])
    }

    async fn leases(&self) -> Result<Vec<ControllerLease>, ActionError> {
        Ok(Vec::new())
    }

    async fn renew_lease(&self, spec: &LeaseSpec) -> Result<Vec<ControllerLease>, ActionError> {
        let now = crate::clock::now();
        let (name, spec) = (spec.run.clone(), spec.clone());
        Ok(vec![ControllerLease {
            name,
            spec,
            created_at: now,
            renewed_at: now,
        }])
    }

    async fn release_lease(&self, _: &str) -> Result<(), ActionError> {
        Ok(())
    }

    async fn host_facts(&self) -> HostFacts {
        self.host_facts.lock().unwrap().clone()
    }

    async fn info(&self) -> Result<EngineInfo, ActionError> {
        Ok(EngineInfo::default())
    }
}

/// Container of a service in this state, on the network of its environment. Its last run started at this time.
pub(crate) fn container(
    env: &str,
    id: &str,
    service: &str,
    state: ContainerState,
    started_at: i64,
) -> Container {
    let labels = [(MANAGED, "true"), (ENVIRONMENT, env), (SERVICE, service)];
    let attachment = Attachment {
        network: None,
        aliases: Vec::new(),
        address: None,
    };
    let info = InspectInfo {
        started_at: Some(Timestamp(started_at)),
        ..InspectInfo::default()
    };
    Container {
        id: ContainerId::new(id).unwrap(),
        name: format!("{env}-{service}"),
        labels: labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        image: "nginx:1".to_owned(),
        state,
        created_at: Timestamp(1),
        networks: [(format!("argusai-{env}-network"), attachment)].into(),
        inspect: Some(info),
        stopped_by_other: None,
        oom_at: None,
    }
}

/// Event with the only container of an environment: its service `api`, running since this time.
pub(crate) fn run_of(env: &str, started_at: i64) -> WatchEvent {
    let run = container(env, env, "api", ContainerState::Running, started_at);
    WatchEvent::Apply(Object::Container(Arc::new(run)))
}
