//! Requests of browsers from other origins: preflight requests, and the headers of responses.

use std::time::Duration;

use bytes::Bytes;

use crate::answer::MockReply;
use crate::request::Request;

const ALLOW_ORIGIN: &str = "access-control-allow-origin";

/// Returns the response to a preflight request; `None` for other requests.
pub(crate) fn preflight(request: &Request) -> Option<MockReply> {
    let origin = request.header("origin")?;
    let method = request.header("access-control-request-method")?;
    if request.method != "OPTIONS" {
        return None;
    }
    let mut headers = allowed(origin);
    headers.push(("access-control-allow-methods".to_owned(), method.to_owned()));
    if let Some(names) = request.header("access-control-request-headers") {
        headers.push(("access-control-allow-headers".to_owned(), names.to_owned()));
    }
    if request.header("access-control-request-private-network").is_some() && is_local(origin) {
        headers.push((
            "access-control-allow-private-network".to_owned(),
            "true".to_owned(),
        ));
    }
    headers.push((
        "vary".to_owned(),
        "origin, access-control-request-method, access-control-request-headers".to_owned(),
    ));
    Some(MockReply {
        status: 204,
        headers,
        body: Bytes::new(),
        delay: Duration::ZERO,
        by: Some("cors preflight".to_owned()),
        refusal: None,
    })
}

/// Returns whether a response decides about other origins itself.
pub(crate) fn has_own(reply: &MockReply) -> bool {
    let mut names = reply.headers.iter().map(|(name, _)| name);
    names.any(|name| name.eq_ignore_ascii_case(ALLOW_ORIGIN))
}

/// Adds the headers without which a browser hides the response from a page of another origin. A response with its own ones stays as it is.
pub(crate) fn expose(request: &Request, mut reply: MockReply) -> MockReply {
    let Some(origin) = request.header("origin") else {
        return reply;
    };
    if has_own(&reply) {
        return reply;
    }
    reply.headers.extend(allowed(origin));
    reply.headers.push(("vary".to_owned(), "origin".to_owned()));
    let names: Vec<&str> = reply.headers.iter().map(|(name, _)| name.as_str()).collect();
    let is_own = |name: &&str| !name.starts_with("access-control-") && *name != "vary";
    let own: Vec<&str> = names.into_iter().filter(is_own).collect();
    if !own.is_empty() {
        reply
            .headers
            .push(("access-control-expose-headers".to_owned(), own.join(", ")));
    }
    reply
}

/// Pages of this machine may send credentials. All others get responses as any page of the internet does.
fn allowed(origin: &str) -> Vec<(String, String)> {
    if !is_local(origin) {
        return vec![(ALLOW_ORIGIN.to_owned(), "*".to_owned())];
    }
    vec![
        (ALLOW_ORIGIN.to_owned(), origin.to_owned()),
        ("access-control-allow-credentials".to_owned(), "true".to_owned()),
    ]
}

/// Returns true for an origin on this machine, such as `http://localhost:5173`.
fn is_local(origin: &str) -> bool {
    let Some((_, rest)) = origin.split_once("://") else {
        return false;
    };
    let host = match rest.strip_prefix('[') {
        Some(inner) => inner.split(']').next().unwrap_or_default(),
        None => rest.split(':').next().unwrap_or_default(),
    };
    let is_loopback = host
        .parse::<std::net::IpAddr>()
        .is_ok_and(|address| address.is_loopback());
    is_loopback || host == "localhost" || host.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_of_this_machine_are_local() {
        for (origin, wanted) in [
            ("http://localhost:5173", true),
            ("https://shop.localhost", true),
            ("http://127.0.0.1:80", true),
            ("http://[::1]:3000", true),
            ("http://localhost.example.org", false),
            ("http://127.0.0.1.example.org", false),
            ("https://example.org", false),
            ("null", false),
        ] {
            assert_eq!(is_local(origin), wanted, "{origin}");
        }
    }
}
