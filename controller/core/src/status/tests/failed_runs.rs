//! Errors of failed runs and of waits without an action, without secrets.

use argus_crds::error::{ActionId, StructuredError};
use argus_crds::{ProbeMethod, ProbeScheme};

use super::*;
use crate::desired::HttpOptions;
use crate::failed_run::{DependencyState, FailureCause};
use crate::lease::LeaseHolder;
use crate::outcome::Evidence;
use crate::status::error::unwritable;

/// Fixture whose service `db` ended `runs` times and then waits.
fn failed(runs: usize, on: WaitReason, change: impl Fn(&mut FailedRun)) -> Shop {
    let mut shop = Shop::ready();
    let secrets = serde_json::json!(["swordfish"]);
    shop.accepted.as_mut().unwrap().desired.secrets = serde_json::from_value(secrets).unwrap();
    shop.is("db", "d1", ContainerState::Exited);
    for _ in 0..runs {
        shop.add_failure("db", 3, false);
    }
    for failed_run in &mut shop.history.service_mut(&name("db")).failures {
        change(failed_run);
    }
    shop.add_wait("db", on);
    shop
}

fn error_of_db(shop: &Shop) -> StructuredError {
    let status = shop.status();
    let row = status.services.iter().find(|row| row.name == "db");
    row.unwrap().last_error.clone().unwrap()
}

#[test]
fn failure_that_an_edit_ended_before_names_the_edit() {
    let mut shop = failed(1, WaitReason::Halted { budgets: 3 }, |failed_run| {
        failed_run.evidence = Some(Evidence {
            stderr: vec!["no database shop".to_owned()],
            ..Evidence::default()
        });
    });
    assert_eq!(error_of_db(&shop).details.get("seenBefore"), None);
    let failed_run = &shop.history.service(&name("db")).unwrap().failures[0];
    shop.repairs = RepairMemory::of_failure("db", failed_run, "services.db.image");
    let seen = &error_of_db(&shop).details["seenBefore"];
    assert_eq!(
        (&seen["times"], &seen["lastRepair"]["keys"][0]),
        (&1.into(), &"services.db.image".into())
    );
}

#[test]
fn halted_service_names_its_repeated_failure() {
    let shop = failed(2, WaitReason::Halted { budgets: 3 }, |failed_run| {
        failed_run.evidence = Some(Evidence {
            stdout: vec!["starting".to_owned()],
            stderr: vec!["cannot log in as swordfish 17 times".to_owned()],
            network_diagnostics: [("tcp 10.1.0.2:5432".to_owned(), "connection refused".to_owned())].into(),
            ..Evidence::default()
        });
    });
    let error = error_of_db(&shop);
    assert_eq!(error.code, Code::LoopHalted);
    assert_eq!(
        error.message,
        "failed in the same way in 3 restart budgets in a row: cannot log in as [redacted] 17 times"
    );
    assert_eq!(error.details["crashLoop"], true);
    assert_eq!(
        error.details["fingerprint"]["line"],
        "cannot log in as [redacted] # times"
    );
    let attempts = error.details["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    assert_eq!(
        attempts[0]["probeAnswers"]["tcp 10.1.0.2:5432"],
        "connection refused"
    );
    assert_eq!(error.stdout_tail.as_deref(), Some("starting"));
    assert_eq!(
        error.stderr_tail.as_deref(),
        Some("cannot log in as [redacted] 17 times")
    );
}

#[test]
fn run_without_output_has_no_fingerprint_and_no_tail() {
    let error = error_of_db(&failed(1, WaitReason::Halted { budgets: 1 }, |_| ()));
    assert_eq!(
        error.message,
        "failed in the same way in the whole restart budget: process ended with exit code 3 after 7 s"
    );
    assert_eq!(error.details["fingerprint"], serde_json::Value::Null);
    assert_eq!((error.stdout_tail, error.stderr_tail), (None, None));
}

