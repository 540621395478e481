//! Suggestion of a similar word for an unknown one, the same for keys, values, names, commands and error codes.

/// Maximum length of compared words. The cost is the product of two lengths, and longer words are no typing errors.
const MAX_LENGTH: usize = 128;

/// Returns the most similar candidate, of several the first by name. Case and separators do not count, a transposition of two letters counts
/// as one edit, and one edit per three letters is similar.
///
/// ```
/// use argus_crds::suggestion::nearest;
///
/// assert_eq!(nearest("pots", ["ports", "name"]), Some("ports"));
/// assert_eq!(nearest("colour", ["ports", "name"]), None);
/// ```
#[must_use]
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    if word.len() > MAX_LENGTH {
        return None;
    }
    let (word, most) = (normalize(word), (word.chars().count() / 3).max(1));
    candidates
        .into_iter()
        .filter(|name| name.len() <= MAX_LENGTH)
        .map(|name| (strsim::osa_distance(&word, &normalize(name)), name))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, name)| name)
}

/// Returns a word in lower case, without separators.
pub(crate) fn normalize(word: &str) -> String {
    word.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_is_the_name_behind_a_typing_error() {
        let known = ["postgres", "redis", "api", "build-cache", "ape"];
        let cases = [
            ("postgre", Some("postgres")),
            ("postgers", Some("postgres")),
            ("Redis", Some("redis")),
            ("buildCache", Some("build-cache")),
            // Two are equally similar.
            ("apj", Some("ape")),
            ("queue", None),
            ("", None),
        ];
        for (written, meant) in cases {
            assert_eq!(nearest(written, known), meant, "{written}");
        }
        let long = "a".repeat(MAX_LENGTH + 1);
        assert_eq!(nearest(&long, [long.as_str()]), None);
    }
}
