//! A pull: as long as it shows progress it may take its time.

use argus_backend::Progress;
use argus_core::outcome::{ActionError, Done};
use bollard::errors::Error;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures::StreamExt;

use super::credentials;
use super::layers::{Heard, Layers};
use crate::Shared;
use crate::error::{self, Op};
use crate::ownership::safe_reference;

/// Pulls an image, or finds that the engine has its newest version already.
pub(crate) async fn pull(
    shared: &Shared,
    reference: &str,
    progress: &dyn Progress,
) -> Result<Done, ActionError> {
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
        match tokio::time::timeout(shared.no_progress, stream.next()).await {
            Ok(Some(Ok(info))) => match layers.hear(info) {
                Some(Heard::Step(line)) => progress.report_line(&line),
                Some(Heard::Amount(line)) => progress.report_status(&line),
                None => {}
            },
            Ok(Some(Err(failure))) => return Err(sorted(&failure)),
            Ok(None) => return Ok(Done::Ok),
            Err(_) => {
                let seconds = shared.no_progress.as_secs();
                return Err(ActionError::PullFailed(format!("no progress for {seconds} s")));
            }
        }
    }
}

fn sorted(failure: &Error) -> ActionError {
    match failure {
        Error::DockerStreamError { error: said } => error::pull(said),
        // A registry's refusal is passed on with its own status.
        Error::DockerResponseServerError {
            status_code: 429,
            message,
        } => error::limited(message),
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
    fn a_rate_limit_told_by_status_keeps_the_time_that_its_words_tell() {
        let told = |message: &str| {
            sorted(&Error::DockerResponseServerError {
                status_code: 429,
                message: message.to_owned(),
            })
        };
        let limited = |message: &str, seconds: Option<u64>| ActionError::RateLimited {
            message: message.to_owned(),
            retry_after: seconds.map(std::time::Duration::from_secs),
        };
        assert_eq!(
            told("slow down, retry after 30s"),
            limited("slow down, retry after 30s", Some(30))
        );
        assert_eq!(told("Retry-After: 7"), limited("Retry-After: 7", Some(7)));
        // Whatever else it says, the status has decided.
        assert_eq!(
            told("access denied for now"),
            limited("access denied for now", None)
        );
    }

    #[test]
    fn exactly_one_tag_is_pulled() {
        assert_eq!(tagged("busybox"), "busybox:latest");
        assert_eq!(tagged("r.example:5000/a/b"), "r.example:5000/a/b:latest");
        assert_eq!(tagged("a/b:1"), "a/b:1");
        assert_eq!(tagged("a@sha256:00"), "a@sha256:00");
    }
}
