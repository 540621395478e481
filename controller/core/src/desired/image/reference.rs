//! Syntax and spellings of image references.

/// Maximum length of an image reference with host, tag and digest, in bytes.
const MAX_REFERENCE: usize = 512;

/// Names of the default registry. Engines and Argus take them for the same one.
const DEFAULT_REGISTRIES: [&str; 3] = ["docker.io/", "index.docker.io/", "registry-1.docker.io/"];

/// Returns a reference without its default parts: the default registry, its folder `library/`, and the tag `latest`. Two spellings of
/// one image have the same result.
pub fn short_reference(reference: &str) -> &str {
    let name = reference.strip_suffix(":latest").unwrap_or(reference);
    let mut registries = DEFAULT_REGISTRIES.iter();
    let name = registries
        .find_map(|registry| name.strip_prefix(registry))
        .unwrap_or(name);
    match name.strip_prefix("library/") {
        Some(official) if !official.contains('/') => official,
        _ => name,
    }
}

/// Returns whether a tag is in the name space of Argus's own images, in any spelling. Podman stores a tag without a registry below
/// `localhost/`.
pub fn is_reserved_tag(tag: &str) -> bool {
    let name = short_reference(tag);
    name.strip_prefix("localhost/")
        .unwrap_or(name)
        .starts_with("argus/")
}

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
    fn spellings_of_one_image_are_equal() {
        for (reference, short) in [
            ("redis", "redis"),
            ("redis:latest", "redis"),
            ("library/redis:7", "redis:7"),
            ("docker.io/library/redis:latest", "redis"),
            ("index.docker.io/redis:7", "redis:7"),
            ("registry-1.docker.io/org/app", "org/app"),
            ("library/org/app", "library/org/app"),
            ("host:5000/app", "host:5000/app"),
            ("ghcr.io/library/app:latest", "ghcr.io/library/app"),
        ] {
            assert_eq!(short_reference(reference), short, "{reference}");
        }
    }

    #[test]
    fn tags_of_argus_are_reserved_in_every_spelling() {
        for registry in [
            "",
            "docker.io/",
            "index.docker.io/",
            "registry-1.docker.io/",
            "localhost/",
        ] {
            for name in ["argus/mock", "argus/mock:1", "argus/shop-api:latest"] {
                assert!(is_reserved_tag(&format!("{registry}{name}")), "{registry}{name}");
            }
        }
        for tag in ["argus", "argus-mock:1", "my/argus/mock", "ghcr.io/argus/mock:1"] {
            assert!(!is_reserved_tag(tag), "{tag}");
        }
    }

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
