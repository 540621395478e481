//! The connection to the `BuildKit` of an engine, and the size of its cache.

use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use argus_core::outcome::ActionError;
use bollard::errors::Error;
use bollard_buildkit_proto::moby::buildkit::v1::control_client::ControlClient;
use bollard_buildkit_proto::moby::buildkit::v1::{DiskUsageRequest, UsageRecord};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Either, select};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioExecutor;
use tonic::body::Body;
use tower_service::Service;

use super::{buildkit, request, solve};
use crate::Shared;
use crate::connect::{Endpoint, upgrade};
use crate::error;

/// Address of the engine in the requests of a connection that is open already.
pub(super) const ORIGIN: &str = "http://engine";
/// Maximum size of the headers of a response in bytes. The details of a failure contain the Dockerfile.
const MAX_HEADERS: u32 = 4 * 1024 * 1024;
/// Maximum size of a report in bytes.
const MAX_REPORT: usize = 16 * 1024 * 1024;
/// Deadline of the query for the size of the cache.
const USAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Calls over one HTTP/2 connection.
#[derive(Clone)]
pub(super) struct Calls(pub(super) SendRequest<Body>);

impl Service<Request<Body>> for Calls {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.0.send_request(request).boxed()
    }
}

/// Opens a connection. Its calls make progress only while the second part is polled.
pub(super) async fn connect(
    endpoint: &Endpoint,
) -> Result<(ControlClient<Calls>, impl Future<Output = ()> + use<>), Error> {
    let connection = upgrade(endpoint, "/grpc", &[]).await?;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.max_header_list_size(MAX_HEADERS);
    let (sender, connection) = builder.handshake(connection).await?;
    let control = ControlClient::with_origin(Calls(sender), Uri::from_static(ORIGIN));
    let control = control.max_decoding_message_size(MAX_REPORT);
    Ok((control, connection.map(drop)))
}

/// Size of the unused build cache in bytes, on an engine of any version. It is 0 without `BuildKit`.
pub(crate) async fn unused_cache(shared: &Shared) -> Result<u64, ActionError> {
    if !buildkit::is_available(shared).await? {
        return Ok(0);
    }
    let endpoint = shared.connection.endpoint().clone();
    let mut answer = request::run(async move |answers| {
        let records = Box::pin(list_records(&endpoint)).await;
        drop(answers.send(records).await);
    });
    match tokio::time::timeout(USAGE_TIMEOUT, answer.recv()).await {
        Ok(Some(records)) => records
            .map(|records| sum_unused(&records))
            .map_err(|failure| error::classify_transport(&failure)),
        Ok(None) | Err(_) => Err(ActionError::Unknown(format!(
            "no answer within {} s",
            USAGE_TIMEOUT.as_secs()
        ))),
    }
}

async fn list_records(endpoint: &Endpoint) -> Result<Vec<UsageRecord>, Error> {
    let (mut control, connection) = connect(endpoint).await?;
    let usage = pin!(control.disk_usage(DiskUsageRequest::default()));
    let usage = match select(usage, pin!(connection)).await {
        Either::Left((usage, _)) => usage,
        Either::Right(((), usage)) => usage.await,
    };
    let usage = usage.map_err(|status| solve::explain(&status))?;
    Ok(usage.into_inner().record)
}

/// Bytes of the records that no build uses, without those that are layers of an image as well.
fn sum_unused(records: &[UsageRecord]) -> u64 {
    let unused = records.iter().filter(|record| !record.in_use && !record.shared);
    unused.filter_map(|record| u64::try_from(record.size).ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_cache_is_neither_in_use_nor_part_of_an_image() {
        let record = |size: i64, in_use: bool, shared: bool| UsageRecord {
            size,
            in_use,
            shared,
            ..UsageRecord::default()
        };
        let records = [
            record(5, false, false),
            record(7, true, false),
            record(9, false, true),
            record(-1, false, false),
        ];
        assert_eq!(sum_unused(&records), 5);
        assert_eq!(sum_unused(&[]), 0);
    }
}
