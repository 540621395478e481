//! Enforces the language rules of `docs/contributors/messages.md`: banned words in names, and banned words and openings in text.
//!
//! A name is any identifier of Rust code. A text is a comment, a string literal, or the prose of a page. Each finding has the
//! file, the line, the word and the number of the rule.

use std::collections::BTreeMap;
use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};
use regex::Regex;

use super::{ends_with, files, none, read, sources};

/// Words that no identifier contains, with the standard term to use instead.
const NAMES: &[(&str, &[&str])] = &[
    (
        "report, return, output",
        &["tell", "tells", "teller", "telling", "told"],
    ),
    (
        "check, inspect, read",
        &["look", "looks", "looked", "looking", "sighting", "sightings"],
    ),
    ("handle, execute, apply", &["obey"]),
    ("message, text, output", &["say", "said", "says"]),
    ("request, query, call", &["ask", "asks", "asked"]),
    ("event, result, reply", &["heard", "came"]),
    ("start, started", &["began", "begun"]),
    ("fix, repair", &["mend", "mends", "mended"]),
    ("error, problem, fault", &["trouble", "troubles"]),
    ("diagnostic, severity", &["complaint", "complaints", "gravity"]),
    ("planner, watch, executor", &["brain", "eye", "eyes", "hands"]),
    (
        "snapshot, registry, writer",
        &["outlook", "desk", "chronicle", "ledger"],
    ),
    ("overrides, requests", &["wish", "wishes"]),
    ("peers, leases", &["company", "standing"]),
    ("failure, failed run", &["death", "deaths", "deed"]),
    ("target, again", &["aim", "aims", "anew"]),
    ("preflight, connectivity", &["survey", "surveyor", "verifier"]),
    (
        "rate limit, faults, orphan",
        &[
            "storm", "weather", "stray", "blackout", "doubt", "doubts", "grip", "linger",
        ],
    ),
    ("tasks, heartbeat", &["crew", "pulse", "keeper"]),
    (
        "project, module, layer, fixture",
        &["house", "room", "floor", "scene", "beside", "goods", "heritage"],
    ),
    (
        "a noun instead of a person",
        &[
            "who",
            "whom",
            "whose",
            "whoever",
            "nobody",
            "somebody",
            "everybody",
        ],
    ),
    ("run", &["incarnation", "incarnations"]),
    ("unhealthy", &["unwell"]),
];

/// Names of libraries that contain such a word.
const FOREIGN: &[&str] = &[
    "floor",
    "Look",
    "look_set_suffix",
    "ServerCertVerifier",
    "with_custom_certificate_verifier",
];

/// Words and phrases that no text contains, with the rule of `docs/contributors/messages.md` that bans them.
const WORDS: &[(&str, u8)] = &[
    (r"told|tells?|telling", 3),
    (r"mends?|mended|mending", 3),
    (r"goes on|go on|went on|comes? of|came of", 3),
    (
        r"at once|anew|by itself|by themselves|beside|for ever|in good order",
        4,
    ),
    (r"(?:which|that|this) is no", 5),
    (r"whoever|whom|somebody|nobody|everybody", 6),
];

/// Openings that no documentation comment, no paragraph and no list item has.
const OPENINGS: &str = r"^(?:What|Who|Whoever|Whose|Whom|Whether|How|Which)\b";

struct Language {
    words: Vec<(Regex, u8)>,
    opening: Regex,
    code: Regex,
    names: BTreeMap<&'static str, &'static str>,
}

impl Language {
    fn new() -> Self {
        let regex = |text: &str| Regex::new(text).expect("a valid pattern");
        let names = NAMES
            .iter()
            .flat_map(|(instead, words)| words.iter().map(|word| (*word, *instead)));
        Self {
            words: WORDS
                .iter()
                .map(|(words, rule)| (regex(&format!(r"(?i)\b(?:{words})\b")), *rule))
                .collect(),
            opening: regex(OPENINGS),
            code: regex("`[^`]*`"),
            names: names.collect(),
        }
    }

    /// The banned words of a text, without what stands in backticks.
    fn words_in(&self, place: &str, text: &str) -> Vec<String> {
        let prose = self.code.replace_all(text, "");
        let found = self.words.iter().filter_map(|(words, rule)| {
            let word = words.find(&prose)?;
            Some(format!(
                "{place}: `{}` in a text (rule {rule}): {}",
                word.as_str(),
                text.trim()
            ))
        });
        found.collect()
    }

