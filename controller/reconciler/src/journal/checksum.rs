//! Checksum of a JSON line: its last field is a hash of all bytes before it.

use argus_core::hex::hex;
use sha2::{Digest, Sha256};

/// Field of the checksum.
const CHECKSUM_FIELD: &str = ",\"sum\":\"";
/// Length of the checksum in characters: the first 64 bits of a SHA-256.
const CHECKSUM_DIGITS: usize = 16;

/// Returns the object with its checksum as the last field. Text that is not an object is returned unchanged, and
/// [`has_valid_checksum`] rejects it.
pub fn with_checksum(object: &str) -> String {
    let Some(open) = object.strip_suffix('}').filter(|open| open.len() > 1) else {
        return object.to_owned();
    };
    format!("{open}{CHECKSUM_FIELD}{}\"}}", digest_of(open.as_bytes()))
}

/// Reports whether the line has a valid checksum.
pub fn has_valid_checksum(line: &[u8]) -> bool {
    let tail = CHECKSUM_FIELD.len() + CHECKSUM_DIGITS + 2;
    let Some(at) = line.len().checked_sub(tail) else {
        return false;
    };
    let (open, tail) = line.split_at(at);
    let expected = format!("{CHECKSUM_FIELD}{}\"}}", digest_of(open));
    tail == expected.as_bytes()
}

fn digest_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..CHECKSUM_DIGITS / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_and_missing_bytes_are_detected() {
        let line = with_checksum(r#"{"v":1,"seq":7,"kind":"event"}"#).into_bytes();
        assert!(has_valid_checksum(&line));
        serde_json::from_slice::<serde_json::Value>(&line).unwrap();
        for at in 0..line.len() {
            for flip in [1, 0x20, 0x80] {
                let mut other = line.clone();
                other[at] ^= flip;
                assert!(!has_valid_checksum(&other), "byte {at}");
            }
            assert!(!has_valid_checksum(&line[..at]), "cut at {at}");
            assert!(!has_valid_checksum(&line[at + 1..]), "without the first {at}");
        }
        assert!(!has_valid_checksum(b"") && !has_valid_checksum(b"{}"));
        for no_object in ["", "{}", "7", "[1]"] {
            assert!(
                !has_valid_checksum(with_checksum(no_object).as_bytes()),
                "{no_object}"
            );
        }
    }
}
