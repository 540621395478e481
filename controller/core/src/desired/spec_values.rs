//! Values of a spec file, by key, for the comparison with a later file.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use argus_crds::yaml::SourceMap;
use sha2::{Digest, Sha256};

/// Maximum length of a value, in bytes.
const MAX_VALUE: usize = 200;

/// Values by the path of their key. Longer values are replaced by their length and hash.
pub type SpecValues = BTreeMap<String, String>;

/// Reads the values of a parsed file.
pub fn spec_values(source: &SourceMap) -> SpecValues {
    let scalars = source.scalars().into_iter();
    scalars
        .map(|scalar| (scalar.path, bounded(scalar.text)))
        .collect()
}

fn bounded(text: &str) -> String {
    if text.len() <= MAX_VALUE {
        return text.to_owned();
    }
    let hash = Sha256::digest(text.as_bytes());
    let mut hex = String::new();
    for byte in hash.iter().take(6) {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    format!("({} bytes, sha256 {hex})", text.len())
}
