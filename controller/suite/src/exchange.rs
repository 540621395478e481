//! Record of a step for its report: request and response, or commands and outputs, both redacted and then shortened.

use argus_core::secrets::{REDACTED, Secrets, is_secret};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::container::CommandOutput;
use crate::response::Reply;
use crate::step::Action;

/// Maximum length of a body or an output, in characters.
const MAX_TEXT: usize = 4096;

/// Request with its response, or commands with their outputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exchange {
    /// Request or commands.
    pub sent: Value,
    /// Response or outputs. Absent without a reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<Value>,
}

impl Exchange {
    pub(crate) fn new(action: &Action, reply: &Reply, secrets: &Secrets) -> Self {
        let shown = |text: &str| shown(text, secrets);
        let received = match reply {
            Reply::Response(response) => Some(json!({
                "status": response.status,
                "headers": headers(&response.headers, secrets),
                "body": shown(&response.text()),
            })),
            Reply::Outputs(outputs) => {
                let output = |output: &CommandOutput| {
                    json!({
                        "exitCode": output.exit_code,
                        "stdout": shown(&output.stdout),
                        "stderr": shown(&output.stderr),
                    })
                };
                Some(outputs.iter().map(output).collect())
            }
            Reply::Port(is_open) => Some(json!({ "listening": is_open })),
            Reply::Done | Reply::Failed(_) | Reply::Unsupported(_) => None,
        };
        Self {
            received,
            ..Self::unanswered(action, secrets)
        }
    }

    pub(crate) fn unanswered(action: &Action, secrets: &Secrets) -> Self {
        let shown = |text: &str| shown(text, secrets);
        let sent = match action {
            Action::Request(request) => {
                let body = request.body.as_ref();
                json!({
                    "method": request.method,
                    "url": secrets.redacted(request.url.as_str()),
                    "headers": headers(&request.headers, secrets),
                    "body": body.map(|body| shown(&String::from_utf8_lossy(body))),
                })
            }
            Action::Container(check) => {
                let commands: Vec<String> = check
                    .commands
                    .iter()
                    .map(|it| shown(&it.words.join(" ")))
                    .collect();
                json!({ "container": check.container, "commands": commands })
            }
        };
        Self { sent, received: None }
    }
}

fn headers(all: &[(String, String)], secrets: &Secrets) -> Value {
    let value = |name: &str, value: &str| {
        if is_private(name) {
            REDACTED.to_owned()
        } else {
            shown(value, secrets)
        }
    };
    let entries = all
        .iter()
        .map(|(name, text)| (name.clone(), Value::from(value(name, text))));
    Value::Object(entries.collect::<Map<_, _>>())
}

fn is_private(header: &str) -> bool {
    let name = header.to_ascii_lowercase();
    let is_key = ["key", "token"].iter().any(|end| name.ends_with(end));
    is_key || is_secret(&name)
}

/// Redacts a text before it is cut, because a part of a secret is not found.
fn shown(text: &str, secrets: &Secrets) -> String {
    let text = secrets.redacted(text);
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_headers_are_redacted() {
        for (name, private) in [
            ("X-Api-Key", true),
            ("X-Amz-Access-Key-Id", true),
            ("X-Functions-Key", true),
            ("X-CSRF-Token", true),
            ("Set-Cookie", true),
            ("X-Request-Id", false),
            ("Content-Type", false),
        ] {
            let shown = &headers(&[(name.to_owned(), "v".to_owned())], &Secrets::default())[name];
            assert_eq!(shown == REDACTED, private, "{name}");
        }
    }

    #[test]
    fn secret_at_the_cut_is_redacted() {
        let secrets: Secrets = serde_json::from_str(r#"["swordfish"]"#).unwrap();
        let text = shown(&format!("{}swordfish", "x".repeat(MAX_TEXT - 5)), &secrets);
        assert!(text.ends_with("x[reda…"), "{text}");
    }
}
