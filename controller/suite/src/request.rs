//! Requests: reading a step, ports that moved, and redirects.

use std::net::IpAddr;
use std::time::Duration;

use argus_crds::number;
use serde_json::{Map, Value};
use url::{Host, Url};

use crate::check::Failure;
use crate::problem::{Problem, text_field, time_field};
use crate::reach::{PublishedPort, parse_host};
use crate::response::{Reply, Response};
use crate::value::{is_truthy, shortened, shown, to_text};

/// Request to send. The driver follows redirects with [`Request::redirect`].
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Method, such as `GET`.
    pub method: String,
    /// Absolute address.
    pub url: Url,
    /// Headers in their order.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Option<Vec<u8>>,
    /// Maximum time until the body is complete. `None` means the default of the runner.
    pub timeout: Option<Duration>,
    pub(crate) expect: Option<Map<String, Value>>,
    pub(crate) save: Vec<(String, String)>,
}

/// Returns the actual port for a local address with a published one, and the host of the port if the engine runs on another
/// host. `None` for other addresses.
pub fn actual_address(
    host: &str,
    port: u16,
    ports: &[PublishedPort],
    is_remote: bool,
) -> Option<(Option<IpAddr>, u16)> {
    let host = host.trim_matches(['[', ']']);
    if !["localhost", "127.0.0.1", "::1", "0.0.0.0", "::"].contains(&host) {
        return None;
    }
    let actual = ports.iter().find(|one| one.actual == port);
    let published = actual.or_else(|| ports.iter().find(|one| one.requested == port))?;
    Some((is_remote.then_some(published.address), published.actual))
}

impl Request {
    /// Reads the resolved value of `request`.
    pub(crate) fn read(
        step: &Map<String, Value>,
        request: &Map<String, Value>,
        save: Vec<(String, String)>,
        base_url: &str,
    ) -> Result<Self, Problem> {
        let url = match (request.get("url"), request.get("path")) {
            (Some(url), _) if is_truthy(url) => to_text(url),
            (_, Some(path)) if !path.is_null() => format!("{base_url}{}", to_text(path)),
            _ => return Err(Problem::new("request", "the request has no `url` and no `path`")),
        };
        let url = Url::parse(url.trim()).map_err(|error| {
            let key = if request.get("url").is_some_and(is_truthy) {
                "request.url"
            } else {
                "request.path"
            };
            Problem::new(
                key,
                format!("`{}` is not a valid address: {error}", shortened(&url)),
            )
        })?;
        let written = text_field(request, "request", "method")?;
        let method = match written.as_deref() {
            None | Some("") => "GET".to_owned(),
            Some(method) => {
                let upper = method.to_ascii_uppercase();
                let known = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
                if known.contains(&upper.as_str()) {
                    upper
                } else {
                    method.to_owned()
                }
            }
        };
        let mut headers = read_headers(request)?;
        let body = request.get("body").filter(|body| !body.is_null());
        let body = body.filter(|_| written.as_deref() != Some("GET"));
        if body.is_some() && ["GET", "HEAD"].contains(&method.as_str()) {
            let message = format!("a request with the method `{method}` cannot have a body");
            return Err(Problem::new("request.body", message).hint("set `method`, or remove the body"));
        }
        let is_type =
            |(name, value): &(String, String)| name.eq_ignore_ascii_case("content-type") && !value.is_empty();
        if body.is_some() && !headers.iter().any(is_type) {
            headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
            headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
        }
        let expect = match step.get("expect") {
            Some(Value::Object(map)) => Some(map.clone()),
            _ => None,
        };
        Ok(Self {
            method,
            url,
            headers,
            body: body.map(|body| number::to_json(&whole_numbers(body)).into_bytes()),
            timeout: time_field(request, "request", "timeout")?,
            expect,
            save,
        })
    }