#[test]
fn failure_by_a_dependency_has_its_remedies() {
    let mut shop = Shop::ready();
    let secrets = serde_json::json!(["swordfish"]);
    shop.accepted.as_mut().unwrap().desired.secrets = serde_json::from_value(secrets).unwrap();
    shop.is("web", "e1", ContainerState::Exited);
    shop.add_failure("web", 1, false);
    let failures = &mut shop.history.service_mut(&name("web")).failures;
    failures[0].failed_dependency = Some(name("db"));
    // Its own output has a rule, but it is not the cause.
    failures[0].evidence = Some(Evidence {
        stderr: vec!["sh: can't fork: Resource temporarily unavailable".to_owned()],
        pids_peak: Some(9_999),
        ..Evidence::default()
    });
    shop.add_wait(
        "web",
        WaitReason::Dependency {
            service: name("db"),
            condition: Condition::Healthy,
            failing: true,
        },
    );
    let db = ContainerId::new("c-db-d1").unwrap();
    let mut with_health = |status, failing| {
        let health = shop.health.get_mut(&db).unwrap();
        (health.status, health.failing) = (status, failing);
        "refused for swordfish".clone_into(&mut health.output);
        let status = shop.status();
        let row = status.services.iter().find(|row| row.name == "web").unwrap();
        let remedies: Vec<_> = row.last_error.iter().flat_map(|error| &error.remedies).collect();
        let keys = remedies
            .iter()
            .map(|remedy| match &remedy.edit {
                Some(edit) => format!("{}: {}", edit.key, edit.hint.as_deref().unwrap_or_default()),
                None => remedy.command.clone().unwrap_or_default(),
            })
            .collect::<Vec<_>>();
        let hint = row.last_error.as_ref().unwrap().details.get("hint").cloned();
        let message = row.waiting_on.as_ref().unwrap().message.clone();
        let warnings: Vec<String> = status.diagnostics.into_iter().map(|it| it.message).collect();
        (keys, hint, message, warnings)
    };
    let why = "find the cause in `db` with `argus why shop/db`";
    let edit = format!("services.db.container.healthcheck: {why}");
    let logs = "argus logs shop db".to_owned();
    let again = "the health check of `db` to succeed again".to_owned();
    let warning = "the health check of `db` fails: refused for [redacted]".to_owned();
    assert_eq!(
        with_health(ProbeStatus::Healthy, true),
        (
            vec![edit.clone(), logs.clone()],
            None,
            again.clone(),
            vec![warning]
        )
    );
    let unhealthy = with_health(ProbeStatus::Unhealthy, false);
    assert_eq!(unhealthy.0, [edit, logs.clone()]);
    // It ended or restarted, so its health check is not the cause.
    let restarted = with_health(ProbeStatus::Starting, false);
    assert_eq!(restarted, (vec![logs], Some(why.into()), again, vec![]));
    for (state, cause) in [
        (
            Some(DependencyState::Unhealthy),
            "the health check of its dependency `db` failed",
        ),
        (
            Some(DependencyState::Ended(3)),
            "its dependency `db` had ended with exit code 3",
        ),
        (None, "its dependency `db` was not ready"),
    ] {
        shop.history.service_mut(&name("web")).failures[0].dependency_state = state;
        let status = shop.status();
        let row = status.services.iter().find(|row| row.name == "web").unwrap();
        let message = &row.last_error.as_ref().unwrap().message;
        assert!(message.contains(&format!(" while {cause}")), "{message}");
    }
}

