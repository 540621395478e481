//! Values of a spec file, by key, for the comparison with a later file.

use std::collections::BTreeMap;

use argus_crds::yaml::SourceMap;
use sha2::{Digest, Sha256};

use crate::hex::hex;

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
    let hash = hex(&Sha256::digest(text.as_bytes())[..6]);
    format!("({} bytes, sha256 {hash})", text.len())
}