    /// Replaces the port of a local address by the one that the service has, and its host if the engine runs on another one.
    pub fn use_actual_address(&mut self, ports: &[PublishedPort], is_remote: bool) {
        let (Some(host), Some(port)) = (self.url.host_str(), self.url.port_or_known_default()) else {
            return;
        };
        if let Some((host, actual)) = actual_address(host, port, ports, is_remote) {
            // These fail only for addresses without a host.
            let _unchanged = self.url.set_port(Some(actual));
            let _unchanged = host.map(|host| self.url.set_ip_host(host));
        }
    }

    /// Returns the host and the port of the address.
    ///
    /// # Errors
    /// Argus does not support the scheme of the address, or the address has no host.
    pub fn address(&self) -> Result<(Host, u16), Reply> {
        let fail = |message: String| Reply::Failed(Failure::new("request.url", message));
        match self.url.scheme() {
            "http" => {}
            "https" => {
                return Err(Reply::Unsupported(
                    "not supported: addresses with `https`".to_owned(),
                ));
            }
            other => return Err(fail(format!("`{other}` is not a valid scheme; write `http`"))),
        }
        let host = self.url.host_str().and_then(parse_host);
        let host = host.ok_or_else(|| fail(format!("`{}` has no host", self.url)))?;
        Ok((host, self.url.port_or_known_default().unwrap_or(80)))
    }

    /// Returns the request that follows a response, or `None` if the response is final.
    ///
    /// # Errors
    /// The address of the redirect is invalid.
    pub fn redirect(&self, response: &Response) -> Result<Option<Self>, Failure> {
        if ![301, 302, 303, 307, 308].contains(&response.status) {
            return Ok(None);
        }
        let Some(location) = response.header("location") else {
            return Ok(None);
        };
        let url = self.url.join(&location).map_err(|error| {
            let message = format!(
                "cannot follow the redirect to `{}`: {error}",
                shortened(&location)
            );
            Failure::new("request", message)
        })?;
        let mut next = self.clone();
        let becomes_get = match response.status {
            301 | 302 => self.method == "POST",
            303 => !["GET", "HEAD"].contains(&self.method.as_str()),
            _ => false,
        };
        if becomes_get {
            "GET".clone_into(&mut next.method);
            next.body = None;
            next.headers
                .retain(|(name, _)| !name.to_ascii_lowercase().starts_with("content-"));
        }
        if url.origin() != self.url.origin() {
            let private = ["authorization", "proxy-authorization", "cookie", "host"];
            next.headers
                .retain(|(name, _)| !private.contains(&name.to_ascii_lowercase().as_str()));
        }
        next.url = url;
        Ok(Some(next))
    }
}

fn read_headers(request: &Map<String, Value>) -> Result<Vec<(String, String)>, Problem> {
    let headers = match request.get("headers") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(headers)) => headers,
        Some(other) => {
            let message = format!("`headers` is a map, not {}", shown(Some(other)));
            return Err(Problem::new("request.headers", message));
        }
    };
    let header = |(name, value): (&String, &Value)| {
        let (value, path) = (
            to_text(value).trim().to_owned(),
            format!("request.headers.{name}"),
        );
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        let is_sendable = |c: char| ('\u{20}'..='\u{ff}').contains(&c) && c != '\u{7f}' || c == '\t';
        if name.is_empty() || !name.chars().all(is_token) {
            return Err(Problem::new(
                path,
                format!("`{}` is not a valid name of a header", shortened(name)),
            ));
        }
        if !value.chars().all(is_sendable) {
            let message = format!("the header `{name}` has a character that no header can have");
            return Err(Problem::new(path, message));
        }
        Ok((name.clone(), value))
    };
    headers.iter().map(header).collect()
}

/// Writes whole doubles without a fraction, as JavaScript does.
fn whole_numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let text = to_text(value);
            text.parse::<i64>().map_or_else(|_| value.clone(), Value::from)
        }
        Value::Array(items) => items.iter().map(whole_numbers).collect(),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| (key.clone(), whole_numbers(value)));
            Value::Object(entries.collect())
        }
        value => value.clone(),
    }
}
