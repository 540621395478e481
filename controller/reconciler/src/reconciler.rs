//! The reconciler: the one task that owns the brain. Every wake is the same turn; its reason is only logged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_backend::Backend;
use argus_core::brain::{Brain, Inputs};
use argus_core::connectivity::Book;
use argus_core::ident::EnvName;
use argus_core::lease::Leases;
use argus_core::memory::{EnvMemory, Memory};
use argus_core::observed::World;
use argus_core::plan::Plan;
use argus_core::preflight::Survey;
use argus_core::probe::HealthBook;
use argus_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Stopwatch};
use crate::gated::Openings;
use crate::handle::Request;
use crate::hands::{Finished, Hands, Reader};
use crate::history::chronicle::{Chronicle, Looked};
use crate::history::journal::Health;
use crate::keeper::Written;
use crate::outlook::Outlook;
use crate::specs::SpecBook;
use crate::supervise::Pulse;
use crate::wishes::{self, Desires, Wishes};

mod commands;

use commands::Unkept;

/// However soon the brain wants to be woken, others get a chance before.
const SHORTEST: Duration = Duration::from_millis(10);

/// What of the memory outlives the process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Remembered {
    /// Sticky ports and counters.
    pub environments: BTreeMap<EnvName, EnvMemory>,
    /// What people asked for.
    #[serde(flatten)]
    pub wishes: Wishes,
    /// How many commands were taken in so far; each of them is answered when this is on disk.
    #[serde(skip)]
    pub commands: u64,
}

/// The facts that the reconciler listens to.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) specs: watch::Receiver<Arc<SpecBook>>,
    pub(crate) worlds: watch::Receiver<Arc<World>>,
    pub(crate) healths: watch::Receiver<Arc<HealthBook>>,
    pub(crate) journal: watch::Receiver<Health>,
    pub(crate) leases: watch::Receiver<Leases>,
    pub(crate) surveys: watch::Receiver<Arc<Survey>>,
    pub(crate) links: watch::Receiver<Arc<Book>>,
    pub(crate) commands: mpsc::Receiver<Request>,
    pub(crate) written: watch::Receiver<Option<Written<Remembered>>>,
}

/// What the reconciler tells.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) desires: watch::Sender<Arc<Desires>>,
    pub(crate) outlooks: watch::Sender<Arc<Outlook>>,
    pub(crate) remembered: watch::Sender<Remembered>,
    pub(crate) openings: watch::Sender<Openings>,
    /// A look at engine and disk is wanted.
    pub(crate) survey: Arc<Notify>,
    /// The loop goes round.
    pub(crate) pulse: Pulse,
}

/// The reconciler with all that it owns.
pub(crate) struct Reconciler<B> {
    brain: Brain,
    backend: Arc<B>,
    hands: Hands<B>,
    board: Reader,
    clock: Clock,
    facts: Facts,
    wishes: Wishes,
    plans: Arc<BTreeMap<EnvName, Arc<Plan>>>,
    told: Told,
    circuits_version: u64,
    commands: u64,
    unkept: Vec<Unkept>,
    chronicle: Chronicle,
}

#[derive(Debug)]
enum Wake {
    Stop,
    Specs,
    World,
    Health,
    Leases,
    Survey,
    Links,
    Pulse,
    Progress,
    Written,
    Journal,
    Timer,
    Act(Box<Finished>),
    Command(Option<Request>),
}

impl<B: Backend> Reconciler<B> {
    pub(crate) fn new(
        brain: Brain,
        backend: Arc<B>,
        hands: Hands<B>,
        clock: Clock,
        facts: Facts,
        told: Told,
        chronicle: Chronicle,
    ) -> Self {
        let (board, wishes) = (hands.board(), told.remembered.borrow().wishes.clone());
        let plans = Arc::default();
        Self {
            brain,
            backend,
            hands,
            board,
            clock,
            facts,
            wishes,
            plans,
            told,
            circuits_version: 0,
            commands: 0,
            unkept: Vec::new(),
            chronicle,
        }
    }

