//! Suggestion of a similar word for an unknown one, the same for keys, values, commands and error codes.

/// Maximum length of a word that gets a suggestion.
const MAX_LENGTH: usize = 64;

/// Returns the most similar candidate. Case and separators do not count, a transposition of two letters counts as one edit, and one edit per
/// three letters is similar.
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
        .map(|name| (strsim::damerau_levenshtein(&word, &normalize(name)), name))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns the edit distance of two names: changed, added, removed or swapped characters, ignoring case.
#[must_use]
pub fn distance(one: &str, other: &str) -> usize {
    strsim::osa_distance(&one.to_lowercase(), &other.to_lowercase())
}

/// Returns a word in lower case, without separators.
pub(crate) fn normalize(word: &str) -> String {
    word.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}
