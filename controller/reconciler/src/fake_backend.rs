//! An engine for the tests of the tasks around it: what it sees and answers is given to it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use argus_backend::{Backend, EngineInfo, ExecResult, LogLine, LogQuery, Progress};
use argus_core::connectivity::{Target, TargetResult};
use argus_core::ident::ContainerId;
use argus_core::lease::{ControllerLease, LeaseSpec};
use argus_core::observed::WatchEvent;
use argus_core::outcome::{ActionError, Done};
use argus_core::plan::Action;
use argus_core::preflight::HostFacts;
use futures::StreamExt;
use futures::stream::BoxStream;

/// How it answers an act.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FakeReply {
    /// With success, after this long.
    After(Duration),
    /// Never.
    Never,
    /// With a panic.
    Panic,
}

pub(crate) struct FakeBackend {
    events: Mutex<Option<BoxStream<'static, WatchEvent>>>,
    pub(crate) answers: BTreeMap<&'static str, FakeReply>,
    /// Exit codes of exec probes, the last one for ever; a negative one is a call that cannot be made.
    pub(crate) exits: Mutex<Vec<i64>>,
    /// What a look from a container shows of everything; without an entry all is well.
    pub(crate) seen_from: Mutex<BTreeMap<String, Result<TargetResult, ActionError>>>,
    /// Looks that reached the engine.
    pub(crate) looks: AtomicUsize,
    /// What a survey of it shows.
    pub(crate) ground: Mutex<HostFacts>,
    acting: AtomicUsize,
    pub(crate) most: AtomicUsize,
    /// Acts that reached the engine.
    pub(crate) acts: AtomicUsize,
}

impl FakeBackend {
    /// An engine on which nothing is.
    pub(crate) fn empty() -> Self {
        let list = [
            WatchEvent::Connected(crate::clock::now()),
            WatchEvent::Init,
            WatchEvent::InitDone,
        ];
        Self::seeing(
            futures::stream::iter(list)
                .chain(futures::stream::pending())
                .boxed(),
        )
    }

    /// An engine that is seen like this.
    pub(crate) fn seeing(events: BoxStream<'static, WatchEvent>) -> Self {
        Self {
            events: Mutex::new(Some(events)),
            answers: BTreeMap::new(),
            exits: Mutex::default(),
            seen_from: Mutex::default(),
            looks: AtomicUsize::new(0),
            ground: Mutex::default(),
            acting: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            acts: AtomicUsize::new(0),
        }
    }
}

impl Backend for FakeBackend {
    fn watch(&self) -> BoxStream<'static, WatchEvent> {
        self.events.lock().unwrap().take().unwrap()
    }

    fn request_relist(&self) {}

    fn reconnect(&self) {}

    async fn execute(&self, execute: &Action, progress: &dyn Progress) -> Result<Done, ActionError> {
        let now = self.acting.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        self.acts.fetch_add(1, Ordering::SeqCst);
        progress.report_line("begun");
        let answer = self
            .answers
            .get(execute.verb())
            .copied()
            .unwrap_or(FakeReply::After(Duration::ZERO));
        match answer {
            FakeReply::After(time) => tokio::time::sleep(time).await,
            FakeReply::Never => std::future::pending().await,
            FakeReply::Panic => panic!("no way"),
        }
        progress.report_line("ended");
        self.acting.fetch_sub(1, Ordering::SeqCst);
        Ok(Done::Ok)
    }

    fn logs(&self, _: &ContainerId, _: LogQuery) -> BoxStream<'static, Result<LogLine, ActionError>> {
        futures::stream::empty().boxed()
    }

    async fn exec(&self, _: &ContainerId, _: &[String]) -> Result<ExecResult, ActionError> {
        let mut exits = self.exits.lock().unwrap();
        let exit_code = if exits.len() > 1 {
            exits.remove(0)
        } else {
            exits.first().copied().unwrap_or(0)
        };
        if exit_code < 0 {
            return Err(ActionError::Unreachable("nobody listens".to_owned()));
        }
        Ok(ExecResult {
            exit_code,
            output: "said".to_owned(),
        })
    }

    async fn check_links(
        &self,
        source: &ContainerId,
        targets: &[Target],
    ) -> Result<Vec<TargetResult>, ActionError> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        let seen = self.seen_from.lock().unwrap().clone();
        let answer = seen
            .get(source.as_str())
            .cloned()
            .unwrap_or_else(|| Ok(TargetResult::default()));
        Ok(vec![answer?; targets.len()])
    }

    async fn leases(&self) -> Result<Vec<ControllerLease>, ActionError> {
        Ok(Vec::new())
    }

    async fn renew_lease(&self, note: &LeaseSpec) -> Result<Vec<ControllerLease>, ActionError> {
        let now = crate::clock::now();
        let (name, note) = (note.run.clone(), note.clone());
        Ok(vec![ControllerLease {
            name,
            spec: note,
            made_at: now,
            renewed_at: now,
        }])
    }

    async fn release_lease(&self, _: &str) -> Result<(), ActionError> {
        Ok(())
    }

    async fn host_facts(&self) -> HostFacts {
        self.ground.lock().unwrap().clone()
    }

    async fn info(&self) -> Result<EngineInfo, ActionError> {
        Ok(EngineInfo::default())
    }
}
