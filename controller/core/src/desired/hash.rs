//! The hash of a value: equal hashes mean that nothing has to be replaced.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::desired::Desired;
use crate::ident::{Hash, Revision};

/// How many bytes of the SHA-256 are kept: enough that two revisions never share one, short enough for a label.
const KEPT: usize = 16;

/// The first 16 bytes of the SHA-256 of the value's canonical JSON (keys sorted, no whitespace), as lower case hex.
///
/// Only for values whose maps have text keys: everything else has no JSON and hashes to the reason for that.
pub fn hash_of<T: Serialize + ?Sized>(value: &T) -> Hash {
    let text = match serde_json::to_value(value) {
        Ok(mut json) => {
            json.sort_all_objects();
            json.to_string()
        }
        Err(error) => {
            debug_assert!(false, "only values with a JSON form are hashed: {error}");
            error.to_string()
        }
    };
    let mut hex = String::with_capacity(2 * KEPT);
    for byte in Sha256::digest(text).iter().take(KEPT) {
        // Writing to a `String` cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    Hash::new(hex).unwrap_or_else(|_| unreachable!("hex digits are a hash"))
}

/// The revision of an environment: the hash of all of it but the revision itself, and the notes, orders and checks, which
/// say nothing about what has to run.
pub fn revision_of(desired: &Desired) -> Revision {
    let mut json = serde_json::to_value(desired).unwrap_or_default();
    if let Value::Object(fields) = &mut json {
        fields.remove("revision");
        fields.remove("notes");
        // Where its values count, they stand in the services.
        fields.remove("secrets");
        fields.remove("hold");
        fields.remove("rollback");
        fields.remove("breaker");
        fields.remove("clean_orphans");
        fields.remove("preflight");
        fields.remove("verify_links");
        // Another version of this program serves the same: that replaces containers, and is no other revision.
        let services = fields.get_mut("services").and_then(Value::as_object_mut);
        for service in services.into_iter().flat_map(serde_json::Map::values_mut) {
            if let Value::Object(service) = service
                && let Some(file) = service.get_mut("file").and_then(Value::as_object_mut)
            {
                // It stands in the text.
                file.remove("target");
                service.remove("image");
            }
        }
    }
    hash_of(&json)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_keys_does_not_matter_at_any_depth() {
        let one = json!({ "a": 1, "b": { "c": [{ "x": 1, "y": 2 }], "d": null } });
        let other = json!({ "b": { "d": null, "c": [{ "y": 2, "x": 1 }] }, "a": 1 });
        assert_eq!(hash_of(&one), hash_of(&other));
        assert_ne!(hash_of(&one), hash_of(&json!({ "a": 1 })));
    }

    #[test]
    fn the_order_of_a_list_does() {
        assert_ne!(hash_of(&json!([1, 2])), hash_of(&json!([2, 1])));
    }

    #[test]
    fn a_hash_is_32_hex_digits_and_stays_the_same_for_ever() {
        assert_eq!(hash_of("").as_str(), "12ae32cb1ec02d01eda3581b127c1fee");
        assert_eq!(hash_of(&json!({})).as_str(), "44136fa355b3678a1146ad16f7e8649e");
    }
}
