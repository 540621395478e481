//! Results of tests in the status, and the warning about flaky ones.

use std::collections::BTreeMap;

use argus_crds::error::Code;

use super::*;
use crate::test_results::{HistoryLimits, SuiteRun, TestRun, TestVerdict};

fn run(second: i64, verdict: TestVerdict) -> TestRun {
    TestRun {
        at: Timestamp(NOW.0 + second * 1000),
        revision: Some("r1".to_owned()),
        suites: vec![SuiteRun {
            name: "orders".to_owned(),
            digest: "d1".to_owned(),
            result: verdict,
            cases: BTreeMap::from([
                ("list swordfish".to_owned(), verdict),
                ("create".to_owned(), TestVerdict::Passed),
            ]),
        }],
        limits: HistoryLimits {
            max_runs: 10,
            max_age: Duration::from_secs(100),
            flaky_window: 10,
        },
    }
}

#[test]
fn status_has_the_last_results_and_a_flaky_test() {
    let mut shop = Shop::ready();
    let secrets = serde_json::json!(["swordfish"]);
    shop.accepted.as_mut().unwrap().desired.secrets = serde_json::from_value(secrets).unwrap();
    let env = shop.env.clone();
    shop.requests.record_tests(&env, run(1, TestVerdict::Passed));
    let status = shop.status();
    assert_eq!(status.test_results[0].result, "passed");
    assert!(status.errors.is_empty(), "{:#?}", status.errors);

    shop.requests.record_tests(&env, run(2, TestVerdict::Failed));
    let status = shop.status();
    let suite = &status.test_results[0];
    assert_eq!(
        (suite.suite.as_str(), suite.result.as_str()),
        ("orders", "failed")
    );
    assert_eq!(suite.failed_cases, ["list [redacted]"]);
    assert_eq!(suite.earlier[0].result, "passed");
    let error = &status.errors[0];
    assert_eq!(error.code, Code::FlakySuspected);
    assert_eq!(
        error.message,
        "the case `list [redacted]` of the suite `orders` failed in 1 of 2 runs without a change"
    );
    assert_eq!(status.phase, Phase::Ready);
    let advice = error.details["suggestions"].to_string();
    for change in ["isolate", "seed", "concurrency"] {
        assert!(advice.contains(change), "{change}: {advice}");
        assert!(
            error.remedies[0].summary.contains(change),
            "{:?}",
            error.remedies[0]
        );
    }
}
