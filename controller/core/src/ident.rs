//! Validated names, ids and ports. The constructors check them; later code relies on that.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

/// Reason why a text is not a valid name.
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
        return bad("contains a character that is not allowed");
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $ty:ident, $what:literal, $longest:literal, $allowed:expr) => {
        $(#[$doc])*
        ///
        /// Clones share the text.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $ty(Arc<str>);

        impl $ty {
            /// Returns the name if the text is valid.
            ///
            /// # Errors
            /// [`BadName`] names the violated rule.
            pub fn new(text: impl Into<String>) -> Result<Self, BadName> {
                let text = text.into();
                check($what, &text, $longest, $allowed)?;
                Ok(Self(text.into()))
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        /// Allows map lookups by `&str`.
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
                name.0.to_string()
            }
        }

        impl Serialize for $ty {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
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
    /// Name of an environment: lower case ASCII letters, digits and `-`, at most 63 bytes.
    ///
    /// ```
    /// use argus_core::ident::EnvName;
    ///
    /// assert_eq!(EnvName::new("shop-2").unwrap().as_str(), "shop-2");
    /// assert!(EnvName::new("My Shop").is_err());
    /// assert_eq!(EnvName::slug("My Shop!").unwrap().as_str(), "my-shop");
    /// assert!(EnvName::slug("!?").is_err());
    /// ```
    EnvName, "environment name", 63,
    |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'
);
name!(
    /// Name of a service or mock inside one environment, at most 63 bytes.
    ServiceName, "service name", 63,
    |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
);
name!(
    /// Name that the engine accepts for a container, a network or a volume, at most 128 bytes.
    ///
    /// The check is necessary because the client library does not escape names in URLs.
    ResourceName, "resource name", 128,
    |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
);
name!(
    /// Id that the engine assigned to a container.
    ContainerId, "container id", 128,
    |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
);
name!(
    /// Id that the engine assigned to a network.
    NetworkId, "network id", 128,
    |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
);
name!(
    /// Hash of a canonical rendered document, in hexadecimal digits.
    Hash, "hash", 64,
    |c| c.is_ascii_hexdigit()
);

/// Hash of a rendered container specification. A container with an equal hash is up to date.
pub type ContainerSpecHash = Hash;
/// Hash of a whole environment.
pub type Revision = Hash;

impl EnvName {
    /// Converts any text into a name: lower case, with a single dash for each run of other characters.
    ///
    /// # Errors
    /// [`BadName`] if the text contains no ASCII letter and no digit.
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

/// A port number with its protocol, on the host or in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProtocolPort {
    /// Port number, 1 to 65,535.
    pub number: u16,
    /// TCP and UDP are separate: the same number can be in use once in each.
    pub protocol: Protocol,
}

impl ProtocolPort {
    /// Creates the port with this number and protocol.
    pub const fn new(number: u16, protocol: Protocol) -> Self {
        Self { number, protocol }
    }
}

impl fmt::Display for ProtocolPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.protocol)
    }
}

/// Host ports by published port.
pub type PortMap = BTreeMap<PortKey, u16>;

/// A published port of a service; key of a [`PortMap`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PortKey {
    /// Service that publishes the port.
    pub service: ServiceName,
    /// Port in the container, with protocol.
    pub container: ProtocolPort,
}
