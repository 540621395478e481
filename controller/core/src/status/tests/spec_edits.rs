//! First remedies of failures that a change of the spec file fixes.

use argus_crds::error::{ActionId, Confidence, SpecEdit, StructuredError};
use serde_json::json;

use super::*;
use crate::action::FailedAttempt;
use crate::desired::admit::{SpecContext, admit};
use crate::desired::key_lines::KeyLines;
use crate::failed_run::FailureCause;
use crate::outcome::Evidence;
use crate::wait::{MountWriter, WritableSource};

pub(super) const FILE: &str = "environments/shop/e2e.yaml";
pub(super) const SPEC: &str = "project: { name: shop }
services:
  db:
    image: db:1
    container: { name: shop-db }
  # The failing service.
  web:
    image: web:1
    memory: 64MB
    container:
      name: shop-web
      ports: [\"8080:8080\"]
      healthcheck:
        path: /nowhere
        port: 80
        startPeriod: 3s
        retries: 2
";

/// Shop whose file is `SPEC`, and whose service `web` failed in this way.
pub(super) fn failing(change: impl FnOnce(&mut FailedRun)) -> Shop {
    failing_in(SPEC, change)
}

pub(super) fn failing_in(text: &str, change: impl FnOnce(&mut FailedRun)) -> Shop {
    let read = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
    let spec = read.spec.unwrap();
    let admission = admit(&spec, &SpecContext::default());
    let mut shop = Shop::new();
    shop.accepted = Some(Accepted {
        desired: admission
            .desired
            .unwrap_or_else(|| panic!("{:?}", admission.diagnostics)),
        spec_path: FILE.to_owned(),
        lines: KeyLines::from_spec(&spec, &read.source),
        accepted_at: NOW,
        has_pending_edit: false,
        allowed: false,
        is_ending: false,
        file_hash: None,
        mounted_files: std::collections::BTreeMap::new(),
    });
    shop.add_failure("web", 1, false);
    change(&mut shop.history.service_mut(&name("web")).failures[0]);
    shop
}

/// Error of `web` after its last run.
pub(super) fn error_of(shop: Shop) -> StructuredError {
    let until = NOW + Duration::from_secs(60);
    error_of_wait(shop, WaitReason::RestartDelay { until, attempt: 1 })
}

pub(super) fn error_of_wait(mut shop: Shop, on: WaitReason) -> StructuredError {
    shop.add_wait("web", on);
    let status = shop.status();
    let row = status.services.iter().find(|row| row.name == "web").unwrap();
    row.last_error.clone().unwrap()
}

pub(super) fn unhealthy(listening: &[&str], healthy_paths: &[&str]) -> impl FnOnce(&mut FailedRun) {
    let evidence = Evidence {
        listening: Some(listening.iter().map(|address| address.parse().unwrap()).collect()),
        healthy_paths: healthy_paths.iter().map(ToString::to_string).collect(),
        ..Evidence::default()
    };
    |run| {
        run.cause = FailureCause::Unhealthy;
        run.probe_output = vec!["GET /nowhere on 10.0.0.2:80: 404 Not Found".to_owned()];
        run.evidence = Some(evidence);
    }
}

/// Asserts that the first remedy changes this key, with its line and its values.
pub(super) fn assert_first(
    error: &StructuredError,
    key: &str,
    line: usize,
    now: Option<&str>,
    suggest: Option<&str>,
) -> SpecEdit {
    assert_eq!(error.suggested_actions[0], ActionId::FixSpec, "{error:#?}");
    let edit = error.remedies[0].edit.clone().unwrap();
    assert_eq!(
        (
            edit.file.as_str(),
            edit.key.as_str(),
            edit.line,
            edit.now.as_deref(),
            edit.suggest.as_deref()
        ),
        (FILE, key, Some(line), now, suggest)
    );
    assert!(
        error.remedies[0].summary.contains(&format!("{FILE}:{line}")),
        "{error:#?}"
    );
    edit
}

#[test]
fn wrong_probe_port_suggests_the_listening_one() {
    let error = error_of(failing(unhealthy(&["127.0.0.1:9000", "[::]:8080"], &[])));
    let edit = assert_first(
        &error,
        "services.web.container.healthcheck.port",
        15,
        Some("80"),
        Some("8080"),
    );
    assert!(edit.reason.contains("listens on 8080"), "{edit:?}");
    // The process can listen on the other port later.
    assert_eq!(edit.confidence, Confidence::Likely);
    assert!(
        !error.suggested_actions.contains(&ActionId::FixHealthcheck),
        "{error:#?}"
    );
}

#[test]
fn wrong_probe_path_suggests_a_healthy_one() {
    let error = error_of(failing(unhealthy(&["0.0.0.0:80"], &["/healthz", "/"])));
    assert_first(
        &error,
        "services.web.container.healthcheck.path",
        14,
        Some("/nowhere"),
        Some("/healthz"),
    );
    let error = error_of(failing(unhealthy(&["0.0.0.0:80"], &[])));
    assert_first(
        &error,
        "services.web.container.healthcheck.path",
        14,
        Some("/nowhere"),
        None,
    );
}

#[test]
fn slow_start_suggests_a_longer_start_period() {
    let error = error_of(failing(unhealthy(&[], &[])));
    let edit = assert_first(
        &error,
        "services.web.container.healthcheck.startPeriod",
        16,
        Some("3s"),
        Some("14s"),
    );
    assert!(edit.reason.contains("after 7 s"), "{edit:?}");
}

#[test]
fn late_recovery_reports_the_time_that_it_took() {
    let error = error_of(failing(|run| {
        run.cause = FailureCause::Unhealthy;
        run.recovered_at = Some(NOW + Duration::from_secs(20));
    }));
    let edit = assert_first(
        &error,
        "services.web.container.healthcheck.startPeriod",
        16,
        Some("3s"),
        Some("30s"),
    );
    assert!(edit.reason.contains("20 s after its start"), "{edit:?}");
}

#[test]
fn check_that_succeeded_before_is_no_wrong_path() {
    let mut shop = failing(unhealthy(&["0.0.0.0:80"], &["/"]));
    let history = shop.history.service_mut(&name("web"));
    history.health_transitions = vec![NOW];
    let error = error_of(shop);
    assert!(
        error.remedies.iter().all(|remedy| remedy.edit.is_none()),
        "{error:#?}"
    );
}

#[test]
fn memory_limit_below_the_peak_suggests_more() {
    let out_of_memory = |run: &mut FailedRun| {
        run.exit_code = 137;
        run.oom_killed = true;
        run.memory_limit = Some(64_000_000);
    };
    let error = error_of(failing(out_of_memory));
    let edit = assert_first(&error, "services.web.memory", 9, Some("64MB"), Some("92MiB"));
    assert_eq!(edit.confidence, Confidence::Certain);
    let immediately = error_of(failing(|run| {
        out_of_memory(run);
        run.at = NOW + Duration::from_millis(300);
    }));
    assert_first(
        &immediately,
        "services.web.memory",
        9,
        Some("64MB"),
        Some("123MiB"),
    );
}

/// `SPEC` without its health check, with these lines of the service before its container.
pub(super) fn plain(lines: &str) -> String {
    let (start, _) = SPEC.split_once("    memory").unwrap();
    let db = "container: { name: shop-db, healthcheck: { type: tcp, port: 5432 } }";
    format!(
        "{}{lines}    container:\n      name: shop-web\n      environment:\n        DB: postgres://u:p@databse/x\n        LEVEL: info\n",
        start.replace("container: { name: shop-db }", db)
    )
}

pub(super) fn exited(line: &'static str) -> impl FnOnce(&mut FailedRun) {
    move |run| {
        run.evidence = Some(Evidence {
            stderr: vec![line.to_owned()],
            ..Evidence::default()
        });
    }
}

#[test]
fn misspelled_host_comes_first_when_the_service_fails() {
    let text = plain("").replace("  db:", "  database:");
    let error = error_of(failing_in(&text, exited("TOKEN_X is not set")));
    assert_first(
        &error,
        "services.web.container.environment.DB",
        12,
        Some("databse"),
        Some("database"),
    );
}

#[test]
fn missing_variable_of_the_output_is_named() {
    let text = plain("").replace("databse", "db");
    let error = error_of(failing_in(&text, exited("sh: API_KEY: parameter not set")));
    let edit = assert_first(
        &error,
        "services.web.container.environment.API_KEY",
        11,
        None,
        None,
    );
    assert!(edit.reason.contains("`API_KEY` is missing"), "{edit:?}");
}

#[test]
fn early_start_suggests_the_condition_healthy() {
    let text =
        plain("    dependsOn:\n      - service: db\n        condition: started\n").replace("databse", "db");
    let failing = || failing_in(&text, exited("connection refused"));
    assert_first(
        &error_of(failing()),
        "services.web.dependsOn[0].condition",
        11,
        Some("started"),
        Some("healthy"),
    );
    let mut shop = failing();
    let history = shop.history.service_mut(&name("db"));
    history.healthy_run = Some(crate::state::HealthyRun {
        container: ContainerId::new("c").unwrap(),
        started_at: Some(NOW),
        since: NOW,
        probe: None,
    });
    assert!(error_of(shop).remedies.iter().all(|remedy| remedy.edit.is_none()));
}

#[test]
fn foreign_holder_of_a_name_suggests_another_name() {
    let attempt = |seconds| FailedAttempt {
        at: NOW - Duration::from_secs(seconds),
        error: "name is held by c9".to_owned(),
    };
    let on = WaitReason::NameTaken {
        name: "shop-web".to_owned(),
        conflicting_object: "container `shop-web` (nginx)".to_owned(),
        until: NOW,
        attempts: [5, 0].map(attempt).into(),
        compose_project: None,
    };
    let error = error_of_wait(failing(|_| {}), on);
    assert_first(
        &error,
        "services.web.container.name",
        11,
        Some("shop-web"),
        Some("shop-web-2"),
    );
    assert_eq!(
        error.details["since"],
        json!((NOW - Duration::from_secs(5)).to_string())
    );
    assert_eq!(error.details["attempts"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        error.suggested_actions.last(),
        Some(&ActionId::ResolveNameConflict)
    );
}

#[test]
fn holder_of_a_strict_port_suggests_the_strategy_auto() {
    let text = format!("resilience: {{ network: {{ portConflictStrategy: fail }} }}\n{SPEC}");
    let on = WaitReason::PortTaken {
        port: tcp(8080),
        owner: PortOwner::Process {
            pid: 7,
            command: "nginx".to_owned(),
        },
        until: NOW,
    };
    let error = error_of_wait(failing_in(&text, |_| {}), on);
    let edit = assert_first(
        &error,
        "resilience.network.portConflictStrategy",
        1,
        Some("fail"),
        Some("auto"),
    );
    assert!(edit.reason.contains("process 7"), "{edit:?}");
}

#[test]
fn error_of_a_hold_names_its_holder_first() {
    let mut shop = failing(|_| {});
    let until = Some(NOW + Duration::from_secs(3_600));
    shop.requests.holds.push(crate::user_requests::Hold {
        environment: shop.env.clone(),
        service: None,
        since: NOW,
        until,
        stops: false,
        reason: "debugging".to_owned(),
        holder: Some("ann".to_owned()),
        command: Some("COMMAND".to_owned()),
    });
    let why = "debugging".to_owned();
    let error = error_of_wait(shop, WaitReason::Held { until, why });
    assert_eq!(error.correlation_id.as_deref(), Some("COMMAND"), "{error:#?}");
    assert_eq!(error.suggested_actions[0], ActionId::ContactHolder, "{error:#?}");
    assert!(error.message.contains("by `ann` until 2026"), "{error:#?}");
    assert!(error.message.ends_with(": debugging"), "{error:#?}");
}

#[test]
fn hold_of_the_file_is_ended_there() {
    let text = format!("argus: {{ hold: true }}\n{SPEC}");
    let on = WaitReason::Held {
        until: None,
        why: String::new(),
    };
    let error = error_of_wait(failing_in(&text, |_| {}), on);
    assert_first(&error, "argus.hold", 1, Some("true"), Some("false"));
    assert_eq!(error.message, "it is on hold");
}

#[test]
fn taken_name_of_a_mock_has_no_edit() {
    let on = WaitReason::NameTaken {
        name: "shop-web".to_owned(),
        conflicting_object: "container `shop-web` (nginx)".to_owned(),
        until: NOW,
        attempts: Vec::new(),
        compose_project: None,
    };
    let mut mock = failing(|_| {});
    let services = &mut mock.accepted.as_mut().unwrap().desired.services;
    services.get_mut("web").unwrap().role = crate::desired::Role::Mock;
    let error = error_of_wait(mock, on);
    assert!(
        error.remedies.iter().all(|remedy| remedy.edit.is_none()),
        "{error:#?}"
    );
}

/// Error of the environment whose network cannot have this name.
fn network_error(mut shop: Shop, taken: &str) -> StructuredError {
    let on = WaitReason::NameTaken {
        name: taken.to_owned(),
        conflicting_object: "network `shop-net` (other)".to_owned(),
        until: NOW,
        attempts: Vec::new(),
        compose_project: None,
    };
    let subject = Subject::Network {
        environment: shop.env.clone(),
        name: None,
    };
    shop.plan.get_or_insert_default().waits.push(Wait { subject, on });
    let mut errors = shop.status().errors.into_iter();
    errors.find(|error| error.code == Code::NameConflict).unwrap()
}

#[test]
fn taken_name_of_the_network_suggests_another_name() {
    let text = format!("network: {{ name: shop-net-2 }}\n{SPEC}");
    let named = || failing_in(&text, |_| {});
    let error = network_error(named(), "shop-net-2");
    assert_first(&error, "network.name", 1, Some("shop-net-2"), Some("shop-net-3"));
    let has_edit = |error: StructuredError| error.remedies.iter().any(|remedy| remedy.edit.is_some());
    assert!(!has_edit(network_error(named(), "another-net")));
}

/// Errors of a file that admission rejects.
pub(super) fn rejected(text: &str) -> Vec<StructuredError> {
    let read = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
    let admission = admit(&read.spec.unwrap(), &SpecContext::default());
    let found = read.diagnostics.into_iter().chain(admission.diagnostics);
    let diagnostics: Vec<_> = found.map(|found| read.source.with_location(found)).collect();
    let rejection = Rejection {
        spec_path: FILE,
        code: Code::SpecInvalid,
        diagnostics: &diagnostics,
        is_compose: false,
    };
    crate::status::spec_errors(Some("shop"), rejection, NOW)
}

#[test]
fn conflict_of_a_compose_file_names_the_name_of_its_project() {
    let diagnostics = [Diagnostic::error("project.name", "is held by `e2e.yaml`")];
    for (is_compose, expected) in [(true, "`name`"), (false, "`isolation.namespace`")] {
        let rejection = Rejection {
            spec_path: FILE,
            code: Code::SpecConflict,
            diagnostics: &diagnostics,
            is_compose,
        };
        let error = &crate::status::spec_errors(Some("shop"), rejection, NOW)[0];
        let mut remedies = error.remedies.iter();
        let remedy = remedies.find(|remedy| remedy.action == ActionId::SetNamespace);
        assert!(remedy.unwrap().summary.contains(expected), "{error:?}");
    }
}

#[test]
fn unknown_dependency_suggests_the_similar_one() {
    let errors = rejected(&plain("    dependsOn: [dv]\n").replace("databse", "db"));
    assert_first(&errors[0], "services[1].dependsOn[0]", 9, Some("dv"), Some("db"));
}

#[test]
fn every_edge_of_a_cycle_has_its_line() {
    let text = "project: { name: shop }\nservices:\n  a:\n    image: a\n    dependsOn: [b]\n    container: { name: a }\n  b:\n    \
                image: a\n    dependsOn:\n      - a\n    container: { name: b }\n";
    let errors = rejected(text);
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert_eq!(
        (errors[0].code, errors[0].class),
        (Code::SpecInvalid, Class::Permanent)
    );
    let edit = assert_first(&errors[0], "services[0].dependsOn", 5, None, None);
    assert!(
        edit.reason
            .ends_with("`a` depends on `b` in line 5, `b` depends on `a` in line 10"),
        "{edit:?}"
    );
}

#[test]
fn late_recovery_is_a_warning_until_a_clean_start() {
    let mut shop = failing(|run| run.cause = FailureCause::Unhealthy);
    shop.plan.get_or_insert_default().hashes = [(name("db"), hash("d1")), (name("web"), hash("e1"))].into();
    shop.plan.get_or_insert_default().revision = shop
        .accepted
        .as_ref()
        .map(|accepted| accepted.desired.revision.clone());
    shop.add_running("db", "d1", ProbeStatus::Healthy);
    shop.add_running("web", "e1", ProbeStatus::Healthy);
    let history = shop.history.service_mut(&name("web"));
    history.healthy_run = Some(crate::state::HealthyRun {
        container: ContainerId::new("c-web-e1").unwrap(),
        started_at: Some(NOW),
        since: NOW + Duration::from_secs(20),
        probe: None,
    });
    history.late_recovery = Some(1);
    let status = shop.status();
    assert_eq!(status.phase, Phase::Ready, "{status:#?}");
    let warning = status
        .errors
        .iter()
        .find(|error| error.service.as_deref() == Some("web"))
        .unwrap();
    assert_eq!(warning.severity, Severity::Warning);
    assert_first(
        warning,
        "services.web.container.healthcheck.startPeriod",
        16,
        Some("3s"),
        Some("30s"),
    );
    shop.history.service_mut(&name("web")).late_recovery = None;
    assert!(shop.status().errors.is_empty());
}

#[test]
fn similar_image_of_the_engine_is_suggested() {
    for error in [
        ActionError::ImageNotFound("no such tag".to_owned()),
        ActionError::PullFailed("no such host".to_owned()),
        ActionError::AuthRequired("denied".to_owned()),
    ] {
        let failure = Shop::failure(ActionKind::PullImage, error.with_similar("web:1.0"));
        let error = error_of_wait(failing(|_| {}), WaitReason::Failed { failure });
        assert_first(&error, "services.web.image", 8, Some("web:1"), Some("web:1.0"));
    }
}

#[test]
fn missing_file_of_a_mount_suggests_the_similar_one() {
    let text = SPEC.replace(
        "      ports:",
        "      volumes: [\"./config:/a\", \"./conf/ap.yaml:/b:ro\"]\n      ports:",
    );
    let missing = |path: &str| ActionError::BadMount(format!("bind source path does not exist: {path}"));
    let mut shop = failing_in(&text, |_| {});
    let mounts = &mut shop
        .accepted
        .as_mut()
        .unwrap()
        .desired
        .services
        .get_mut(&name("web"))
        .unwrap()
        .mounts;
    *mounts = ["/p/config", "/p/conf/ap.yaml"]
        .map(|source| crate::desired::Mount::Bind {
            source: source.to_owned(),
            target: "/x".to_owned(),
            read_only: false,
        })
        .to_vec();
    let failure = Shop::failure(
        ActionKind::CreateContainer,
        missing("/p/conf/ap.yaml").with_similar("app.yaml"),
    );
    let error = error_of_wait(shop, WaitReason::Failed { failure });
    assert_first(
        &error,
        "services.web.container.volumes[1]",
        12,
        Some("./conf/ap.yaml:/b:ro"),
        Some("./conf/app.yaml:/b:ro"),
    );
}

#[test]
fn error_names_the_action_and_the_place_that_caused_it() {
    let shop = failing(|run| run.started_by = Some("START".to_owned()));
    let error = error_of(shop);
    assert_eq!(
        (
            error.controller.as_deref(),
            error.correlation_id.as_deref(),
            error.spec_path.as_deref(),
            error.spec_line,
            error.stage.as_deref(),
            error.attempt,
        ),
        (
            Some("CONTROLLER"),
            Some("START"),
            Some(FILE),
            Some(7),
            Some("run-container"),
            Some(1)
        ),
        "the line of the service: {error:#?}"
    );
    let error = error_of(failing(unhealthy(&["0.0.0.0:8080"], &[])));
    assert_eq!(error.spec_line, Some(15), "the line of the change: {error:#?}");
    assert_eq!(error.correlation_id, error.error_id, "without a known cause");
    let mut shop = failing(|_| {});
    let failure = Shop::failure(
        ActionKind::CreateContainer,
        ActionError::StartFailed("no".to_owned()),
    );
    shop.add_wait("web", WaitReason::Failed { failure });
    let error = shop.status().errors[0].clone();
    assert_eq!(
        (
            error.correlation_id.as_deref(),
            error.stage.as_deref(),
            error.attempt
        ),
        (Some("ACTION"), Some("create-container"), Some(2)),
        "{error:#?}"
    );
}

#[test]
fn writer_above_a_source_is_an_error_while_it_stays() {
    let edit = SpecEdit::new(
        "fork/e2e.yaml",
        "services.app.container.volumes[0]",
        "it can write",
    );
    let writer = MountWriter {
        container: "copy-app".to_owned(),
        environment: EnvName::new("copy").unwrap(),
        mount: "/p:/app".to_owned(),
        id: None,
        is_going: false,
        allowed: false,
        is_of_other: false,
        edit: Some(edit.now(".:/app").suggest(".:/app:ro")),
    };
    let wait = |writer: MountWriter| {
        let mount = "/p/conf:/c:ro".to_owned();
        WaitReason::WritableSource(Box::new(WritableSource { mount, writer }))
    };
    let error = error_of_wait(Shop::new(), wait(writer.clone()));
    assert_eq!(error.code, Code::PolicyViolation);
    for named in ["`/p/conf:/c:ro`", "`/p:/app`", "`copy-app`", "`copy`"] {
        assert!(error.message.contains(named), "{}", error.message);
    }
    let first = error.remedies[0].edit.clone().unwrap();
    assert_eq!(first.suggest.as_deref(), Some(".:/app:ro"));
    let summary = &error.remedies[1].summary;
    assert!(
        summary.contains("`argus allow`") && summary.contains("`argus down copy`"),
        "{summary}"
    );

    let mount_of_mock = MountWriter {
        edit: None,
        ..writer.clone()
    };
    let error = error_of_wait(Shop::new(), wait(mount_of_mock));
    assert_eq!(error.suggested_actions[0], ActionId::AllowInPolicy);
    assert!(error.remedies[0].summary.contains("`argus allow`"), "{error:?}");

    let writer_of_other = MountWriter {
        edit: None,
        is_of_other: true,
        ..writer.clone()
    };
    let summary = error_of_wait(Shop::new(), wait(writer_of_other)).remedies[0]
        .summary
        .clone();
    assert!(summary.contains("the controller that has `copy`"), "{summary}");
    assert!(
        !summary.contains("argus down"),
        "only its controller can do that: {summary}"
    );

    let mut shop = Shop::new();
    let is_going = true;
    shop.add_wait("web", wait(MountWriter { is_going, ..writer }));
    let status = shop.status();
    let row = status.services.iter().find(|row| row.name == "web").unwrap();
    assert_eq!(row.last_error, None);
    let waiting = row.waiting_on.clone().unwrap();
    assert_eq!((waiting.reason.as_str(), waiting.error), ("SourceWritable", None));
}

/// Compose file in which each port has a variable.
struct Ports;

impl argus_crds::yaml::Original for Ports {
    fn locate(&self, _path: &str) -> Option<argus_crds::Location> {
        let (line, column, length) = (12, 1, 1);
        Some(argus_crds::Location { line, column, length })
    }

    fn written(&self, path: &str, _text: &str) -> Option<String> {
        path.contains("ports").then(|| "${WEB_PORT:-8080}:80".to_owned())
    }
}

#[test]
fn value_of_a_compose_file_is_as_written() {
    let text = SPEC.replace("8080:8080", "8080:80");
    let mut shop = failing_in(&text, unhealthy(&["0.0.0.0:8080"], &[]));
    let read = argus_crds::yaml::read_translated("compose.yaml", &text, &Ports);
    let lines = KeyLines::from_spec(&read.spec.unwrap(), &read.source);
    shop.accepted.as_mut().unwrap().lines = lines;
    let (now, meant) = ("${WEB_PORT:-8080}:80", "${WEB_PORT:-8080}:8080");
    assert_first(
        &error_of(shop),
        "services.web.ports[0]",
        12,
        Some(now),
        Some(meant),
    );
}

#[test]
fn name_of_an_account_is_public_although_it_is_the_password() {
    const SPEC: &str = "project: { name: shop }
services:
  web:
    image: dpage/pgadmin4:8.12
    container:
      name: shop-web
      environment:
        PGADMIN_DEFAULT_EMAIL: admin
        PGADMIN_DEFAULT_PASSWORD: admin
";
    let line = "'admin' does not appear to be a valid email address. Please reset the PGADMIN_DEFAULT_EMAIL environment variable and try again.";
    let error = error_of(failing_in(SPEC, |run| {
        run.evidence = Some(Evidence {
            stdout: vec![line.to_owned()],
            ..Evidence::default()
        });
    }));
    let key = "services.web.container.environment.PGADMIN_DEFAULT_EMAIL";
    assert_first(&error, key, 8, Some("admin"), Some("admin@example.com"));
}
