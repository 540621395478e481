//! Variables of a spec file: its `.env`, and the permitted environment variables of the controller.

use std::collections::BTreeMap;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::digest::hex;
use super::location::SpecLocation;
use super::scan::MAX_FILE_BYTES;

/// Prefix of the variables that every spec file may read.
pub const ENV_PREFIX: &str = "ARGUS_ENV_";

/// Returns the variables of the `.env` file next to a spec file, or the reason why that file cannot be read.
pub fn dotenv(location: &SpecLocation) -> (BTreeMap<String, String>, Option<String>) {
    let path = location.file.with_file_name(".env");
    let diagnostic = |why: String| (BTreeMap::new(), Some(format!("`{}` {why}", path.display())));
    match location.read(&path, MAX_FILE_BYTES) {
        Ok(Some(bytes)) => (parse(&String::from_utf8_lossy(&bytes)), None),
        Ok(None) => diagnostic(format!("is longer than {MAX_FILE_BYTES} bytes")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (BTreeMap::new(), None),
        Err(error) => diagnostic(format!("cannot be read: {error}")),
    }
}

/// Returns the text of a document that a spec file names, or the error text.
pub fn document(path: &Path, location: &SpecLocation) -> Result<String, String> {
    let shown = path.display();
    match location.read(path, MAX_FILE_BYTES) {
        Ok(Some(bytes)) => String::from_utf8(bytes).map_err(|_| format!("`{shown}` is not UTF-8 text")),
        Ok(None) => Err(format!("`{shown}` is longer than {MAX_FILE_BYTES} bytes")),
        Err(error) => Err(format!("`{shown}` cannot be read: {error}")),
    }
}

/// Adds the permitted variables of the controller. They override the `.env`, because the user named them
/// explicitly.
pub fn passed(
    mut variables: BTreeMap<String, String>,
    process: &BTreeMap<String, String>,
    allowed: &[String],
) -> BTreeMap<String, String> {
    for (name, value) in process {
        if name.starts_with(ENV_PREFIX) || allowed.contains(name) {
            variables.insert(name.clone(), value.clone());
        }
    }
    variables
}

/// UUID that is stable for the same contents of the same file.
pub fn uuid(controller: &str, path: &Path, hash: &[u8; 32]) -> String {
    let mut all = Sha256::new();
    for part in [controller.as_bytes(), path.as_os_str().as_encoded_bytes(), hash] {
        all.update((part.len() as u64).to_be_bytes());
        all.update(part);
    }
    let mut hex: Vec<char> = hex(&all.finalize()[..16]).chars().collect();
    // Version 8: custom derivation.
    hex[12] = '8';
    hex[16] = 'a';
    let text: String = hex.into_iter().collect();
    format!(
        "{}-{}-{}-{}-{}",
        &text[..8],
        &text[8..12],
        &text[12..16],
        &text[16..20],
        &text[20..]
    )
}

/// Returns the variables of a `.env` file.
pub fn parse(text: &str) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else {
            continue;
        };
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || name.starts_with('#') || name.contains(char::is_whitespace) {
            continue;
        }
        variables.insert(name.to_owned(), unquoted(value));
    }
    variables
}

fn unquoted(value: &str) -> String {
    if let Some(rest) = value.strip_prefix('\'') {
        return rest.split('\'').next().unwrap_or(rest).to_owned();
    }
    let Some(rest) = value.strip_prefix('"') else {
        // A `#` starts a comment only after a space, so `a#b` is a value.
        return value.split(" #").next().unwrap_or(value).trim_end().to_owned();
    };
    let mut text = String::new();
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => text.push('\r'),
                Some(other) => text.push(other),
                None => text.push('\\'),
            },
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotenv_lines_are_parsed() {
        let text =
            "# c\nA=1\nexport B = two words # c\nC='$x #1'\nD=\"a\\nb\\\"\" # c\nE=\nF=a#b\nnothing\n=x\n";
        let read = parse(text);
        let lines: Vec<_> = read
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            lines,
            ["A=1", "B=two words", "C=$x #1", "D=a\nb\"", "E=", "F=a#b"]
        );
    }

    #[test]
    fn only_named_variables_of_the_controller_are_passed() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect()
        };
        let process = map(&[
            ("TOKEN", "t"),
            ("ARGUS_ENV_X", "x"),
            ("CI", "yes"),
            ("DB", "secret"),
        ]);
        let all = passed(map(&[("DB", "own"), ("CI", "no")]), &process, &["CI".to_owned()]);
        assert_eq!(all, map(&[("ARGUS_ENV_X", "x"), ("CI", "yes"), ("DB", "own")]));
    }

    #[test]
    fn uuid_depends_on_controller_path_and_contents() {
        let one = uuid("C", Path::new("a"), &[1; 32]);
        assert_eq!(one, uuid("C", Path::new("a"), &[1; 32]));
        assert_ne!(one, uuid("C", Path::new("a"), &[2; 32]));
        assert_ne!(one, uuid("C", Path::new("b"), &[1; 32]));
        let parts: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
    }
}
