//! Escapes of quoted values.

/// Value without its quotes and escapes, with the offset in the file of each of its bytes.
#[derive(Default)]
pub(super) struct Unquoted {
    pub(super) text: String,
    offsets: Vec<usize>,
}

impl Unquoted {
    /// Value without escapes. `start` is the offset in the file.
    pub(super) fn plain(text: &str, start: usize) -> Self {
        let mut value = Self::default();
        value.push(text, start);
        value
    }

    /// Content of single quotes.
    pub(super) fn single(inner: &str, start: usize) -> Self {
        Self::unescape(inner, start, |after| {
            after.starts_with('\'').then(|| ("'".to_owned(), 1))
        })
    }

    /// Content of double quotes. An escaped dollar sign becomes that of variables.
    pub(super) fn double(inner: &str, start: usize) -> Self {
        Self::unescape(inner, start, unescape_double)
    }

    fn unescape(inner: &str, start: usize, escape: Escape) -> Self {
        let (mut value, mut at) = (Self::default(), 0);
        while let Some(index) = inner[at..].find('\\').map(|index| at + index) {
            value.push(&inner[at..index], start + at);
            let after = &inner[index + 1..];
            if let Some((text, length)) = escape(after) {
                value.push(&text, start + index);
                at = index + 1 + length;
            } else {
                // The character after a literal backslash begins no escape.
                at = index + 1 + after.chars().next().map_or(0, char::len_utf8);
                value.push(&inner[index..at], start + index);
            }
        }
        value.push(&inner[at..], start + at);
        value
    }

    fn push(&mut self, text: &str, at: usize) {
        self.text.push_str(text);
        self.offsets.extend((0..text.len()).map(|index| at + index));
    }

    /// Offset in the file of a byte of the value.
    pub(super) fn offset(&self, index: usize) -> usize {
        self.offsets.get(index).copied().unwrap_or_default()
    }
}

/// Returns the text of an escape and its length after the backslash; `None` if the backslash is literal text.
type Escape = fn(&str) -> Option<(String, usize)>;

fn unescape_double(after: &str) -> Option<(String, usize)> {
    let text = match after.chars().next()? {
        'a' => "\u{7}",
        'b' => "\u{8}",
        'f' => "\u{c}",
        'n' => "\n",
        'r' => "\r",
        't' => "\t",
        'v' => "\u{b}",
        '"' => "\"",
        '\\' => "\\",
        '$' => "$$",
        '0' => {
            let digits = after
                .get(1..4)
                .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))?;
            let number = u8::from_str_radix(digits, 8).ok()?;
            return Some((char::from(number).to_string(), 4));
        }
        _ => return None,
    };
    Some((text.to_owned(), 1))
}
