//! Regular expressions with the syntax of JavaScript.

use std::fmt::Write as _;

use fancy_regex::Regex;

use crate::value::shortened;

/// Searches a text for a pattern, without flags and without anchors.
///
/// # Errors
/// The pattern is invalid, or the search exceeds its limit of steps.
pub(crate) fn is_match(pattern: &str, text: &str) -> Result<bool, String> {
    compile(pattern)?
        .is_match(text)
        .map_err(|error| format!("cannot search with the pattern `{}`: {error}", shortened(pattern)))
}

/// Compiles a pattern.
///
/// # Errors
/// The pattern is invalid.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let invalid = |reason: &str| format!("`{}` is not a valid pattern: {reason}", shortened(pattern));
    let translated = translate(pattern).map_err(invalid)?;
    Regex::new(&translated).map_err(|error| {
        let reason = error.to_string();
        invalid(reason.lines().last().unwrap_or_default())
    })
}

/// Translates a pattern to the syntax of the library, where `\d`, `\w` and `\b` mean Unicode characters.
fn translate(pattern: &str) -> Result<String, &'static str> {
    let mut translated = String::with_capacity(pattern.len());
    let mut letters = pattern.chars().peekable();
    let mut is_class = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                let escaped = letters.next().ok_or("it ends with `\\`")?;
                translate_escape(escaped, &mut letters, is_class, &mut translated);
                // After a class such as `\w`, `-` begins no range.
                if is_class && is_shorthand(escaped) && letters.peek() == Some(&'-') {
                    letters.next();
                    translated.push_str(r"\-");
                }
            }
            '[' if is_class => translated.push_str(r"\["),
            '[' => {
                let is_negated = letters.next_if_eq(&'^').is_some();
                match (is_negated, letters.next_if_eq(&']').is_some()) {
                    (true, true) => translated.push_str(r"[\s\S]"),
                    (false, true) => translated.push_str(r"[^\s\S]"),
                    (true, false) => {
                        is_class = true;
                        translated.push_str("[^");
                    }
                    (false, false) => {
                        is_class = true;
                        translated.push('[');
                    }
                }
            }
            ']' if is_class => {
                is_class = false;
                translated.push(']');
            }
            // `&&`, `~~` and `--` are set operations of the library.
            '&' | '~' if is_class => {
                translated.push('\\');
                translated.push(letter);
            }
            '-' if is_class && letters.peek() == Some(&'-') => translated.push_str(r"\-"),
            '-' if is_class && begins_shorthand(&letters) => translated.push_str(r"\-"),
            '.' if !is_class => translated.push_str(r"[^\n\r\u{2028}\u{2029}]"),
            '$' if !is_class => translated.push_str(r"\z"),
            '(' if !is_class && letters.peek() == Some(&'?') => {
                letters.next();
                let next = letters.peek().copied();
                if !matches!(next, Some(':' | '=' | '!' | '<')) {
                    return Err("`(?` begins no group");
                }
                translated.push_str("(?");
            }
            ']' | '{' | '}' if !is_class && !is_quantifier(letter, &letters) => {
                translated.push('\\');
                translated.push(letter);
            }
            '{' if !is_class => {
                translated.push('{');
                // The bounds end with `}`, which is copied with them.
                for bound in letters.by_ref() {
                    translated.push(bound);
                    if bound == '}' {
                        break;
                    }
                }
            }
            letter => translated.push(letter),
        }
    }
    Ok(translated)
}

/// Returns true for the letters of `\d`, `\w`, `\s` and their opposites.
fn is_shorthand(escaped: char) -> bool {
    "dDwWsS".contains(escaped)
}

fn begins_shorthand(rest: &std::iter::Peekable<std::str::Chars<'_>>) -> bool {
    let mut rest = rest.clone();
    rest.next() == Some('\\') && rest.next().is_some_and(is_shorthand)
}

/// Returns true if the `{` begins the bounds of a repetition.
fn is_quantifier(letter: char, rest: &std::iter::Peekable<std::str::Chars<'_>>) -> bool {
    if letter != '{' {
        return false;
    }
    let bounds: String = rest.clone().take_while(|letter| *letter != '}').collect();
    let is_closed = rest.clone().any(|letter| letter == '}');
    let (low, high) = bounds.split_once(',').unwrap_or((&bounds, ""));
    let is_number = |text: &str| text.chars().all(|letter| letter.is_ascii_digit());
    is_closed && !low.is_empty() && is_number(low) && is_number(high)
}

