//! Decoded readings of a text: without its percent-encoding, its form encoding or its JSON escapes.

use std::ops::Range;

/// Number of encodings inside each other that are decoded, such as JSON in a query.
const MAX_LEVELS: usize = 2;

/// Bytes of a text after decoding, with their origins in the text.
pub(super) struct DecodedText {
    bytes: Vec<u8>,
    /// Start of each byte in the original text, and the end of the text. `None` if nothing was decoded.
    origins: Option<Vec<usize>>,
}

/// Encoding of a character.
#[derive(Clone, Copy)]
enum Encoding {
    /// `%2F`
    Percent,
    /// `%2F`, and `+` for a space.
    Form,
    /// `\u002f`, `\/`
    Json,
}

impl DecodedText {
    /// Returns the text itself, and its decoded readings if they differ.
    pub(super) fn readings(text: &str) -> Vec<Self> {
        let plain = Self {
            bytes: text.as_bytes().to_vec(),
            origins: None,
        };
        let mut all = vec![plain];
        let mut from = 0;
        for _ in 0..MAX_LEVELS {
            let until = all.len();
            for index in from..until {
                for encoding in [Encoding::Percent, Encoding::Form, Encoding::Json] {
                    all.extend(all[index].decoded(encoding));
                }
            }
            from = until;
        }
        all
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the range of the original text that encodes a range of the bytes.
    pub(super) fn origin(&self, range: &Range<usize>) -> Range<usize> {
        match &self.origins {
            None => range.clone(),
            Some(origins) => origins[range.start]..origins[range.end],
        }
    }

    /// Removes an encoding; returns `None` if the text has none, or if the encoding without `+` gives the same text.
    fn decoded(&self, encoding: Encoding) -> Option<Self> {
        let marks: &[u8] = match encoding {
            Encoding::Percent => b"%",
            Encoding::Form => b"+",
            Encoding::Json => b"\\",
        };
        if !self.bytes.iter().any(|byte| marks.contains(byte)) {
            return None;
        }
        let mut bytes = Vec::with_capacity(self.bytes.len());
        let mut origins = Vec::with_capacity(self.bytes.len() + 1);
        let mut at = 0;
        while at < self.bytes.len() {
            let rest = &self.bytes[at..];
            let mut utf8 = [0; 4];
            let (decoded, length): (&[u8], usize) = match (encoding, rest) {
                (Encoding::Percent | Encoding::Form, [b'%', high, low, ..]) => match hex(&[*high, *low]) {
                    Some(code) => {
                        utf8[0] = u8::try_from(code).unwrap_or_default();
                        (&utf8[..1], 3)
                    }
                    None => (&rest[..1], 1),
                },
                (Encoding::Form, [b'+', ..]) => (b" ", 1),
                (Encoding::Json, [b'\\', ..]) => match json_escape(rest) {
                    Some((character, length)) => (character.encode_utf8(&mut utf8).as_bytes(), length),
                    None => (&rest[..1], 1),
                },
                _ => (&rest[..1], 1),
            };
            bytes.extend_from_slice(decoded);
            origins.extend(decoded.iter().map(|_| self.start(at)));
            at += length;
        }
        origins.push(self.start(self.bytes.len()));
        let origins = Some(origins);
        (bytes != self.bytes).then_some(Self { bytes, origins })
    }

    fn start(&self, at: usize) -> usize {
        self.origins.as_ref().map_or(at, |origins| origins[at])
    }
}

/// Returns the character of a JSON escape at the start of the bytes, and the length of the escape.
fn json_escape(bytes: &[u8]) -> Option<(char, usize)> {
    let character = match bytes.get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode_escape(bytes),
        _ => return None,
    };
    Some((character, 2))
}

fn unicode_escape(bytes: &[u8]) -> Option<(char, usize)> {
    let high = hex(bytes.get(2..6)?)?;
    if let Some(character) = char::from_u32(high) {
        return Some((character, 6));
    }
    // A surrogate pair.
    let low = bytes.get(6..8).filter(|start| *start == b"\\u");
    let low = hex(low.and(bytes.get(8..12))?)?;
    let units = [u16::try_from(high).ok()?, u16::try_from(low).ok()?];
    let character = char::decode_utf16(units).next()?.ok()?;
    Some((character, 12))
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| {
        Some(value * 16 + char::from(*digit).to_digit(16)?)
    })
}
