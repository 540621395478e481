//! Forwarding to the real service in mode `record`, without headers that belong to one connection.

use argus_crds::Diagnostic;

use crate::request::Request;

/// Real service that receives forwarded requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Host and port from the URL, for the `Host` header.
    pub authority: String,
    /// Host and port to connect to.
    pub address: (String, u16),
    /// Prefix of every path: empty, or a path that begins with `/`.
    base: String,
}

/// Headers that belong to one connection.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl Target {
    /// Parses the URL of a target, or returns a diagnostic about it.
    pub(crate) fn new(url: &str) -> Result<Self, Diagnostic> {
        let invalid =
            |message: String| Diagnostic::error("", message).hint("use the form `http://HOST:PORT`");
        if url.starts_with("https://") {
            let message = format!("cannot record `{url}`: Argus does not support TLS here");
            return Err(
                Diagnostic::error("", message).hint("record through a proxy that accepts plain `http`")
            );
        }
        let Some(rest) = url.strip_prefix("http://") else {
            return Err(invalid(format!("`{url}` is not a valid service URL")));
        };
        let (authority, base) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse::<u16>().ok().filter(|port| *port > 0))
            }
            _ => (authority, Some(80)),
        };
        let plain = host.trim_start_matches('[').trim_end_matches(']');
        match port {
            Some(port) if !plain.is_empty() && !authority.contains(['@', ' ', '?', '#']) => Ok(Self {
                authority: authority.to_owned(),
                address: (plain.to_owned(), port),
                base: base
                    .split(['?', '#'])
                    .next()
                    .unwrap_or_default()
                    .trim_end_matches('/')
                    .to_owned(),
            }),
            _ => Err(invalid(format!("`{url}` has no valid host and port"))),
        }
    }

    /// Returns the path for the forwarded request line.
    pub fn path(&self, target: &str) -> String {
        format!("{}{target}", self.base)
    }

    /// Returns the headers for the forwarded request.
    pub fn headers(&self, request: &Request) -> Vec<(String, String)> {
        let kept = end_to_end_headers(&request.headers).into_iter();
        // Recordings contain text, so the response must not be compressed.
        let kept = kept.filter(|(name, _)| {
            !["host", "content-length", "accept-encoding", "expect"].contains(&name.as_str())
        });
        let mut kept: Vec<_> = kept.collect();
        kept.push(("host".to_owned(), self.authority.clone()));
        kept.push(("accept-encoding".to_owned(), "identity".to_owned()));
        kept
    }
}

/// Returns the headers without those that belong to one connection.
pub fn end_to_end_headers(headers: &[(String, String)]) -> Vec<(String, String)> {
    let lists = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("connection"));
    let named: Vec<String> = lists
        .flat_map(|(_, value)| value.split(','))
        .map(|name| name.trim().to_lowercase())
        .collect();
    let stays = |(name, _): &&(String, String)| {
        let name = name.to_lowercase();
        !HOP_BY_HOP.contains(&name.as_str()) && !named.contains(&name)
    };
    headers.iter().filter(stays).cloned().collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn target_needs_a_plain_http_url() {
        let cases = [
            ("http://api:8080", Ok(("api", 8080, "/x?y"))),
            ("http://api", Ok(("api", 80, "/x?y"))),
            ("http://api:81/v1/", Ok(("api", 81, "/v1/x?y"))),
            ("http://[::1]:81", Ok(("::1", 81, "/x?y"))),
            (
                "https://api",
                Err("cannot record `https://api`: Argus does not support TLS here"),
            ),
            ("api:80", Err("`api:80` is not a valid service URL")),
            ("http://:80", Err("`http://:80` has no valid host and port")),
            ("http://api:0", Err("`http://api:0` has no valid host and port")),
        ];
        for (url, wanted) in cases {
            let found = Target::new(url);
            let found = found
                .as_ref()
                .map(|target| (target.address.0.as_str(), target.address.1, target.path("/x?y")));
            let wanted = wanted.map(|(host, port, path)| (host, port, path.to_owned()));
            assert_eq!(
                found.map_err(|diagnostic| diagnostic.message.clone()),
                wanted.map_err(str::to_owned),
                "{url}"
            );
        }
    }

    #[test]
    fn connection_headers_are_not_forwarded() {
        let names = [
            "Connection",
            "X-Mine",
            "Keep-Alive",
            "TE",
            "Accept-Encoding",
            "Host",
            "Authorization",
            "X-Other",
        ];
        let headers = names.map(|name| {
            (
                name.to_owned(),
                if name == "Connection" {
                    "close, x-mine"
                } else {
                    "v"
                }
                .to_owned(),
            )
        });
        let request = Request::new("GET", "/", headers.to_vec(), Bytes::new());
        let passed = Target::new("http://api:1").unwrap().headers(&request);
        let passed: Vec<String> = passed
            .into_iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        assert_eq!(
            passed,
            [
                "authorization: v",
                "x-other: v",
                "host: api:1",
                "accept-encoding: identity"
            ]
        );
    }
}
