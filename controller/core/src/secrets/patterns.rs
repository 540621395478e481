//! Search for secrets in a text: as they are written, percent-encoded, JSON-escaped or in base64, and passwords of URLs.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::iter;
use std::ops::{Bound, Range};

use super::MIN_LENGTH;
use super::decoded::DecodedText;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Minimum length in bytes of a secret that is found inside a word, such as `postgres-db`.
const MIN_FREE_LENGTH: usize = 8;

#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Patterns {
    /// Texts to search for, none of them empty.
    texts: BTreeSet<Vec<u8>>,
    /// First bytes of the texts.
    starts: BTreeSet<u8>,
    /// Secrets that are found only as whole words.
    words: BTreeSet<Vec<u8>>,
}

impl Patterns {
    /// Adds a secret and its base64 forms.
    pub(super) fn add(&mut self, secret: &str) {
        self.insert(secret.to_owned());
        if secret.len() < MIN_FREE_LENGTH {
            self.limit_to_words(secret);
        }
        for text in base64_forms(secret.as_bytes()) {
            self.insert(text.replace('+', "-").replace('/', "_"));
            self.insert(text);
        }
    }

    /// Finds a secret only as a whole word from now on.
    pub(super) fn limit_to_words(&mut self, secret: &str) {
        self.words.insert(secret.into());
    }

    /// Returns true if a secret is found only as a whole word.
    pub(super) fn is_limited(&self, secret: &str) -> bool {
        self.words.contains(secret.as_bytes())
    }

    fn insert(&mut self, text: String) {
        if let Some(first) = text.bytes().next() {
            self.starts.insert(first);
            self.texts.insert(text.into_bytes());
        }
    }

    /// Returns the ranges of all secrets in the text and of all passwords of URLs. The ranges are sorted and disjoint.
    ///
    /// A fragment is a text whose beginning and end were cut off. It can begin with the end of a secret, and end with the
    /// beginning of one.
    pub(super) fn ranges(&self, text: &str, is_fragment: bool) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        for reading in DecodedText::readings(text) {
            let bytes = reading.bytes();
            let mut found = url_passwords(bytes);
            self.search(bytes, &mut found);
            if is_fragment {
                found.extend(self.cut_secrets(bytes));
            }
            ranges.extend(found.into_iter().map(|range| reading.origin(&range)));
        }
        merged(ranges)
    }

    fn search(&self, bytes: &[u8], found: &mut Vec<Range<usize>>) {
        let mut starts = [false; 256];
        for first in &self.starts {
            starts[usize::from(*first)] = true;
        }
        let mut end = 0;
        for (at, first) in bytes.iter().enumerate() {
            if at < end || !starts[usize::from(*first)] {
                continue;
            }
            if let Some(length) = self.longest_at(bytes, at) {
                end = at + length;
                found.push(at..end);
            }
        }
    }

    /// Length of the longest secret at a position.
    fn longest_at(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let mut part = &bytes[at..];
        loop {
            // The texts at the position are the beginnings of `part`. In the order of texts, each one between such a beginning and `part`
            // begins in the same way. So the nearest text before `part` decides, and the many others need no comparison.
            let before = (Bound::Unbounded, Bound::Included(part));
            let text = self.texts.range::<[u8], _>(before).next_back()?;
            let common = iter::zip(text, part)
                .take_while(|(one, other)| one == other)
                .count();
            part = &part[..common];
            if common == text.len() {
                if !self.words.contains(text) || is_word(bytes, at..at + common) {
                    return Some(common);
                }
                part = &part[..common - 1];
            }
        }
    }

    /// Returns the ranges of the parts of secrets at both ends of the text.
    fn cut_secrets(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let (mut start, mut end) = (0, 0);
        for text in &self.texts {
            let lengths = || MIN_LENGTH..text.len().min(bytes.len() + 1);
            let tail = lengths()
                .rev()
                .find(|n| bytes.starts_with(&text[text.len() - n..]));
            let head = lengths().rev().find(|n| bytes.ends_with(&text[..*n]));
            start = start.max(tail.unwrap_or(0));
            end = end.max(head.unwrap_or(0));
        }
        let ranges = [0..start, bytes.len() - end..bytes.len()];
        ranges.into_iter().filter(|range| !range.is_empty()).collect()
    }
}

/// Returns true if a part of a text, which is not empty, is not part of a longer word.
fn is_word(bytes: &[u8], range: Range<usize>) -> bool {
    let is_part =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte));
    let continues = |one: Option<usize>, other: usize| {
        is_part(one.and_then(|one| bytes.get(one))) && is_part(bytes.get(other))
    };
    !continues(range.start.checked_sub(1), range.start) && !continues(Some(range.end), range.end - 1)
}

/// Sorts ranges, and joins those that overlap.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| (range.start, Reverse(range.end)));
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Returns the ranges of the passwords in `scheme://user:password@host`.
fn url_passwords(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    // The search for one byte is fast.
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == b':') {
        from += at + 1;
        if !bytes[from..].starts_with(b"//") {
            continue;
        }
        from += 2;
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b"/?#\"'<>\\`".contains(byte);
        let length = bytes[from..].iter().position(ends);
        let authority = &bytes[from..length.map_or(bytes.len(), |length| from + length)];
        let Some(user) = authority.iter().rposition(|byte| *byte == b'@') else {
            continue;
        };
        match authority[..user].iter().position(|byte| *byte == b':') {
            Some(colon) if colon + 1 < user => found.push(from + colon + 1..from + user),
            Some(_) | None => {}
        }
    }
    found
}

/// Returns the base64 of a secret, and the parts of its base64 inside a longer text, one per alignment.
fn base64_forms(secret: &[u8]) -> Vec<String> {
    let mut forms = vec![base64(secret)];
    for shift in 0..3 {
        let shifted = [&[0; 3][..shift], secret].concat();
        // The first and the last character can also contain bits of the neighbours.
        let (from, until) = ((shift * 8).div_ceil(6), shifted.len() * 8 / 6);
        forms.push(base64(&shifted)[from..until].to_owned());
    }
    forms
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let digit = bits >> (18 - 6 * index) & 63;
            if index <= three.len() {
                text.push(char::from(BASE64[digit as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_of_many_similar_secrets_is_found() {
        let mut patterns = Patterns::default();
        for number in 0..5_000 {
            patterns.add(&format!("{}{number:05}", "a".repeat(40)));
        }
        patterns.add("aaaaaaaab");
        patterns.add("aaaaaaaabc");
        patterns.add("aaaaaaaabcde");
        patterns.limit_to_words("aaaaaaaabc");
        let none = "a".repeat(20_000);
        assert!(patterns.ranges(&none, false).is_empty());
        for (text, length) in [
            ("aaaaaaaabcd", Some(9)),
            ("aaaaaaaabc d", Some(10)),
            ("aaaaaaaabcdef", Some(12)),
            ("aaaaaaaac", None),
        ] {
            let expected: Vec<_> = length.into_iter().map(|length| 0..length).collect();
            assert_eq!(patterns.ranges(text, false), expected, "{text}");
        }
    }
}
