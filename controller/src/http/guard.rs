//! Who may ask what: everybody on this machine may look, and only who proves to be the controller's user may change.

use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use argus_reconciler::state_dir::{StateDir, write_private};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest as _, Sha256};

use super::problem::Problem;

/// What a listener asks of those who come.
#[derive(Debug, Clone)]
pub(crate) enum Guard {
    /// A socket in a folder that only its user enters: whoever is in may do everything.
    Socket,
    /// An address that any process, and any page in a browser, can reach.
    Address {
        /// Where it listens.
        at: SocketAddr,
        /// What a change has to come with.
        token: Arc<str>,
    },
}

/// What is known of who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// It is the controller's user, or has its token.
    User,
    /// Anybody on this machine.
    Nobody,
}

/// The token of a state directory, made where there is none.
pub(crate) fn token(state: &StateDir) -> io::Result<Arc<str>> {
    let path = state.private().join("token");
    if let Some(kept) = kept(&path) {
        return Ok(kept);
    }
    let mut random = [0_u8; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let fresh = random
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    write_private(&path, format!("{fresh}\n").as_bytes())?;
    Ok(fresh.into())
}

fn kept(path: &Path) -> Option<Arc<str>> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (text.len() >= 32).then(|| text.into())
}

/// Lets in, or says why not.
pub(super) async fn check(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    match guard.may(request.method(), request.uri().path(), request.headers()) {
        Ok(trust) => {
            request.extensions_mut().insert(trust);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

impl Guard {
    fn may(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<Trust, Problem> {
        let Self::Address { at, token } = self else {
            return Ok(Trust::User);
        };
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        // A name that was bound to this address by somebody else is theirs: its pages must not read here.
        let host = text(header::HOST).unwrap_or("?");
        if !is_ours(host, *at) {
            let message = format!("host `{host}` is not served here; ask `{at}`");
            return Err(Problem::asked(StatusCode::MISDIRECTED_REQUEST, message));
        }
        if let Some(origin) = text(header::ORIGIN) {
            let host = origin.strip_prefix("http://").unwrap_or("?");
            if !is_ours(host, *at) {
                let message = format!("pages of `{origin}` may not ask this controller");
                return Err(Problem::asked(StatusCode::FORBIDDEN, message));
            }
        }
        // Who is not on this machine proves more.
        let open = at.ip().is_loopback() || path == "/healthz" || path == "/readyz";
        let open = method.is_safe() && open && !is_private(path);
        let given = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        match given {
            Some(given) if is_same(given, token) => Ok(Trust::User),
            _ if open => Ok(Trust::Nobody),
            Some(_) => Err(Problem::asked(
                StatusCode::UNAUTHORIZED,
                "the token is another one",
            )),
            None => {
                let message =
                    "this needs the token in `private/token` of the state directory, or the socket beside it";
                Err(Problem::asked(StatusCode::UNAUTHORIZED, message))
            }
        }
    }
}

/// What containers wrote lies in private files, and is private here.
pub(super) fn is_private(path: &str) -> bool {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    matches!(
        parts.as_slice(),
        [
            "api",
            "v1",
            "environments",
            _,
            "services",
            _,
            "logs" | "evidence" | "why"
        ] | ["api", "v1", "environments", _, "mocks", _, "requests"]
            | ["api", "v1", "environments", _, "logs" | "evidence" | "why"]
            | ["api", "v1", "plan"]
    )
}

/// The address itself, or `localhost` where it is on loopback.
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
        // Nobody can bind a number to another address.
        Ok(ip) => everywhere || (at.ip().is_loopback() && ip.is_loopback()),
        Err(_) => name == "localhost" && (everywhere || at.ip().is_loopback()),
    };
    named && port.parse() == Ok(at.port())
}

/// In the same time, however much of it is right.
fn is_same(given: &str, token: &str) -> bool {
    let digest = |text: &str| Sha256::digest(text.as_bytes());
    let (one, other) = (digest(given), digest(token));
    let differences = one.iter().zip(other.iter()).map(|(a, b)| a ^ b);
    differences.fold(0, |all, one| all | one) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_here_may_look_and_who_has_the_token_may_change() {
        let at: SocketAddr = "127.0.0.1:9470".parse().unwrap();
        let guard = Guard::Address {
            at,
            token: "a-token".into(),
        };
        let may = |method: &Method, headers: &[(&'static str, &str)]| {
            let map = headers.iter().map(|(name, value)| {
                let name: header::HeaderName = (*name).parse().unwrap();
                (name, value.parse().unwrap())
            });
            let answer = guard.may(method, "/api/v1/environments", &map.collect());
            answer
                .map(drop)
                .map_err(|problem| problem.into_response().status().as_u16())
        };
        let local = ("host", "127.0.0.1:9470");
        assert_eq!(may(&Method::GET, &[local]), Ok(()));
        assert_eq!(may(&Method::GET, &[("host", "localhost:9470")]), Ok(()));
        assert_eq!(may(&Method::GET, &[("host", "[::1]:9470")]), Ok(()));
        for other in [
            "evil.test:9470",
            "evil.test",
            "localhost",
            "localhost:80",
            "127.0.0.1.evil.test:9470",
            "10.0.0.1:9470",
        ] {
            assert_eq!(may(&Method::GET, &[("host", other)]), Err(421), "{other}");
        }
        assert_eq!(may(&Method::GET, &[]), Err(421), "no host at all");
        assert_eq!(
            may(&Method::GET, &[local, ("origin", "http://localhost:9470")]),
            Ok(())
        );
        for origin in ["http://evil.test", "null", "https://127.0.0.1:9470", "file://"] {
            assert_eq!(
                may(&Method::GET, &[local, ("origin", origin)]),
                Err(403),
                "{origin}"
            );
        }
        assert_eq!(may(&Method::POST, &[local]), Err(401));
        for path in [
            "/api/v1/environments/logs",
            "/api/v1/environments/a/services/evidence",
        ] {
            assert!(!is_private(path), "{path} is only called so");
        }
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
            assert!(guard.may(&Method::GET, &path, &headers).is_err(), "{private}");
        }
        assert_eq!(
            may(&Method::POST, &[local, ("authorization", "Bearer a-toke")]),
            Err(401)
        );
        assert_eq!(
            may(&Method::POST, &[local, ("authorization", "a-token")]),
            Err(401)
        );
        assert_eq!(
            may(&Method::POST, &[local, ("authorization", "Bearer a-token")]),
            Ok(())
        );
        assert_eq!(
            Guard::Socket
                .may(&Method::POST, "/api/v1/actions", &HeaderMap::new())
                .map_err(|problem| problem.into_response().status()),
            Ok(Trust::User)
        );
    }

    #[test]
    fn who_listens_everywhere_is_asked_by_number_and_by_no_other_name() {
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

    #[test]
    fn a_token_is_made_once_and_nobody_else_reads_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
        let first = token(&state).unwrap();
        assert_eq!(first.len(), 64);
        assert_eq!(token(&state).unwrap(), first);
        let path = state.private().join("token");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(&path, "").unwrap();
        assert_ne!(token(&state).unwrap(), first, "a torn one is made anew");
    }
}
