//! Forms of real credentials: tokens of well-known issuers, JSON Web Tokens and private keys.

use std::ops::Range;

/// Characters of a token after its prefix.
#[derive(Clone, Copy)]
enum Rest {
    /// Letters and digits.
    Plain,
    /// Letters, digits, `-`, `_` and `.`.
    Any,
    /// Capitals and digits, and no more than the minimum.
    Capitals,
}

/// Issuers of tokens, with the prefix, the minimum length of the rest, and its characters.
const ISSUERS: [(&str, usize, Rest, &str); 22] = [
    ("ghp_", 36, Rest::Plain, "a GitHub token"),
    ("gho_", 36, Rest::Plain, "a GitHub token"),
    ("ghu_", 36, Rest::Plain, "a GitHub token"),
    ("ghs_", 36, Rest::Plain, "a GitHub token"),
    ("ghr_", 36, Rest::Plain, "a GitHub token"),
    ("github_pat_", 40, Rest::Any, "a GitHub token"),
    ("glpat-", 20, Rest::Any, "a GitLab token"),
    ("xoxb-", 20, Rest::Any, "a Slack token"),
    ("xoxp-", 20, Rest::Any, "a Slack token"),
    ("xapp-", 20, Rest::Any, "a Slack token"),
    ("sk_live_", 20, Rest::Plain, "a Stripe key"),
    ("rk_live_", 20, Rest::Plain, "a Stripe key"),
    ("sk-ant-", 40, Rest::Any, "an Anthropic key"),
    ("sk-proj-", 40, Rest::Any, "an OpenAI key"),
    ("AKIA", 16, Rest::Capitals, "an AWS access key"),
    ("ASIA", 16, Rest::Capitals, "an AWS access key"),
    ("AIza", 35, Rest::Any, "a Google API key"),
    ("npm_", 36, Rest::Plain, "an npm token"),
    ("pypi-", 50, Rest::Any, "a PyPI token"),
    ("dckr_pat_", 20, Rest::Any, "a Docker Hub token"),
    ("hf_", 30, Rest::Plain, "a Hugging Face token"),
    ("SG.", 60, Rest::Any, "a SendGrid key"),
];
/// Minimum number of different characters of a real token; a placeholder such as `ghp_xxxx` has fewer.
const MIN_DISTINCT: usize = 8;
/// Minimum length of the body of a private key.
const MIN_KEY: usize = 60;
/// Minimum length of each line of a private key but the last.
const MIN_LINE: usize = 32;

/// Finds the credentials in a text, each with its form.
pub(crate) fn find_tokens(text: &str) -> Vec<(Range<usize>, &'static str)> {
    let is_separator = |c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c));
    let mut found = find_private_keys(text);
    let mut start = 0;
    for piece in text.split_inclusive(is_separator) {
        let word = piece.trim_end_matches(is_separator).trim_end_matches('.');
        let is_in_key = found.iter().any(|(key, _)| key.contains(&start));
        if let Some(form) = form_of(word).filter(|_| !is_in_key) {
            found.push((start..start + word.len(), form));
        }
        start += piece.len();
    }
    found
}

/// Form of a word; `None` for a word that is not a credential, and for an example.
fn form_of(word: &str) -> Option<&'static str> {
    if word.to_ascii_lowercase().contains("example") {
        return None;
    }
    if is_json_web_token(word) {
        return Some("a JSON Web Token");
    }
    let is_of = |(prefix, length, characters, _): &&(&str, usize, Rest, &str)| {
        let rest = word.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.len() >= *length && characters.fit(rest, *length) && is_random(rest))
    };
    ISSUERS.iter().find(is_of).map(|(.., form)| *form)
}

impl Rest {
    fn fit(self, rest: &str, length: usize) -> bool {
        match self {
            Self::Plain => rest.chars().all(|c| c.is_ascii_alphanumeric()),
            Self::Any => true,
            Self::Capitals => {
                let is_of_key = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
                rest.len() == length && rest.chars().all(is_of_key)
            }
        }
    }
}

fn is_random(text: &str) -> bool {
    let mut characters: Vec<char> = text.chars().collect();
    characters.sort_unstable();
    characters.dedup();
    characters.len() >= MIN_DISTINCT && characters.iter().any(char::is_ascii_digit)
}

