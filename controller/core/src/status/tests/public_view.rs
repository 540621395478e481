//! Public view: no text of a container, a build, a suite or a rejected file, and all facts.

use argus_crds::error::Code;

use super::*;
use crate::failed_run::FailureCause;
use crate::outcome::Evidence;
use crate::status::public_view;

/// Text that only containers and builds write.
const OUTPUT: &str = "wolpertinger";

/// Fixture whose service `db` failed with output in every place, and then waits.
fn failed(on: WaitReason, change: impl Fn(&mut FailedRun)) -> Shop {
    let mut shop = Shop::ready();
    shop.is("db", "d1", ContainerState::Exited);
    for _ in 0..4 {
        shop.add_failure("db", 3, false);
    }
    let lines = || vec![format!("error: cannot read `{OUTPUT}`")];
    for failed_run in &mut shop.history.service_mut(&name("db")).failures {
        failed_run.error = OUTPUT.to_owned();
        failed_run.evidence = Some(Evidence {
            stdout: lines(),
            stderr: lines(),
            network_diagnostics: [(OUTPUT.to_owned(), OUTPUT.to_owned())].into(),
            ..Evidence::default()
        });
        change(failed_run);
    }
    shop.add_wait("db", on);
    shop
}

/// Fixture whose service `db` waits for a call that failed with this error.
fn failed_call(kind: ActionKind, error: ActionError) -> Shop {
    let mut shop = Shop::new();
    let failure = Shop::failure(kind, error);
    let until = failure.retry_at("db").unwrap_or(NOW);
    shop.add_wait("db", WaitReason::Retry { until, failure });
    shop
}

/// Fixture whose image is being built.
fn building() -> Shop {
    let mut shop = Shop::new();
    let reference = "db:1".to_owned();
    shop.add_wait("db", WaitReason::Image { reference });
    let verb = ActionKind::BuildImage;
    shop.add_image_wait("db:1", WaitReason::InFlight { verb });
    let key = "db:1".to_owned();
    let progress = ActionProgress {
        line: OUTPUT.to_owned(),
        ..ActionProgress::default()
    };
    shop.progress.insert(Subject::Image { key }, progress);
    shop
}

fn text(status: &EnvironmentStatus) -> String {
    serde_json::to_string(status).unwrap()
}

#[test]
fn public_view_has_no_text_of_containers_and_builds() {
    let probe = |failed_run: &mut FailedRun| {
        failed_run.cause = FailureCause::Unhealthy;
        failed_run.probe_output = vec![OUTPUT.to_owned()];
    };
    let build = ActionError::BuildFailed {
        message: OUTPUT.to_owned(),
        log: OUTPUT.to_owned(),
        instruction: None,
    };
    let restart = || WaitReason::RestartDelay {
        attempt: 4,
        until: NOW,
    };
    for shop in vec![
        failed(WaitReason::Halted { budgets: 3 }, |_| {}),
        failed(WaitReason::GaveUp { restarts: 3 }, |_| {}),
        failed(restart(), |_| {}),
        failed(restart(), probe),
        failed(WaitReason::GaveUp { restarts: 3 }, probe),
        failed(WaitReason::Unhealthy { until: None }, probe),
        failed(WaitReason::NotRunnable { exit_code: 127 }, |run| {
            run.exit_code = 127;
        }),
        failed_call(ActionKind::BuildImage, build),
        failed_call(
            ActionKind::StartContainer,
            ActionError::StartFailed(OUTPUT.to_owned()),
        ),
        building(),
    ] {
        let status = shop.status();
        assert!(text(&status).contains(OUTPUT), "{status:#?}");
        let public = public_view::environment(&status);
        assert!(!text(&public).contains(OUTPUT), "{public:#?}");
        assert_eq!(
            (&public.phase, &public.port_mappings, public.errors.len()),
            (&status.phase, &status.port_mappings, status.errors.len())
        );
        for (public, error) in public.errors.iter().zip(&status.errors) {
            assert_eq!(
                (public.code, &public.error_id, public.exit_code, public.attempt),
                (error.code, &error.error_id, error.exit_code, error.attempt)
            );
            assert_eq!(public.suggested_actions, error.suggested_actions);
        }
        // A second view hides nothing more.
        assert_eq!(public_view::environment(&public), public);
    }
}

#[test]
fn public_view_keeps_the_messages_of_argus() {
    let mut shop = Shop::ready();
    shop.is("db", "d1", ContainerState::Exited);
    let on = WaitReason::PortTaken {
        port: tcp(5432),
        owner: PortOwner::Unknown,
        until: NOW,
    };
    shop.add_wait("db", on);
    let status = shop.status();
    assert!(!status.errors.is_empty(), "{status:#?}");
    let public = public_view::environment(&status);
    let shown: Vec<_> = public
        .errors
        .iter()
        .map(|error| (&error.code, &error.message))
        .collect();
    let all: Vec<_> = status
        .errors
        .iter()
        .map(|error| (&error.code, &error.message))
        .collect();
    assert_eq!(shown, all);
    assert_eq!(public.conditions, status.conditions);
    assert_eq!(shown[0].0, &Code::PortConflict);
}

#[test]
fn public_view_has_no_case_and_no_value_of_a_rejected_file() {
    let refused = || {
        vec![
            Diagnostic::error(format!("services[0].{OUTPUT}"), format!("`{OUTPUT}` is invalid")).hint(OUTPUT),
        ]
    };
    let of_file = |code| {
        let mut shop = Shop::ready();
        shop.diagnostics = Some((code, refused()));
        shop
    };
    let mut in_test = Shop::ready();
    let (case, until) = (OUTPUT.to_owned(), NOW);
    in_test.add_wait("db", WaitReason::TestLease { case, until });
    let mut conflict = Shop::ready();
    conflict.conflicting_spec = Some(refused());
    let codes = [Code::SpecInvalid, Code::SpecConflict, Code::PolicyViolation];
    for shop in codes.into_iter().map(of_file).chain(vec![conflict, in_test]) {
        let status = shop.status();
        assert!(text(&status).contains(OUTPUT), "{status:#?}");
        let public = public_view::environment(&status);
        assert!(!text(&public).contains(OUTPUT), "{public:#?}");
        assert_eq!(public_view::environment(&public), public);
    }
}
