//! Record of a step for its report: request and response, or commands and outputs, both shortened.

use argus_core::secrets::{REDACTED, is_secret};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::container::CommandOutput;
use crate::run::Reply;
use crate::step::Action;

/// Maximum length of a body or an output, in characters.
const MAX_TEXT: usize = 4096;
/// Headers whose values no report contains, next to those with a secret name.
const PRIVATE: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "set-cookie"];

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
    pub(crate) fn new(action: &Action, reply: &Reply) -> Self {
        let received = match reply {
            Reply::Response(response) => Some(json!({
                "status": response.status,
                "headers": headers(&response.headers),
                "body": cut(&response.text()),
            })),
            Reply::Outputs(outputs) => Some(outputs.iter().map(output).collect()),
            Reply::Port(is_open) => Some(json!({ "listening": is_open })),
            Reply::Done | Reply::Failed(_) => None,
        };
        Self {
            received,
            ..Self::unanswered(action)
        }
    }

    pub(crate) fn unanswered(action: &Action) -> Self {
        let sent = match action {
            Action::Request(request) => {
                let body = request.body.as_ref();
                json!({
                    "method": request.method,
                    "url": request.url.as_str(),
                    "headers": headers(&request.headers),
                    "body": body.map(|body| cut(&String::from_utf8_lossy(body))),
                })
            }
            Action::Container(check) => {
                let commands: Vec<String> =
                    check.commands.iter().map(|it| cut(&it.words.join(" "))).collect();
                json!({ "container": check.container, "commands": commands })
            }
        };
        Self { sent, received: None }
    }
}

fn headers(all: &[(String, String)]) -> Value {
    let shown = |name: &str, value: &str| {
        let is_login = PRIVATE.iter().any(|private| name.eq_ignore_ascii_case(private));
        if is_login || is_secret(name) {
            REDACTED.to_owned()
        } else {
            cut(value)
        }
    };
    let entries = all
        .iter()
        .map(|(name, value)| (name.clone(), Value::from(shown(name, value))));
    Value::Object(entries.collect::<Map<_, _>>())
}

fn output(output: &CommandOutput) -> Value {
    json!({
        "exitCode": output.exit_code,
        "stdout": cut(&output.stdout),
        "stderr": cut(&output.stderr),
    })
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
