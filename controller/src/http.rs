//! HTTP on a unix socket in the state directory: what a command asks of a running controller.

use std::future::Future;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use argus_core::ident::EnvName;
use argus_crds::error::{Code, StructuredError};
use argus_reconciler::state::StateDir;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

pub(crate) mod client;

/// The socket of the controller on this state directory.
pub(crate) fn socket(state: &StateDir) -> PathBuf {
    state.private().join("argus.sock")
}

/// What can be asked of a controller that runs.
pub(crate) trait Commands: Send + Sync + 'static {
    /// Take an environment down; answers when that is decided, not when it is done.
    fn down(&self, env: EnvName) -> impl Future<Output = Result<(), StructuredError>> + Send;

    /// Forget failures and try again.
    fn retry(&self, env: EnvName) -> impl Future<Output = Result<(), StructuredError>> + Send;
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
        .route("/healthz", get(async || Json(json!({ "status": "ok" }))))
        .route("/api/v1/environments/{env}/down", post(down::<C>))
        .route("/api/v1/environments/{env}/retry", post(retry::<C>))
        .fallback(async || Refusal::new(StatusCode::NOT_FOUND, "no such path"))
        .with_state(commands)
}

async fn down<C: Commands>(
    State(commands): State<Arc<C>>,
    Path(env): Path<String>,
) -> Result<Response, Refusal> {
    let env = checked(env)?;
    commands.down(env.clone()).await.map_err(refused)?;
    Ok((
        StatusCode::ACCEPTED,
        Json(json!({ "environment": env, "accepted": "down" })),
    )
        .into_response())
}

async fn retry<C: Commands>(
    State(commands): State<Arc<C>>,
    Path(env): Path<String>,
) -> Result<Response, Refusal> {
    let env = checked(env)?;
    commands.retry(env.clone()).await.map_err(refused)?;
    Ok((
        StatusCode::ACCEPTED,
        Json(json!({ "environment": env, "accepted": "retry" })),
    )
        .into_response())
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

fn checked(env: String) -> Result<EnvName, Refusal> {
    EnvName::new(env).map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, &error.to_string()))
}

fn refused(error: StructuredError) -> Refusal {
    Refusal(StatusCode::CONFLICT, Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;

    impl Commands for Echo {
        async fn down(&self, _env: EnvName) -> Result<(), StructuredError> {
            Ok(())
        }

        async fn retry(&self, env: EnvName) -> Result<(), StructuredError> {
            Err(StructuredError::new(Code::Held, "it is held").environment(env.as_str()))
        }
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
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600);
            client::post(&path, "/api/v1/environments/shop/down")
                .await
                .unwrap();
            let held = client::post(&path, "/api/v1/environments/shop/retry")
                .await
                .unwrap_err();
            let client::ClientError::Refused(error) = held else {
                panic!("{held:?}")
            };
            assert_eq!(
                (error.code, error.environment.as_deref()),
                (Code::Held, Some("shop"))
            );
            let bad = client::post(&path, "/api/v1/environments/Shop/down")
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
