//! What dead controllers left, in the words of the status files.

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::Orphan as Told;
use serde_json::json;

use crate::plan::Plan;
use crate::plan::orphan::{Fate, Orphan};

use super::wait::one_line;

/// Everything of it in a plan.
pub fn orphans(plan: &Plan) -> Vec<Told> {
    plan.orphans.iter().map(told).collect()
}

fn told(orphan: &Orphan) -> Told {
    let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let (result, message) = fate(&orphan.fate);
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

fn fate(fate: &Fate) -> (&'static str, Option<String>) {
    let said = |message: &str| Some(message.to_owned());
    match fate {
        Fate::Going => ("removing", None),
        Fate::Failed { failure } => {
            let why = one_line(&failure.error.to_string());
            ("failed", Some(format!("`{}` failed: {why}", failure.verb)))
        }
        Fate::Young { .. } => ("waiting", said("it is younger than 30s")),
        Fate::OtherProject => ("reported", said("no spec of its project is held here")),
        Fate::ReportOnly => (
            "reported",
            said("`resilience.preflight.cleanOrphans` is false in its project"),
        ),
        Fate::KeptVolume => (
            "reported",
            said("it was not made with `argus.deletion.volumes: Delete`"),
        ),
    }
}

/// `ORPHAN_DETECTED` for what stays unless a person acts, `CLEANUP_FAILED` for each that could not be removed.
pub fn orphan_errors(orphans: &[Told]) -> Vec<StructuredError> {
    let reported: Vec<&Told> = orphans
        .iter()
        .filter(|orphan| orphan.result == "reported")
        .collect();
    let failed = orphans.iter().filter(|orphan| orphan.result == "failed");
    let mut errors = Vec::new();
    if !reported.is_empty() {
        let message = format!(
            "{} that nobody desires, of controllers that are dead",
            count(&reported)
        );
        errors.push(
            StructuredError::new(Code::OrphanDetected, message).details(json!({ "orphans": reported })),
        );
    }
    errors.extend(failed.map(|orphan| {
        let why = orphan.message.as_deref().unwrap_or_default();
        let message = format!("{} `{}` stays: {why}", orphan.kind, orphan.name);
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
