//! Check runs of this process, with or without a repair in between.

use argus_core::desired::PreflightSettings;
use argus_core::preflight::{PreflightFacts, evaluate, report};
use argus_crds::status::{CheckName, PreflightBefore, PreflightReport};
use argus_reconciler::clock;

use crate::exit::Failure;
use crate::settings::Settings;

use super::facts::FactCollector;
use super::fix;

/// Runs all checks except those in `skip`. With `fix`, removes orphans and runs the checks again.
pub(crate) async fn run_checks(
    settings: &Settings,
    skip: &[CheckName],
    fix: bool,
) -> Result<PreflightReport, Failure> {
    let started = clock::now();
    let collector = FactCollector::new(settings).await?;
    let run_checks = |facts: &PreflightFacts, policy: &PreflightSettings| {
        let now = clock::now();
        report(evaluate(facts, policy, skip, now), now)
    };
    let (facts, policy) = Box::pin(collector.gather_facts()).await;
    let mut found = run_checks(&facts, &policy);
    if fix && !skip.contains(&CheckName::Orphans) {
        let fixed = fix::remove_orphans(settings, &facts).await?;
        if !fixed.is_empty() {
            let (facts, policy) = Box::pin(collector.gather_facts()).await;
            let before = found;
            found = PreflightReport {
                before: Some(PreflightBefore {
                    overall: before.overall,
                    checks: before.checks,
                    as_of: before.as_of,
                }),
                fixed,
                ..run_checks(&facts, &policy)
            };
        }
    }
    found.took_ms = u64::try_from(clock::now().since(started).as_millis()).ok();
    Ok(found)
}