fn translate_escape(
    escaped: char,
    letters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    is_class: bool,
    translated: &mut String,
) {
    // Writing to a string cannot fail.
    let _ = match escaped {
        'd' if is_class => write!(translated, "0-9"),
        'w' if is_class => write!(translated, "0-9A-Za-z_"),
        'd' => write!(translated, "[0-9]"),
        'D' => write!(translated, "[^0-9]"),
        'w' => write!(translated, "[0-9A-Za-z_]"),
        'W' => write!(translated, "[^0-9A-Za-z_]"),
        'b' if is_class => write!(translated, r"\x08"),
        'b' => write!(
            translated,
            r"(?:(?<![0-9A-Za-z_])(?=[0-9A-Za-z_])|(?<=[0-9A-Za-z_])(?![0-9A-Za-z_]))"
        ),
        'B' => write!(
            translated,
            r"(?:(?<![0-9A-Za-z_])(?![0-9A-Za-z_])|(?<=[0-9A-Za-z_])(?=[0-9A-Za-z_]))"
        ),
        's' | 'S' | 'n' | 'r' | 't' | 'f' | 'v' | '1'..='9' => write!(translated, "\\{escaped}"),
        'k' if letters.peek() == Some(&'<') => write!(translated, "\\k"),
        '0' => write!(translated, r"\x00"),
        'x' | 'u' => {
            let width = if escaped == 'x' { 2 } else { 4 };
            let digits: String = letters.clone().take(width).collect();
            let code = u32::from_str_radix(&digits, 16)
                .ok()
                .filter(|_| digits.len() == width && digits.chars().all(|digit| digit.is_ascii_hexdigit()));
            match code {
                Some(code) => {
                    letters.nth(width - 1);
                    // A lone half of a surrogate pair occurs in no text.
                    let code = if char::from_u32(code).is_some() {
                        code
                    } else {
                        0xfffd
                    };
                    write!(translated, "\\x{{{code:x}}}")
                }
                None => write!(translated, "{escaped}"),
            }
        }
        'c' => match letters.next_if(char::is_ascii_alphabetic) {
            Some(control) => write!(translated, "\\x{{{:x}}}", u32::from(control) % 32),
            None => write!(translated, r"\\c"),
        },
        escaped if escaped.is_ascii_alphanumeric() => write!(translated, "{escaped}"),
        // `\<` and `\>` are boundaries of words in the library.
        '<' | '>' => write!(translated, "{escaped}"),
        escaped if escaped.is_ascii_punctuation() => write!(translated, "\\{escaped}"),
        escaped => write!(translated, "{escaped}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_means_the_same_as_in_javascript() {
        let cases = [
            ("^ok$", "ok", true),
            ("^ok$", "ok\n", false),
            ("b", "abc", true),
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^\w+$", "é", false),
            (r"[\w-]+@", "a-b@", true),
            (r"\/v1\/", "/v1/", true),
            ("a.b", "a\nb", false),
            ("a[^]b", "a\nb", true),
            ("a[]b", "ab", false),
            ("[[]", "[", true),
            ("[a&&b]+$", "a&&b", true),
            (r"(\w)\1", "xaa", true),
            (r"(?<q>['\x22]).*\k<q>", "'a'", true),
            ("(?<=v)2", "v2", true),
            ("(?!v)2", "v2", true),
            (r"\u0041", "A", true),
            (r"\bcat\b", "a cat!", true),
            ("a{2}", "aa", true),
            ("{a}", "{a}", true),
            ("a{,2}", "a{,2}", true),
            ("]", "]", true),
            (r"\$5", "$5", true),
            (r"^[^\s@]+$", "a b", false),
            (r"^[\w-\.]+@([\w-]+\.)+[\w-]{2,4}$", "a-b.c@shop.test", true),
            (r"^[\w-\.]+@([\w-]+\.)+[\w-]{2,4}$", "a,c@shop.test", false),
            (r"^[\w-z]+$", "a-z", true),
            (r"^[\w-z]+$", "a.z", false),
            (r"^[+-\d]+$", "-1", true),
            (r"^[\s-a]+$", " -a", true),
            (r"\<html\>", "<html>", true),
        ];
        for (pattern, text, wanted) in cases {
            assert_eq!(is_match(pattern, text), Ok(wanted), "{pattern} on {text:?}");
        }
        for invalid in ["(", "[a", "a**", "(?i)a", r"a\", "*"] {
            assert!(compile(invalid).is_err(), "{invalid}");
        }
    }
}