/// True for three parts in base64, of which two are JSON objects.
fn is_json_web_token(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    let [header, claims, signature] = parts[..] else {
        return false;
    };
    let is_object = |part: &str| part.starts_with("eyJ") && part.len() >= 10;
    is_object(header) && is_object(claims) && signature.len() >= 20
}

/// Finds the bodies of private keys in PEM format. Their lines end with a line break, or with `\n` in quotes.
fn find_private_keys(text: &str) -> Vec<(Range<usize>, &'static str)> {
    const BEGIN: &str = "-----BEGIN ";
    const LABEL: &str = "PRIVATE KEY-----";
    let body_of = |(at, _): (usize, &str)| {
        let label = text[at + BEGIN.len()..].split_inclusive("-----").next()?;
        let body = at + BEGIN.len() + label.len();
        let length = body_length(&text[body..]);
        (label.ends_with(LABEL) && length >= MIN_KEY).then_some((body..body + length, "a private key"))
    };
    text.match_indices(BEGIN).filter_map(body_of).collect()
}

/// Length of the lines in base64 at the start of a text.
fn body_length(text: &str) -> usize {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    let (mut length, mut rest) = (0, text);
    loop {
        let line = rest.trim_start_matches(char::is_whitespace);
        let line = line.strip_prefix("\\n").unwrap_or(line).trim_start();
        let after = line.trim_start_matches(is_base64);
        if line.len() - after.len() < MIN_LINE {
            return length;
        }
        (length, rest) = (text.len() - after.len(), after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANDOM: &str = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6a7B8c9D0e1F2g3";

    #[test]
    fn real_credentials_are_found_in_every_text() {
        let token = format!("ghp_{}", &RANDOM[..36]);
        let web_token = format!("eyJ{}.eyJ{}.{}", &RANDOM[..20], &RANDOM[..30], &RANDOM[..43]);
        let key = format!("\n{RANDOM}\n{RANDOM}");
        for (text, expected, form) in [
            (token.clone(), &token, "a GitHub token"),
            (
                format!("https://ci:{token}@github.com/a.git"),
                &token,
                "a GitHub token",
            ),
            (
                format!("Authorization: Bearer {web_token}."),
                &web_token,
                "a JSON Web Token",
            ),
            (
                format!("-----BEGIN RSA PRIVATE KEY-----{key}\nshort==\n-----END RSA PRIVATE KEY-----"),
                &key,
                "a private key",
            ),
        ] {
            let found = find_tokens(&text);
            let found: Vec<_> = found
                .into_iter()
                .map(|(range, form)| (&text[range], form))
                .collect();
            assert_eq!(found, [(expected.as_str(), form)]);
        }
        for (prefix, length, _, form) in ISSUERS {
            let token = format!("{prefix}{}", &RANDOM[..length]);
            let token = if length == 16 { token.to_uppercase() } else { token };
            assert_eq!(find_tokens(&token), [(0..token.len(), form)]);
        }
    }

    #[test]
    fn passwords_and_placeholders_are_no_tokens() {
        let short = format!("ghp_{}", &RANDOM[..35]);
        let placeholder = format!("ghp_{}", "x".repeat(36));
        let public = format!("-----BEGIN PUBLIC KEY-----\n{RANDOM}\n-----END PUBLIC KEY-----");
        let example = format!("AKIA{}EXAMPLE", &RANDOM[..9].to_uppercase());
        for text in [
            "postgres",
            "postgres://postgres:postgres@db:5432/shop",
            "sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945",
            "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
            "eyJhbGciOiJub25lIn0",
            "{{env.GITHUB_TOKEN}}",
            "/models/hf_sentence-transformers-all-MiniLM-L6-v2",
            "ASIA_SOUTHEAST1_BOOKINGS",
            "if ! grep -q -- '-----BEGIN PRIVATE KEY-----' k.pem; then openssl genrsa -out k.pem 2048; else exec nginx; fi",
            &short,
            &placeholder,
            &public,
            &example,
        ] {
            assert!(find_tokens(text).is_empty(), "{text}");
        }
    }
}
