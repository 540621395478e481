//! Parameter `?debug=true`, and the request as the outermost call of its errors.

use argus_crds::error::Call;
use axum::http::{Method, StatusCode, Uri};
use serde_json::Value;

use super::MCP;
use super::problem::Problem;
use crate::local_state::call_trace;

/// Maximum length of a path in a call trace, in characters.
const MAX_PATH: usize = 200;

/// Removes the parameter from the query, so that no handler has to know it, and returns its value.
pub(super) fn take_parameter(uri: &mut Uri) -> Result<Option<bool>, Problem> {
    let pairs = uri.query().unwrap_or_default().split('&');
    let (ours, rest): (Vec<&str>, Vec<&str>) =
        pairs.partition(|pair| pair.split('=').next() == Some("debug"));
    let Some(last) = ours.last() else {
        return Ok(None);
    };
    let debug = match last.split_once('=').map(|(_, value)| value) {
        None | Some("true" | "1" | "") => true,
        Some("false" | "0") => false,
        Some(other) => {
            let message = format!("`debug` must be `true` or `false`, not `{other}`");
            return Err(Problem::new(StatusCode::BAD_REQUEST, message));
        }
    };
    let query = if rest.is_empty() { "" } else { "?" };
    let target = format!("{}{query}{}", uri.path(), rest.join("&"));
    let mut parts = uri.clone().into_parts();
    // A part of a valid URI is valid.
    parts.path_and_query = target.parse().ok();
    *uri = Uri::from_parts(parts).unwrap_or_default();
    Ok(Some(debug))
}

/// Describes a request. `None` for MCP, where each tool call has its own `debug` argument.
pub(super) fn describe_request(method: &Method, uri: &Uri) -> Option<Call> {
    if uri.path() == MCP {
        return None;
    }
    let pairs = uri.query().unwrap_or_default().split('&');
    let argument = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), Value::from(value))
    };
    let arguments = pairs.filter(|pair| !pair.is_empty()).map(argument);
    let path: String = uri.path().chars().take(MAX_PATH).collect();
    Some(Call::new(
        format!("{method} {path}"),
        call_trace::sanitize(arguments),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_parameter_is_removed_from_the_query() {
        for (given, expected, rest) in [
            ("/x", None, "/x"),
            ("/x?debug=true", Some(true), "/x"),
            ("/x?debug", Some(true), "/x"),
            (
                "/x?detail=full&debug=1&phase=Ready",
                Some(true),
                "/x?detail=full&phase=Ready",
            ),
            ("/x?debug=false&tail=3", Some(false), "/x?tail=3"),
            ("/x?debugger=true", None, "/x?debugger=true"),
        ] {
            let mut uri: Uri = given.parse().unwrap();
            let debug = take_parameter(&mut uri).unwrap();
            assert_eq!((debug, uri.to_string().as_str()), (expected, rest), "{given}");
        }
        let mut wrong = Uri::from_static("/x?debug=perhaps");
        assert!(take_parameter(&mut wrong).is_err());
    }
}
