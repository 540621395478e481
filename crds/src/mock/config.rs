//! The file that `argus mock` serves: one mock, with all that it needs.

use super::Mock;
use serde::{Deserialize, Serialize};

/// What lies under this is answered by the mock itself.
pub const RESERVED: &str = "/__argus";
/// No larger file is served, in bytes.
pub const LARGEST: usize = 8 * 1024 * 1024;
/// The version of the file that this program writes and reads.
pub const VERSION: u32 = 1;

/// One mock as the file holds it that is handed to its container.
///
/// It is JSON, so that a file that is half there is never taken for a whole one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MockConfig {
    /// The version of this format: [`VERSION`].
    pub version: u32,
    /// The name of the mock.
    pub name: String,
    /// The mock as the spec has it. Of its `recordingsDir`, a relative path is relative to this file.
    pub mock: Mock,
    /// The text of the document that `mock.openapi` names, where it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
}

impl MockConfig {
    /// The configuration of a mock of a spec, with the text of its `OpenAPI` document.
    pub fn new(name: &str, mock: Mock, document: Option<String>) -> Self {
        Self {
            version: VERSION,
            name: name.to_owned(),
            mock,
            document,
        }
    }

    /// Reads what [`MockConfig::to_json`] wrote; the error says what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let config: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if config.version != VERSION {
            return Err(format!(
                "it has version {}, and this program reads {VERSION}",
                config.version
            ));
        }
        Ok(config)
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        // Maps with texts as keys and no floats of our own: it is always JSON.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_and_no_prefix_of_it() {
        let mock = json!({ "port": 8080, "routes": [{ "method": "GET", "path": "/", "response": { "body": "ü" } }] });
        let config = MockConfig::new(
            "m",
            serde_json::from_value(mock).unwrap(),
            Some("openapi: 3.1.0".to_owned()),
        );
        let text = config.to_json();
        assert_eq!(MockConfig::parse(text.as_bytes()), Ok(config));
        for end in 0..text.len() {
            assert!(MockConfig::parse(&text.as_bytes()[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn another_version_is_refused_with_both_numbers() {
        let text = json!({ "version": 2, "name": "m", "mock": { "port": 1 } }).to_string();
        let said = MockConfig::parse(text.as_bytes()).unwrap_err();
        assert_eq!(said, "it has version 2, and this program reads 1");
    }
}
