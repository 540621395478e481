//! Access control: every process on this machine can read the public view. Only the controller's user reads and changes the rest.
//! Invariant 24: an unauthenticated client changes nothing and reads nothing private.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::Problem;
use super::token::Token;
use crate::operations;

/// Access rules of a listener.
#[derive(Debug, Clone)]
pub(crate) enum Guard {
    /// Socket in a folder of its user: every client has full access.
    Socket,
    /// Address that any process, and any page in a browser, can reach.
    Address {
        /// Listen address.
        at: SocketAddr,
        /// Token that changes require.
        token: Token,
    },
}

/// Trust in a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// The controller's user, or a client with its token.
    User,
    /// Any other process on this machine.
    Anyone,
}

/// Values of `Sec-Fetch-Site` for requests of this server's own pages, and of persons who enter an address. A page on another port
/// of this machine, such as that of a container, has the value `same-site`.
const OWN_SITES: [&[u8]; 2] = [b"same-origin", b"none"];

/// Passes an allowed request on, or responds with an error.
pub(super) async fn authorize_request(
    State(guard): State<Guard>,
    mut request: Request,
    next: Next,
) -> Response {
    let checked = check_authority(request.uri(), request.headers())
        .and_then(|()| guard.authorize(request.method(), request.uri().path(), request.headers()));
    match checked {
        Ok(trust) => {
            request.extensions_mut().insert(trust);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Rejects a request that names more than one server or page, because two readers could choose different ones, and a request that
/// a browser sent for a page of another site. No route is a page that another site could link to.
fn check_authority(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    for name in [header::HOST, header::ORIGIN] {
        if headers.get_all(&name).iter().nth(1).is_some() {
            let message = format!("the request has more than one header `{name}`");
            return Err(Problem::new(StatusCode::BAD_REQUEST, message));
        }
    }
    let from = headers.get_all("sec-fetch-site").iter();
    if let Some(other) = from
        .map(HeaderValue::as_bytes)
        .find(|from| !OWN_SITES.contains(from))
    {
        let other = String::from_utf8_lossy(other);
        let message =
            format!("requests of browsers from other sites are not allowed (`sec-fetch-site: {other}`)");
        return Err(Problem::new(StatusCode::FORBIDDEN, message));
    }
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
    match uri.authority() {
        Some(target) if host != Some(target.as_str().as_bytes()) => {
            let message = format!("the target `{target}` differs from the header `host`");
            Err(Problem::new(StatusCode::BAD_REQUEST, message))
        }
        Some(_) | None => Ok(()),
    }
}

impl Guard {
    fn authorize(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<Trust, Problem> {
        let Self::Address { at, token } = self else {
            return Ok(Trust::User);
        };
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        // DNS rebinding: pages of a foreign name that resolves to this address must not read from it.
        let host = text(header::HOST).unwrap_or("?");
        if !is_ours(host, *at) {
            let message = format!("host `{host}` is not served here; use `{at}`");
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, message));
        }
        if let Some(origin) = text(header::ORIGIN) {
            let host = origin.strip_prefix("http://").unwrap_or("?");
            if !is_ours(host, *at) {
                let message = format!("requests from pages of `{origin}` are not allowed");
                return Err(Problem::new(StatusCode::FORBIDDEN, message));
            }
        }
        // Remote clients need the token for reading as well.
        let open = at.ip().is_loopback() || path == "/healthz" || path == "/readyz";
        let open = method.is_safe() && open && !needs_token(path);
        let sent = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        match sent {
            Some(sent) if token.is(sent) => Ok(Trust::User),
            _ if open => Ok(Trust::Anyone),
            Some(_) => Err(Problem::new(StatusCode::UNAUTHORIZED, "wrong token")),
            None => {
                let message = "missing token: send the one in `private/token` of the state directory, or use the socket next to it";
                Err(Problem::new(StatusCode::UNAUTHORIZED, message))
            }
        }
    }
}

/// True for all paths that need the token: operations with private output, and requests of mocks.
pub(super) fn needs_token(path: &str) -> bool {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let is_mock = matches!(
        parts.as_slice(),
        ["api", "v1", "environments", _, "mocks", _, "requests"]
    );
    is_mock || operations::is_private_operation(path)
}

/// True for the listen address itself, and for `localhost` on a loopback address.
fn is_ours(host: &str, at: SocketAddr) -> bool {
    if host.parse() == Ok(at) {
        return true;
    }
    let (name, port) = host.rsplit_once(':').unwrap_or((host, "80"));
    let number = name
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    let everywhere = at.ip().is_unspecified();
    let named = match number {
        // DNS cannot rebind a numeric address.
        Ok(ip) => everywhere || (at.ip().is_loopback() && ip.is_loopback()),
        Err(_) => name == "localhost" && (everywhere || at.ip().is_loopback()),
    };
    named && port.parse() == Ok(at.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_clients_read_and_token_holders_change() {
        let at: SocketAddr = "127.0.0.1:9470".parse().unwrap();
        let guard = Guard::Address {
            at,
            token: "a-token".into(),
        };
        let authorize = |method: &Method, headers: &[(&'static str, &str)]| {
            let map = headers.iter().map(|(name, value)| {
                let name: header::HeaderName = (*name).parse().unwrap();
                (name, value.parse().unwrap())
            });
            let response = guard.authorize(method, "/api/v1/environments", &map.collect());
            response
                .map(drop)
                .map_err(|problem| problem.into_response().status().as_u16())
        };
        let local = ("host", "127.0.0.1:9470");
        assert_eq!(authorize(&Method::GET, &[local]), Ok(()));
        assert_eq!(authorize(&Method::GET, &[("host", "localhost:9470")]), Ok(()));
        assert_eq!(authorize(&Method::GET, &[("host", "[::1]:9470")]), Ok(()));
        for other in [
            "evil.test:9470",
            "evil.test",
            "localhost",
            "localhost:80",
            "127.0.0.1.evil.test:9470",
            "10.0.0.1:9470",
        ] {
            assert_eq!(authorize(&Method::GET, &[("host", other)]), Err(421), "{other}");
        }
        assert_eq!(authorize(&Method::GET, &[]), Err(421), "missing host");
        assert_eq!(
            authorize(&Method::GET, &[local, ("origin", "http://localhost:9470")]),
            Ok(())
        );
        for origin in ["http://evil.test", "null", "https://127.0.0.1:9470", "file://"] {
            assert_eq!(
                authorize(&Method::GET, &[local, ("origin", origin)]),
                Err(403),
                "{origin}"
            );
        }
        assert_eq!(authorize(&Method::POST, &[local]), Err(401));
        for path in [
            "/api/v1/environments/logs",
            "/api/v1/environments/a/services/evidence",
        ] {
            assert!(!needs_token(path), "{path} is only called so");
        }
        assert!(needs_token("/api/v1/validate"), "untrusted files choose its work");
        for private in [
            "services/api/logs",
            "services/api/evidence",
            "services/api/why",
            "mocks/api/requests",
            "logs",
            "evidence",
            "why",
        ] {
            let path = format!("/api/v1/environments/shop/{private}");
            let headers = HeaderMap::from_iter([(header::HOST, "localhost:9470".parse().unwrap())]);
            assert!(
                guard.authorize(&Method::GET, &path, &headers).is_err(),
                "{private}"
            );
        }
        assert_eq!(
            authorize(&Method::POST, &[local, ("authorization", "Bearer a-toke")]),
            Err(401)
        );
        assert_eq!(
            authorize(&Method::POST, &[local, ("authorization", "a-token")]),
            Err(401)
        );
        assert_eq!(
            authorize(&Method::POST, &[local, ("authorization", "Bearer a-token")]),
            Ok(())
        );
        assert_eq!(
            Guard::Socket
                .authorize(&Method::POST, "/api/v1/commands", &HeaderMap::new())
                .map_err(|problem| problem.into_response().status()),
            Ok(Trust::User)
        );
    }

    #[test]
    fn clients_of_other_machines_need_the_token_to_read() {
        let guard = Guard::Address {
            at: "0.0.0.0:9470".parse().unwrap(),
            token: "a-token".into(),
        };
        let headers = HeaderMap::from_iter([(header::HOST, "10.0.0.7:9470".parse().unwrap())]);
        for (path, is_open) in [
            ("/healthz", true),
            ("/readyz", true),
            ("/metrics", false),
            ("/events", false),
            ("/api/v1/environments", false),
        ] {
            let checked = guard.authorize(&Method::GET, path, &headers);
            assert_eq!(checked.is_ok(), is_open, "{path}");
        }
    }

    #[test]
    fn request_for_two_servers_is_refused() {
        let check = |target: &str, headers: &[(header::HeaderName, &'static str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(name, HeaderValue::from_static(value));
            }
            let checked = check_authority(&target.parse().unwrap(), &map);
            checked.map_err(|problem| problem.into_response().status().as_u16())
        };
        let host = (header::HOST, "localhost:9470");
        let origin = (header::ORIGIN, "http://localhost:9470");
        assert_eq!(check("/x", &[host.clone(), origin.clone()]), Ok(()));
        assert_eq!(
            check("http://localhost:9470/x", std::slice::from_ref(&host)),
            Ok(())
        );
        assert_eq!(check("http://evil.test/x", std::slice::from_ref(&host)), Err(400));
        assert_eq!(check("/x", &[host.clone(), host.clone()]), Err(400));
        assert_eq!(check("/x", &[host, origin.clone(), origin]), Err(400));
    }

    #[test]
    fn request_from_another_site_is_refused_on_every_route() {
        let check = |path: &str, sites: &[&'static str]| {
            let mut map = HeaderMap::new();
            for site in sites {
                map.append("sec-fetch-site", HeaderValue::from_static(site));
            }
            // A navigation is no exception.
            map.append("sec-fetch-mode", HeaderValue::from_static("navigate"));
            let checked = check_authority(&path.parse().unwrap(), &map);
            checked.map_err(|problem| problem.into_response().status().as_u16())
        };
        for path in ["/healthz", "/metrics", "/events", "/mcp", "/api/v1/environments"] {
            assert_eq!(check(path, &[]), Ok(()), "{path}");
            assert_eq!(check(path, &["none"]), Ok(()), "{path}");
            assert_eq!(check(path, &["same-origin"]), Ok(()), "{path}");
            for other in ["cross-site", "same-site", "", "new-value"] {
                assert_eq!(check(path, &[other]), Err(403), "{path} {other}");
            }
            assert_eq!(check(path, &["none", "cross-site"]), Err(403), "{path}");
        }
    }

    #[test]
    fn wildcard_address_accepts_only_numeric_hosts_and_localhost() {
        let at: SocketAddr = "0.0.0.0:9470".parse().unwrap();
        for host in [
            "10.0.0.7:9470",
            "[fd00::7]:9470",
            "localhost:9470",
            "127.0.0.1:9470",
        ] {
            assert!(is_ours(host, at), "{host}");
        }
        for host in [
            "10.0.0.7:80",
            "evil.test:9470",
            "10.0.0.7",
            "10.0.0.7.evil.test:9470",
        ] {
            assert!(!is_ours(host, at), "{host}");
        }
    }
}
