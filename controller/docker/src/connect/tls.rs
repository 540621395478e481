//! TLS to an engine, with the certificate files of the Docker CLI.

use std::path::Path;
use std::sync::Arc;

use argus_core::outcome::ActionError;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Certificates of the authorities that sign the certificate of the engine.
const AUTHORITY: &str = "ca.pem";
/// Certificate of the client.
const CERTIFICATE: &str = "cert.pem";
/// Private key of the client.
const KEY: &str = "key.pem";

/// Reads the certificate files of a folder.
///
/// # Errors
/// A file is missing, unreadable, or not a certificate or a key.
pub(super) fn read_settings(folder: &Path) -> Result<ClientConfig, ActionError> {
    let failed = |name: &str, why: String| {
        let path = folder.join(name);
        ActionError::Unreachable(format!("TLS file `{}`: {why}", path.display()))
    };
    let unreadable = |name: &'static str| move |error: pem::Error| failed(name, describe(&error));
    let read = |name: &'static str| {
        let certificates = CertificateDer::pem_file_iter(folder.join(name)).and_then(Iterator::collect);
        certificates.map_err(unreadable(name))
    };
    let authorities: Vec<CertificateDer<'_>> = read(AUTHORITY)?;
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots
            .add(authority)
            .map_err(|error| failed(AUTHORITY, error.to_string()))?;
    }
    let own: Vec<CertificateDer<'_>> = read(CERTIFICATE)?;
    let key = PrivateKeyDer::from_pem_file(folder.join(KEY)).map_err(unreadable(KEY))?;
    ClientConfig::builder_with_protocol_versions(&[&TLS13])
        .with_root_certificates(roots)
        .with_client_auth_cert(own, key)
        .map_err(|error| failed(CERTIFICATE, error.to_string()))
}

fn describe(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// Connects to `host:port`.
pub(super) async fn connect(address: &str, folder: &Path) -> Result<TlsStream<TcpStream>, ActionError> {
    let unreachable = |error: std::io::Error| ActionError::Unreachable(error.to_string());
    let settings = read_settings(folder)?;
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host).map_err(|error| ActionError::Unreachable(error.to_string()))?;
    let stream = TcpStream::connect(address).await.map_err(unreachable)?;
    let connector = TlsConnector::from(Arc::new(settings));
    connector.connect(name, stream).await.map_err(unreachable)
}
