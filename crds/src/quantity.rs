//! Durations, sizes and processor counts as people write them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text;

/// The longest duration that is taken: ten years.
const LONGEST: u128 = 3650 * 86_400_000;
/// The largest size that is taken: 1 EB.
const LARGEST: u128 = 1_000_000_000_000_000_000;
/// The most processors that are taken.
const MOST_CPUS: u128 = 1024;

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text is empty.
    #[error("is empty")]
    Empty,
    /// The text does not start with a number.
    #[error("does not start with a number")]
    NotANumber,
    /// The unit is not known.
    #[error("has a unit that is not known")]
    Unit,
    /// A number with this unit is less than nothing.
    #[error("is negative")]
    Negative,
    /// The quantity is out of bounds.
    #[error("is too large")]
    TooLarge,
}

/// A duration: `100ms`, `5s`, `2m`, `1h`, `90d`, or a bare number of milliseconds; at most ten years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HumanDuration(Duration);

impl HumanDuration {
    /// A duration of whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// A duration of milliseconds.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }

    /// The duration itself.
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl From<HumanDuration> for Duration {
    fn from(duration: HumanDuration) -> Self {
        duration.0
    }
}

impl FromStr for HumanDuration {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        const UNITS: [(&str, u128); 6] = [
            ("", 1),
            ("ms", 1),
            ("s", 1000),
            ("m", 60_000),
            ("h", 3_600_000),
            ("d", 86_400_000),
        ];
        let text = text.trim();
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        let mut rest = text;
        let mut total = 0u128;
        while !rest.is_empty() {
            let (number, unit, after) = take(rest)?;
            let factor = factor(&UNITS, unit)?;
            if unit.is_empty() && number.len() != text.len() {
                return Err(QuantityError::Unit);
            }
            total = total.saturating_add(scaled(number, factor)?);
            rest = after.trim_start();
        }
        let milliseconds = u64::try_from(within(total, LONGEST)?).map_err(|_| QuantityError::TooLarge)?;
        Ok(Self::from_millis(milliseconds))
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.0.as_millis();
        for (unit, factor) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)] {
            if milliseconds != 0 && milliseconds.is_multiple_of(factor) {
                return write!(f, "{}{unit}", milliseconds / factor);
            }
        }
        write!(f, "{milliseconds}ms")
    }
}

/// A size in bytes: `500MB`, `2GB`, `1TB` are decimal, `512Mi`, `2GiB` and Docker's `512m`, `2g` binary; at most 1 EB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

impl ByteSize {
    /// A size in bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

const SIZE_UNITS: [(&str, u128); 24] = [
    ("", 1),
    ("B", 1),
    ("b", 1),
    ("KB", 1000),
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
];

impl FromStr for ByteSize {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        let (number, unit, after) = take(text)?;
        if !after.is_empty() {
            return Err(QuantityError::Unit);
        }
        let bytes = within(scaled(number, factor(&SIZE_UNITS, unit)?)?, LARGEST)?;
        u64::try_from(bytes)
            .map(Self)
            .map_err(|_| QuantityError::TooLarge)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            ("TB", 1_000_000_000_000),
            ("TiB", 1 << 40),
            ("GB", 1_000_000_000),
            ("GiB", 1 << 30),
            ("MB", 1_000_000),
            ("MiB", 1 << 20),
            ("KB", 1000),
            ("KiB", 1 << 10),
        ];
        for (unit, factor) in units {
            if self.0 != 0 && self.0.is_multiple_of(factor) {
                return write!(f, "{}{unit}", self.0 / factor);
            }
        }
        write!(f, "{}B", self.0)
    }
}

/// A number of processors with up to nine decimals, as in `1.5`; at most 1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuCount(u64);

impl CpuCount {
    /// The count in billionths of a processor, which is what the engine is told.
    pub const fn nanos(self) -> u64 {
        self.0
    }
}

impl FromStr for CpuCount {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        let (number, unit, after) = take(text)?;
        if !unit.is_empty() || !after.is_empty() {
            return Err(QuantityError::Unit);
        }
        let nanos = within(scaled(number, 1_000_000_000)?, MOST_CPUS * 1_000_000_000)?;
        u64::try_from(nanos)
            .map(Self)
            .map_err(|_| QuantityError::TooLarge)
    }
}

impl fmt::Display for CpuCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Splits a text into a leading number, the unit after it, and what follows.
fn take(text: &str) -> Result<(&str, &str, &str), QuantityError> {
    if text.starts_with('-') {
        return Err(QuantityError::Negative);
    }
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(QuantityError::NotANumber);
    }
    let rest = rest.trim_start();
    let end = rest
        .find(|c: char| c.is_ascii_digit() || c.is_whitespace())
        .unwrap_or(rest.len());
    let (unit, after) = rest.split_at(end);
    Ok((number, unit, after))
}

fn factor(units: &[(&str, u128)], unit: &str) -> Result<u128, QuantityError> {
    units
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, factor)| *factor)
        .ok_or(QuantityError::Unit)
}

/// A decimal number times a factor, rounded down to a whole.
fn scaled(number: &str, factor: u128) -> Result<u128, QuantityError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() > 20 || fraction.len() > 12 {
        return Err(QuantityError::TooLarge);
    }
    let digits = |digits: &str| digits.parse::<u128>().map_err(|_| QuantityError::NotANumber);
    let mut total = digits(whole)?.saturating_mul(factor);
    if number.contains('.') {
        let places = u32::try_from(fraction.len()).map_err(|_| QuantityError::TooLarge)?;
        total = total.saturating_add(digits(fraction)? * factor / 10u128.pow(places));
    }
    Ok(total)
}

fn within(total: u128, bound: u128) -> Result<u128, QuantityError> {
    if total > bound {
        Err(QuantityError::TooLarge)
    } else {
        Ok(total)
    }
}

macro_rules! as_text {
    ($type:ty, $name:literal, $format:literal, $description:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                text::scalar(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "description": $description, "type": ["string", "number"], "format": $format })
            }
        }
    };
}

as_text!(
    HumanDuration,
    "HumanDuration",
    "argus-duration",
    "A duration: `100ms`, `5s`, `2m`, `1h`, `90d`, or a bare number of milliseconds."
);
as_text!(
    ByteSize,
    "ByteSize",
    "argus-size",
    "A size: `500MB`, `2GB` (decimal), `512Mi`, `512m` (binary)."
);
as_text!(
    CpuCount,
    "CpuCount",
    "argus-cpus",
    "A number of processors, as in `1.5`."
);
