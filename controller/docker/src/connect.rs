//! The endpoint of an engine, and its client, which is created at the first call.

mod access;
mod discover;
mod tls;
mod transport;
mod upgrade;

pub(crate) use discover::config_folder;
pub(crate) use transport::{MAX_ANSWER_BYTES, open};
pub(crate) use upgrade::upgrade;

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
/// Port of a `tcp://` endpoint without one, as for the Docker CLI.
const DEFAULT_PORT: u16 = 2375;

/// Address of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Path of a Unix socket on this host.
    Unix(PathBuf),
    /// `host:port`, plain HTTP.
    Tcp(String),
    /// `host:port` with TLS, and the folder of `ca.pem`, `cert.pem` and `key.pem`.
    Tls(String, PathBuf),
}

/// Error of a text that is not a usable endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEndpoint {
    /// The scheme is not supported.
    #[error("engine endpoint `{0}` is not unix://PATH, tcp://HOST:PORT or http://HOST:PORT")]
    Scheme(String),
    /// TLS is requested, and no folder with certificates is known.
    #[error(
        "engine endpoint `{0}` has no certificates; write tcp://HOST:PORT, and set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH"
    )]
    Tls(String),
    /// A Docker context skips the verification of the certificate of the engine.
    #[error(
        "docker context `{0}` skips the verification of TLS, which Argus does not support; set its host and certificates again with \
         `docker context update {0} --docker host=URL,ca=FILE,cert=FILE,key=FILE`"
    )]
    UnverifiedContext(String),
    /// `DOCKER_TLS` requests TLS without a verification.
    #[error(
        "DOCKER_TLS requests TLS without a verification for `{0}`, which Argus does not support; set DOCKER_TLS_VERIFY=1 instead"
    )]
    Unverified(String),
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
            Some(host) if text.starts_with("tcp://") && !has_port(host) => {
                Ok(Self::Tcp(format!("{host}:{DEFAULT_PORT}")))
            }
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
            Self::Tcp(_) | Self::Tls(..) => None,
        }
    }

    /// `host:port`; `None` for a Unix socket.
    pub fn address(&self) -> Option<&str> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(address) | Self::Tls(address, _) => Some(address),
        }
    }
}

/// True for `host:port`, false for `host` and `[::1]`.
fn has_port(address: &str) -> bool {
    address
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.contains(']'))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) | Self::Tls(address, _) => write!(f, "tcp://{address}"),
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
        let client = self.create()?;
        Ok(cached.insert(client).clone())
    }

    /// Replaces the client, for an engine in memory.
    #[cfg(test)]
    pub(crate) fn set_client(&self, client: bollard::Docker) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client);
    }

    /// A client with connections of its own.
    pub(crate) fn new_client(&self) -> Result<bollard::Docker, ActionError> {
        self.endpoint.socket().map_or(Ok(()), access::check)?;
        self.create()
    }

    fn create(&self) -> Result<bollard::Docker, ActionError> {
        match &self.endpoint {
            Endpoint::Unix(path) if !path.exists() => {
                return Err(ActionError::Unreachable(format!(
                    "socket `{}` not found",
                    path.display()
                )));
            }
            Endpoint::Tls(_, certificates) => drop(tls::read_settings(certificates)?),
            Endpoint::Unix(_) | Endpoint::Tcp(_) => {}
        }
        let host = self.endpoint.address().unwrap_or("docker");
        let created = bollard::Docker::connect_with_custom_transport(
            transport::new(&self.endpoint),
            Some(format!("http://{host}")),
            CLIENT_TIMEOUT_SECONDS,
            API_DEFAULT_VERSION,
        );
        let client = created.map_err(|error| ActionError::Unreachable(error.to_string()))?;
        Ok(client.with_request_modifier(refuse_duplicate_networks))
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
        for (text, address) in [
            ("http://h:1/", "h:1"),
            ("tcp://h", "h:2375"),
            ("tcp://[::1]", "[::1]:2375"),
            ("tcp://[::1]:1", "[::1]:1"),
        ] {
            assert_eq!(Endpoint::parse(text), Ok(Endpoint::Tcp(address.into())), "{text}");
        }
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
