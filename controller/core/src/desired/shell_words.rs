//! Splits a command line into words with the quoting rules of a shell, without variables, globs and pipes.

/// Reason why a line cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadLine {
    /// A quote has no closing quote.
    #[error("has an unclosed quote")]
    OpenQuote,
    /// The line ends with a backslash.
    #[error("ends with a single backslash")]
    LoneBackslash,
}

/// Returns the words of a line.
///
/// Blanks separate words. `'…'` preserves all characters, `"…"` all except `\"`, `\\`, `\$` and `` \` ``, and a
/// backslash preserves the next character.
pub(super) fn split(line: &str) -> Result<Vec<String>, BadLine> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or(BadLine::OpenQuote)? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => read_quoted(word.get_or_insert_default(), &mut rest)?,
            '\\' => word
                .get_or_insert_default()
                .push(rest.next().ok_or(BadLine::LoneBackslash)?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

fn read_quoted(word: &mut String, rest: &mut std::str::Chars<'_>) -> Result<(), BadLine> {
    loop {
        match rest.next().ok_or(BadLine::OpenQuote)? {
            '"' => return Ok(()),
            '\\' => {
                let c = rest.next().ok_or(BadLine::OpenQuote)?;
                if !matches!(c, '"' | '\\' | '$' | '`') {
                    word.push('\\');
                }
                word.push(c);
            }
            c => word.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_follows_shell_quoting() {
        let cases: [(&str, &[&str]); 10] = [
            ("", &[]),
            ("  ", &[]),
            ("a  b\tc\n", &["a", "b", "c"]),
            ("sh -c 'echo $X; exit 0'", &["sh", "-c", "echo $X; exit 0"]),
            (r#"say "two words" and\ more"#, &["say", "two words", "and more"]),
            (r#""a \"b\" \n""#, &[r#"a "b" \n"#]),
            ("''", &[""]),
            ("a''b'c'", &["abc"]),
            ("{{ports.db.5432}}", &["{{ports.db.5432}}"]),
            ("a|b > c", &["a|b", ">", "c"]),
        ];
        for (line, words) in cases {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
    }

    #[test]
    fn split_rejects_unclosed_quotes() {
        for line in ["'a", "\"a", "\"a\\", "a '"] {
            assert_eq!(split(line), Err(BadLine::OpenQuote), "{line}");
        }
        assert_eq!(split("a\\"), Err(BadLine::LoneBackslash));
    }
}
