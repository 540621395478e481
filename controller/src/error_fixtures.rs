//! Errors of every code, and checks that an interface returns them with all fields.

use std::path::Path;

use argus_core::status::error_id;
use argus_core::time::Timestamp;
use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{EnvironmentStatus, Phase, ServiceState, ServiceStatus};
use serde_json::{Value, json};

/// Creates an error as a code path raises it: with the fields of its code, and with environment and service.
pub(crate) fn raised(code: Code) -> StructuredError {
    let error = StructuredError::new(code, format!("{code} in words"))
        .environment("shop")
        .service("api")
        .details(json!({ "evidence": "x" }));
    if error.retryable {
        error.retry_after(7)
    } else {
        error
    }
}

/// Creates the same error as it appears in a status.
pub(crate) fn in_status(code: Code) -> StructuredError {
    let at = Timestamp(1_795_300_000_000);
    let id = error_id("shop", Some("api"), code, "in words", at);
    raised(code).error_id(id).timestamp(at.to_string()).stage("start")
}

/// Creates a status with one failed service per code.
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

/// Checks all fields of an error that every interface must contain.
pub(crate) fn assert_complete(code: Code, value: &Value) {
    assert_valid("error.schema.json", value);
    let about = code.explanation();
    assert_eq!(value["code"], code.as_str(), "{value:#}");
    assert_eq!(value["category"], json!(about.category), "{value:#}");
    assert_eq!(value["severity"], json!(about.severity), "{value:#}");
    assert_eq!(value["class"], json!(about.class), "{value:#}");
    let retried = about.class.is_retried();
    assert_eq!(value["retryable"], retried, "{value:#}");
    assert_eq!(value["retryAfter"].as_u64(), retried.then_some(7), "{value:#}");
    assert_eq!(value["details"]["evidence"], "x", "{value:#}");
    assert_eq!(
        (&value["environment"], &value["service"]),
        (&json!("shop"), &json!("api"))
    );
    assert!(
        value["message"].as_str().is_some_and(|words| !words.is_empty()),
        "{value:#}"
    );
    assert!(
        value["errorId"].as_str().is_some_and(|id| id.len() == 26),
        "{value:#}"
    );
    let at = value["timestamp"].as_str().and_then(Timestamp::parse);
    assert!(at.is_some(), "{value:#}");
    let remedies = about
        .actions
        .iter()
        .map(|action| action.remedy(Some("shop"), Some("api")));
    assert_eq!(value["suggestedActions"], json!(about.actions), "{value:#}");
    assert_eq!(
        value["remedies"],
        json!(remedies.collect::<Vec<_>>()),
        "{value:#}"
    );
}

/// Checks a value against a schema of `crds/`.
pub(crate) fn assert_valid(schema: &str, value: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crds").join(schema);
    let text = std::fs::read_to_string(path).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    jsonschema::validate(&schema, value).unwrap_or_else(|reason| panic!("{reason}: {value:#}"));
}
