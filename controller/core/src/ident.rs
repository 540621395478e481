//! Names and numbers that were checked once and are trusted from then on.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a text is not the name it was taken for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} `{text}` {why}")]
pub struct BadName {
    what: &'static str,
    text: String,
    why: &'static str,
}

fn check(
    what: &'static str,
    text: &str,
    longest: usize,
    allowed: impl Fn(char) -> bool,
) -> Result<(), BadName> {
    let bad = |why| {
        Err(BadName {
            what,
            text: text.chars().take(80).collect(),
            why,
        })
    };
    let Some(first) = text.chars().next() else {
        return bad("is empty");
    };
    if !first.is_ascii_alphanumeric() {
        return bad("must begin with a letter or a digit");
    }
    if text.len() > longest {
        return bad("is too long");
    }
    if !text.chars().all(allowed) {
        return bad("holds a character that is not allowed");
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $ty:ident, $what:literal, $longest:literal, $allowed:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $ty(String);

        impl $ty {
            /// The checked name.
            ///
            /// # Errors
            /// [`BadName`] says which rule the text breaks.
            pub fn new(text: impl Into<String>) -> Result<Self, BadName> {
                let text = text.into();
                check($what, &text, $longest, $allowed)?;
                Ok(Self(text))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        /// So that a text finds its entry in a map.
        impl std::borrow::Borrow<str> for $ty {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $ty {
            type Error = BadName;
            fn try_from(text: String) -> Result<Self, BadName> {
                Self::new(text)
            }
        }

        impl From<$ty> for String {
            fn from(name: $ty) -> String {
                name.0
            }
        }

        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// Identity of an environment: lower case letters, digits and `-`, at most 63 bytes.
    EnvName, "environment name", 63,
    |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'
);
name!(
    /// A service or mock inside one environment.
    ServiceName, "service name", 63,
    |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
);
name!(
    /// A name that the engine accepts for a container, a network or a volume.
    /// Checked because the client library does not escape names into the URL.
    ResourceName, "resource name", 128,
    |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
);
name!(
    /// The engine's id of a container.
    ContainerId, "container id", 128,
    |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
);
name!(
    /// The engine's id of a network.
    NetworkId, "network id", 128,
    |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
);
name!(
    /// Hash of a canonical rendered document, as lower case hex.
    Hash, "hash", 64,
    |c| c.is_ascii_hexdigit()
);

/// Hash of a rendered container specification; equal hashes mean that nothing has to be replaced.
pub type SpecHash = Hash;
/// Hash of a whole rendered environment.
pub type Revision = Hash;

impl EnvName {
    /// The slug of a free text: lower case, everything else folded to single dashes.
    ///
    /// # Errors
    /// [`BadName`] when nothing of the text is left.
    pub fn slug(text: &str) -> Result<Self, BadName> {
        let mut slug = String::new();
        for c in text.chars() {
            if c.is_ascii_alphanumeric() {
                slug.push(c.to_ascii_lowercase());
            } else if !slug.is_empty() && !slug.ends_with('-') {
                slug.push('-');
            }
        }
        slug.truncate(63);
        Self::new(slug.trim_end_matches('-'))
    }
}

/// Transport of a published port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP, the default.
    Tcp,
    /// UDP.
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// A port on the engine's host, with its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostPort {
    /// 1 to 65,535.
    pub number: u16,
    /// TCP or UDP; the same number may be held once in each.
    pub protocol: Protocol,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.protocol)
    }
}
