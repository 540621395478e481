//! Pulls of images. A pull has no total deadline; it is given up after a time without progress.

use argus_backend::Progress;
use argus_core::desired::similar_image;
use argus_core::outcome::{ActionError, Done};
use bollard::errors::Error;
use bollard::query_parameters::{CreateImageOptionsBuilder, ListImagesOptions};
use futures::StreamExt;

use super::credentials;
use super::layers::{Layers, PullProgress};
use crate::Shared;
use crate::call;
use crate::error::{self, Op};
use crate::ownership::check_reference;

/// Pulls an image. Succeeds without a download when the engine already has the newest version.
pub(crate) async fn pull(
    shared: &Shared,
    reference: &str,
    progress: &dyn Progress,
) -> Result<Done, ActionError> {
    check_reference(reference)?;
    let client = shared.connection.client()?;
    let reference = tagged(reference);
    let options = CreateImageOptionsBuilder::default()
        .from_image(&reference)
        .build();
    let (credentials, found) = credentials::for_image(&reference).await;
    let mut stream = Box::pin(client.create_image(Some(options), None, credentials));
    let mut layers = Layers::default();
    loop {
        match tokio::time::timeout(shared.progress_timeout, stream.next()).await {
            Ok(Some(Ok(info))) => match layers.update(info) {
                Some(PullProgress::Step(step)) => progress.report_step(step),
                Some(PullProgress::Amount(amount)) => progress.report_status(amount),
                None => {}
            },
            Ok(Some(Err(failure))) => {
                let error = found.explain(classify(&failure));
                return Err(with_similar_image(shared, &reference, error).await);
            }
            Ok(None) => return Ok(Done::Applied),
            Err(_) => {
                let seconds = shared.progress_timeout.as_secs();
                return Err(ActionError::PullFailed(format!("no progress for {seconds} s")));
            }
        }
    }
}

/// Checks that the engine has an image that must not be pulled.
pub(crate) async fn check_local(shared: &Shared, reference: &str) -> Result<Done, ActionError> {
    check_reference(reference)?;
    let client = shared.connection.client()?;
    match call::run(Op::Inspect, shared.times.read, client.inspect_image(reference)).await {
        Ok(_) => Ok(Done::Applied),
        Err(ActionError::Gone | ActionError::ImageMissing) => {
            let why =
                format!("the engine has no image `{reference}`, and `pullPolicy: never` forbids its pull");
            Err(with_similar_image(shared, reference, ActionError::ImageNotFound(why)).await)
        }
        Err(error) => Err(error),
    }
}

/// Adds an image of the engine whose name differs only by a typing error.
async fn with_similar_image(shared: &Shared, reference: &str, error: ActionError) -> ActionError {
    let Ok(client) = shared.connection.client() else {
        return error;
    };
    let call = client.list_images(None::<ListImagesOptions>);
    let all = call::run(Op::List, shared.times.read, call).await;
    let tags: Vec<String> = all
        .unwrap_or_default()
        .into_iter()
        .flat_map(|image| image.repo_tags)
        .collect();
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    let is_absent = matches!(error, ActionError::ImageNotFound(_));
    match similar_image(reference, &tags).filter(|similar| is_absent || has_same_version(reference, similar))
    {
        Some(similar) => error.with_similar(similar),
        None => error,
    }
}

/// Returns true if two references have the same digits. Without the answer of the registry, another version is not a typing error.
fn has_same_version(reference: &str, similar: &str) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    digits(reference) == digits(similar)
}

fn classify(failure: &Error) -> ActionError {
    match failure {
        Error::DockerStreamError { error: message } => error::classify_pull(message),
        // The engine forwards a registry's refusal with its status.
        Error::DockerResponseServerError {
            status_code: 429,
            message,
        } => error::rate_limited(message),
        other => error::classify(Op::Pull, other),
    }
}

/// Adds the tag `latest` to a reference without a tag; the engine would pull all tags otherwise.
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
    fn another_version_is_not_a_typing_error() {
        assert!(has_same_version("golang:1.21", "golnag:1.21"));
        assert!(!has_same_version("golang:1.21", "golang:1.12"));
        assert!(!has_same_version("node:21", "node:12"));
    }

    #[test]
    fn a_rate_limit_by_status_keeps_the_delay_of_its_message() {
        let classified = |message: &str| {
            classify(&Error::DockerResponseServerError {
                status_code: 429,
                message: message.to_owned(),
            })
        };
        let limited = |message: &str, seconds: Option<u64>| ActionError::RateLimited {
            message: message.to_owned(),
            retry_after: seconds.map(std::time::Duration::from_secs),
        };
        assert_eq!(
            classified("slow down, retry after 30s"),
            limited("slow down, retry after 30s", Some(30))
        );
        assert_eq!(classified("Retry-After: 7"), limited("Retry-After: 7", Some(7)));
        // The status decides, whatever the message contains.
        assert_eq!(
            classified("access denied for now"),
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
