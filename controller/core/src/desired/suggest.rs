//! Suggestions for mistyped images and for unknown names of a file.

use argus_crds::suggestion::nearest;

/// Returns the image that differs from a reference by a typing error in its tag or in its repository.
pub fn similar_image<'a>(reference: &str, images: &[&'a str]) -> Option<&'a str> {
    let (repository, tag) = split_tag(reference);
    let split = images.iter().map(|image| (*image, split_tag(image)));
    // The engine can have the image itself.
    let split = split.filter(|(_, other)| *other != (repository, tag));
    let with_repository: Vec<_> = split.clone().filter(|(_, other)| other.0 == repository).collect();
    let with_tag: Vec<_> = split.filter(|(_, other)| other.1 == tag).collect();
    if let Some(tag) = nearest(tag, with_repository.iter().map(|(_, other)| other.1)) {
        return with_repository
            .iter()
            .find(|(_, other)| other.1 == tag)
            .map(|(image, _)| *image);
    }
    let repository = nearest(repository, with_tag.iter().map(|(_, other)| other.0))?;
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
    if let Some(name) = nearest(text, known.clone()) {
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
    fn similar_image_differs_in_repository_or_tag() {
        let images = ["busybox:local", "journey-web:local", "redis:7.2"];
        for (written, meant) in [
            ("busybox:lcoal", Some("busybox:local")),
            ("busybxo:local", Some("busybox:local")),
            ("redis:7.4", Some("redis:7.2")),
            ("redis:7.2", None),
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