    fn opening_of(&self, place: &str, text: &str) -> Option<String> {
        self.opening
            .is_match(text)
            .then(|| format!("{place}: opening of a sentence (rule 1): {text}"))
    }

    fn name(&self, place: &str, name: &str) -> Option<String> {
        if FOREIGN.contains(&name) {
            return None;
        }
        let part = parts(name)
            .into_iter()
            .find(|part| self.names.contains_key(part.as_str()))?;
        Some(format!(
            "{place}: `{part}` in the name `{name}`; use: {}",
            self.names[part.as_str()]
        ))
    }

    fn tokens(&self, path: &str, tokens: TokenStream, offences: &mut Vec<String>) {
        for token in tokens {
            let place = format!("{path}:{}", token.span().start().line);
            match token {
                TokenTree::Group(group) => self.tokens(path, group.stream(), offences),
                TokenTree::Ident(ident) => offences.extend(self.name(&place, &ident.to_string())),
                // Documentation comments are literals of `doc` attributes.
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    if text.contains('"') {
                        offences.extend(self.words_in(&place, &text));
                    }
                }
                TokenTree::Punct(_) => {}
            }
        }
    }
}

/// The words of an identifier: `wait_for_relist`, `WaitForRelist` and `WAIT_FOR_RELIST` have three.
fn parts(name: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for piece in name.split('_') {
        let mut part = String::new();
        let mut previous_is_lower = false;
        for letter in piece.chars() {
            if letter.is_uppercase() && previous_is_lower {
                parts.push(std::mem::take(&mut part));
            }
            previous_is_lower = letter.is_lowercase();
            part.extend(letter.to_lowercase());
        }
        parts.push(part);
    }
    parts
}

/// The Rust files under these rules: all but this one, which lists the banned words.
fn checked_sources() -> impl Iterator<Item = String> {
    sources()
        .into_iter()
        .filter(|path| path != "tests/tests/tidy/language.rs")
}

#[test]
fn rust_names_and_strings_use_standard_terms() {
    let language = Language::new();
    let mut offences = Vec::new();
    for path in checked_sources() {
        let tokens = TokenStream::from_str(&read(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        language.tokens(&path, tokens, &mut offences);
    }
    none("banned words, see docs/contributors/messages.md", &offences);
}

#[test]
fn comments_follow_the_style_guide() {
    let language = Language::new();
    let mut offences = Vec::new();
    for path in checked_sources() {
        let mut is_continued = false;
        for (number, line) in read(&path).lines().enumerate() {
            let place = format!("{path}:{}", number + 1);
            let line = line.trim_start();
            let is_doc = line.starts_with("///") || line.starts_with("//!");
            if line.starts_with("//") {
                let text = line.trim_start_matches(['/', '!']).trim();
                offences.extend(language.words_in(&place, text));
                if is_doc && !is_continued {
                    offences.extend(language.opening_of(&place, text));
                }
            }
            is_continued = is_doc;
        }
    }
    none("comments against docs/contributors/messages.md", &offences);
}

#[test]
fn pages_follow_the_style_guide() {
    let language = Language::new();
    let mut offences = Vec::new();
    // The style guide itself names what it bans.
    let pages = files()
        .into_iter()
        .filter(|path| ends_with(path, "md") && path != "docs/contributors/messages.md");
    for path in pages {
        let mut is_code = false;
        let mut is_continued = false;
        for (number, line) in read(&path).lines().enumerate() {
            let place = format!("{path}:{}", number + 1);
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
            }
            if is_code || line.trim_start().starts_with("<!--") {
                continue;
            }
            offences.extend(language.words_in(&place, line));
            let starts = line.trim_start_matches(['#', '-', '*', '|', ' ']);
            if !is_continued || starts.len() < line.len() {
                offences.extend(language.opening_of(&place, starts));
            }
            is_continued = !line.trim().is_empty();
        }
    }
    none("pages against docs/contributors/messages.md", &offences);
}

#[test]
fn test_names_have_at_most_60_characters() {
    let pattern =
        Regex::new(r"(?s)#\[(?:tokio::)?test(?:\([^\]]*\))?\]\s*(?:#\[[^\n]*\]\s*)*(?:async )?fn (\w+)")
            .expect("a valid pattern");
    let mut offences = Vec::new();
    for path in sources() {
        let text = read(&path);
        let long = pattern.captures_iter(&text).filter(|found| found[1].len() > 60);
        offences.extend(long.map(|found| format!("{path}: {} ({} characters)", &found[1], found[1].len())));
    }
    none("names of tests are too long", &offences);
}
