//! Errors of every code reach each interface with all fields.

use std::path::Path;
use std::sync::OnceLock;

use argus_crds::status::ControllerStatus;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::response::Response;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{EnvironmentStatus, Mode};

use crate::client::ControllerClient;
use crate::error_fixtures::{assert_complete, assert_valid, full_of_errors, raised};
use crate::http::{Guard, routes};
use crate::process::exit::Exit;
use crate::process::exit::Failure;
use crate::render::output;
use crate::settings::{Options, Settings, SpecOptions};

/// Creates a state directory with this status, without a controller.
fn client_without_controller(status: &EnvironmentStatus) -> (tempfile::TempDir, ControllerClient) {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    std::fs::create_dir_all(state.join("environments")).unwrap();
    std::fs::write(
        state.join("environments/shop.json"),
        serde_json::to_vec(status).unwrap(),
    )
    .unwrap();
    let controller = ControllerStatus {
        errors: status.errors.clone(),
        ..ControllerStatus::default()
    };
    std::fs::write(
        state.join("controller.json"),
        serde_json::to_vec(&controller).unwrap(),
    )
    .unwrap();
    let options = Options {
        state: Some(state),
        ..Options::default()
    };
    let settings = Settings::resolve(&options, &SpecOptions::default()).unwrap();
    (dir, ControllerClient::remote(settings))
}

async fn body(response: Response) -> Value {
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

async fn get(client: &ControllerClient, path: &str) -> Value {
    let app = routes(client.clone(), Guard::Socket, CancellationToken::new());
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = TowerToHyperService::new(app).call(request).await.unwrap();
    assert!(response.status().is_success(), "{path}: {}", response.status());
    body(response).await
}

#[tokio::test]
async fn failure_during_the_stop_is_reported_as_stop() {
    let (_dir, client) = client_without_controller(&EnvironmentStatus::default());
    let stop = CancellationToken::new();
    let app = TowerToHyperService::new(routes(client, Guard::Socket, stop.clone()));
    let call = async |path: &str| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        app.call(request).await.unwrap().status().as_u16()
    };
    assert_eq!(call("/api/v1/environments/none").await, 404);
    stop.cancel();
    for _ in 0..20 {
        assert_eq!(call("/api/v1/environments/none").await, 503);
    }
}

#[tokio::test]
async fn http_serves_status_errors_with_all_fields() {
    let status = full_of_errors();
    assert_valid("status.schema.json", &json!(status));
    let (_dir, client) = client_without_controller(&status);
    let served = get(&client, "/api/v1/environments/shop").await;
    let controller = get(&client, "/api/v1/controller").await;
    let all = get(&client, "/api/v1/environments?detail=full").await;
    for value in [&served, &controller, &all["items"][0]] {
        assert_valid("status.schema.json", value);
        for (index, code) in Code::ALL.iter().enumerate() {
            assert_complete(*code, &value["errors"][index]);
            assert_eq!(value["errors"][index]["stage"], "start");
        }
    }
    for (index, code) in Code::ALL.iter().enumerate() {
        let row = &served["services"][index];
        assert_complete(*code, &row["lastError"]);
        let name = row["name"].as_str().unwrap();
        let one = get(&client, &format!("/api/v1/environments/shop/services/{name}")).await;
        assert_complete(*code, &one["lastError"]);
    }
}

#[tokio::test]
async fn http_serves_every_mode() {
    for &mode in Mode::ALL {
        let status = EnvironmentStatus {
            environment: "shop".to_owned(),
            mode,
            ..EnvironmentStatus::default()
        };
        let (dir, client) = client_without_controller(&status);
        // Only mode `Full` has no reason.
        let reason = (mode != Mode::Full).then(|| "in words".to_owned());
        let controller = ControllerStatus {
            mode,
            mode_reason: reason.clone(),
            ..ControllerStatus::default()
        };
        let path = dir.path().join("state/controller.json");
        std::fs::write(path, serde_json::to_vec(&controller).unwrap()).unwrap();
        let served = get(&client, "/api/v1/controller").await;
        let mode = json!(mode);
        assert_eq!((&served["mode"], &served["modeReason"]), (&mode, &json!(reason)));
        for path in ["/api/v1/environments/shop", "/api/v1/environments?detail=full"] {
            let served = get(&client, path).await;
            let one = served["items"].get(0).unwrap_or(&served);
            assert_eq!(one["mode"], mode, "{path}: {served:#}");
        }
        let all = get(&client, "/api/v1/environments").await;
        assert_eq!(all["items"][0]["mode"], mode, "{all:#}");
    }
}

