//! An engine for the tests of the tasks around it: what it sees and answers is given to it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use argus_backend::{About, Backend, ExecResult, LogLine, LogQuery, Progress};
use argus_core::connectivity::{Aim, Seen};
use argus_core::ident::ContainerId;
use argus_core::lease::{Lease, Note};
use argus_core::observed::Sighting;
use argus_core::outcome::{ActError, Done};
use argus_core::plan::Act;
use argus_core::preflight::Ground;
use futures::StreamExt;
use futures::stream::BoxStream;

/// How it answers an act.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    /// With success, after this long.
    After(Duration),
    /// Never.
    Never,
    /// With a panic.
    Panic,
}

pub(crate) struct Fake {
    sightings: Mutex<Option<BoxStream<'static, Sighting>>>,
    pub(crate) answers: BTreeMap<&'static str, Answer>,
    /// Exit codes of exec probes, the last one for ever; a negative one is a call that cannot be made.
    pub(crate) exits: Mutex<Vec<i64>>,
    /// What a look from a container shows of everything; without an entry all is well.
    pub(crate) seen_from: Mutex<BTreeMap<String, Result<Seen, ActError>>>,
    /// Looks that reached the engine.
    pub(crate) looks: AtomicUsize,
    /// What a survey of it shows.
    pub(crate) ground: Mutex<Ground>,
    acting: AtomicUsize,
    pub(crate) most: AtomicUsize,
    /// Acts that reached the engine.
    pub(crate) acts: AtomicUsize,
}

impl Fake {
    /// An engine on which nothing is.
    pub(crate) fn empty() -> Self {
        let list = [
            Sighting::Found(crate::clock::now()),
            Sighting::ListBegan,
            Sighting::ListDone,
        ];
        Self::seeing(
            futures::stream::iter(list)
                .chain(futures::stream::pending())
                .boxed(),
        )
    }

    /// An engine that is seen like this.
    pub(crate) fn seeing(sightings: BoxStream<'static, Sighting>) -> Self {
        Self {
            sightings: Mutex::new(Some(sightings)),
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

impl Backend for Fake {
    fn watch(&self) -> BoxStream<'static, Sighting> {
        self.sightings.lock().unwrap().take().unwrap()
    }

    fn look_again(&self) {}

    fn reconnect(&self) {}

    async fn act(&self, act: &Act, progress: &dyn Progress) -> Result<Done, ActError> {
        let now = self.acting.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        self.acts.fetch_add(1, Ordering::SeqCst);
        progress.say("begun");
        let answer = self
            .answers
            .get(act.verb())
            .copied()
            .unwrap_or(Answer::After(Duration::ZERO));
        match answer {
            Answer::After(time) => tokio::time::sleep(time).await,
            Answer::Never => std::future::pending().await,
            Answer::Panic => panic!("no way"),
        }
        progress.say("ended");
        self.acting.fetch_sub(1, Ordering::SeqCst);
        Ok(Done::Ok)
    }

    fn logs(&self, _: &ContainerId, _: LogQuery) -> BoxStream<'static, Result<LogLine, ActError>> {
        futures::stream::empty().boxed()
    }

    async fn exec(&self, _: &ContainerId, _: &[String]) -> Result<ExecResult, ActError> {
        let mut exits = self.exits.lock().unwrap();
        let exit_code = if exits.len() > 1 {
            exits.remove(0)
        } else {
            exits.first().copied().unwrap_or(0)
        };
        if exit_code < 0 {
            return Err(ActError::Unreachable("nobody listens".to_owned()));
        }
        Ok(ExecResult {
            exit_code,
            output: "said".to_owned(),
        })
    }

    async fn look_from(&self, source: &ContainerId, aims: &[Aim]) -> Result<Vec<Seen>, ActError> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        let seen = self.seen_from.lock().unwrap().clone();
        let answer = seen
            .get(source.as_str())
            .cloned()
            .unwrap_or_else(|| Ok(Seen::default()));
        Ok(vec![answer?; aims.len()])
    }

    async fn leases(&self) -> Result<Vec<Lease>, ActError> {
        Ok(Vec::new())
    }

    async fn renew_lease(&self, note: &Note) -> Result<Vec<Lease>, ActError> {
        let now = crate::clock::now();
        let (name, note) = (note.run.clone(), note.clone());
        Ok(vec![Lease {
            name,
            note,
            made_at: now,
            renewed_at: now,
        }])
    }

    async fn release_lease(&self, _: &str) -> Result<(), ActError> {
        Ok(())
    }

    async fn survey(&self) -> Ground {
        self.ground.lock().unwrap().clone()
    }

    async fn about(&self) -> Result<About, ActError> {
        Ok(About::default())
    }
}
