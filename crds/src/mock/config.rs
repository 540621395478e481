//! Configuration file of the mock server: one mock and its `OpenAPI` document.

use super::Mock;
use serde::{Deserialize, Serialize};

/// Path prefix of the mock server's own endpoints.
pub const RESERVED_PATH: &str = "/__argus";
/// Maximum size of the configuration file, in bytes.
pub const MAX_CONFIG_BYTES: usize = 8 * 1024 * 1024;
/// Version of the file format.
pub const VERSION: u32 = 1;

/// Content of the configuration file. Argus copies the file into the container of the mock.
///
/// The format is JSON, because no prefix of a JSON object is valid. So a partial file is never loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MockConfig {
    /// Version of the file format: [`VERSION`].
    pub version: u32,
    /// Name of the mock.
    pub name: String,
    /// Mock from the spec file. A relative `recordingsDir` is relative to the configuration file.
    pub mock: Mock,
    /// Text of the `OpenAPI` document that `mock.openapi` names, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
}

impl MockConfig {
    /// Creates the configuration of a mock, with the text of its `OpenAPI` document.
    pub fn new(name: &str, mock: Mock, document: Option<String>) -> Self {
        Self {
            version: VERSION,
            name: name.to_owned(),
            mock,
            document,
        }
    }

    /// Parses the output of [`MockConfig::to_json`].
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let config: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if config.version != VERSION {
            return Err(format!(
                "version {} is not supported, only {VERSION}",
                config.version
            ));
        }
        Ok(config)
    }

    /// Returns the text of the file.
    pub fn to_json(&self) -> String {
        // Serialization cannot fail: all map keys are strings, and the type has no floats.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn config_parses_again_but_none_of_its_prefixes() {
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
    fn other_version_is_rejected_with_both_numbers() {
        let text = json!({ "version": 2, "name": "m", "mock": { "port": 1 } }).to_string();
        let error = MockConfig::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error, "version 2 is not supported, only 1");
    }
}
