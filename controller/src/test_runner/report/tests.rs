//! Tests of reports: verdicts, attributions, and the files for CI systems.

use argus_core::ident::{EnvName, ServiceName};
use argus_core::state::{Disruption, FailureOrigin, Interruption, Originator};
use argus_core::test_results::HistoryLimits;
use argus_crds::error::Code;
use argus_suite::{CaseResult, Failure as CaseFailure};

use super::*;
use crate::process::exit::Exit;

/// Disruption of `db` in the first second.
fn disruption(cause: Interruption, attribution: argus_core::state::Attribution) -> Disruption {
    Disruption {
        case: "smoke".to_owned(),
        service: ServiceName::new("db").unwrap(),
        number: None,
        at: Timestamp(500),
        cause,
        attribution,
        suspected: false,
        by: Some(Originator::OtherClient),
    }
}

fn killed() -> Disruption {
    disruption(Interruption::Stop, argus_core::state::Attribution::Infrastructure)
}

fn crashed() -> Disruption {
    disruption(Interruption::Exit, argus_core::state::Attribution::Service)
}

fn with(code: i32, suite: Option<RunReport>, disruptions: Vec<Disruption>) -> Attempt {
    let during = TestReport {
        environment: EnvName::new("shop").unwrap(),
        case: "smoke".to_owned(),
        started: String::new(),
        ended: String::new(),
        lease_ended_at: None,
        verified: true,
        unverified: None,
        restart_count: disruptions.len(),
        restarts: Vec::new(),
        disruptions,
    };
    let attempt = Attempt {
        exit_code: suite.is_none().then_some(code),
        signal: None,
        revision: None,
        ports: BTreeMap::new(),
        timed_out: false,
        started: Timestamp(0),
        duration: Duration::from_millis(1_500),
        is_confirmation: false,
        during: None,
        attributions: Vec::new(),
        tails: (String::new(), "assertion failed: hunter22".to_owned()),
        suite,
    };
    let secrets: Secrets = serde_json::from_str(r#"["hunter22"]"#).unwrap();
    attempt.complete("smoke", Some(during), &secrets)
}

/// An attempt with this exit code, with or without a failure of infrastructure.
pub(in crate::test_runner) fn attempt(code: i32, disrupted: bool) -> Attempt {
    with(code, None, if disrupted { vec![killed()] } else { Vec::new() })
}

fn confirmation(attempt: Attempt) -> Attempt {
    Attempt {
        is_confirmation: true,
        ..attempt
    }
}

fn case(name: &str, line: usize, result: Verdict, started: i64) -> CaseResult {
    let failed = result == Verdict::Failed;
    CaseResult {
        name: name.to_owned(),
        line,
        result,
        reason: (result == Verdict::Skipped).then(|| "an earlier case of the suite failed".to_owned()),
        attempts: 1,
        started: Timestamp(started),
        duration: Duration::from_millis(200),
        failures: failed
            .then(|| CaseFailure::new("status", "expected `status` to be `200`, got `<none>`"))
            .into_iter()
            .collect(),
        exchange: None,
    }
}

fn suite(cases: &[CaseResult], disruptions: Vec<Disruption>) -> Attempt {
    let suite = RunReport {
        cases: cases.to_vec(),
        notes: Vec::new(),
    };
    with(0, Some(suite), disruptions)
}

fn report(suites: Vec<Outcome>) -> Report {
    Report {
        environment: "shop".to_owned(),
        revision: Some("abc".to_owned()),
        started: Timestamp(0),
        duration: Duration::from_secs(3),
        port_mappings: Vec::new(),
        interrupted: false,
        suites,
        ended_by: None,
    }
}

/// Orders: `list` failed during a crash, and `pay` was skipped. Both passed in the confirmation, except `pay`.
fn orders() -> Outcome {
    let first = suite(
        &[
            case("create", 3, Verdict::Passed, 0),
            case("list", 7, Verdict::Failed, 600),
            case("pay", 9, Verdict::Skipped, 800),
        ],
        vec![crashed()],
    );
    let second = suite(
        &[
            case("list", 7, Verdict::Passed, 2_000),
            case("pay", 9, Verdict::Failed, 2_200),
        ],
        Vec::new(),
    );
    Outcome {
        file: Some("orders.yaml".to_owned()),
        ..Outcome::from_attempts("orders", vec![first, confirmation(second)])
    }
}

#[test]
fn late_pass_is_flaky_unless_disrupted() {
    let of = |attempts: &[Attempt]| {
        let outcome = Outcome::from_attempts("smoke", attempts.to_vec());
        (outcome.result, outcome.flaky, outcome.unconfirmed.is_some())
    };
    let (passed, failed) = (TestVerdict::Passed, TestVerdict::Failed);
    let (good, bad, disrupted) = (attempt(0, false), attempt(1, false), attempt(1, true));
    assert_eq!(of(std::slice::from_ref(&good)), (passed, false, false));
    assert_eq!(of(&[bad.clone(), good.clone()]), (passed, true, false));
    assert_eq!(of(&[disrupted.clone(), good.clone()]), (passed, false, false));
    assert_eq!(of(&[with(1, None, vec![crashed()]), good]), (passed, true, false));
    assert_eq!(of(std::slice::from_ref(&bad)), (failed, false, false));
    assert_eq!(of(&[]), (failed, false, false));
    // A confirmed failure is a verdict, and a disrupted one is none.
    assert_eq!(
        of(&[disrupted.clone(), confirmation(bad)]),
        (failed, false, false)
    );
    assert_eq!(of(std::slice::from_ref(&disrupted)), (failed, false, true));
    assert_eq!(
        of(&[disrupted.clone(), confirmation(disrupted)]),
        (failed, false, true)
    );
}

#[test]
fn failed_case_is_attributed_to_its_own_disruption() {
    let attempt = suite(
        &[
            case("early", 3, Verdict::Failed, 0),
            case("during", 4, Verdict::Failed, 400),
            case("late", 5, Verdict::Passed, 900),
        ],
        vec![crashed()],
    );
    let found: Vec<_> = attempt
        .attributions
        .iter()
        .map(|found| (found.case.as_str(), found.attribution.origin))
        .collect();
    assert_eq!(
        found,
        [("early", FailureOrigin::Test), ("during", FailureOrigin::Service)]
    );
    assert!(attempt.needs_confirmation() && !attempt.is_excused());
    let json = serde_json::to_value(&attempt).unwrap();
    assert_eq!(json["attributions"][1]["attribution"], "service", "{json:#}");
    let evidence = &json["attributions"][1]["evidence"][0];
    assert_eq!(
        (&evidence["code"], &evidence["service"]),
        (&"CONTAINER_CRASH".into(), &"db".into())
    );
}

#[test]
fn failed_suites_give_one_error_with_output() {
    let good = Outcome::from_attempts("unit", vec![attempt(0, false)]);
    assert!(report(vec![good.clone()]).to_error().is_none());
    let mut failing = report(vec![
        good,
        Outcome::from_attempts("smoke", vec![attempt(3, true), confirmation(attempt(3, false))]),
        Outcome::skipped("old", "it has no `command`".to_owned()),
    ]);
    let error = failing.to_error().unwrap();
    assert_eq!(error.code, Code::TestsFailed);
    assert_eq!(
        error.message,
        "1 of 2 suites failed on `shop`: `smoke` (exit code 3)"
    );
    assert_eq!(error.exit_code, Some(3));
    assert_eq!(error.stderr_tail.as_deref(), Some("assertion failed: [redacted]"));
    assert_eq!(error.revision.as_deref(), Some("abc"));
    assert_eq!(error.service.as_deref(), Some("db"));
    assert_eq!(error.details["restartsDuringRun"], 1);
    assert_eq!(exit(&mut failing), 1);
}

#[test]
fn refused_hosts_are_in_the_hint_of_the_error() {
    let refused = |name: &str, line, address: &str| CaseResult {
        failures: vec![CaseFailure {
            code: Some(Code::PolicyViolation),
            address: Some(address.to_owned()),
            ..CaseFailure::new("request", "refused")
        }],
        ..case(name, line, Verdict::Failed, 0)
    };
    let cases = [
        refused("one", 1, "a.example:80"),
        refused("two", 2, "10.0.0.1:22"),
        refused("again", 3, "a.example:80"),
        case("other", 4, Verdict::Failed, 0),
    ];
    let mut report = report(vec![Outcome::from_attempts(
        "orders",
        vec![suite(&cases, Vec::new())],
    )]);
    assert_eq!(exit(&mut report), 1);
    let error = report.verdict(false).err().map(Failure::into_error).unwrap();
    assert_eq!(error.code, Code::TestsFailed);
    assert_eq!(
        error.details["hint"],
        "use published ports in the suites; `--allow-test-hosts` allows hosts that you trust; the suites named `a.example:80`, `10.0.0.1:22`"
    );
    let failure = &serde_json::to_value(&report.suites).unwrap()[0]["attempts"][0]["cases"][0]["failures"][0];
    assert_eq!(failure["code"], "POLICY_VIOLATION");
    assert_eq!(failure["address"], "a.example:80");
}

/// Exit code of a verdict.
fn exit(report: &mut Report) -> u8 {
    match report.verdict(false) {
        Ok(exit) | Err(Failure::Error { exit, .. }) => exit.number(),
        Err(Failure::BrokenPipe) => 0,
    }
}

#[test]
fn exit_code_of_infrastructure_needs_a_missing_verdict() {
    let disrupted = || Outcome::from_attempts("smoke", vec![attempt(1, true)]);
    assert_eq!(
        exit(&mut report(vec![disrupted()])),
        Exit::Infrastructure.number()
    );
    let failed = Outcome::from_attempts("unit", vec![attempt(1, false)]);
    assert_eq!(exit(&mut report(vec![disrupted(), failed])), 1);
    let skipped = || Outcome::skipped("old", "it has no `command`".to_owned());
    let passed = || Outcome::from_attempts("unit", vec![attempt(0, false)]);
    assert_eq!(exit(&mut report(vec![passed()])), 0);
    assert_eq!(exit(&mut report(vec![passed(), skipped()])), 1);
    let failure = report(vec![skipped()]).verdict(true).unwrap_err();
    assert_eq!(failure.code(), Some(Code::PrereqMissing));
    let mut interrupted = report(vec![passed()]);
    interrupted.interrupted = true;
    assert_eq!(exit(&mut interrupted), 130);
}

#[test]
fn junit_report_has_both_runs_of_a_case() {
    let report = report(vec![
        orders(),
        Outcome::from_attempts("smoke", vec![attempt(3, true)]),
        Outcome::skipped("old", "it has no `command`".to_owned()),
        Outcome::rejected("bad", "cannot read `bad.yaml`".to_owned()),
    ]);
    let xml = report.to_junit().unwrap();
    junit::tests::check(&xml);
    assert_eq!(
        xml,
        r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="shop" tests="6" failures="1" errors="2" time="3.000">
    <testsuite name="orders" tests="3" skipped="0" errors="0" failures="1" time="3.000" file="orders.yaml">
        <properties>
            <property name="restarts" value="1"/>
        </properties>
        <testcase name="create" classname="orders" time="0.200"/>
        <testcase name="list" classname="orders" time="0.200">
            <flakyFailure message="expected `status` to be `200`, got `&lt;none&gt;`" type="service">  failed list (orders.yaml:7)
    expected `status` to be `200`, got `&lt;none&gt;`
attribution: service (db CONTAINER_CRASH)
</flakyFailure>
        </testcase>
        <testcase name="pay" classname="orders" time="0.200">
            <failure message="expected `status` to be `200`, got `&lt;none&gt;`" type="test">  failed pay (orders.yaml:9)
    expected `status` to be `200`, got `&lt;none&gt;`
</failure>
        </testcase>
    </testsuite>
    <testsuite name="smoke" tests="1" skipped="0" errors="1" failures="0" time="1.500">
        <properties>
            <property name="restarts" value="1"/>
        </properties>
        <testcase name="smoke" classname="smoke" time="1.500">
            <error message="infrastructure disrupted the attempt, and nothing confirmed it" type="infrastructure">assertion failed: [redacted]
attribution: infrastructure (db: another client of the engine stopped or killed it)
</error>
        </testcase>
    </testsuite>
    <testsuite name="old" tests="1" skipped="1" errors="0" failures="0" time="0.000">
        <properties>
            <property name="restarts" value="0"/>
        </properties>
        <testcase name="old" classname="old" time="0.000">
            <skipped message="it has no `command`"/>
        </testcase>
    </testsuite>
    <testsuite name="bad" tests="1" skipped="0" errors="1" failures="0" time="0.000">
        <properties>
            <property name="restarts" value="0"/>
        </properties>
        <testcase name="bad" classname="bad" time="0.000">
            <error message="cannot read `bad.yaml`"/>
        </testcase>
    </testsuite>
</testsuites>
"#
    );
}

#[test]
fn summary_has_a_table_and_the_failures() {
    let mut unit = Outcome::from_attempts("unit", vec![attempt(0, false)]);
    unit.worker = Some("shop-w1".to_owned());
    let report = report(vec![
        orders(),
        Outcome::from_attempts("a|b", vec![attempt(3, true)]),
        unit,
        Outcome::rejected("bad", "cannot read `bad.yaml`".to_owned()),
    ]);
    assert_eq!(
        report.to_summary(""),
        r"## Tests of `shop`

4 suites: 1 passed, 3 failed, 0 skipped

| suite | result | cases | attribution | restarts | time |
|---|---|---|---|---|---|
| orders | failed | 2 of 3 passed | test | 1 | 3.0 s |
| a\|b | no verdict | 0 of 1 passed | infrastructure | 1 | 1.5 s |
| unit | passed | 1 of 1 passed |  | 0 | 1.5 s on shop-w1 |
| bad | failed | 0 of 1 passed |  | 0 | 0.0 s |

## Failures

- **orders: list** (`orders.yaml:7`): expected `status` to be `200`, got `&lt;none>`; attribution: service (db CONTAINER_CRASH); repeated
- **orders: pay** (`orders.yaml:9`): expected `status` to be `200`, got `&lt;none>`; attribution: test
- **a\|b**: exit code 3; attribution: infrastructure (db: another client of the engine stopped or killed it)
- **bad**: cannot read `bad.yaml`
"
    );
}

#[test]
fn recorded_results_contain_only_verdicts() {
    let disrupted = Outcome::from_attempts("smoke", vec![attempt(3, true)]);
    let skipped = Outcome::skipped("old", "it has no `command`".to_owned());
    let limits = HistoryLimits {
        max_runs: 1,
        max_age: Duration::from_secs(1),
        flaky_window: 1,
    };
    let run = report(vec![orders(), disrupted, skipped]).to_run(Timestamp(7), limits);
    let text = |suite: &argus_core::test_results::SuiteRun| {
        let cases = suite
            .cases
            .iter()
            .map(|(name, verdict)| format!("{name} {}", verdict.name()));
        let cases: Vec<_> = cases.collect();
        format!("{} {}: {}", suite.name, suite.result.name(), cases.join(", "))
    };
    let suites: Vec<_> = run.suites.iter().map(text).collect();
    assert_eq!(
        suites,
        [
            "orders failed: create passed, list passed, pay failed",
            "smoke skipped: smoke skipped",
        ]
    );
}

/// A report with these texts in all places.
fn report_of(texts: &[String]) -> Report {
    let mut texts = texts.iter().cycle().cloned();
    let mut text = || texts.next().unwrap_or_default();
    let mut outcome = orders();
    outcome.name = text();
    outcome.file = Some(text());
    outcome.worker = Some(text());
    for attempt in &mut outcome.attempts {
        for case in attempt.suite.iter_mut().flat_map(|suite| &mut suite.cases) {
            case.name = text();
            case.reason = case.reason.as_ref().map(|_| text());
            case.failures = case
                .failures
                .iter()
                .map(|_| CaseFailure::new("status", text()))
                .collect();
        }
    }
    let mut command = Outcome::from_attempts(
        &text(),
        vec![attempt(3, true), attempt(1, false), attempt(0, false)],
    );
    command.unconfirmed = Some(text());
    for attempt in &mut command.attempts {
        attempt.tails = (text(), text());
    }
    let mut failed = Outcome::from_attempts(&text(), vec![attempt(3, true)]);
    failed.unconfirmed = Some(text());
    failed.attempts[0].tails = (text(), text());
    Report {
        environment: text(),
        ..report(vec![
            outcome,
            command,
            failed,
            Outcome::skipped(&text(), text()),
            Outcome::rejected(&text(), text()),
        ])
    }
}

proptest::proptest! {
    #[test]
    fn junit_is_well_formed_for_every_text(
        texts in proptest::collection::vec("(\\PC|[\\x00-\\x9f\u{2028}\u{fffe}\u{ffff}\u{fdd0}<>&\"']|\\]\\]>){0,12}", 1..8)
    ) {
        let xml = report_of(&texts).to_junit().unwrap();
        junit::tests::check_characters(&xml);
        junit::tests::check(&xml);
        assert!(!xml.contains(|c: char| c != '\n' && c != '\t' && crate::render::foreign_text::is_deceptive(c)), "{xml:?}");
    }
}

#[test]
fn characters_that_xml_does_not_permit_are_codes() {
    let texts = ["a\0b\u{1b}[31mc\u{8}\u{fffe}\u{ffff}]]>d".to_owned()];
    let xml = report_of(&texts).to_junit().unwrap();
    let shown = "a\\u{0}bc\\u{8}\\u{fffe}\\u{ffff}]]&gt;d";
    assert!(xml.matches(shown).count() > 20, "{xml}");
    let summary = report_of(&texts).to_summary("");
    let rows = summary.lines().filter(|line| line.starts_with("- **"));
    let shown = "- **a\\\\u{0}bc\\\\u{8}\\\\u{fffe}\\\\u{ffff}]]>d**";
    assert!(rows.clone().all(|row| row.starts_with(shown)), "{summary}");
    assert_eq!(rows.count(), 6, "{summary}");
}
