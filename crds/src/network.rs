//! Networks of an environment, and the attachments of its containers.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::text::shape;

/// Docker network of an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Network {
    /// Literal name of the network. Default: `argusai-<namespace or project slug>-network`, and for one of `networks`
    /// `argusai-<environment>_<name in this file>`, or its name in this file if it is external.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// True if the containers cannot reach other networks through it, such as the internet. A service or mock that publishes a port needs
    /// another network.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub internal: bool,
    /// True for a network that exists already. Argus neither creates nor removes it. The project needs `argus allow`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
}

/// Settings of a container on one network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkAttachment {
    /// Additional DNS names of the service on this network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
}

/// Schema of `networks` of a container.
pub(crate) struct AttachmentsShape;

shape!(AttachmentsShape, "Attachments", attachment: NetworkAttachment; {
    "description": "Networks of a container: a list of names, or a map from name to settings.",
    "anyOf": [
        { "type": "array", "items": { "type": "string" } },
        { "type": "object", "additionalProperties": attachment }
    ]
});

/// Reads attachments from a list of names, or from a map from name to settings.
pub(crate) fn list_or_map<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, NetworkAttachment>, D::Error> {
    struct Either;
    impl<'de> Visitor<'de> for Either {
        type Value = BTreeMap<String, NetworkAttachment>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of networks, or a map from network to settings")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut networks = BTreeMap::new();
            while let Some(name) = list.next_element()? {
                networks.insert(name, NetworkAttachment::default());
            }
            Ok(networks)
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut networks = BTreeMap::new();
            while let Some((name, settings)) = map.next_entry()? {
                networks.insert(name, settings);
            }
            Ok(networks)
        }
    }
    deserializer.deserialize_any(Either)
}
