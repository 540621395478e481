//! Responses to callers without the token have no output of containers, no names of suites and no values of rejected files, and every
//! response has its headers.

use argus_crds::diagnostic::{Correction, Diagnostic};
use argus_crds::error::{Call, Code, StructuredError};
use argus_crds::status::{
    Condition, ControllerStatus, EnvironmentStatus, Phase, PreflightReport, RejectedSpec, RunningTest,
    ServiceState, ServiceStatus, SuiteStatus, Truth,
};
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Guard, routes};
use crate::api::Method;
use crate::client::ControllerClient;
use crate::operations;
use crate::settings::{Options, Settings, SpecOptions};

/// Text that only a container, a suite or a rejected file has.
const OUTPUT: &str = "wolpertinger";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const ADDRESS: &str = "127.0.0.1:9470";
const LAST_CHECK: &str = "2025-01-01T00:00:00.000Z";

/// Error in a file, with its value in every text.
fn diagnostic() -> Diagnostic {
    let mut diagnostic =
        Diagnostic::error(format!("services[0].{OUTPUT}"), format!("`{OUTPUT}` is invalid")).hint(OUTPUT);
    diagnostic.correction = Some(Box::new(Correction {
        now: Some(OUTPUT.to_owned()),
        suggest: Some(OUTPUT.to_owned()),
        ..Correction::default()
    }));
    diagnostic
}

/// Status of an environment whose service failed with output in every text, and whose file was edited and rejected during a test.
fn failed() -> EnvironmentStatus {
    let error = StructuredError::new(Code::ContainerCrash, format!("failed: {OUTPUT}"))
        .environment("shop")
        .service("web")
        .details(json!({ "lastLines": [OUTPUT], "probeLog": [OUTPUT] }))
        .tails(OUTPUT, OUTPUT)
        .error_id("01M7ZT8NQ3JK5CY13HJAQAYAWR")
        .with_call(Call::new("inspect", serde_json::Map::new()).outcome([OUTPUT.to_owned()]));
    EnvironmentStatus {
        environment: "shop".to_owned(),
        phase: Phase::Failed,
        services: vec![ServiceStatus {
            name: "web".to_owned(),
            state: ServiceState::Failed,
            last_error: Some(error.clone()),
            ..ServiceStatus::default()
        }],
        conditions: vec![
            condition("Blocked", Truth::True, Code::ContainerCrash),
            condition("SpecAccepted", Truth::False, Code::SpecInvalid),
        ],
        errors: vec![
            error,
            StructuredError::new(Code::SpecInvalid, format!("line 3: `{OUTPUT}` is invalid"))
                .details(json!({ "diagnostics": [diagnostic()] })),
        ],
        diagnostics: vec![diagnostic()],
        notes: vec![OUTPUT.to_owned()],
        tests: vec![RunningTest {
            case: OUTPUT.to_owned(),
            purpose: Some(OUTPUT.to_owned()),
            ..RunningTest::default()
        }],
        test_results: vec![SuiteStatus {
            suite: OUTPUT.to_owned(),
            result: "failed".to_owned(),
            failed_cases: vec![OUTPUT.to_owned()],
            ..SuiteStatus::default()
        }],
        ..EnvironmentStatus::default()
    }
}

fn condition(kind: &str, status: Truth, code: Code) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status,
        reason: code.reason().to_owned(),
        message: format!("`web`: failed: {OUTPUT}"),
        last_transition_time: String::new(),
    }
}

/// Creates the routes of a client of a state directory with this status, without a controller.
fn app(dir: &std::path::Path) -> TowerToHyperService<axum::Router> {
    let (state, mut status) = (dir.join("state"), failed());
    let calls = status.take_calls();
    std::fs::create_dir_all(state.join("environments")).unwrap();
    let controller = ControllerStatus {
        errors: status.errors.clone(),
        rejected: vec![RejectedSpec {
            spec_path: "e2e.yaml".to_owned(),
            environment: Some("shop".to_owned()),
            diagnostics: vec![diagnostic()],
        }],
        preflight: Some(PreflightReport {
            as_of: LAST_CHECK.to_owned(),
            ..PreflightReport::default()
        }),
        ..ControllerStatus::default()
    };
    for (name, text) in [
        ("environments/shop.json", json!(status)),
        ("environments/shop.debug", json!(calls)),
        ("controller.json", json!(controller)),
    ] {
        std::fs::write(state.join(name), text.to_string()).unwrap();
    }
    let options = Options {
        state: Some(state),
        docker_host: Some("unix:///nonexistent/docker.sock".to_owned()),
        ..Options::default()
    };
    let client = ControllerClient::remote(Settings::resolve(&options, &SpecOptions::default()).unwrap());
    let guard = Guard::Address {
        at: ADDRESS.parse().unwrap(),
        token: TOKEN.into(),
    };
    TowerToHyperService::new(routes(client, guard, CancellationToken::new()))
}

