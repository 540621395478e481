//! Requests of HTTP probes with their options, to servers with and without TLS.

use std::path::Path;
use std::process::Command;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::super::tls::NO_TLS;
use super::*;

/// Reads one request and answers it with an empty response. Returns the request in lower case.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, status: &str) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let byte = stream.read_u8().await.unwrap();
        request.push(byte);
    }
    let response = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(response.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    String::from_utf8(request).unwrap().to_lowercase()
}

/// Probes a server without TLS. Returns the result, and the request without its first header.
async fn probe_plain(status: &str, options: &HttpOptions) -> (ProbeResult, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = async { answer(listener.accept().await.unwrap().0, status).await };
    let (reply, request) = tokio::join!(probe(address, "/health", options), server);
    (reply, request.replace(&address.port().to_string(), "PORT"))
}

#[tokio::test]
async fn request_has_the_method_and_the_headers_of_the_file() {
    let (_, request) = probe_plain("200 OK", &HttpOptions::default()).await;
    assert_eq!(
        request,
        "get /health http/1.1\r\nhost: localhost:PORT\r\nuser-agent: argus-probe\r\n\r\n"
    );
    let headers = [
        ("Host", "shop.example.com"),
        ("X-Key", "a b"),
        ("user-agent", "me"),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let options = HttpOptions {
        method: ProbeMethod::Post,
        headers: headers.into(),
        ..HttpOptions::default()
    };
    let (reply, request) = probe_plain("200 OK", &options).await;
    assert!(reply.success, "{reply:?}");
    assert!(request.starts_with("post /health http/1.1\r\n"), "{request}");
    let mut lines: Vec<&str> = request.trim_end().lines().skip(1).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "content-length: 0",
            "host: shop.example.com",
            "user-agent: me",
            "x-key: a b"
        ]
    );
}

#[tokio::test]
async fn status_of_the_file_decides() {
    let options = |status: &[(u16, u16)]| HttpOptions {
        method: ProbeMethod::Head,
        status: status.to_vec(),
        ..HttpOptions::default()
    };
    for (status, expected, success, output) in [
        (
            "401 Unauthorized",
            &[(200, 399), (401, 401)][..],
            true,
            "401 Unauthorized",
        ),
        ("200 OK", &[(204, 204)], false, "200 OK, expected 204"),
        ("404 Not Found", &[], false, "404 Not Found"),
        ("302 Found", &[(200, 299)], false, "302 Found, expected 200-299"),
    ] {
        let (reply, _) = probe_plain(status, &options(expected)).await;
        assert_eq!((reply.success, reply.output.as_str()), (success, output));
    }
}

/// Makes a self-signed certificate. Returns a server with it.
fn tls_server(folder: &Path) -> TlsAcceptor {
    let args = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=other -keyout key.pem -out cert.pem";
    let made = Command::new("openssl")
        .args(args.split(' '))
        .current_dir(folder)
        .output();
    let made = made.expect("openssl runs; hint: ./scripts/setup");
    assert!(made.status.success(), "{made:?}");
    let certificate = CertificateDer::from_pem_file(folder.join("cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("key.pem")).unwrap();
    let settings = ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(std::sync::Arc::new(settings))
}

#[tokio::test]
async fn https_accepts_a_self_signed_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let acceptor = tls_server(folder.path());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let https = |host: &str| HttpOptions {
        scheme: ProbeScheme::Https,
        headers: [("Host".to_owned(), host.to_owned())].into(),
        ..HttpOptions::default()
    };
    for (host, server_name) in [
        ("localhost:443", Some("localhost")),
        ("shop.example.com", Some("shop.example.com")),
        ("127.0.0.1", None),
    ] {
        let server = async {
            let stream = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
            let name = stream.get_ref().1.server_name().map(str::to_owned);
            (name, answer(stream, "204 No Content").await)
        };
        let options = https(host);
        let (reply, (name, request)) = tokio::join!(probe(address, "/health", &options), server);
        assert_eq!((reply.success, reply.output.as_str()), (true, "204 No Content"));
        assert_eq!(name.as_deref(), server_name);
        assert!(request.contains(&format!("\r\nhost: {host}\r\n")), "{request}");
    }
}

#[tokio::test]
async fn https_to_a_plain_port_is_no_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut hello = [0; 1_024];
        let read = stream.read(&mut hello).await.unwrap();
        assert!(read > 0);
        let response = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(response).await.unwrap();
    };
    let options = HttpOptions {
        scheme: ProbeScheme::Https,
        ..HttpOptions::default()
    };
    let (reply, ()) = tokio::join!(probe(address, "/", &options), server);
    assert_eq!((reply.answered, reply.output.as_str()), (false, NO_TLS));
}
