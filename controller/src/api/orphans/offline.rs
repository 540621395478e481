//! Orphans without a controller: an [`OfflineController`] that executes only actions on orphans.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use argus_core::action::Step;
use argus_core::ident::EnvName;
use argus_core::observed::Store;
use argus_core::plan::ControllerIdentity;
use argus_core::plan::Plan;
use argus_core::reconcile::ReconcileResult;
use argus_core::status::{orphans, remaining_objects};
use argus_core::time::Timestamp;
use argus_core::user_requests::UserRequests;
use argus_crds::status::Orphan;
use argus_reconciler::clock::{self, Clock};
use argus_reconciler::identity;
use argus_reconciler::journal::CommandJournal;
use argus_reconciler::lock::Lock;
use argus_reconciler::reconciler::PersistedState;

use crate::api::orphans::{Clean, removal_results};
use crate::api::preflight::facts::{DesiredResult, read_desired};
use crate::engine;
use crate::engine::observer;
use crate::engine::observer::EngineObserver;
use crate::engine::offline::{Next, OfflineController, lock_state};
use crate::process::blocking_io;
use crate::process::exit::Failure;
use crate::settings::Settings;

/// Lists the orphans. With `clean`, removes them.
pub(crate) async fn list_or_clean(
    settings: &Settings,
    projects: &[String],
    clean: Option<Clean>,
) -> Result<Vec<Orphan>, Failure> {
    let now = clock::now();
    let run = identity::new_ulid(now);
    let state = settings.state.clone();
    let (own, there, me) = (settings.clone(), state.clone(), run.clone());
    // The lock is held until the end of the function.
    let (controller, held, persisted): (String, Option<(Lock, CommandJournal)>, PersistedState) =
        blocking_io::read(move || {
            let (controller, held) = match clean {
                Some(_) => {
                    let (controller, lock) = lock_state(&own, &me)?;
                    let journal = CommandJournal::open(&there, &me, Clock::system());
                    (controller, Some((lock, journal)))
                }
                None => (identity::peek(&there.identity()).unwrap_or_default(), None),
            };
            Ok((controller, held, PersistedState::peek(&there)))
        })
        .await?;
    let (_held, journal) = held.unzip();
    let wanted = read_desired(settings, &state, &controller, false).await;
    let identity = ControllerIdentity {
        controller,
        run,
        publish_address: settings.publish_address,
    };
    let docker = engine::connect_docker(settings).await?;
    let leases = observer::read_leases(&docker, &identity, &state).await?;
    let mut requests = UserRequests::default();
    if let Some(clean) = clean {
        let ours = wanted
            .iter()
            .flat_map(|wanted| wanted.values())
            .map(|accepted| accepted.desired.project.clone());
        let requested: Vec<String> = if projects.is_empty() {
            ours.collect()
        } else {
            projects.to_vec()
        };
        requests.request_orphan_removal(requested, clean.volumes, now + clean.limit);
    }
    let mut observer = EngineObserver::open(&docker, None).await?;
    // Only an inspect distinguishes labels of a container from those of its image.
    observer.inspect().await?;
    let mut offline = OfflineController::new(docker, identity, leases, observer, persisted);
    offline.requests = requests;
    offline.journal = journal;
    offline.specs = wanted.as_ref().cloned().unwrap_or_default();
    let Some(clean) = clean else {
        let pass = offline.reconcile();
        let found = find_orphans(&wanted, &pass, &offline.observer.store);
        return Ok(found.into_iter().map(as_reported).collect());
    };
    let mut removal = Removal {
        wanted: &wanted,
        deadline: clock::now() + clean.limit,
        seen: BTreeMap::new(),
    };
    offline
        .run(Some(removal.deadline), |pass, store, is_idle| {
            Ok(removal.decide(pass, store, is_idle))
        })
        .await
}

/// Selects the steps on orphans. Ends when each orphan is decided, or at the deadline.
struct Removal<'a> {
    wanted: &'a DesiredResult,
    deadline: Timestamp,
    seen: BTreeMap<(String, String), Orphan>,
}

impl Removal<'_> {
    fn decide(&mut self, pass: ReconcileResult, store: &Store, is_idle: bool) -> Next<Vec<Orphan>> {
        let now = find_orphans(self.wanted, &pass, store);
        for orphan in &now {
            self.seen
                .insert((orphan.kind.clone(), orphan.id.clone()), orphan.clone());
        }
        let steps: Vec<Step> = pass
            .steps
            .into_iter()
            .filter(|step| is_about(step, &now))
            .collect();
        let all_decided = now
            .iter()
            .all(|orphan| matches!(orphan.result.as_str(), "failed" | "reported" | Orphan::KEPT));
        if (is_idle && steps.is_empty() && all_decided) || clock::now() >= self.deadline {
            let seen = std::mem::take(&mut self.seen);
            return Next::Done(removal_results(seen.into_values().collect(), now));
        }
        Next::Execute(steps)
    }
}

/// Orphans of dead controllers. If the specs are readable, also leftovers of this controller.
fn find_orphans(wanted: &DesiredResult, pass: &ReconcileResult, store: &Store) -> Vec<Orphan> {
    let of = |(env, plan): (&EnvName, &Arc<Plan>)| match wanted {
        Ok(wanted) if !wanted.contains_key(env) => remaining_objects(env, plan, store),
        // Without readable specs, the environment may still be declared.
        Ok(_) | Err(_) => orphans(plan),
    };
    pass.plans.iter().flat_map(of).collect()
}

/// Without a running controller, `removing` becomes `reported`.
fn as_reported(orphan: Orphan) -> Orphan {
    if orphan.result != "removing" {
        return orphan;
    }
    Orphan {
        result: "reported".to_owned(),
        message: Some("no controller is running, remove it with `argus orphans --clean`".to_owned()),
        ..orphan
    }
}

/// Returns true if a step concerns one of the orphans. Other steps are left to controllers.
fn is_about(step: &Step, orphans: &[Orphan]) -> bool {
    let ids: BTreeSet<&str> = orphans.iter().map(|orphan| orphan.id.as_str()).collect();
    step.subject.orphan_id().is_some_and(|id| ids.contains(id))
}
