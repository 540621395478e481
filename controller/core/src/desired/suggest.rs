//! Suggestions for mistyped names.

/// Returns the closest name in `known` if the difference is small enough for a typing error.
///
/// At most a third of the characters may differ, and always one.
pub(super) fn closest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
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

/// Returns the edit distance: changed, added, removed or swapped characters, ignoring case.
fn distance(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.to_lowercase().chars().collect();
    let other: Vec<char> = other.to_lowercase().chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let mut least = (row[j + 1] + 1)
                .min(next[j] + 1)
                .min(row[j] + usize::from(a != b));
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(0)
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
    fn did_you_mean_lists_all_names_without_a_close_one() {
        assert_eq!(did_you_mean("queue", ["api", "db"]), "use one of `api`, `db`");
        assert_eq!(did_you_mean("queue", []), "define one in this file");
    }
}
