//! Check runs of this process, with or without a repair in between.

use argus_core::desired::PreflightSettings;
use argus_core::preflight::{PreflightFacts, evaluate, report};
use argus_crds::status::{CheckName, PreflightBefore, PreflightCheck, PreflightReport};
use argus_reconciler::clock;

use crate::process::exit::Failure;
use crate::settings::Settings;

use super::facts::FactCollector;
use super::fix;

/// Receives the results of a round of checks as soon as the round ends.
pub(crate) type OnChecked<'a> = &'a mut (dyn FnMut(&[PreflightCheck]) + Send);

/// Runs all checks except those in `skip`. With `fix`, removes orphans and runs the checks again. With `starts`, environments that are taken
/// down count too, because the command is about to start them.
pub(crate) async fn run_checks(
    settings: &Settings,
    skip: &[CheckName],
    fix: bool,
    starts: bool,
    on_checked: OnChecked<'_>,
) -> Result<PreflightReport, Failure> {
    let started = clock::now();
    let collector = FactCollector::new(settings).await?.before_start(starts);
    let run_checks = |facts: &PreflightFacts, policy: &PreflightSettings| {
        let now = clock::now();
        report(evaluate(facts, policy, skip, now), now)
    };
    let (facts, policy) = Box::pin(collector.gather_facts(skip)).await;
    let mut found = run_checks(&facts, &policy);
    on_checked(&found.checks);
    if fix && !skip.contains(&CheckName::Orphans) {
        let fixed = fix::remove_orphans(settings, &facts).await?;
        if !fixed.is_empty() {
            let (facts, policy) = Box::pin(collector.gather_facts(skip)).await;
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
            on_checked(&found.checks);
        }
    }
    found.took_ms = u64::try_from(clock::now().since(started).as_millis()).ok();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    use argus_backend::HOST_FACTS_TIMEOUT;
    use argus_core::time::Timestamp;
    use argus_crds::status::CheckResult;
    use argus_reconciler::clock::Clock;

    use super::*;
    use crate::settings::{Options, SpecOptions};

    #[tokio::test(start_paused = true)]
    async fn hanging_engine_ends_all_checks_at_their_limit() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, specs) = (dir.path().join("docker.sock"), dir.path().join("specs"));
        std::fs::create_dir(&specs).unwrap();
        // The kernel accepts connections, and no request gets a response.
        let _silent = UnixListener::bind(&socket).unwrap();
        let options = Options {
            state: Some(dir.path().join("state")),
            docker_host: Some(format!("unix://{}", socket.display())),
            ..Options::default()
        };
        let specs = SpecOptions {
            specs: Some(specs),
            ..SpecOptions::default()
        };
        let settings = Settings::resolve(&options, &specs).unwrap();
        let clock = Clock::virtual_from(Timestamp(0));
        let report = run_checks(&settings, &[], false, false, &mut |_| {})
            .await
            .unwrap();
        let took = clock.now().since(Timestamp(0));
        assert!(
            took >= HOST_FACTS_TIMEOUT && took < HOST_FACTS_TIMEOUT + Duration::from_secs(1),
            "{took:?}"
        );
        let engine = report.checks.iter().find(|check| check.name == CheckName::Engine);
        assert_eq!(engine.map(|check| &check.result), Some(&CheckResult::Fail));
    }
}
