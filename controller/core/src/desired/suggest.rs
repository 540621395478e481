//! The known name that a mistyped one was probably meant to be.

/// The nearest of `known`, when it is near enough to be a slip of the finger.
pub(super) fn closest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer texts are no slip of the finger, and the distance costs their product.
    if written.len() > 128 {
        return None;
    }
    let most = (written.chars().count() / 3).max(1);
    let near = known
        .into_iter()
        .filter(|name| name.len() <= 128)
        .map(|name| (distance(written, name), name));
    near.filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, name)| name)
}

/// What to do about a name that is not known: the nearest one, else all of them.
pub(super) fn did_you_mean<'a>(written: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    if let Some(name) = closest(written, known.clone()) {
        return format!("did you mean `{name}`?");
    }
    let some: Vec<String> = known
        .into_iter()
        .take(8)
        .map(|name| format!("`{name}`"))
        .collect();
    if some.is_empty() {
        "there is none in this file".to_owned()
    } else {
        format!("known are {}", some.join(", "))
    }
}

/// How many letters have to be changed, added, dropped or swapped with their neighbour.
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
    fn a_slip_of_the_finger_finds_its_name() {
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
    fn a_name_like_no_other_is_told_all_of_them() {
        assert_eq!(did_you_mean("queue", ["api", "db"]), "known are `api`, `db`");
        assert_eq!(did_you_mean("queue", []), "there is none in this file");
    }
}
