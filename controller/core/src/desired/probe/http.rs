//! Options of HTTP probes: scheme, method, headers, and the status codes that mean success.

use std::collections::BTreeMap;

use argus_crds::{Diagnostic, Healthcheck, ProbeMethod, ProbeScheme};
use serde::{Deserialize, Serialize};

use crate::desired::identity::shown;
use crate::desired::template::{PortReferences, TemplateResolver};

/// Status codes that mean success by default.
const SUCCESS: StatusRange = (200, 399);

/// First and last status code of a range.
type StatusRange = (u16, u16);

/// Options of an HTTP probe beyond its path and its port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpOptions {
    /// Protocol. `https` accepts every certificate.
    pub scheme: ProbeScheme,
    /// Method of the request.
    pub method: ProbeMethod,
    /// Headers of the request. Their values may be secret.
    pub headers: BTreeMap<String, String>,
    /// Status codes that mean success; empty for 200 to 399.
    pub status: Vec<StatusRange>,
}

impl HttpOptions {
    /// True if a status code means success.
    pub fn is_success(&self, status: u16) -> bool {
        let is_within = |(first, last): &StatusRange| (*first..=*last).contains(&status);
        match &self.status[..] {
            [] => is_within(&SUCCESS),
            ranges => ranges.iter().any(is_within),
        }
    }

    /// Value of a header; its name has no case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(own, _)| own.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Expected status codes in words, such as `204, 300-399`; `None` for the default.
    pub fn expected(&self) -> Option<String> {
        let range = |(first, last): &StatusRange| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        };
        let ranges: Vec<String> = self.status.iter().map(range).collect();
        (!ranges.is_empty()).then(|| ranges.join(", "))
    }
}

/// Returns the options of a health check without those that a diagnostic rejects.
pub(super) fn resolve_options(
    healthcheck: &Healthcheck,
    path: &str,
    resolver: &TemplateResolver<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> HttpOptions {
    let mut headers = BTreeMap::new();
    for (name, value) in &healthcheck.headers {
        let key_path = format!("{path}.headers.{name}");
        let value = resolver.fill(value, &key_path, PortReferences::Final, diagnostics);
        match check_header(name, &value) {
            Ok(()) => drop(headers.insert(name.clone(), value)),
            Err((message, hint)) => diagnostics.push(Diagnostic::error(key_path, message).hint(hint)),
        }
    }
    HttpOptions {
        scheme: healthcheck.scheme.unwrap_or_default(),
        method: healthcheck.method.unwrap_or_default(),
        headers,
        status: status_ranges(healthcheck, path, diagnostics),
    }
}

/// Checks a header.
///
/// # Errors
/// Message and hint. They do not contain the value, which may be secret.
fn check_header(name: &str, value: &str) -> Result<(), (String, &'static str)> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        let message = format!("`{}` is not a valid name of a header", shown(name));
        return Err((message, "write a name such as `Authorization`"));
    }
    let of_body = ["content-length", "transfer-encoding"];
    if of_body.iter().any(|of_body| name.eq_ignore_ascii_case(of_body)) {
        let message = format!("the header `{name}` describes a body, but the request has none");
        return Err((message, "remove the header"));
    }
    if !value.chars().all(|c| c == '\t' || (' '..='~').contains(&c)) {
        let message = format!("the value of the header `{name}` has a character that headers cannot contain");
        return Err((
            message,
            "write one line of ASCII characters, without a line break at its end",
        ));
    }
    Ok(())
}

fn status_ranges(
    healthcheck: &Healthcheck,
    path: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<StatusRange> {
    let Some(codes) = &healthcheck.status else {
        return Vec::new();
    };
    let mut ranges = Vec::new();
    let key_path = format!("{path}.status");
    if codes.0.is_empty() {
        let message = "`status` is an empty list, so no answer means success";
        let hint = "write status codes such as `[200, 401]`, or remove the key";
        diagnostics.push(Diagnostic::error(key_path.as_str(), message).hint(hint));
    }
    for code in &codes.0 {
        if let Some(range) = parse_range(code) {
            ranges.push(range);
        } else {
            let message = format!("`{}` is not a status code or a range of them", shown(code));
            let hint = "write a number from 100 to 599, or a range such as `200-399`";
            diagnostics.push(Diagnostic::error(key_path.as_str(), message).hint(hint));
        }
    }
    ranges
}

fn parse_range(text: &str) -> Option<StatusRange> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let code = |text: &str| {
        let code = text.trim().parse().ok();
        code.filter(|code| (100..600).contains(code))
    };
    let (first, last) = (code(first)?, code(last)?);
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_codes_are_numbers_and_ranges() {
        for (text, range) in [
            ("200", Some((200, 200))),
            ("200-399", Some((200, 399))),
            (" 200 - 299 ", Some((200, 299))),
            ("399-200", None),
            ("2xx", None),
            ("600", None),
            ("99", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(parse_range(text), range, "{text}");
        }
    }

    #[test]
    fn success_is_a_status_of_the_ranges() {
        let default = HttpOptions::default();
        assert!(default.is_success(200) && default.is_success(399));
        assert!(!default.is_success(199) && !default.is_success(400));
        assert_eq!(default.expected(), None);
        let own = HttpOptions {
            status: vec![(204, 204), (400, 499)],
            ..HttpOptions::default()
        };
        assert!(own.is_success(204) && own.is_success(401) && !own.is_success(200));
        assert_eq!(own.expected().as_deref(), Some("204, 400-499"));
    }

    #[test]
    fn headers_are_checked_without_their_values() {
        for (name, value, refused) in [
            ("Authorization", "Bearer abc", None),
            ("X-Ünicode", "1", Some("name of a header")),
            ("", "1", Some("name of a header")),
            ("A B", "1", Some("name of a header")),
            ("content-length", "5", Some("describes a body")),
            ("X-Key", "hunter2\n", Some("cannot contain")),
            ("X-Key", "hunter2é", Some("cannot contain")),
        ] {
            let message = check_header(name, value).err().map(|(message, _)| message);
            assert_eq!(message.is_some(), refused.is_some(), "{name}: {message:?}");
            assert!(
                message.is_none_or(|message| {
                    message.contains(refused.unwrap_or_default()) && !message.contains("hunter2")
                }),
                "{name}"
            );
        }
    }
}
