//! Limit of equal restart budgets: a number, or `off`.

use std::str::FromStr;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};

use crate::text::{self, shape};

/// Largest number that a file may contain.
const MAX: u32 = 16;

/// Number of restart budgets in a row with the same failure after which Argus stops all restarts; `None` for `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HaltAfterSame(pub Option<u32>);

impl Default for HaltAfterSame {
    fn default() -> Self {
        Self(Some(3))
    }
}

impl FromStr for HaltAfterSame {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        let number = text.parse().ok().filter(|number| (1..=MAX).contains(number));
        number.map_or_else(
            || Err(format!("must be a number from 1 to {MAX}, or `off`")),
            |number| Ok(Self(Some(number))),
        )
    }
}

impl Serialize for HaltAfterSame {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(number) => serializer.serialize_u32(number),
            None => serializer.serialize_str("off"),
        }
    }
}

impl<'de> Deserialize<'de> for HaltAfterSame {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::scalar(deserializer)?.parse().map_err(D::Error::custom)
    }
}

shape!(HaltAfterSame, "HaltAfterSame"; {
    "description": "Number of restart budgets in a row with the same failure, or `off`.",
    "type": ["integer", "string"],
    "minimum": 1,
    "maximum": MAX,
    "pattern": "^(off|[1-9]|1[0-6])$",
    "format": "argus-halt-after-same"
});
