//! Orphans of dead controllers in the status files.

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::Orphan as Told;
use serde_json::json;

use crate::ident::EnvName;
use crate::labels::Owner;
use crate::observed::{Observed, Store};
use crate::plan::orphan::{Orphan, OrphanDecision, OrphanKind, decide};
use crate::plan::{Plan, Subject};

use super::wait::one_line;

/// Orphans of a plan.
pub fn orphans(plan: &Plan) -> Vec<Told> {
    plan.orphans.iter().map(told).collect()
}

/// Objects of an environment that is not desired: orphans, and this controller's own objects on the way to removal.
pub fn leftovers(env: &EnvName, plan: &Plan, store: &Store) -> Vec<Told> {
    let mut all = orphans(plan);
    let Some(observed) = store.of(env) else {
        return all;
    };
    let steps = plan
        .steps
        .iter()
        .map(|step| (&step.subject, OrphanDecision::Removing));
    let waits = plan.waits.iter().map(|wait| (&wait.subject, decide(&wait.on)));
    for (subject, fate) in steps.chain(waits) {
        let Some(orphan) = own(observed, subject, fate) else {
            continue;
        };
        if !all.iter().any(|told| told.id == orphan.id) {
            all.push(told(&orphan));
        }
    }
    all
}

/// Own object on the way to removal, in the form of an orphan.
fn own(observed: &Observed, subject: &Subject, fate: OrphanDecision) -> Option<Orphan> {
    let one = |kind, id: &str, name: &str, owner: Owner, created_at| Orphan {
        kind,
        id: id.to_owned(),
        name: name.to_owned(),
        environment: owner.environment.to_string(),
        project: owner.project,
        controller: owner.controller,
        created_at,
        decision: fate,
    };
    match subject {
        Subject::ExtraContainer { id } => {
            let it = observed.containers.get(id)?;
            Some(one(
                OrphanKind::Container,
                id.as_str(),
                &it.name,
                it.owner()?,
                Some(it.created_at),
            ))
        }
        Subject::ExtraNetwork { id } => {
            let it = observed.networks.get(id)?;
            Some(one(
                OrphanKind::Network,
                id.as_str(),
                &it.name,
                it.owner()?,
                Some(it.created_at),
            ))
        }
        Subject::Volume { name, .. } => {
            let it = observed.volumes.get(name.as_str())?;
            Some(one(
                OrphanKind::Volume,
                &it.name,
                &it.name,
                it.owner()?,
                it.made_at(),
            ))
        }
        Subject::Service { .. } | Subject::Network { .. } | Subject::Image { .. } => None,
    }
}

fn told(orphan: &Orphan) -> Told {
    let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let (result, message) = in_words(&orphan.decision);
    Told {
        kind: orphan.kind.word().to_owned(),
        id: orphan.id.clone(),
        name: orphan.name.clone(),
        project: text(&orphan.project),
        environment: text(&orphan.environment),
        controller: text(&orphan.controller),
        created_at: orphan.created_at.map(|at| at.to_string()),
        result: result.to_owned(),
        message,
    }
}

fn in_words(fate: &OrphanDecision) -> (&'static str, Option<String>) {
    let said = |message: &str| Some(message.to_owned());
    match fate {
        OrphanDecision::Removing => ("removing", None),
        OrphanDecision::Failed { failure } => {
            let why = one_line(&failure.error.to_string());
            ("failed", Some(format!("`{}` failed: {why}", failure.verb)))
        }
        OrphanDecision::TooNew { .. } => ("waiting", said("it is younger than 30s")),
        OrphanDecision::OtherProject => ("reported", said("this controller has no spec of its project")),
        OrphanDecision::ReportOnly => (
            "reported",
            said("`resilience.preflight.cleanOrphans` is false in its project"),
        ),
        OrphanDecision::KeptVolume => (
            "reported",
            said("it was not created with `argus.deletion.volumes: Delete`"),
        ),
    }
}

/// `ORPHAN_DETECTED` for orphans that need a person, and `CLEANUP_FAILED` for each failed removal.
pub fn orphan_errors(orphans: &[Told]) -> Vec<StructuredError> {
    let reported: Vec<&Told> = orphans
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

fn count(orphans: &[&Told]) -> String {
    let of = |kind: &str| orphans.iter().filter(|orphan| orphan.kind == kind).count();
    let words = ["container", "network", "volume"].map(|kind| (of(kind), kind));
    let told = words
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| match count {
            1 => format!("1 {kind}"),
            many => format!("{many} {kind}s"),
        });
    told.collect::<Vec<_>>().join(", ")
}
