//! Texts with the spelling of the file, such as `1.10` for a number.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize};

/// Newtype name that requests the original spelling of a scalar from a deserializer.
///
/// The YAML reader passes `1.10` as the text `1.10`. Every other deserializer ignores the name and passes its value.
pub(crate) const AS_WRITTEN: &str = "$argus::as_written";

/// Writes the schema of a type by hand, with the schemas of its parts.
macro_rules! shape {
    ($type:ty, $name:literal $(, $part:ident: $of:ty)*; $schema:tt) => {
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                // A schema without parts needs no generator.
                let _ = &generator;
                $(let $part = generator.subschema_for::<$of>();)*
                schemars::json_schema!($schema)
            }
        }
    };
}
pub(crate) use shape;

/// Unparsed port: `[ip:]host:container[/udp]`, a range, or a number. The crate `argus-core` parses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct PortText(pub String);

impl PortText {
    /// Returns the text from the file.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PortText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for PortText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(deserializer).map(Self)
    }
}

shape!(PortText, "Port"; {
    "description": "Published port: `[ip:]host:container[/udp]`, ranges such as `8000-8002:80-82`, or one port for both.",
    "type": ["string", "integer"]
});

/// Command: one text, which Argus splits into words with shell quoting rules, or a list of arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum Command {
    /// One unsplit text.
    Text(String),
    /// List of arguments.
    List(Vec<String>),
}

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a command as one text, or a list of arguments";
        scalar_or_list(
            deserializer,
            expected,
            |text| Ok(Self::Text(text.to_owned())),
            Self::List,
        )
    }
}

shape!(Command, "Command"; {
    "description": "Command: one text, split into words with shell quoting rules but without a shell, or a list of arguments.",
    "anyOf": [
        { "type": "string" },
        { "type": "array", "items": { "type": ["string", "number", "boolean"] } }
    ]
});

/// Schema of a map whose values keep the spelling of the file.
pub(crate) struct TextMap;

shape!(TextMap, "TextMap"; {
    "type": "object",
    "additionalProperties": { "type": ["string", "number", "boolean", "null"] }
});

/// Reads a map whose values keep the spelling of the file.
pub(crate) fn map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let texts = BTreeMap::<String, Scalar>::deserialize(deserializer)?;
    Ok(texts.into_iter().map(|(key, Scalar(text))| (key, text)).collect())
}

/// Reads one scalar with the spelling of the file.
pub(crate) fn scalar<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Scalar::deserialize(deserializer).map(|Scalar(text)| text)
}

/// Reads a value with two forms: one scalar with the spelling of the file, or a map.
pub(crate) fn scalar_or_map<'de, D: Deserializer<'de>, T, L: Deserialize<'de>>(
    deserializer: D,
    expected: &'static str,
    short: fn(&str) -> Result<T, String>,
    long: fn(L) -> T,
) -> Result<T, D::Error> {
    let forms = Forms {
        expected,
        short,
        list: None,
        long: Some(long),
    };
    deserializer.deserialize_newtype_struct(AS_WRITTEN, forms)
}

/// Reads a value with two forms: one scalar with the spelling of the file, or a list of scalars.
pub(crate) fn scalar_or_list<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &'static str,
    short: fn(&str) -> Result<T, String>,
    list: fn(Vec<String>) -> T,
) -> Result<T, D::Error> {
    let forms = Forms::<T, IgnoredAny> {
        expected,
        short,
        list: Some(list),
        long: None,
    };
    deserializer.deserialize_newtype_struct(AS_WRITTEN, forms)
}

/// Forms of a value. The map of its long form is `L`.
struct Forms<T, L> {
    expected: &'static str,
    short: fn(&str) -> Result<T, String>,
    list: Option<fn(Vec<String>) -> T>,
    long: Option<fn(L) -> T>,
}

impl<'de, T, L: Deserialize<'de>> Visitor<'de> for Forms<T, L> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<T, D::Error> {
        inner.deserialize_any(self)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.short)(text).map_err(E::custom)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<T, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<T, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<T, A::Error> {
        let Some(list) = self.list else {
            return Err(de::Error::invalid_type(Unexpected::Seq, &self));
        };
        let mut texts = Vec::new();
        while let Some(Scalar(text)) = items.next_element()? {
            texts.push(text);
        }
        Ok(list(texts))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        let Some(long) = self.long else {
            return Err(de::Error::invalid_type(Unexpected::Map, &self));
        };
        L::deserialize(de::value::MapAccessDeserializer::new(map)).map(long)
    }
}

/// A scalar with the spelling of the file.
pub(crate) struct Scalar(pub(crate) String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(AS_WRITTEN, ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number or a boolean")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Scalar, D::Error> {
        inner.deserialize_any(self)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar(text.to_owned()))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Scalar, E> {
        Ok(Scalar(String::new()))
    }
}
