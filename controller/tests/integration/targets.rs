//! Targets of commands: `ENV/SERVICE` where it has a meaning, and a hint where it has none.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{
    Condition, Connectivity, EnvironmentStatus, Link, Phase, ServiceState, ServiceStatus, Truth, WaitingOn,
};
use serde_json::{Value, json};

use crate::cli::{Home, code, err, out};

fn row(name: &str, state: ServiceState) -> ServiceStatus {
    ServiceStatus {
        name: name.to_owned(),
        state,
        ..ServiceStatus::default()
    }
}

fn waiting(name: &str, message: &str, service: Option<&str>) -> ServiceStatus {
    let waiting_on = WaitingOn {
        message: message.to_owned(),
        service: service.map(str::to_owned),
        ..WaitingOn::default()
    };
    ServiceStatus {
        waiting_on: Some(waiting_on),
        ..row(name, ServiceState::Waiting)
    }
}

fn link(from: &str, to: &str, error: Option<&str>) -> Link {
    Link {
        from: from.to_owned(),
        to: to.to_owned(),
        host: to.to_owned(),
        dns: true,
        error: error.map(str::to_owned),
        ..Link::default()
    }
}

fn condition(kind: &str, status: Truth, reason: &str) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status,
        reason: reason.to_owned(),
        message: String::new(),
        last_transition_time: "2026-01-01T00:00:00.000Z".to_owned(),
    }
}

/// `db` is given up, `api` waits for it, `web` is ready, and `slow` pulls its image.
fn shop() -> EnvironmentStatus {
    let spent =
        StructuredError::new(Code::ContainerRestartExhausted, "gave up after 3 restarts").service("db");
    let db = ServiceStatus {
        last_error: Some(spent.clone()),
        ..row("db", ServiceState::Failed)
    };
    EnvironmentStatus {
        environment: "shop".to_owned(),
        phase: Phase::Failed,
        revision: Some("aaaa".to_owned()),
        observed_revision: Some("aaaa".to_owned()),
        services: vec![
            waiting("api", "`db` to be ready", Some("db")),
            db,
            waiting("slow", "image `slow:1` is being pulled", None),
            row("web", ServiceState::Ready),
        ],
        connectivity: Some(Connectivity {
            links: vec![
                link("api", "db", Some("connection refused")),
                link("web", "slow", None),
            ],
            ..Connectivity::default()
        }),
        conditions: vec![
            condition("Verified", Truth::False, "ConnectionsFailed"),
            condition("Blocked", Truth::True, spent.code.reason()),
        ],
        errors: vec![spent],
        ..EnvironmentStatus::default()
    }
}

#[test]
fn wait_for_a_service_depends_on_that_service() {
    let home = Home::with_controller();
    home.status(&shop());
    assert_eq!(code(&home.run(&["wait", "shop"])), 6, "the environment failed");

    assert_eq!(out(&home.run(&["wait", "shop/web"])), "shop/web Ready\n");
    assert_eq!(out(&home.run(&["wait", "shop/web", "-o", "name"])), "shop/web\n");
    let ready: Value = serde_json::from_str(&out(&home.run(&["wait", "shop/web", "-o", "json"]))).unwrap();
    assert_eq!(
        [&ready["environment"], &ready["name"], &ready["state"]],
        [&json!("shop"), &json!("web"), &json!("Ready")]
    );

    let failed = home.run(&["wait", "shop/db"]);
    assert_eq!(code(&failed), 6);
    assert!(err(&failed).contains("service `shop/db` failed: gave up after 3 restarts"));
    let blocked = home.run(&["wait", "shop/web", "shop/api"]);
    assert_eq!(code(&blocked), 6);
    assert!(err(&blocked).contains("service `shop/api` is blocked: shop/db: gave up"));

    let late = home.run(&["wait", "shop/web", "shop/slow", "--timeout", "200ms"]);
    assert_eq!(code(&late), 5);
    let message = "`shop/slow` is Waiting: image `slow:1` is being pulled";
    assert!(err(&late).contains(message), "{}", err(&late));
    assert!(
        err(&late).contains("`argus describe shop/slow`"),
        "{}",
        err(&late)
    );
    let unknown = home.run(&["wait", "shop/wbe"]);
    assert_eq!(code(&unknown), 1);
    assert!(err(&unknown).contains("has no service `wbe`; its services: api, db, slow, web"));

    assert_eq!(out(&home.run(&["wait", "shop/old", "--for", "gone"])), "gone\n");
    let gone = out(&home.run(&["wait", "shop/old", "--for", "gone", "-o", "json"]));
    let gone: Value = serde_json::from_str(&gone).unwrap();
    assert_eq!(
        gone,
        json!({ "environment": "shop", "service": "old", "phase": "Gone" })
    );
    let stays = home.run(&["wait", "shop/web", "--for", "gone", "--timeout", "200ms"]);
    assert_eq!(code(&stays), 5);
}

