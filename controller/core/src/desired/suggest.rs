//! Suggestions for mistyped names.

use argus_crds::suggestion::distance;

/// Returns the closest name in `known` if the difference is small enough for a typing error.
///
/// At most a third of the characters may differ, and always one.
pub fn closest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The cost of the distance is the product of the lengths, and longer texts are not typing errors.
    if text.len() > 128 {
        return None;
    }
    let max_distance = (text.chars().count() / 3).max(1);
    let candidates = known
        .into_iter()
        .filter(|name| name.len() <= 128)
        .map(|name| (distance(text, name), name));
    candidates
        .filter(|(distance, _)| *distance <= max_distance)
        .min()
        .map(|(_, name)| name)
}

/// Returns the image that differs from a reference by a typing error in its tag or in its repository.
pub fn similar_image<'a>(reference: &str, images: &[&'a str]) -> Option<&'a str> {
    let (repository, tag) = split_tag(reference);
    let split = images.iter().map(|image| (*image, split_tag(image)));
    let with_repository: Vec<_> = split.clone().filter(|(_, other)| other.0 == repository).collect();
    let with_tag: Vec<_> = split.filter(|(_, other)| other.1 == tag).collect();
    if let Some(tag) = closest(tag, with_repository.iter().map(|(_, other)| other.1)) {
        return with_repository
            .iter()
            .find(|(_, other)| other.1 == tag)
            .map(|(image, _)| *image);
    }
    let repository = closest(repository, with_tag.iter().map(|(_, other)| other.0))?;
    with_tag
        .iter()
        .find(|(_, other)| other.0 == repository)
        .map(|(image, _)| *image)
}

/// Splits a reference into repository and tag.
fn split_tag(reference: &str) -> (&str, &str) {
    match reference.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        Some(_) | None => (reference, "latest"),
    }
}

/// Returns the hint for an unknown name: the closest known name, else up to eight known names.
pub(super) fn did_you_mean<'a>(text: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    if let Some(name) = closest(text, known.clone()) {
        return format!("did you mean `{name}`?");
    }
    let some: Vec<String> = known
        .into_iter()
        .take(8)
        .map(|name| format!("`{name}`"))
        .collect();
    if some.is_empty() {
        "define one in this file".to_owned()
    } else {
        format!("use one of {}", some.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closest_finds_the_name_behind_a_typing_error() {
        let known = ["postgres", "redis", "api"];
        let cases = [
            ("postgre", Some("postgres")),
            ("postgers", Some("postgres")),
            ("Redis", Some("redis")),
            ("apj", Some("api")),
            ("queue", None),
            ("", None),
        ];
        for (written, meant) in cases {
            assert_eq!(closest(written, known), meant, "{written}");
        }
    }

    #[test]
    fn similar_image_differs_in_repository_or_tag() {
        let images = ["busybox:local", "journey-web:local", "redis:7.2"];
        for (written, meant) in [
            ("busybox:lcoal", Some("busybox:local")),
            ("busybxo:local", Some("busybox:local")),
            ("redis:7.4", Some("redis:7.2")),
            ("postgres:16", None),
            ("busybox:1.36", None),
        ] {
            assert_eq!(similar_image(written, &images), meant, "{written}");
        }
    }

    #[test]
    fn did_you_mean_lists_all_names_without_a_close_one() {
        assert_eq!(did_you_mean("queue", ["api", "db"]), "use one of `api`, `db`");
        assert_eq!(did_you_mean("queue", []), "define one in this file");
    }
}