/// Sends a request and returns the status, the two headers of a response and its text.
async fn get(
    app: &TowerToHyperService<axum::Router>,
    path: &str,
    headers: &[(&str, &str)],
) -> (StatusCode, [String; 2], String) {
    let request = Request::get(path).header("host", ADDRESS);
    let request = headers
        .iter()
        .fold(request, |request, (name, value)| request.header(*name, *value));
    let response = app.call(request.body(Body::empty()).unwrap()).await.unwrap();
    let header = |name: &str| {
        let value = response.headers().get(name);
        value.map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
    };
    let (status, found) = (
        response.status(),
        ["x-content-type-options", "content-type"].map(header),
    );
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, found, String::from_utf8_lossy(&bytes).into_owned())
}

/// Paths of all reading routes of operations.
fn paths() -> Vec<String> {
    let routes = operations::all().iter().flat_map(|entry| entry.routes);
    let reading = routes.filter(|route| route.method == Method::Get);
    reading
        .map(|route| {
            let query = if route.path.ends_with("/wait") {
                "?timeoutSeconds=0"
            } else {
                ""
            };
            let path = route
                .path
                .replace("{environment}", "shop")
                .replace("{service}", "web")
                .replace("{code}", "PORT_CONFLICT")
                .replace(['{', '}'], "");
            path + query
        })
        .collect()
}

#[tokio::test]
async fn response_without_the_token_has_no_foreign_text() {
    let dir = tempfile::tempdir().unwrap();
    let app = app(dir.path());
    let bearer = format!("Bearer {TOKEN}");
    let mut shown = 0;
    for path in paths() {
        let and = if path.contains('?') { '&' } else { '?' };
        for path in [path.clone(), format!("{path}{and}debug=true")] {
            let (_, _, text) = get(&app, &path, &[]).await;
            assert!(!text.contains(OUTPUT), "{path}: {text}");
            let wrong = [("authorization", "Bearer 0000")];
            let (_, _, text) = get(&app, &path, &wrong).await;
            assert!(!text.contains(OUTPUT), "{path}: {text}");
            let own = [("authorization", bearer.as_str())];
            shown += usize::from(get(&app, &path, &own).await.2.contains(OUTPUT));
        }
    }
    assert!(shown >= 8, "{shown}");
    let (_, _, text) = get(&app, "/api/v1/environments/shop?debug=true", &[]).await;
    let status: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status["errors"][0]["code"], "CONTAINER_CRASH", "{status:#}");
    assert_eq!(status["services"][0]["state"], json!(ServiceState::Failed));
    assert_eq!(status["diagnostics"][0]["severity"], "error", "{status:#}");
    assert_eq!(status["testResults"][0]["result"], "failed", "{status:#}");
    assert!(status["errors"][0]["debug"].is_null(), "{status:#}");
}

#[tokio::test]
async fn errors_contain_their_calls_only_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let app = app(dir.path());
    let bearer = format!("Bearer {TOKEN}");
    for path in ["", "?detail=full", "/shop", "/shop/why", "/missing"] {
        let path = format!("/api/v1/environments{path}");
        let and = if path.contains('?') { '&' } else { '?' };
        for (value, is_requested) in [("", false), ("debug=false", false), ("debug=true", true)] {
            let path = format!("{path}{and}{value}");
            let (_, _, text) = get(&app, &path, &[("authorization", bearer.as_str())]).await;
            assert_eq!(text.contains(r#""debug":[{"#), is_requested, "{path}: {text}");
        }
    }
}

#[tokio::test]
async fn every_response_forbids_sniffing_and_other_sites() {
    let dir = tempfile::tempdir().unwrap();
    let app = app(dir.path());
    let others = ["/healthz", "/readyz", "/metrics", "/events", "/mcp", "/nowhere"].map(str::to_owned);
    for path in paths().into_iter().chain(others) {
        if path != "/events" {
            let (_, [sniffing, _], _) = get(&app, &path, &[]).await;
            assert_eq!(sniffing, "nosniff", "{path}");
        }
        let bearer = format!("Bearer {TOKEN}");
        for site in ["cross-site", "same-site"] {
            let headers = [("sec-fetch-site", site), ("authorization", bearer.as_str())];
            let (status, [sniffing, kind], text) = get(&app, &path, &headers).await;
            assert_eq!(status, StatusCode::FORBIDDEN, "{path}: {text}");
            assert_eq!(
                (sniffing.as_str(), kind.as_str()),
                ("nosniff", "application/problem+json")
            );
            let problem: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(problem["details"]["reason"], "forbidden", "{path}: {text}");
        }
    }
}

#[tokio::test]
async fn preflight_without_the_token_is_the_last_report() {
    let dir = tempfile::tempdir().unwrap();
    let app = app(dir.path());
    let last = |text: &str| {
        let report: Value = serde_json::from_str(text).unwrap();
        report["asOf"] == LAST_CHECK
    };
    let (_, _, text) = get(&app, "/api/v1/preflight?skip=disk", &[]).await;
    assert!(last(&text), "{text}");
    let bearer = format!("Bearer {TOKEN}");
    let (_, _, text) = get(&app, "/api/v1/preflight", &[("authorization", bearer.as_str())]).await;
    assert!(!last(&text), "{text}");
}
