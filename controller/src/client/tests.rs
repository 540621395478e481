//! An error of every code goes the way of each surface, and arrives whole.

use std::path::Path;
use std::sync::OnceLock;

use argus_core::status::error_id;
use argus_core::time::Timestamp;
use argus_crds::status::{ControllerStatus, Phase, ServiceState, ServiceStatus};
use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::response::Response;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::cli::output;
use crate::exit::Exit;
use crate::http::{Guard, routes};
use crate::settings::{Options, SpecOptions};

/// An error as a path of ours raises it: what its code says of it, and where it is.
pub(crate) fn raised(code: Code) -> StructuredError {
    StructuredError::new(code, format!("{code} in words"))
        .environment("shop")
        .service("api")
        .retry_after(7)
        .details(json!({ "evidence": "x" }))
}

/// The same as a status has it.
pub(crate) fn in_status(code: Code) -> StructuredError {
    let at = Timestamp(1_795_300_000_000);
    let id = error_id("shop", Some("api"), code, "in words", at);
    raised(code).error_id(id).timestamp(at.to_string()).stage("start")
}

/// One failed service of each code.
pub(crate) fn full_of_errors() -> EnvironmentStatus {
    let row = |code: &Code| ServiceStatus {
        name: code.as_str().to_lowercase().replace('_', "-"),
        state: ServiceState::Failed,
        last_error: Some(in_status(*code)),
        ..ServiceStatus::default()
    };
    EnvironmentStatus {
        environment: "shop".to_owned(),
        project: "shop".to_owned(),
        phase: Phase::Failed,
        services: Code::ALL.iter().map(row).collect(),
        errors: Code::ALL.iter().map(|code| in_status(*code)).collect(),
        as_of: "2026-11-21T19:00:00Z".to_owned(),
        ..EnvironmentStatus::default()
    }
}

/// Everything that an agent has to be able to rely on, whatever the surface.
pub(crate) fn whole(code: Code, told: &Value) {
    published("error.schema.json", told);
    let about = code.about();
    assert_eq!(told["code"], code.as_str(), "{told:#}");
    assert_eq!(told["category"], json!(about.category), "{told:#}");
    assert_eq!(told["severity"], json!(about.severity), "{told:#}");
    assert_eq!(told["class"], json!(about.class), "{told:#}");
    assert_eq!(told["retryable"], about.retryable, "{told:#}");
    assert_eq!(told["retryAfter"], 7, "{told:#}");
    assert_eq!(told["details"]["evidence"], "x", "{told:#}");
    assert_eq!(
        (&told["environment"], &told["service"]),
        (&json!("shop"), &json!("api"))
    );
    assert!(
        told["message"].as_str().is_some_and(|words| !words.is_empty()),
        "{told:#}"
    );
    assert!(
        told["errorId"].as_str().is_some_and(|id| id.len() == 26),
        "{told:#}"
    );
    let at = told["timestamp"].as_str().and_then(Timestamp::parse);
    assert!(at.is_some(), "{told:#}");
    let remedies = about
        .actions
        .iter()
        .map(|action| action.remedy(Some("shop"), Some("api")));
    assert_eq!(told["suggestedActions"], json!(about.actions), "{told:#}");
    assert_eq!(told["remedies"], json!(remedies.collect::<Vec<_>>()), "{told:#}");
}

/// It is as the file in `crds/` says.
pub(crate) fn published(schema: &str, told: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crds").join(schema);
    let text = std::fs::read_to_string(path).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    jsonschema::validate(&schema, told).unwrap_or_else(|why| panic!("{why}: {told:#}"));
}

