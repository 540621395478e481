//! TLS of HTTP probes, with any certificate: those of test environments are self-signed, and a probe reads only a status.

use std::sync::{Arc, OnceLock};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

/// Response of a port without TLS. A remedy recognises it.
pub(super) const NO_TLS: &str = "the port does not speak TLS";

/// Starts TLS for a host, which may have a port. The caller sets the deadline.
pub(super) async fn connect(stream: TcpStream, host: &str) -> Result<TlsStream<TcpStream>, String> {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let name = ServerName::try_from(name.trim_matches(['[', ']']).to_owned());
    let name = name.map_err(|_| format!("TLS failed, because `{host}` is not a valid name of a server"))?;
    let connected = connector()?.connect(name, stream).await;
    connected.map_err(|error| {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
        match cause {
            Some(Error::InvalidMessage(_)) => NO_TLS.to_owned(),
            Some(_) | None => format!("TLS failed, {error}"),
        }
    })
}

fn connector() -> Result<TlsConnector, String> {
    static SETTINGS: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    let settings = SETTINGS.get_or_init(|| {
        let provider = Arc::new(ring::default_provider());
        let settings = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth();
        Ok(Arc::new(settings))
    });
    settings.clone().map(TlsConnector::from)
}

/// Accepts every certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