#[test]
fn unhealthy_run_reports_the_last_probe() {
    let delay = WaitReason::RestartDelay {
        until: NOW + Duration::from_secs(9),
        attempt: 2,
    };
    let shop = failed(1, delay, |failed_run| {
        failed_run.cause = FailureCause::Unhealthy;
        failed_run.probe_output = vec!["first".to_owned(), "refused for swordfish".to_owned()];
    });
    let error = error_of_db(&shop);
    assert_eq!(error.code, Code::HealthCheckTimeout);
    assert_eq!(
        error.message,
        "health check failed more often than its `retries` allow after 7 s: refused for [redacted]"
    );
    assert_eq!(
        error.details["probeLog"],
        serde_json::json!(["first", "refused for [redacted]"])
    );
    assert_eq!(error.class, Class::Transient);
}

#[test]
fn reached_limit_of_processes_is_named() {
    let delay = || WaitReason::RestartDelay {
        until: NOW + Duration::from_secs(9),
        attempt: 2,
    };
    for (cause, peak, end) in [
        (
            FailureCause::Unhealthy,
            512,
            "can't fork; the container has reached its limit of 512 processes",
        ),
        (
            FailureCause::Exited,
            512,
            "after 7 s; the container has reached its limit of 512 processes",
        ),
        (FailureCause::Unhealthy, 511, "can't fork"),
    ] {
        let shop = failed(1, delay(), |failed_run| {
            failed_run.cause = cause;
            failed_run.probe_output = vec!["can't fork".to_owned()];
            failed_run.evidence = Some(Evidence {
                pids_peak: Some(peak),
                ..Evidence::default()
            });
        });
        let message = error_of_db(&shop).message;
        assert!(message.ends_with(end), "{message}");
    }
}

#[test]
fn program_of_another_platform_is_named() {
    let shop = failed(1, WaitReason::NotRunnable { exit_code: 3 }, |failed_run| {
        failed_run.error = "exec /app: exec format error".to_owned();
        failed_run.evidence = Some(Evidence {
            wrong_platform: Some("the image is for linux/arm64, the engine for linux/amd64".to_owned()),
            ..Evidence::default()
        });
    });
    let error = error_of_db(&shop);
    assert_eq!(error.code, Code::EntrypointNotFound);
    assert_eq!(
        error.message,
        "command cannot be run: the image is for linux/arm64, the engine for linux/amd64 (exec format error) after 7 s"
    );
}

#[test]
fn slow_retry_reports_the_spent_budget() {
    let delay = WaitReason::RestartDelay {
        until: NOW + Duration::from_secs(60),
        attempt: 5,
    };
    let mut shop = failed(4, delay, |_| ());
    let restart = &mut shop.accepted.as_mut().unwrap().desired.restart;
    restart.mode = RestartMode::SlowRetry;
    restart.halt_after_same = None;
    let error = error_of_db(&shop);
    assert_eq!(error.code, Code::ContainerRestartExhausted);
    assert_eq!(error.details["restarts"], 3);
}

#[test]
fn failing_probe_of_each_kind_is_a_call_without_secrets() {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect();
    for (kind, arguments) in [
        (
            ProbeHandler::Http {
                path: "/health?token=swordfish".to_owned(),
                port: 5432,
                options: HttpOptions::default(),
            },
            serde_json::json!({ "kind": "http", "path": "/health", "port": 5432 }),
        ),
        (
            ProbeHandler::Http {
                path: "/".to_owned(),
                port: 443,
                options: HttpOptions {
                    scheme: ProbeScheme::Https,
                    method: ProbeMethod::Head,
                    headers: [("X-Key".to_owned(), "swordfish".to_owned())].into(),
                    status: vec![(204, 204)],
                },
            },
            serde_json::json!({
                "kind": "https", "method": "HEAD", "path": "/", "port": 443, "headers": ["X-Key"], "status": "204",
            }),
        ),
        (
            ProbeHandler::Log {
                pattern: "ready".to_owned(),
                times: 2,
            },
            serde_json::json!({ "kind": "log", "pattern": "ready", "times": 2 }),
        ),
        (
            ProbeHandler::Tcp { port: 5432 },
            serde_json::json!({ "kind": "tcp", "port": 5432 }),
        ),
        (
            ProbeHandler::Exec {
                command: words("pg_isready -U swordfish"),
            },
            serde_json::json!({ "kind": "exec", "program": "pg_isready" }),
        ),
        (
            ProbeHandler::Exec {
                command: vec!["pg_isready -U swordfish".to_owned()],
            },
            serde_json::json!({ "kind": "exec" }),
        ),
        (ProbeHandler::Docker, serde_json::json!({ "kind": "docker" })),
    ] {
        let mut shop = Shop::ready();
        let services = &mut shop.accepted.as_mut().unwrap().desired.services;
        services
            .get_mut(&name("db"))
            .unwrap()
            .probe
            .as_mut()
            .unwrap()
            .kind = kind;
        shop.add_running("db", "d1", ProbeStatus::Unhealthy);
        shop.add_wait("db", WaitReason::Unhealthy { until: None });
        let error = error_of_db(&shop);
        assert_eq!(error.code, Code::HealthCheckTimeout);
        let call = serde_json::to_value(&error.debug).unwrap()[0].clone();
        assert_eq!(call["arguments"], arguments, "{call:#}");
    }
}

