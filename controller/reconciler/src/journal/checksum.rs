//! A line of JSON that tells whether it is whole: its last field is a checksum of all that comes before.

use sha2::{Digest, Sha256};

/// What the checksum stands in.
const FIELD: &str = ",\"sum\":\"";
/// Characters of the checksum: the first 64 bits of a SHA-256.
const DIGITS: usize = 16;

/// The object with its checksum as the last field; a text that is no object stays as it is, and will not be sound.
pub fn with_checksum(object: &str) -> String {
    let Some(open) = object.strip_suffix('}').filter(|open| open.len() > 1) else {
        return object.to_owned();
    };
    format!("{open}{FIELD}{}\"}}", sum(open.as_bytes()))
}

/// The line is as it was sealed.
pub fn is_sound(line: &[u8]) -> bool {
    let tail = FIELD.len() + DIGITS + 2;
    let Some(at) = line.len().checked_sub(tail) else {
        return false;
    };
    let (open, tail) = line.split_at(at);
    let expected = format!("{FIELD}{}\"}}", sum(open));
    tail == expected.as_bytes()
}

fn sum(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(DIGITS);
    for byte in &Sha256::digest(bytes)[..DIGITS / 2] {
        // Writing to a string cannot fail.
        let _always = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_other_byte_and_any_missing_byte_is_noticed() {
        let line = with_checksum(r#"{"v":1,"seq":7,"kind":"event"}"#).into_bytes();
        assert!(is_sound(&line));
        serde_json::from_slice::<serde_json::Value>(&line).unwrap();
        for at in 0..line.len() {
            for flip in [1, 0x20, 0x80] {
                let mut other = line.clone();
                other[at] ^= flip;
                assert!(!is_sound(&other), "byte {at}");
            }
            assert!(!is_sound(&line[..at]), "cut at {at}");
            assert!(!is_sound(&line[at + 1..]), "without the first {at}");
        }
        assert!(!is_sound(b"") && !is_sound(b"{}"));
        for no_object in ["", "{}", "7", "[1]"] {
            assert!(!is_sound(with_checksum(no_object).as_bytes()), "{no_object}");
        }
    }
}
