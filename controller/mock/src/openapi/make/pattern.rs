//! Generator of strings that match a regular expression.

use argus_core::budget::Budget;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look};

/// Maximum number of attempts to generate a string of a valid length.
const ATTEMPTS: usize = 48;
/// Maximum number of additional repetitions for a repetition without an upper bound.
const MAX_EXTRA_REPETITIONS: u32 = 48;

/// Generates a matching string with `least` to `most` characters; `None` if it finds none within the budget.
pub(super) fn matching_text(
    pattern: &str,
    drawn: u64,
    (least, most): (usize, usize),
    budget: &mut Budget,
) -> Option<String> {
    budget.steps(pattern.len() as u64).ok()?;
    let hir = ParserBuilder::new().unicode(true).build().parse(pattern).ok()?;
    let mut best: Option<String> = None;
    for stretch in 0..ATTEMPTS {
        let mut made = String::new();
        let mut draw = Draw(drawn);
        let stretch = u32::try_from(stretch).unwrap_or(0);
        if !write(&hir, stretch, &mut draw, &mut made, budget) {
            continue;
        }
        let length = made.chars().count();
        if (least..=most).contains(&length) {
            return Some(made);
        }
        if length < least && least <= MAX_LENGTH && !ends_with(&hir, Look::End) {
            // An expression without an anchor at its end permits any suffix.
            let missing = least - length;
            made.extend(std::iter::repeat_n('a', missing));
            best.get_or_insert(made);
        }
    }
    best
}

/// Maximum length in bytes. Short expressions such as `((a{1000}){1000}){1000}` match only huge strings.
const MAX_LENGTH: usize = 64 * 1024;

struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound.max(1)
    }
}

fn write(hir: &Hir, stretch: u32, draw: &mut Draw, to: &mut String, budget: &mut Budget) -> bool {
    if to.len() > MAX_LENGTH || budget.steps(1).is_err() {
        return false;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => true,
        HirKind::Literal(literal) => std::str::from_utf8(&literal.0).is_ok_and(|text| {
            to.push_str(text);
            true
        }),
        HirKind::Class(class) => one_of(class, draw).is_some_and(|c| {
            to.push(c);
            true
        }),
        HirKind::Repetition(repetition) => {
            let most = repetition
                .max
                .unwrap_or(repetition.min.saturating_add(MAX_EXTRA_REPETITIONS));
            // An optional part appears once rather than never.
            let default_times = if repetition.min == 0 && most > 0 && stretch > 0 {
                1
            } else {
                repetition.min
            };
            let times = default_times
                .saturating_add(stretch.saturating_sub(1))
                .clamp(repetition.min, most);
            (0..times).all(|_| write(&repetition.sub, stretch, draw, to, budget))
        }
        HirKind::Capture(capture) => write(&capture.sub, stretch, draw, to, budget),
        HirKind::Concat(parts) => parts.iter().all(|part| write(part, stretch, draw, to, budget)),
        HirKind::Alternation(parts) => {
            let chosen = usize::try_from(draw.below(parts.len() as u64)).unwrap_or(0);
            parts
                .get(chosen)
                .is_some_and(|part| write(part, stretch, draw, to, budget))
        }
    }
}

/// Draws a character of a class: a letter or digit if possible, otherwise a printable one, otherwise any.
fn one_of(class: &Class, draw: &mut Draw) -> Option<char> {
    let class = match class {
        Class::Unicode(class) => class.clone(),
        Class::Bytes(class) => class.to_unicode_class()?,
    };
    let plain: &[(char, char)] = &[('0', '9'), ('A', 'Z'), ('a', 'z')];
    for preferred in [plain, &[(' ', '~')]] {
        let ranges = preferred.iter();
        let mut found = ClassUnicode::new(ranges.map(|(from, to)| ClassUnicodeRange::new(*from, *to)));
        found.intersect(&class);
        let found: Vec<char> = found
            .iter()
            .flat_map(|range| range.start()..=range.end())
            .collect();
        if !found.is_empty() {
            let chosen = draw.below(found.len() as u64);
            return found.get(usize::try_from(chosen).ok()?).copied();
        }
    }
    class.iter().next().map(ClassUnicodeRange::start)
}

/// Returns true if a match must end with this assertion.
fn ends_with(hir: &Hir, assertion: Look) -> bool {
    hir.properties().look_set_suffix().contains(assertion)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(pattern: &str, drawn: u64, least: usize, most: usize) -> Option<String> {
        matching_text(pattern, drawn, (least, most), &mut Budget::new(10_000_000, 0))
    }

    fn fits(pattern: &str, text: &str) -> bool {
        let schema = serde_json::json!({ "type": "string", "pattern": pattern });
        jsonschema::validator_for(&schema)
            .unwrap()
            .is_valid(&serde_json::json!(text))
    }

    #[test]
    fn generated_text_matches() {
        let patterns = [
            "^[A-Z]{3}-\\d{4}$",
            "^(foo|bar)+$",
            "^\\w+@\\w+\\.com$",
            "[0-9a-f]{8}",
            "^[^\\s]+$",
            "^\\+?[1-9]\\d{1,14}$",
            "^a?b*c+$",
            "^\\p{L}+$",
            "^.{5,7}$",
            "^[ -/]+$",
        ];
        for pattern in patterns {
            for drawn in 0..50 {
                let made = text(pattern, drawn, 0, usize::MAX).unwrap();
                assert!(fits(pattern, &made), "{pattern}: {made}");
            }
        }
        assert_eq!(text("^(?=a)b$", 0, 0, 9), None);
        assert_eq!(text("((a{1000}){1000}){1000}", 0, 0, 9), None);
    }

    #[test]
    fn generated_length_is_within_bounds() {
        for (pattern, least, most) in [
            ("^[a-z]+$", 12, 12),
            ("^[a-z]*$", 0, 0),
            ("^x\\d*$", 20, 30),
            ("[a-z]", 8, 9),
        ] {
            let made = text(pattern, 7, least, most).unwrap();
            assert!(
                (least..=most).contains(&made.len()) && fits(pattern, &made),
                "{pattern}: {made}"
            );
        }
    }

    proptest! {
        #[test]
        fn arbitrary_expression_is_bounded_and_never_panics(pattern in "[a-z0-9\\[\\](){}*+?|^$.\\\\,-]{0,24}", drawn in any::<u64>()) {
            if let Some(made) = text(&pattern, drawn, 0, 1_000) {
                prop_assert!(made.chars().count() <= 1_000);
            }
        }
    }
}
