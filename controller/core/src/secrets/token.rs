//! Forms of real credentials: tokens of well-known issuers, JSON Web Tokens and private keys.

use std::ops::Range;

/// Issuers of tokens, with the prefix and the minimum length of the rest.
const ISSUERS: [(&str, usize, &str); 22] = [
    ("ghp_", 36, "a GitHub token"),
    ("gho_", 36, "a GitHub token"),
    ("ghu_", 36, "a GitHub token"),
    ("ghs_", 36, "a GitHub token"),
    ("ghr_", 36, "a GitHub token"),
    ("github_pat_", 40, "a GitHub token"),
    ("glpat-", 20, "a GitLab token"),
    ("xoxb-", 20, "a Slack token"),
    ("xoxp-", 20, "a Slack token"),
    ("xapp-", 20, "a Slack token"),
    ("sk_live_", 20, "a Stripe key"),
    ("rk_live_", 20, "a Stripe key"),
    ("sk-ant-", 40, "an Anthropic key"),
    ("sk-proj-", 40, "an OpenAI key"),
    ("AKIA", 16, "an AWS access key"),
    ("ASIA", 16, "an AWS access key"),
    ("AIza", 35, "a Google API key"),
    ("npm_", 36, "an npm token"),
    ("pypi-", 50, "a PyPI token"),
    ("dckr_pat_", 20, "a Docker Hub token"),
    ("hf_", 30, "a Hugging Face token"),
    ("SG.", 60, "a SendGrid key"),
];
/// Minimum number of different characters of a real token; a placeholder such as `ghp_xxxx` has fewer.
const MIN_DISTINCT: usize = 8;
/// Minimum length of the body of a private key.
const MIN_KEY: usize = 60;

/// Finds the credentials in a text, each with its form.
pub(crate) fn find_tokens(text: &str) -> Vec<(Range<usize>, &'static str)> {
    let is_separator = |c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c));
    let mut found: Vec<_> = find_private_key(text).into_iter().collect();
    let mut start = 0;
    for piece in text.split_inclusive(is_separator) {
        let word = piece.trim_end_matches(is_separator).trim_end_matches('.');
        let is_in_key = found.first().is_some_and(|(key, _)| key.contains(&start));
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
    let is_of = |(prefix, length, _): &&(&str, usize, &str)| {
        let rest = word.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.len() >= *length && is_random(rest))
    };
    ISSUERS.iter().find(is_of).map(|(_, _, form)| *form)
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

/// Finds the first private key in PEM format, from its first to its last line.
fn find_private_key(text: &str) -> Option<(Range<usize>, &'static str)> {
    const BEGIN: &str = "-----BEGIN ";
    const LABEL: &str = "PRIVATE KEY-----";
    let start = text.match_indices(BEGIN).find_map(|(at, _)| {
        let label = text[at + BEGIN.len()..].split_inclusive("-----").next()?;
        label.ends_with(LABEL).then_some(at)
    })?;
    let body = text[start..].find(LABEL)? + start + LABEL.len();
    let end = text[body..]
        .find("-----END ")
        .map_or(text.len(), |end| body + end);
    let is_real = text[body..end]
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .count()
        >= MIN_KEY;
    is_real.then_some((start..end, "a private key"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANDOM: &str = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6a7B8c9D0e1F2g3";

    #[test]
    fn real_credentials_are_found_in_every_text() {
        let token = format!("ghp_{}", &RANDOM[..36]);
        let web_token = format!("eyJ{}.eyJ{}.{}", &RANDOM[..20], &RANDOM[..30], &RANDOM[..43]);
        let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{RANDOM}\n{RANDOM}\n");
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
                format!("{key}-----END RSA PRIVATE KEY-----"),
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
        for (prefix, length, form) in ISSUERS {
            let token = format!("{prefix}{}", &RANDOM[..length]);
            assert_eq!(find_tokens(&token), [(0..token.len(), form)]);
        }
    }

    #[test]
    fn passwords_and_placeholders_are_no_tokens() {
        let short = format!("ghp_{}", &RANDOM[..35]);
        let placeholder = format!("ghp_{}", "x".repeat(36));
        let public = format!("-----BEGIN PUBLIC KEY-----\n{RANDOM}\n-----END PUBLIC KEY-----");
        let example = format!("AKIA{}EXAMPLE", &RANDOM[..16]);
        for text in [
            "postgres",
            "postgres://postgres:postgres@db:5432/shop",
            "sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945",
            "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
            "eyJhbGciOiJub25lIn0",
            "{{env.GITHUB_TOKEN}}",
            &short,
            &placeholder,
            &public,
            &example,
        ] {
            assert!(find_tokens(text).is_empty(), "{text}");
        }
    }
}
