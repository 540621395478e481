//! Hexadecimal texts: the digits of bytes, and UUIDs.

/// Returns the digits of bytes, in lower case.
///
/// ```
/// assert_eq!(argus_core::hex::hex(&[0x0a, 0xff]), "0aff");
/// ```
pub fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// Formats bits as a UUID.
pub fn uuid(bits: u128) -> String {
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Formats random bits as a UUID of version 4.
pub fn random_uuid(random: u128) -> String {
    uuid(random & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn uuid_has_version_and_variant(random in any::<u128>()) {
            let text = random_uuid(random);
            prop_assert_eq!(text.len(), 36);
            prop_assert_eq!(&text[14..15], "4");
            prop_assert!("89ab".contains(&text[19..20]));
        }
    }
}
