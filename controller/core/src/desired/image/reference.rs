//! Syntax of image references.

/// Maximum length of an image reference with host, tag and digest, in bytes.
const MAX_REFERENCE: usize = 512;

/// Returns whether the text is a valid reference: `[host[:port]/]name[/name…][:tag][@digest]`.
pub(super) fn is_reference(text: &str) -> bool {
    if text.is_empty() || text.len() > MAX_REFERENCE {
        return false;
    }
    let (text, digest) = text
        .split_once('@')
        .map_or((text, None), |(name, digest)| (name, Some(digest)));
    let (name, tag) = match text.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (text, None),
    };
    let names = match name.split_once('/') {
        Some((host, names)) if host.contains(['.', ':']) || host == "localhost" => {
            if !is_host(host) {
                return false;
            }
            names
        }
        _ => name,
    };
    names.split('/').all(is_name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest)
}

fn is_host(text: &str) -> bool {
    let (name, port) = text
        .split_once(':')
        .map_or((text, None), |(name, port)| (name, Some(port)));
    let is_label = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    name.split('.').all(is_label) && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

fn is_name(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    edge(text.chars().next())
        && edge(text.chars().last())
        && text
            .chars()
            .all(|c| edge(Some(c)) || matches!(c, '.' | '_' | '-'))
        && !text.contains("..")
}

fn is_tag(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= 128 && text.starts_with(word) && text.chars().all(|c| word(c) || matches!(c, '.' | '-'))
}

fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(kind, hex)| {
        !kind.is_empty()
            && kind
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'.' | b'_' | b'-'))
            && hex.len() >= 32
            && hex.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_reference_follows_the_engine_grammar() {
        let sha = format!("@sha256:{}", "a".repeat(64));
        let good = [
            "redis",
            "postgres:16-alpine",
            "library/redis",
            "localhost/x",
            "localhost:5000/a/b:v1.2_x",
            "ghcr.io/org/img:latest",
            "a__b--c/d",
            "10.0.0.1:80/x",
        ];
        for text in good {
            assert!(
                is_reference(text) && is_reference(&format!("{text}{sha}")),
                "{text}"
            );
        }
        let bad = [
            "",
            "Redis",
            "../x",
            "a/../b",
            "a b",
            "redis:",
            "redis:a b",
            ":tag",
            "redis@",
            "redis@sha256:xyz",
            "/redis",
            "redis/",
            "a//b",
            "-x",
            "x:-tag",
            "ghcr.io:port/x",
            "{{env.IMAGE}}",
            "a?b",
            "a\nb",
        ];
        for text in bad {
            assert!(!is_reference(text), "{text:?}");
        }
    }
}
