//! Durations, sizes and CPU counts with units, as in spec files.
//!
//! Parsing never panics and rejects values above fixed bounds. Printing uses the largest unit without a remainder, so a
//! printed value parses to the same value.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::{self, shape};

/// Maximum duration in milliseconds: ten years.
const MAX_DURATION_MS: u128 = 3650 * 86_400_000;
/// Maximum size in bytes: 1 EB.
const MAX_SIZE: u128 = 1_000_000_000_000_000_000;
/// Maximum number of CPUs.
const MAX_CPUS: u128 = 1024;

/// Parse error of a quantity. Its text follows the name of the key in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text is empty.
    #[error("is empty")]
    Empty,
    /// The text does not start with a number.
    #[error("does not start with a number")]
    NotANumber,
    /// The unit is unknown.
    #[error("has an unknown unit")]
    Unit,
    /// The number is less than zero.
    #[error("is negative")]
    Negative,
    /// The value exceeds its upper bound.
    #[error("is too large")]
    TooLarge,
}

/// Duration: `100ms`, `5s`, `2m`, `1h`, `90d`, or a number of milliseconds; at most ten years.
///
/// ```rust
/// use std::time::Duration;
///
/// use argus_crds::{HumanDuration, QuantityError};
///
/// let duration: HumanDuration = "1h30m".parse()?;
/// assert_eq!(duration.get(), Duration::from_secs(5400));
/// assert_eq!(duration.to_string(), "90m");
/// assert_eq!("5 parsecs".parse::<HumanDuration>(), Err(QuantityError::Unit));
/// # Ok::<(), QuantityError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HumanDuration(Duration);

impl HumanDuration {
    /// Creates a duration from whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Creates a duration from milliseconds.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }

    /// Returns the duration.
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
            let (number, unit, after) = split_quantity(rest)?;
            let factor = factor_of(&UNITS, unit)?;
            if unit.is_empty() && number.len() != text.len() {
                return Err(QuantityError::Unit);
            }
            total = total.saturating_add(scale(number, factor)?);
            rest = after.trim_start();
        }
        let milliseconds =
            u64::try_from(check_bound(total, MAX_DURATION_MS)?).map_err(|_| QuantityError::TooLarge)?;
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

/// Size in bytes: `500MB`, `2GB`, `1TB` (decimal), `512Mi`, `2GiB`, or Docker's `512m`, `2g` (binary); at most 1 EB.
///
/// ```rust
/// use argus_crds::{ByteSize, QuantityError};
///
/// assert_eq!("500MB".parse::<ByteSize>()?.bytes(), 500_000_000);
/// assert_eq!("512m".parse::<ByteSize>()?.to_string(), "512MiB");
/// assert_eq!("-1".parse::<ByteSize>(), Err(QuantityError::Negative));
/// # Ok::<(), QuantityError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

impl ByteSize {
    /// Creates a size from bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Returns the number of bytes.
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
        let (number, unit, after) = split_quantity(text)?;
        if !after.is_empty() {
            return Err(QuantityError::Unit);
        }
        let bytes = check_bound(scale(number, factor_of(&SIZE_UNITS, unit)?)?, MAX_SIZE)?;
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

/// Number of CPUs with up to nine decimals, such as `1.5`; at most 1024.
///
/// ```rust
/// use argus_crds::{CpuCount, QuantityError};
///
/// assert_eq!("1.5".parse::<CpuCount>()?.nanos(), 1_500_000_000);
/// assert_eq!("2 cores".parse::<CpuCount>(), Err(QuantityError::Unit));
/// # Ok::<(), QuantityError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuCount(u64);

impl CpuCount {
    /// Returns the count in billionths of a CPU, the unit of the engine's API.
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
        let (number, unit, after) = split_quantity(text)?;
        if !unit.is_empty() || !after.is_empty() {
            return Err(QuantityError::Unit);
        }
        let nanos = check_bound(scale(number, 1_000_000_000)?, MAX_CPUS * 1_000_000_000)?;
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

/// Splits a text into the leading number, its unit and the rest.
fn split_quantity(text: &str) -> Result<(&str, &str, &str), QuantityError> {
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

fn factor_of(units: &[(&str, u128)], unit: &str) -> Result<u128, QuantityError> {
    units
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, factor)| *factor)
        .ok_or(QuantityError::Unit)
}

/// Multiplies a decimal number with a factor and rounds down.
fn scale(number: &str, factor: u128) -> Result<u128, QuantityError> {
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

fn check_bound(total: u128, bound: u128) -> Result<u128, QuantityError> {
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

        shape!($type, $name; { "description": $description, "type": ["string", "number"], "format": $format });
    };
}

as_text!(
    HumanDuration,
    "HumanDuration",
    "argus-duration",
    "Duration: `100ms`, `5s`, `2m`, `1h`, `90d`, or a number of milliseconds."
);
as_text!(
    ByteSize,
    "ByteSize",
    "argus-size",
    "Size: `500MB`, `2GB` (decimal), `512Mi`, `512m` (binary)."
);
as_text!(
    CpuCount,
    "CpuCount",
    "argus-cpus",
    "Number of CPUs, such as `1.5`."
);
