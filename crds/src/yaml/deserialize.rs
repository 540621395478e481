//! Deserializer from the tree of a file to typed values.

use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;

use super::entry_map::Entry;
use super::tree::{Kind, Node};
use crate::number::{Keep, from_text};
use crate::text::AS_WRITTEN;

/// Error for a value that does not match its type. The check against the schema reports it earlier, with a location.
pub(super) type Error = de::value::Error;

/// Deserializer of one node.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    node: &'a Node,
    /// The part of a number that is kept in a field of any type; `None` for the nearest double.
    keep: Option<Keep>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(node: &'a Node) -> Self {
        Self { node, keep: None }
    }

    pub(super) fn keep(self, keep: Option<Keep>) -> Self {
        Self { keep, ..self }
    }

    fn entries(self, entries: &'a [Entry], skip_null: bool) -> Entries<'a> {
        Entries {
            rest: entries.iter(),
            skip_null,
            value: None,
            keep: self.keep,
        }
    }
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.kind {
            Kind::Scalar { text, plain: false } => visitor.visit_str(text),
            Kind::Scalar { text, plain: true } => visit_plain(text, self.keep, visitor),
            Kind::List(items) => visitor.visit_seq(Items {
                rest: items.iter(),
                keep: self.keep,
            }),
            Kind::Map(entries) => visitor.visit_map(self.entries(entries, false)),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.kind {
            Kind::Scalar { text, .. } => visitor.visit_str(text),
            Kind::List(_) | Kind::Map(_) => self.deserialize_any(visitor),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.keep(None).deserialize_any(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.node.is_null() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name != AS_WRITTEN {
            visitor.visit_newtype_struct(self)
        } else if self.node.is_null() {
            visitor.visit_str("")
        } else if let Kind::Map(entries) = &self.node.kind {
            visitor.visit_map(self.entries(entries, true))
        } else {
            self.deserialize_str(visitor)
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match &self.node.kind {
            Kind::Map(entries) => visitor.visit_map(self.entries(entries, true)),
            Kind::Scalar { .. } | Kind::List(_) => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match &self.node.kind {
            Kind::Scalar { text, .. } => visitor.visit_enum(text.as_str().into_deserializer()),
            Kind::List(_) | Kind::Map(_) => Err(de::Error::custom("expected one word")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 char bytes byte_buf unit unit_struct seq tuple
        tuple_struct map
    }
}

/// Resolves a plain scalar by the core schema of YAML 1.2.
fn visit_plain<'de, V: Visitor<'de>>(text: &str, keep: Option<Keep>, visitor: V) -> Result<V::Value, Error> {
    if super::tree::is_null(text) {
        return visitor.visit_unit();
    }
    match text {
        "true" | "True" | "TRUE" => return visitor.visit_bool(true),
        "false" | "False" | "FALSE" => return visitor.visit_bool(false),
        _ => {}
    }
    if let Ok(number) = text.parse::<u64>() {
        return visitor.visit_u64(number);
    }
    if let Ok(number) = text.parse::<i64>() {
        return visitor.visit_i64(number);
    }
    let based = |prefix: &str, radix| {
        text.strip_prefix(prefix)
            .and_then(|digits| u64::from_str_radix(digits, radix).ok())
    };
    if let Some(number) = based("0x", 16).or_else(|| based("0o", 8)) {
        return visitor.visit_u64(number);
    }
    if let Some(keep) = keep
        && let Some(Value::String(kept)) = from_text(text, keep)
    {
        return visitor.visit_string(kept);
    }
    let numeric = text.contains(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c));
    match text.parse::<f64>() {
        Ok(number) if numeric && number.is_finite() => visitor.visit_f64(number),
        _ => visitor.visit_str(text),
    }
}

struct Items<'de> {
    rest: std::slice::Iter<'de, std::sync::Arc<Node>>,
    keep: Option<Keep>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.rest
            .next()
            .map(|node| {
                seed.deserialize(Reader {
                    node,
                    keep: self.keep,
                })
            })
            .transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

struct Entries<'de> {
    rest: std::slice::Iter<'de, Entry>,
    /// True if entries with a null value are skipped.
    skip_null: bool,
    value: Option<&'de Node>,
    keep: Option<Keep>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let skip_null = self.skip_null;
        let Some(entry) = self.rest.find(|entry| !(skip_null && entry.value.is_null())) else {
            return Ok(None);
        };
        self.value = Some(&entry.value);
        seed.deserialize(entry.key.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let node = self
            .value
            .take()
            .ok_or_else(|| <Error as de::Error>::custom("a value without a key"))?;
        seed.deserialize(Reader {
            node,
            keep: self.keep,
        })
    }
}