    /// Reconciles until it is stopped, then waits for the acts in flight, but not longer than `grace`.
    pub(crate) async fn run(mut self, stop: CancellationToken, grace: Duration) {
        let mut wake_at = self.turn("start");
        loop {
            let wake = self.wake(&stop, wake_at).await;
            self.told.pulse.beat();
            let why = match wake {
                Wake::Stop => break,
                Wake::Specs => "specs",
                Wake::World => "world",
                Wake::Health => "health",
                Wake::Leases => "leases",
                Wake::Survey => "survey",
                Wake::Links => "links",
                Wake::Timer => "timer",
                Wake::Journal => "journal",
                Wake::Progress => {
                    self.publish();
                    continue;
                }
                Wake::Written => {
                    self.answer();
                    continue;
                }
                Wake::Act(finished) => {
                    self.take_in(&finished);
                    "act"
                }
                Wake::Command(Some(request)) => {
                    self.obey(request);
                    "command"
                }
                // Every handle is gone: nobody is left to command, the work goes on.
                Wake::Pulse | Wake::Command(None) => continue,
            };
            wake_at = self.turn(why);
        }
        self.finish(grace).await;
    }

    async fn wake(&mut self, stop: &CancellationToken, wake_at: Option<Timestamp>) -> Wake {
        let soonest = self.clock.now() + SHORTEST;
        let wake_at = wake_at.map(|at| at.max(soonest));
        let facts = &mut self.facts;
        // A publisher that is gone was stopped, or is being restarted with the same channel: no wake.
        tokio::select! {
            biased;
            () = stop.cancelled() => Wake::Stop,
            finished = self.hands.finished() => Wake::Act(Box::new(finished)),
            Some(request) = facts.commands.recv() => Wake::Command(Some(request)),
            Ok(()) = facts.specs.changed() => Wake::Specs,
            Ok(()) = facts.worlds.changed() => Wake::World,
            Ok(()) = facts.healths.changed() => Wake::Health,
            Ok(()) = facts.journal.changed() => Wake::Journal,
            Ok(()) = facts.leases.changed() => Wake::Leases,
            Ok(()) = facts.surveys.changed() => Wake::Survey,
            Ok(()) = facts.links.changed() => Wake::Links,
            () = self.told.pulse.asked() => Wake::Pulse,
            Ok(()) = self.board.changed() => Wake::Progress,
            Ok(()) = facts.written.changed() => Wake::Written,
            () = self.clock.sleep_until(wake_at) => Wake::Timer,
            else => Wake::Command(None),
        }
    }

    fn turn(&mut self, why: &'static str) -> Option<Timestamp> {
        let watch = Stopwatch::start();
        let wake_at = self.look(why);
        self.chronicle.turned(why, watch.seconds());
        wake_at
    }

    /// One look at everything, the acts that follow from it, and the outlook for the others.
    fn look(&mut self, why: &'static str) -> Option<Timestamp> {
        let specs = self.facts.specs.borrow_and_update().clone();
        let world = self.facts.worlds.borrow_and_update().clone();
        let health = self.facts.healths.borrow_and_update().clone();
        let leases = self.facts.leases.borrow_and_update().clone();
        let survey = self.facts.surveys.borrow_and_update().clone();
        let links = self.facts.links.borrow_and_update().clone();
        self.brain.take_links(&links);
        let now = self.clock.now();
        self.wishes.lift(&specs, now);
        let facts = wishes::Facts {
            specs: &specs,
            world: &world,
            memory: self.brain.memory(),
            now,
        };
        let due = [self.wishes.roll_back_by_itself(facts), self.wishes.expire(facts)];
        let standing = self.wishes.standing(&specs);
        let desired = standing.as_ref().unwrap_or(&specs.environments);
        self.told.desires.send_if_modified(|told| {
            let differs = **told != *desired;
            if differs {
                self.hands.learn(desired);
                *told = Arc::new(desired.clone());
            }
            differs
        });
        let looked = Looked {
            specs: &specs,
            world: &world,
            desired,
            memory: self.brain.memory(),
            site: self.brain.site(),
            now,
        };
        self.chronicle.recover(&looked);
        let mut orders = self.wishes.orders.clone();
        orders.bans = self.chronicle.bans(&looked);
        orders.expired.clone_from(&self.wishes.expired);
        let span = tracing::debug_span!("turn", why, now = now.0);
        let turn = span.in_scope(|| {
            self.brain.turn(&Inputs {
                specs: desired,
                scanned: specs.scanned,
                world: &world,
                health: &health,
                leases: &leases,
                orders: &orders,
                survey: Some(&survey),
                now,
            })
        });
        let proven = self.wishes.learn(
            desired,
            wishes::Facts {
                specs: &specs,
                world: &world,
                memory: self.brain.memory(),
                now,
            },
        );
        self.tell_openings();
        for step in turn.begin {
            let planned_for = self.brain.memory().in_flight.get(&step.subject);
            if let Some(env) = planned_for.map(|flying| flying.environment.clone()) {
                self.hands.begin(&env, step);
            }
        }
        if turn.look_again {
            self.backend.look_again();
        }
        if turn.survey {
            // A permit is kept until somebody takes it, and many permits are one.
            self.told.survey.notify_one();
        }
        if *self.plans != turn.plans {
            self.plans = Arc::new(turn.plans);
        }
        self.publish();
        self.remember();
        let wakes = [turn.wake_at, self.wishes.orders.next_end(now), proven];
        wakes.into_iter().chain(due).flatten().min()
    }