#[test]
fn healthcheck_that_the_image_lacks_is_an_error_of_the_file() {
    let error = error_of_db(&failed(0, WaitReason::NoHealthcheck, |_| ()));
    assert_eq!(error.code, Code::SpecInvalid);
    assert_eq!(error.details["image"], "db:1");
    assert_eq!(error.details["path"], "container.healthcheck.type");
}

#[test]
fn service_of_another_controller_names_it() {
    let holder = LeaseHolder {
        controller: "OTHER".to_owned(),
        run: "RUN".to_owned(),
        host: "ci-7".to_owned(),
        pid: 42,
        renews: true,
        other_specs: None,
        stop: None,
    };
    let on = WaitReason::LeaseHeldByOther {
        controller: Box::new(holder),
        until: None,
    };
    let error = error_of_db(&failed(0, on, |_| ()));
    assert_eq!(error.code, Code::LeaseHeld);
    assert!(
        error.message.contains("ci-7") && error.message.ends_with(" owns it"),
        "{}",
        error.message
    );
    assert_eq!(error.details["holder"]["pid"], 42);
}

#[test]
fn environment_of_another_project_gets_a_namespace_first() {
    let holder = |other_specs: Option<&str>| LeaseHolder {
        controller: "OTHER".to_owned(),
        run: "RUN".to_owned(),
        host: "ci-7".to_owned(),
        pid: 42,
        renews: true,
        other_specs: other_specs.map(str::to_owned),
        stop: Some("kill 42".to_owned()),
    };
    let error = |other_specs| {
        let on = WaitReason::LeaseHeldByOther {
            controller: Box::new(holder(other_specs)),
            until: None,
        };
        error_of_db(&failed(0, on, |_| ()))
    };
    let other = error(Some("/srv/other/e2e.yaml"));
    assert!(
        other.message.ends_with(" owns it from `/srv/other/e2e.yaml`"),
        "{}",
        other.message
    );
    assert_eq!(other.remedies[0].action, ActionId::SetNamespace);
    // The same files with another state directory: a namespace would change both.
    let same = error(None);
    assert_eq!(same.remedies[0].action, ActionId::StopOtherController);
    assert_eq!(same.remedies[0].command.as_deref(), Some("kill 42"));
    assert_eq!(same.remedies[0].verify, None);
    assert!(
        same.remedies
            .iter()
            .all(|remedy| remedy.action != ActionId::SetNamespace)
    );
}

#[test]
fn unwritable_state_names_the_directory() {
    let error = unwritable("/srv/state", "no space\nleft on device");
    assert_eq!(error.code, Code::JournalUnwritable);
    assert_eq!(error.details["path"], "/srv/state");
    assert!(!error.message.contains('\n'), "{}", error.message);
}