/// A state directory with this status, and no controller.
fn alone(status: &EnvironmentStatus) -> (tempfile::TempDir, ControllerClient) {
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

async fn body(answer: Response) -> Value {
    let bytes = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

async fn get(client: &ControllerClient, path: &str) -> Value {
    let app = routes(client.clone(), Guard::Socket, CancellationToken::new());
    let request = Request::get(path).body(Body::empty()).unwrap();
    let answer = TowerToHyperService::new(app).call(request).await.unwrap();
    assert!(answer.status().is_success(), "{path}: {}", answer.status());
    body(answer).await
}

#[tokio::test]
async fn what_is_in_a_status_is_served_whole() {
    let status = full_of_errors();
    published("status.schema.json", &json!(status));
    let (_dir, client) = alone(&status);
    let served = get(&client, "/api/v1/environments/shop").await;
    let controller = get(&client, "/api/v1/controller").await;
    let all = get(&client, "/api/v1/environments?detail=full").await;
    for told in [&served, &controller, &all["items"][0]] {
        published("status.schema.json", told);
        for (index, code) in Code::ALL.iter().enumerate() {
            whole(*code, &told["errors"][index]);
            assert_eq!(told["errors"][index]["stage"], "start");
        }
    }
    for (index, code) in Code::ALL.iter().enumerate() {
        let row = &served["services"][index];
        whole(*code, &row["lastError"]);
        let name = row["name"].as_str().unwrap();
        let one = get(&client, &format!("/api/v1/environments/shop/services/{name}")).await;
        whole(*code, &one["lastError"]);
    }
}

#[tokio::test]
async fn what_is_raised_by_an_answer_is_a_problem_whole() {
    for code in Code::ALL {
        let problem = crate::http::problem(Failure::new(raised(*code)));
        let (status, headers) = (problem.status(), problem.headers().clone());
        assert!(
            status.is_client_error() || status.is_server_error(),
            "{code}: {status}"
        );
        assert_eq!(headers["content-type"], "application/problem+json", "{code}");
        assert_eq!(headers["retry-after"], "7", "{code}");
        let told = body(problem).await;
        whole(*code, &told);
        assert_eq!(told["type"], format!("urn:argus:error:{code}"));
        assert_eq!(told["status"], status.as_u16());
        assert_eq!(told["detail"], told["message"]);
        assert_eq!(told["title"], code.about().summary);
    }
}

#[test]
fn what_ends_a_command_is_told_to_programs_whole() {
    for code in Code::ALL {
        let failure = Failure::new(raised(*code)).exit(Exit::Unexpected);
        let told: Value = serde_json::from_str(&output::as_text(failure)).unwrap();
        whole(*code, &told);
    }
    // What is said to people alone elsewhere is in it, too.
    let failure = Failure::of(Code::PrereqMissing, "x").hint("do this");
    let told: Value = serde_json::from_str(&output::as_text(failure)).unwrap();
    assert_eq!(told["details"]["hint"], "do this");
    let failure = Failure::new(raised(Code::SpecInvalid)).hint("do this");
    let told: Value = serde_json::from_str(&output::as_text(failure)).unwrap();
    assert_eq!(told["details"], json!({ "evidence": "x", "hint": "do this" }));
}

#[test]
fn one_occurrence_is_the_same_on_every_surface() {
    static ONE: OnceLock<StructuredError> = OnceLock::new();
    let error = ONE.get_or_init(|| crate::exit::stamped(raised(Code::Timeout)));
    let again = Failure::new(error.clone()).into_error();
    assert_eq!(*error, again, "what has an identity keeps it");
}

/// A file that cannot be read to its end until somebody writes it.
fn fifo(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[tokio::test]
async fn a_file_that_hangs_holds_up_only_who_asked_for_it() {
    let (dir, client) = alone(&full_of_errors());
    let hung = dir.path().join("state/environments/hung.json");
    fifo(&hung);
    // There is one thread here: an answer that read the file on it would be waited for by all.
    let app = routes(client, Guard::Socket, CancellationToken::new());
    let app = TowerToHyperService::new(app);
    let ask = |path: &str| app.call(Request::get(path).body(Body::empty()).unwrap());
    let (released, free) = std::sync::mpsc::channel::<()>();
    let status = serde_json::to_vec(&EnvironmentStatus {
        environment: "hung".to_owned(),
        ..full_of_errors()
    });
    // Whoever is held up until then is found out.
    let disk = std::thread::spawn(move || {
        let in_time = free.recv_timeout(std::time::Duration::from_secs(20)).is_ok();
        std::fs::write(hung, status.unwrap()).unwrap();
        in_time
    });
    let slow = ask("/api/v1/environments/hung");
    let others = async {
        for path in ["/healthz", "/api/v1/errors", "/api/v1/environments/shop"] {
            assert!(ask(path).await.unwrap().status().is_success(), "{path}");
        }
        released.send(()).unwrap();
    };
    let (slow, ()) = tokio::join!(slow, others);
    assert!(slow.unwrap().status().is_success());
    assert!(disk.join().unwrap(), "the others were held up");
}
