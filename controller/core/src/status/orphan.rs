//! Orphans of dead controllers in the status files.

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::Orphan as OrphanStatus;
use serde_json::json;

use crate::action::Subject;
use crate::ident::EnvName;
use crate::labels::ObjectLabels;
use crate::observed::{Observed, Store};
use crate::plan::Plan;
use crate::plan::orphan::{Orphan, OrphanDecision, OrphanKind, decide_orphan};

use crate::outcome::one_line;

/// Orphans of a plan.
pub fn orphans(plan: &Plan) -> Vec<OrphanStatus> {
    let is_confirmed = |orphan: &&Orphan| !matches!(orphan.decision, OrphanDecision::Unconfirmed { .. });
    plan.orphans
        .iter()
        .filter(is_confirmed)
        .map(orphan_status)
        .collect()
}

/// Objects of an environment that is not desired: orphans, and this controller's own objects on the way to removal.
pub fn remaining_objects(env: &EnvName, plan: &Plan, store: &Store) -> Vec<OrphanStatus> {
    let mut all = orphans(plan);
    let Some(observed) = store.of(env) else {
        return all;
    };
    let steps = plan
        .steps
        .iter()
        .map(|step| (&step.subject, OrphanDecision::Removing));
    let waits = plan
        .waits
        .iter()
        .map(|wait| (&wait.subject, decide_orphan(&wait.on)));
    for (subject, decision) in steps.chain(waits) {
        let Some(orphan) = own_object(observed, subject, decision) else {
            continue;
        };
        if !all.iter().any(|known| known.id == orphan.id) {
            all.push(orphan_status(&orphan));
        }
    }
    all
}

/// Own object on the way to removal, in the form of an orphan.
fn own_object(observed: &Observed, subject: &Subject, decision: OrphanDecision) -> Option<Orphan> {
    let one = |kind, id: &str, name: &str, owner: ObjectLabels, created_at| Orphan {
        kind,
        id: id.to_owned(),
        name: name.to_owned(),
        environment: owner.environment.to_string(),
        project: owner.project,
        controller: owner.controller,
        run: owner.run,
        created_at,
        decision,
    };
    match subject {
        Subject::ExtraContainer { id } => {
            let object = observed.containers.get(id)?;
            Some(one(
                OrphanKind::Container,
                id.as_str(),
                &object.name,
                object.owner()?,
                Some(object.created_at),
            ))
        }
        Subject::ExtraNetwork { id } => {
            let object = observed.networks.get(id)?;
            Some(one(
                OrphanKind::Network,
                id.as_str(),
                &object.name,
                object.owner()?,
                Some(object.created_at),
            ))
        }
        Subject::Volume { name, .. } => {
            let object = observed.volumes.get(name.as_str())?;
            Some(one(
                OrphanKind::Volume,
                &object.name,
                &object.name,
                object.owner()?,
                object.created_at(),
            ))
        }
        Subject::Service { .. } | Subject::Network { .. } | Subject::Image { .. } => None,
    }
}

fn orphan_status(orphan: &Orphan) -> OrphanStatus {
    let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let (result, message) = decision_text(&orphan.decision);
    OrphanStatus {
        kind: orphan.kind.word().to_owned(),
        id: orphan.id.clone(),
        name: orphan.name.clone(),
        project: text(&orphan.project),
        environment: text(&orphan.environment),
        controller: text(&orphan.controller),
        run_id: text(&orphan.run),
        created_at: orphan.created_at.map(|at| at.to_string()),
        other_folder: orphan.decision == OrphanDecision::KeptVolume { is_foreign: true },
        result: result.to_owned(),
        message,
    }
}

fn decision_text(decision: &OrphanDecision) -> (&'static str, Option<String>) {
    let some_text = |message: &str| Some(message.to_owned());
    match decision {
        OrphanDecision::Removing => ("removing", None),
        OrphanDecision::Failed { failure } => {
            let why = one_line(&failure.error.to_string());
            ("failed", Some(format!("`{}` failed: {why}", failure.verb)))
        }
        OrphanDecision::InUse { containers } => {
            let why = format!("it is in use by {containers}, which Argus does not remove");
            ("failed", Some(why))
        }
        OrphanDecision::Unconfirmed { .. } | OrphanDecision::TooNew { .. } => {
            ("waiting", some_text("it is younger than its grace period"))
        }
        OrphanDecision::OtherProject => (
            "reported",
            some_text("this controller has no spec of its project"),
        ),
        OrphanDecision::ReportOnly => (
            "reported",
            some_text("`resilience.preflight.cleanOrphans` is false in its project"),
        ),
        OrphanDecision::KeptVolume { is_foreign: false } => (
            OrphanStatus::KEPT,
            some_text("it has data of a removed environment; `--clean --volumes` removes it"),
        ),
        // No command: an agent that reads the list must not remove the data of another project.
        OrphanDecision::KeptVolume { is_foreign: true } => (
            OrphanStatus::KEPT,
            some_text("it has data of the project in another folder"),
        ),
    }
}

/// `ORPHAN_DETECTED` for orphans that need a person, and `CLEANUP_FAILED` for each failed removal.
pub fn orphan_errors(orphans: &[OrphanStatus]) -> Vec<StructuredError> {
    let reported: Vec<&OrphanStatus> = orphans
        .iter()
        .filter(|orphan| orphan.result == "reported")
        .collect();
    let failed = orphans.iter().filter(|orphan| orphan.result == "failed");
    let mut errors = Vec::new();
    if !reported.is_empty() {
        let message = format!("{} left by dead controllers", count(&reported));
        errors.push(
            StructuredError::new(Code::OrphanDetected, message).details(json!({ "orphans": reported })),
        );
    }
    errors.extend(failed.map(|orphan| {
        let why = orphan.message.as_deref().unwrap_or_default();
        let message = format!("cannot remove {} `{}`: {why}", orphan.kind, orphan.name);
        StructuredError::new(Code::CleanupFailed, message).details(json!({ "orphan": orphan }))
    }));
    errors
}

fn count(orphans: &[&OrphanStatus]) -> String {
    let of = |kind: &str| orphans.iter().filter(|orphan| orphan.kind == kind).count();
    let words = ["container", "network", "volume"].map(|kind| (of(kind), kind));
    let counts = words
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| match count {
            1 => format!("1 {kind}"),
            many => format!("{many} {kind}s"),
        });
    counts.collect::<Vec<_>>().join(", ")
}
