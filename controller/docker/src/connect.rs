//! The endpoint of an engine, and its client, which is created at the first call.

mod access;
mod discover;

pub(crate) use discover::config_folder;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use argus_core::outcome::ActionError;
use bollard::{API_DEFAULT_VERSION, BollardRequest};
use bytes::Bytes;
use futures::FutureExt;
use http_body_util::{BodyExt, Either, Full};

/// The client's own timeout, longer than any call. Each call has a precise deadline; the client supports whole seconds only.
const CLIENT_TIMEOUT_SECONDS: u64 = 3600;

/// Address of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Path of a Unix socket on this host.
    Unix(PathBuf),
    /// `host:port`, plain HTTP.
    Tcp(String),
}

/// Error of a text that is not a usable endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEndpoint {
    /// The scheme is not supported.
    #[error("engine endpoint `{0}` is not unix://PATH, tcp://HOST:PORT or http://HOST:PORT")]
    Scheme(String),
    /// The endpoint requires TLS.
    #[error("engine endpoint `{0}` needs TLS, which is not supported; use an SSH tunnel to its socket")]
    Tls(String),
    /// The path is longer than the 107 bytes of a Unix socket address.
    #[error("engine socket path `{0}` is longer than 107 bytes")]
    TooLong(String),
    /// The selected Docker context does not exist.
    #[error("docker context `{0}` not found")]
    NoContext(String),
}

impl Endpoint {
    /// Parses `unix://PATH`, an absolute path, `tcp://HOST:PORT` or `http://HOST:PORT`.
    pub fn parse(text: &str) -> Result<Self, BadEndpoint> {
        let path = text
            .strip_prefix("unix://")
            .or_else(|| text.starts_with('/').then_some(text));
        if let Some(path) = path.filter(|path| !path.is_empty()) {
            if path.len() > 107 {
                return Err(BadEndpoint::TooLong(path.to_owned()));
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let address = text
            .strip_prefix("tcp://")
            .or_else(|| text.strip_prefix("http://"));
        let address = address.map(|address| address.trim_end_matches('/'));
        match address.filter(|address| !address.is_empty() && !address.contains('/')) {
            Some(address) => Ok(Self::Tcp(address.to_owned())),
            None if text.starts_with("https://") => Err(BadEndpoint::Tls(text.to_owned())),
            None => Err(BadEndpoint::Scheme(text.to_owned())),
        }
    }

    /// Selects an engine: `named`, else `DOCKER_HOST`, else the current Docker context, else the default socket.
    pub fn discover(named: Option<&str>) -> Result<Self, BadEndpoint> {
        discover::find(named, |key| {
            std::env::var(key).ok().filter(|value| !value.is_empty())
        })
    }

    /// Path of the Unix socket; `None` for TCP.
    pub fn socket(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) => Some(path),
            Self::Tcp(_) => None,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

/// A lazily created client. It survives the removal and the return of the socket.
pub(crate) struct Connection {
    endpoint: Endpoint,
    client: Mutex<Option<bollard::Docker>>,
}

impl Connection {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            client: Mutex::new(None),
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The client. It fails when the socket does not exist or refuses the user; no request was sent then.
    pub(crate) fn client(&self) -> Result<bollard::Docker, ActionError> {
        self.endpoint.socket().map_or(Ok(()), access::check)?;
        let mut cached = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = cached.as_ref() {
            return Ok(client.clone());
        }
        let created = match &self.endpoint {
            Endpoint::Unix(path) => bollard::Docker::connect_with_unix(
                &path.to_string_lossy(),
                CLIENT_TIMEOUT_SECONDS,
                API_DEFAULT_VERSION,
            ),
            Endpoint::Tcp(address) => {
                bollard::Docker::connect_with_http(address, CLIENT_TIMEOUT_SECONDS, API_DEFAULT_VERSION)
            }
        };
        let client = created
            .map_err(|error| ActionError::Unreachable(error.to_string()))?
            .with_request_modifier(refuse_duplicate_networks);
        Ok(cached.insert(client).clone())
    }

    /// Identity of the socket file: inode and change time in nanoseconds. `None` without a socket file.
    pub(crate) fn socket_identity(&self) -> Option<(u64, i64)> {
        use std::os::unix::fs::MetadataExt;
        let meta = std::fs::metadata(self.endpoint.socket()?).ok()?;
        Some((
            meta.ino(),
            meta.ctime()
                .wrapping_mul(1_000_000_000)
                .wrapping_add(meta.ctime_nsec()),
        ))
    }
}

/// Adds `CheckDuplicate` to network creations. Without it Docker 20.10 creates a second network of the same name, and the
/// client's model no longer has that field.
fn refuse_duplicate_networks(request: BollardRequest) -> BollardRequest {
    if !request.uri().path().ends_with("/networks/create") {
        return request;
    }
    let (parts, body) = request.into_parts();
    let body = match body {
        Either::Left(full) => Either::Left(with_check_duplicate(full)),
        stream @ Either::Right(_) => stream,
    };
    BollardRequest::from_parts(parts, body)
}

fn with_check_duplicate(body: Full<Bytes>) -> Full<Bytes> {
    // A full body is available immediately; otherwise the request is sent unchanged.
    let Some(Ok(collected)) = body.clone().collect().now_or_never() else {
        return body;
    };
    let Ok(serde_json::Value::Object(mut fields)) = serde_json::from_slice(&collected.to_bytes()) else {
        return body;
    };
    fields.insert("CheckDuplicate".to_owned(), serde_json::Value::Bool(true));
    Full::new(Bytes::from(serde_json::Value::Object(fields).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_parse_in_docker_syntax() {
        let unix = |path: &str| Ok(Endpoint::Unix(PathBuf::from(path)));
        assert_eq!(
            Endpoint::parse("unix:///var/run/docker.sock"),
            unix("/var/run/docker.sock")
        );
        assert_eq!(Endpoint::parse("/run/d.sock"), unix("/run/d.sock"));
        assert_eq!(
            Endpoint::parse("tcp://10.0.0.1:2375"),
            Ok(Endpoint::Tcp("10.0.0.1:2375".into()))
        );
        assert_eq!(Endpoint::parse("http://h:1/"), Ok(Endpoint::Tcp("h:1".into())));
        assert!(matches!(Endpoint::parse("https://h:1"), Err(BadEndpoint::Tls(_))));
        for bad in [
            "",
            "unix://",
            "ssh://h",
            "tcp://",
            "npipe:////./pipe/x",
            "tcp://h:1/x",
        ] {
            assert!(
                matches!(Endpoint::parse(bad), Err(BadEndpoint::Scheme(_))),
                "{bad}"
            );
        }
        assert!(matches!(
            Endpoint::parse(&format!("/{}", "x".repeat(108))),
            Err(BadEndpoint::TooLong(_))
        ));
    }

    #[test]
    fn a_missing_socket_is_unreachable_and_caches_no_client() {
        let connection = Connection::new(Endpoint::Unix("/nonexistent/docker.sock".into()));
        assert!(matches!(connection.client(), Err(ActionError::Unreachable(_))));
        assert_eq!(connection.socket_identity(), None);
    }

    #[test]
    fn network_creation_refuses_duplicates() {
        let body = with_check_duplicate(Full::new(Bytes::from(r#"{"Name":"n"}"#)));
        let bytes = body.collect().now_or_never().unwrap().unwrap().to_bytes();
        assert_eq!(bytes, r#"{"Name":"n","CheckDuplicate":true}"#);
    }
}