    fn take_in(&mut self, finished: &Finished) {
        let world = self.facts.worlds.borrow().clone();
        self.brain
            .finished(&finished.step, &finished.outcome, &world, self.clock.now());
        self.tell_openings();
    }

    /// The gate hears of an opening before anything else is handed out, or let through.
    fn tell_openings(&mut self) {
        let memory = self.brain.memory();
        if std::mem::replace(&mut self.circuits_version, memory.circuits.version())
            != memory.circuits.version()
        {
            let openings = Openings::of(&memory.circuits, memory.environments.keys());
            self.told.openings.send_replace(openings);
        }
    }

    fn publish(&mut self) {
        let last = self.told.outlooks.borrow().clone();
        let specs = self.facts.specs.borrow().clone();
        let world = self.facts.worlds.borrow().clone();
        let progress = self.board.read();
        let mut outlook = Outlook {
            as_of: self.clock.now(),
            mode: last.mode,
            trouble: self.chronicle.trouble(),
            site: last.site.clone(),
            specs,
            world,
            health: self.facts.healths.borrow().clone(),
            survey: self.facts.surveys.borrow().clone(),
            links: self.facts.links.borrow().clone(),
            plans: self.plans.clone(),
            memory: shared(&last.memory, self.brain.memory()),
            progress: shared(&last.progress, &progress),
            desired: self.told.desires.borrow().clone(),
            wishes: shared(&last.wishes, &self.wishes),
        };
        outlook.mode = outlook.facts().mode();
        self.chronicle.mode(&outlook);
        if !outlook.says_the_same_as(&last) {
            self.told.outlooks.send_replace(Arc::new(outlook));
        }
    }

    fn remember(&self) {
        let Memory { environments, .. } = self.brain.memory();
        self.told.remembered.send_if_modified(|kept| {
            let differs = kept.environments != *environments
                || kept.wishes != self.wishes
                || kept.commands != self.commands;
            if differs {
                *kept = Remembered {
                    environments: environments.clone(),
                    wishes: self.wishes.clone(),
                    commands: self.commands,
                };
            }
            differs
        });
    }

    async fn finish(&mut self, grace: Duration) {
        self.hands.abandon_heavy();
        let all = async {
            while self.hands.in_flight() > 0 {
                let finished = self.hands.finished().await;
                let world = self.facts.worlds.borrow().clone();
                self.brain
                    .finished(&finished.step, &finished.outcome, &world, self.clock.now());
            }
        };
        if tokio::time::timeout(grace, all).await.is_err() {
            tracing::warn!(
                acts = self.hands.in_flight(),
                "acts in flight are left to the engine"
            );
        }
        self.publish();
        self.remember();
        self.chronicle.stopped();
    }
}

/// The last one where it is equal, so that readers see at a glance that nothing changed.
fn shared<T: Clone + PartialEq>(last: &Arc<T>, now: &T) -> Arc<T> {
    if **last == *now {
        last.clone()
    } else {
        Arc::new(now.clone())
    }
}
