//! Texts that keep the spelling they have in the file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// The name under which a type asks a deserializer for a scalar's own spelling.
///
/// The YAML reader knows it and hands over `1.10` as the text `1.10`; every other deserializer hands over its value.
pub(crate) const AS_WRITTEN: &str = "$argus::as_written";

/// A port as written: `[ip:]host:container[/udp]`, a range, or a bare number. The brain parses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct PortText(pub String);

impl PortText {
    /// The port as it stands in the file.
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

impl JsonSchema for PortText {
    fn schema_name() -> Cow<'static, str> {
        "Port".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A published port: `[ip:]host:container[/udp]`, ranges as in `8000-8002:80-82`, or one port for both.",
            "type": ["string", "integer"]
        })
    }
}

/// A command as written: one text that is split like a shell does, or a list of arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum Command {
    /// One text.
    Text(String),
    /// A list of arguments.
    List(Vec<String>),
}

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Command;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a command in one text, or a list of its arguments")
            }
            fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Command, D::Error> {
                inner.deserialize_any(self)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Command, E> {
                Ok(Command::Text(text.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Command, A::Error> {
                let mut arguments = Vec::new();
                while let Some(Scalar(argument)) = list.next_element()? {
                    arguments.push(argument);
                }
                Ok(Command::List(arguments))
            }
        }
        deserializer.deserialize_newtype_struct(AS_WRITTEN, Either)
    }
}

impl JsonSchema for Command {
    fn schema_name() -> Cow<'static, str> {
        "Command".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A command: one text that is split like a shell does, or a list of arguments.",
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": ["string", "number", "boolean"] } }
            ]
        })
    }
}

/// The shape of a map whose values are taken as the text that stands in the file.
pub(crate) struct TextMap;

impl JsonSchema for TextMap {
    fn schema_name() -> Cow<'static, str> {
        "TextMap".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "additionalProperties": { "type": ["string", "number", "boolean", "null"] }
        })
    }
}

/// Reads a map whose values are taken as the text that stands in the file.
pub(crate) fn map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let texts = BTreeMap::<String, Scalar>::deserialize(deserializer)?;
    Ok(texts.into_iter().map(|(key, Scalar(text))| (key, text)).collect())
}

/// Reads one scalar as the text that stands in the file.
pub(crate) fn scalar<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Scalar::deserialize(deserializer).map(|Scalar(text)| text)
}

struct Scalar(String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(AS_WRITTEN, ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number or a bool")
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
