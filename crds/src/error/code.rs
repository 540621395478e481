//! Error codes.

use std::fmt;
use std::str::FromStr;

use super::table::Code;
use crate::suggestion::nearest;

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Parse error of [`Code`], with the most similar code.
///
/// ```rust
/// use argus_crds::Code;
///
/// assert_eq!("port-conflict".parse(), Ok(Code::PortConflict));
/// let error = "PORT_CONFLCT".parse::<Code>().unwrap_err();
/// assert_eq!(error.nearest, Some(Code::PortConflict));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid error code{}", suggestion(*nearest))]
pub struct UnknownCode {
    text: String,
    /// The most similar code, if one is similar.
    pub nearest: Option<Code>,
}

fn suggestion(nearest: Option<Code>) -> String {
    nearest.map_or_else(String::new, |code| format!("; the nearest is `{code}`"))
}

impl FromStr for Code {
    type Err = UnknownCode;

    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        let name = text.trim().replace('-', "_").to_ascii_uppercase();
        let find = |name: &str| Self::ALL.iter().copied().find(|code| code.as_str() == name);
        find(&name).ok_or_else(|| UnknownCode {
            text: text.to_owned(),
            nearest: nearest(&name, Self::ALL.iter().map(|code| code.as_str())).and_then(find),
        })
    }
}
