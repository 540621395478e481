//! Start of a connection on stdin and stdout: responds to messages before `initialize` with an error.

use rmcp::model::ErrorCode;
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Key in the metadata of a request of a client that sends no `initialize`.
const INLINE_VERSION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";

/// Reads the messages before the first one that begins a session, and returns that one; `None` if the input ends.
pub(super) async fn first_message(
    input: &mut (impl AsyncBufRead + Unpin),
    output: &mut (impl AsyncWrite + Unpin),
) -> std::io::Result<Option<String>> {
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        if line.trim().is_empty() {
            continue;
        }
        let response = match serde_json::from_str::<Value>(&line) {
            Ok(message) if begins_session(&message) => return Ok(Some(line)),
            Ok(message) => response_to(&message),
            Err(_) => Some(error(
                &Value::Null,
                ErrorCode::PARSE_ERROR,
                "the message is not JSON",
            )),
        };
        if let Some(response) = response {
            output.write_all(format!("{response}\n").as_bytes()).await?;
            output.flush().await?;
        }
    }
}

fn begins_session(message: &Value) -> bool {
    let is_first = matches!(message["method"].as_str(), Some("initialize" | "server/discover"));
    is_first || message.pointer(INLINE_VERSION).is_some()
}

/// Response to a message before the session; notifications and responses have none.
fn response_to(message: &Value) -> Option<Value> {
    match (message["method"].as_str(), message.get("id")) {
        (Some("ping"), Some(id)) => Some(json!({ "jsonrpc": "2.0", "id": id, "result": {} })),
        (Some(_), Some(id)) => Some(error(id, ErrorCode::INVALID_REQUEST, "send `initialize` first")),
        (None, _) if message.get("result").is_none() && message.get("error").is_none() => {
            let text = "the message has no `method`";
            Some(error(&Value::Null, ErrorCode::INVALID_REQUEST, text))
        }
        (Some(_) | None, _) => None,
    }
}

/// Creates an error response.
pub(super) fn error(id: &Value, code: ErrorCode, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code.0, "message": message } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn message_before_initialize_gets_an_error() {
        let initialize = r#"{"jsonrpc":"2.0","id":9,"method":"initialize","params":{}}"#;
        for (message, response) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
                Some((json!(1), -32600)),
            ),
            ("not JSON", Some((Value::Null, -32700))),
            ("[]", Some((Value::Null, -32600))),
            (r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, None),
            (r#"{"jsonrpc":"2.0","id":5,"result":{}}"#, None),
        ] {
            let input = format!("{message}\n\n{initialize}\n");
            let mut output = Vec::new();
            let first = first_message(&mut input.as_bytes(), &mut output).await.unwrap();
            assert_eq!(first.as_deref().map(str::trim), Some(initialize), "{message}");
            let found: Option<Value> = serde_json::from_slice(&output).ok();
            let found = found.map(|found| (found["id"].clone(), found["error"]["code"].as_i64().unwrap()));
            assert_eq!(found, response, "{message}");
        }
        let mut output = Vec::new();
        let ping = br#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
        let first = first_message(&mut ping.as_slice(), &mut output).await.unwrap();
        assert_eq!(first, None, "the input ended");
        let found: Value = serde_json::from_slice(&output).unwrap();
        assert_eq!(found, json!({ "jsonrpc": "2.0", "id": 2, "result": {} }));
    }
}
