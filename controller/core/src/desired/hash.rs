//! Content hashes. Objects with equal hashes are up to date.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::desired::Desired;
use crate::hex::hex;
use crate::ident::{Hash, Revision};

/// Length of a hash in bytes: long enough to avoid collisions, short enough for a label.
const HASH_BYTES: usize = 16;

/// Returns the first 16 bytes of the SHA-256 of the canonical JSON (sorted keys, no whitespace), as lower case hex.
///
/// The value must have a JSON form, so all of its map keys are texts. Other values hash to the serialization error.
///
/// ```
/// use argus_core::desired::hash::hash_of;
/// use serde_json::json;
///
/// assert_eq!(hash_of(&json!({ "a": 1, "b": 2 })), hash_of(&json!({ "b": 2, "a": 1 })));
/// assert_eq!(hash_of("").as_str().len(), 32);
/// ```
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
    Hash::new(hex(&Sha256::digest(text)[..HASH_BYTES]))
        .unwrap_or_else(|_| unreachable!("hex digits are a hash"))
}

/// Returns the revision of an environment.
///
/// The hash omits the revision itself, and settings that do not affect containers, such as notes, holds and checks.
pub fn revision_of(desired: &Desired) -> Revision {
    let mut json = serde_json::to_value(desired.with_former_volumes()).unwrap_or_default();
    if let Value::Object(fields) = &mut json {
        fields.remove("revision");
        fields.remove("notes");
        fields.remove("env_file");
        fields.remove("worktree");
        fields.remove("folder");
        // The services contain the values that matter.
        fields.remove("secrets");
        fields.remove("hold");
        fields.remove("rollback");
        fields.remove("breaker");
        fields.remove("clean_orphans");
        fields.remove("preflight");
        fields.remove("verify_connectivity");
        // The mock image and the path of the mock file depend on the version of this program. A new version replaces
        // the containers of mocks, but the revision stays.
        let services = fields.get_mut("services").and_then(Value::as_object_mut);
        for service in services.into_iter().flat_map(serde_json::Map::values_mut) {
            if let Value::Object(service) = service
                && let Some(file) = service.get_mut("file").and_then(Value::as_object_mut)
            {
                // The content of the file includes the target.
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
    fn hash_ignores_the_order_of_keys() {
        let one = json!({ "a": 1, "b": { "c": [{ "x": 1, "y": 2 }], "d": null } });
        let other = json!({ "b": { "d": null, "c": [{ "y": 2, "x": 1 }] }, "a": 1 });
        assert_eq!(hash_of(&one), hash_of(&other));
        assert_ne!(hash_of(&one), hash_of(&json!({ "a": 1 })));
    }

    #[test]
    fn hash_depends_on_the_order_of_lists() {
        assert_ne!(hash_of(&json!([1, 2])), hash_of(&json!([2, 1])));
    }

    #[test]
    fn hash_is_stable_and_has_32_hex_digits() {
        assert_eq!(hash_of("").as_str(), "12ae32cb1ec02d01eda3581b127c1fee");
        assert_eq!(hash_of(&json!({})).as_str(), "44136fa355b3678a1146ad16f7e8649e");
    }
}