#[tokio::test]
async fn http_problem_has_all_error_fields() {
    for code in Code::ALL {
        let problem = crate::http::failure_response(Failure::new(raised(*code)));
        let (status, headers) = (problem.status(), problem.headers().clone());
        assert!(
            status.is_client_error() || status.is_server_error(),
            "{code}: {status}"
        );
        assert_eq!(headers["content-type"], "application/problem+json", "{code}");
        let retry_after = headers.get("retry-after").map(|value| value.to_str().unwrap());
        let retried = code.explanation().class.is_retried();
        assert_eq!(retry_after, retried.then_some("7"), "{code}");
        let value = body(problem).await;
        assert_complete(*code, &value);
        assert_eq!(value["type"], format!("urn:argus:error:{code}"));
        assert_eq!(value["status"], status.as_u16());
        assert_eq!(value["detail"], value["message"]);
        assert_eq!(value["title"], code.explanation().summary);
    }
}

#[tokio::test]
async fn unknown_path_is_a_plain_404() {
    let (_dir, client) = client_without_controller(&full_of_errors());
    let app = TowerToHyperService::new(routes(client, Guard::Socket, CancellationToken::new()));
    for path in ["/", "/nowhere"] {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = app.call(request).await.unwrap();
        assert_eq!(response.status(), 404, "{path}");
        let value = body(response).await;
        assert_eq!(value["type"], "about:blank", "{path}");
        assert_eq!(value["code"], "NOT_FOUND", "{path}");
        assert_eq!(value["details"]["reason"], "notFound", "{path}");
    }
}

#[tokio::test]
async fn mcp_body_that_is_not_json_is_a_parse_error() {
    let (_dir, client) = client_without_controller(&full_of_errors());
    let app = TowerToHyperService::new(routes(client, Guard::Socket, CancellationToken::new()));
    for text in ["", "half {", "not JSON"] {
        let request = Request::post("/mcp").header("content-type", "application/json");
        let request = request.header("accept", "application/json, text/event-stream");
        let response = app.call(request.body(Body::from(text)).unwrap()).await.unwrap();
        assert_eq!(response.status(), 400, "{text}");
        let value = body(response).await;
        assert_eq!(value["error"]["code"], -32700, "{text}");
        assert_eq!(value["id"], Value::Null, "{text}");
    }
}

#[test]
fn command_failure_as_json_has_all_fields() {
    for code in Code::ALL {
        let failure = Failure::new(raised(*code)).with_exit(Exit::Unexpected);
        let value: Value = serde_json::from_str(&output::failure_to_json(failure)).unwrap();
        assert_complete(*code, &value);
    }
    // Hints for people appear in the JSON as well.
    let failure = Failure::with_code(Code::PrereqMissing, "x").with_hint("do this");
    let value: Value = serde_json::from_str(&output::failure_to_json(failure)).unwrap();
    assert_eq!(value["details"]["hint"], "do this");
    let failure = Failure::new(raised(Code::SpecInvalid)).with_hint("do this");
    let value: Value = serde_json::from_str(&output::failure_to_json(failure)).unwrap();
    assert_eq!(value["details"], json!({ "evidence": "x", "hint": "do this" }));
}

#[test]
fn stamped_error_keeps_its_identity() {
    static ONE: OnceLock<StructuredError> = OnceLock::new();
    let error = ONE.get_or_init(|| crate::process::exit::add_context(raised(Code::Timeout)));
    let again = Failure::new(error.clone()).into_error();
    assert_eq!(*error, again, "an existing identity stays");
}

/// Creates a file whose readers wait until the test writes it.
fn fifo(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[tokio::test]
async fn special_file_as_status_is_refused_without_waiting() {
    let (dir, client) = client_without_controller(&full_of_errors());
    // A read of it would wait for a writer, and there is none.
    fifo(&dir.path().join("state/environments/hung.json"));
    let app = routes(client, Guard::Socket, CancellationToken::new());
    let app = TowerToHyperService::new(app);
    let send = |path: &str| app.call(Request::get(path).body(Body::empty()).unwrap());
    let refused = send("/api/v1/environments/hung").await.unwrap();
    assert!(!refused.status().is_success(), "{}", refused.status());
    for path in ["/healthz", "/api/v1/errors", "/api/v1/environments/shop"] {
        assert!(send(path).await.unwrap().status().is_success(), "{path}");
    }
}
