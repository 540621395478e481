//! HTTP on a unix socket in the state directory: what a command asks of a running controller.

use std::future::Future;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::Mode;
use argus_reconciler::state::StateDir;
use argus_reconciler::{Answer, Command};
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

pub(crate) mod client;

/// Where commands are told.
pub(crate) const ACTIONS: &str = "/api/v1/actions";

/// Where a controller says how it is.
pub(crate) const HEALTH: &str = "/healthz";

/// How a controller is: it answers, and what it may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Health {
    /// `ok`, for it answers.
    pub(crate) status: String,
    /// What it may do at present.
    pub(crate) mode: Mode,
    /// Why it is in that mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mode_reason: Option<String>,
}

/// The socket of the controller on this state directory.
pub(crate) fn socket(state: &StateDir) -> PathBuf {
    state.private().join("argus.sock")
}

/// What can be asked of a controller that runs.
pub(crate) trait Commands: Send + Sync + 'static {
    /// Answers when a command is taken in, not when all that follows from it is done.
    fn obey(&self, command: Command) -> impl Future<Output = Result<Answer, StructuredError>> + Send;

    /// What it may do at present, and why.
    fn mode(&self) -> (Mode, Option<String>);
}

/// Serves until it is stopped.
pub(crate) async fn serve<C: Commands>(
    path: PathBuf,
    commands: Arc<C>,
    stop: CancellationToken,
) -> io::Result<()> {
    let listener = bind(&path)?;
    let served = axum::serve(listener, routes(commands))
        .with_graceful_shutdown(stop.cancelled_owned())
        .await;
    // Whoever finds no socket knows that nobody listens.
    drop(std::fs::remove_file(&path));
    served
}

/// The lock is ours, so a socket that lies there is a dead controller's.
fn bind(path: &std::path::Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    // The folder is 0700 already: between bind and this nobody else gets in.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn routes<C: Commands>(commands: Arc<C>) -> Router {
    Router::new()
        .route(HEALTH, get(health::<C>))
        .route(ACTIONS, post(act::<C>))
        .fallback(async || Refusal::new(StatusCode::NOT_FOUND, "no such path"))
        .with_state(commands)
}

async fn health<C: Commands>(State(commands): State<Arc<C>>) -> Json<Health> {
    let (mode, mode_reason) = commands.mode();
    Json(Health {
        status: "ok".to_owned(),
        mode,
        mode_reason,
    })
}

async fn act<C: Commands>(
    State(commands): State<Arc<C>>,
    command: Result<Json<Command>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(command) =
        command.map_err(|bad| Refusal::new(StatusCode::BAD_REQUEST, &bad.body_text().to_lowercase()))?;
    let answer = commands.obey(command).await.map_err(refused)?;
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

/// An error on its way out: the one type of error, as JSON.
struct Refusal(StatusCode, Box<StructuredError>);

impl Refusal {
    /// Whoever asked has to ask otherwise.
    fn new(status: StatusCode, message: &str) -> Self {
        Self(
            status,
            Box::new(StructuredError::new(Code::PrereqMissing, message).suggest(&[])),
        )
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(self.1)).into_response()
    }
}

fn refused(error: StructuredError) -> Refusal {
    Refusal(StatusCode::CONFLICT, Box::new(error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Echo;

    impl Commands for Echo {
        async fn obey(&self, command: Command) -> Result<Answer, StructuredError> {
            match command {
                Command::Retry { environment } => {
                    Err(StructuredError::new(Code::Held, "it is held").environment(environment.as_str()))
                }
                _ => Ok(Answer::Done),
            }
        }

        fn mode(&self) -> (Mode, Option<String>) {
            (Mode::Safe, Some("the disk is full".to_owned()))
        }
    }

    fn body(verb: &str, env: &str) -> serde_json::Value {
        json!({ "verb": verb, "environment": env })
    }

    #[tokio::test]
    async fn commands_travel_over_the_socket_and_errors_come_back_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("argus.sock");
        // What a dead controller left is no obstacle.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let stop = CancellationToken::new();
        let server = serve(path.clone(), Arc::new(Echo), stop.clone());
        let talk = async {
            while client::get(&path, "/healthz").await.is_err() {
                tokio::task::yield_now().await;
            }
            let health = client::get(&path, HEALTH).await.unwrap();
            let health: Health = serde_json::from_slice(&health).unwrap();
            assert_eq!(
                (health.mode, health.mode_reason.as_deref()),
                (Mode::Safe, Some("the disk is full"))
            );
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600);
            client::post(&path, ACTIONS, &body("down", "shop")).await.unwrap();
            let held = client::post(&path, ACTIONS, &body("retry", "shop"))
                .await
                .unwrap_err();
            let client::ClientError::Refused(error) = held else {
                panic!("{held:?}")
            };
            assert_eq!(
                (error.code, error.environment.as_deref()),
                (Code::Held, Some("shop"))
            );
            let bad = client::post(&path, ACTIONS, &body("down", "Shop"))
                .await
                .unwrap_err();
            assert!(matches!(bad, client::ClientError::Refused(_)));
            stop.cancel();
        };
        let (ended, ()) = tokio::join!(server, talk);
        ended.unwrap();
        assert!(!path.exists());
        assert!(matches!(
            client::get(&path, "/healthz").await,
            Err(client::ClientError::Away(_))
        ));
    }
}