#[test]
fn rejected_file_ends_the_wait_for_its_service() {
    let home = Home::with_controller();
    let invalid = StructuredError::new(Code::SpecInvalid, "line 3: unknown key `imag`");
    home.status(&EnvironmentStatus {
        environment: "shop".to_owned(),
        phase: Phase::Failed,
        conditions: vec![condition("Blocked", Truth::True, invalid.code.reason())],
        errors: vec![invalid],
        ..EnvironmentStatus::default()
    });
    assert_eq!(code(&home.run(&["wait", "shop/web"])), 3);
}

#[test]
fn network_shows_the_links_of_a_service() {
    let home = Home::new();
    home.status(&shop());
    let of = |target: &str| {
        let output = home.run(&["network", target, "-o", "json"]);
        let report: Value = serde_json::from_str(&out(&output)).unwrap();
        let links = report["connectivity"]["links"].as_array().unwrap().len();
        (links, report["verified"] == true, code(&output))
    };
    assert_eq!(of("shop"), (2, false, 5));
    assert_eq!(of("shop/slow"), (1, true, 0));
    assert_eq!(of("shop/db"), (1, false, 5));
    let unknown = home.run(&["network", "shop/wbe"]);
    assert!(
        err(&unknown).contains("has no service `wbe`"),
        "{}",
        err(&unknown)
    );
}

#[test]
fn commands_for_environments_refuse_a_service_with_a_remedy() {
    let home = Home::new();
    home.status(&shop());
    for (args, remedy) in [
        (&["down", "shop/web"][..], "`argus down shop`"),
        (&["fork", "shop/web"], "`argus fork shop`"),
        (&["cancel", "shop/web"], "`argus cancel shop`"),
        (&["rollback", "shop/web"], "`argus rollback shop`"),
        (
            &["test", "begin", "shop/web", "--case", "x"],
            "`argus test begin shop`",
        ),
        (
            &["test", "end", "shop/web", "--case", "x"],
            "`argus test end shop`",
        ),
        (&["test", "run", "shop/web"], "`argus test run shop`"),
        (&["breaker", "status", "shop/web"], "`argus breaker status shop`"),
        (&["breaker", "reset", "shop/web"], "`argus breaker reset shop`"),
    ] {
        let output = home.run(args);
        let text = err(&output);
        assert_eq!(code(&output), 2, "{args:?}: {text}");
        assert!(text.contains("`shop/web` is a service, but "), "{args:?}: {text}");
        assert!(text.contains(remedy), "{args:?}: {text}");
    }
}

#[test]
fn name_of_one_service_suggests_its_environment() {
    let home = Home::with_controller();
    home.status(&shop());
    let commands = [
        &["get", "web"][..],
        &["env", "web"],
        &["evidence", "web"],
        &["network", "web"],
        &["wait", "web", "--timeout", "10ms"],
    ];
    // The only environment is their default.
    let defaulted = [
        &["describe", "web"][..],
        &["open", "web"],
        &["shell", "web"],
        &["why", "web"],
        &["exec", "web", "--", "true"],
    ];
    for args in commands {
        let text = err(&home.run(args));
        let hint = "pass `shop/web`, because `web` is a service of `shop`";
        assert!(text.contains(hint), "{args:?}: {text}");
    }
    for args in defaulted {
        let text = err(&home.run(args));
        let is_unknown = text.contains("pass `shop/web`") || text.contains("environment `web`");
        assert!(!is_unknown, "{args:?}: {text}");
    }
    home.status(&EnvironmentStatus {
        environment: "other".to_owned(),
        ..shop()
    });
    for args in commands.into_iter().chain(defaulted) {
        let text = err(&home.run(args));
        assert!(!text.contains("pass `"), "{args:?}: {text}");
    }
}
