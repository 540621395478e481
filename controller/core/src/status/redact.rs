//! What must not leave the system: values of variables whose name says that they are secret.

use crate::desired::Service;

/// Words that make a variable's name one of a secret.
const SECRET: [&str; 9] = [
    "PASSWORD",
    "PASSWD",
    "SECRET",
    "TOKEN",
    "CREDENTIAL",
    "PRIVATE",
    "APIKEY",
    "API_KEY",
    "ACCESS_KEY",
];
/// A shorter value would take harmless words with it.
const SHORTEST: usize = 4;

/// A text in which the secrets of a service are blacked out.
pub(super) fn redacted(text: &str, service: Option<&Service>) -> String {
    let Some(service) = service else {
        return text.to_owned();
    };
    let mut values: Vec<&str> = service
        .environment
        .iter()
        .filter(|(name, value)| is_secret(name) && value.len() >= SHORTEST)
        .map(|(_, value)| value.as_str())
        .collect();
    // A secret that contains another one goes first, as a whole.
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    values
        .into_iter()
        .fold(text.to_owned(), |text, value| text.replace(value, "[redacted]"))
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_is_secret() {
        for (name, secret) in [
            ("DB_PASSWORD", true),
            ("github_token", true),
            ("AWS_SECRET_ACCESS_KEY", true),
            ("GREETING", false),
            ("KEYBOARD", false),
        ] {
            assert_eq!(is_secret(name), secret, "{name}");
        }
    }
}
