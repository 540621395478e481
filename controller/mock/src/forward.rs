//! What is passed on to the real service, and what comes back: nothing that belongs to one connection only.

use argus_crds::Diagnostic;

use crate::request::Request;

/// Where requests are passed on to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Host and port.
    pub authority: String,
    /// Host and port to connect to.
    pub address: (String, u16),
    /// What goes before every path; empty, or `/` with something behind it.
    base: String,
}

/// Headers that speak of one connection.
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
    /// The target of a URL; the complaint says what is wrong with it.
    pub(crate) fn new(url: &str) -> Result<Self, Diagnostic> {
        let refused = |message: String| Diagnostic::error("", message).hint("write it as `http://HOST:PORT`");
        if url.starts_with("https://") {
            let message = format!("`{url}` cannot be recorded: this program has no TLS");
            return Err(Diagnostic::error("", message)
                .hint("record through something that takes plain `http` and passes it on"));
        }
        let Some(rest) = url.strip_prefix("http://") else {
            return Err(refused(format!("`{url}` is no URL of a service")));
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
            _ => Err(refused(format!("`{url}` names no host and port"))),
        }
    }

    /// The first line's path for what was asked for.
    pub fn path(&self, target: &str) -> String {
        format!("{}{target}", self.base)
    }

    /// The headers that are passed on.
    pub fn headers(&self, request: &Request) -> Vec<(String, String)> {
        let kept = end_to_end(&request.headers).into_iter();
        // What comes back is kept as text, so it shall not come compressed.
        let kept = kept.filter(|(name, _)| {
            !["host", "content-length", "accept-encoding", "expect"].contains(&name.as_str())
        });
        let mut kept: Vec<_> = kept.collect();
        kept.push(("host".to_owned(), self.authority.clone()));
        kept.push(("accept-encoding".to_owned(), "identity".to_owned()));
        kept
    }
}

/// The headers that go from end to end.
pub fn end_to_end(headers: &[(String, String)]) -> Vec<(String, String)> {
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
    fn a_target_is_a_plain_url_of_a_service() {
        let cases = [
            ("http://api:8080", Ok(("api", 8080, "/x?y"))),
            ("http://api", Ok(("api", 80, "/x?y"))),
            ("http://api:81/v1/", Ok(("api", 81, "/v1/x?y"))),
            ("http://[::1]:81", Ok(("::1", 81, "/x?y"))),
            (
                "https://api",
                Err("`https://api` cannot be recorded: this program has no TLS"),
            ),
            ("api:80", Err("`api:80` is no URL of a service")),
            ("http://:80", Err("`http://:80` names no host and port")),
            ("http://api:0", Err("`http://api:0` names no host and port")),
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
    fn what_speaks_of_one_connection_is_not_passed_on() {
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
