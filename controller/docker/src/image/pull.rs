//! A pull: as long as it shows progress it may take its time.

use argus_backend::{NO_PROGRESS, Progress};
use argus_core::outcome::{ActError, Done};
use bollard::errors::Error;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures::StreamExt;

use super::credentials;
use super::layers::Layers;
use crate::Shared;
use crate::error::{self, Op};
use crate::ownership::safe_reference;

/// Pulls an image, or finds that the engine has its newest version already.
pub(crate) async fn pull(
    shared: &Shared,
    reference: &str,
    progress: &dyn Progress,
) -> Result<Done, ActError> {
    safe_reference(reference)?;
    let client = shared.connection.client()?;
    let reference = tagged(reference);
    let options = CreateImageOptionsBuilder::default()
        .from_image(&reference)
        .build();
    let credentials = credentials::for_image(&reference);
    let mut stream = Box::pin(client.create_image(Some(options), None, credentials));
    let mut layers = Layers::default();
    loop {
        match tokio::time::timeout(NO_PROGRESS, stream.next()).await {
            Ok(Some(Ok(info))) => {
                if let Some(line) = layers.hear(info, (shared.now)()) {
                    progress.say(&line);
                }
            }
            Ok(Some(Err(failure))) => return Err(sorted(&failure)),
            Ok(None) => return Ok(Done::Ok),
            Err(_) => {
                let seconds = NO_PROGRESS.as_secs();
                return Err(ActError::PullFailed(format!("no progress for {seconds} s")));
            }
        }
    }
}

fn sorted(failure: &Error) -> ActError {
    match failure {
        Error::DockerStreamError { error: said } => error::pull(said),
        // A registry's refusal is passed on with its own status.
        Error::DockerResponseServerError {
            status_code: 429,
            message,
        } => ActError::RateLimited {
            message: message.clone(),
            retry_after: None,
        },
        Error::DockerResponseServerError { status_code, message } => {
            error::answered(Op::Pull, *status_code, message)
        }
        other => error::transport(other),
    }
}

/// Without a tag the engine would pull every tag there is.
fn tagged(reference: &str) -> String {
    let name = reference.rsplit('/').next().unwrap_or(reference);
    if name.contains([':', '@']) {
        reference.to_owned()
    } else {
        format!("{reference}:latest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_tag_is_pulled() {
        assert_eq!(tagged("busybox"), "busybox:latest");
        assert_eq!(tagged("r.example:5000/a/b"), "r.example:5000/a/b:latest");
        assert_eq!(tagged("a/b:1"), "a/b:1");
        assert_eq!(tagged("a@sha256:00"), "a@sha256:00");
    }
}
