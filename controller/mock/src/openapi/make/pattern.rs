//! Generator of strings that match a regular expression.

use argus_core::budget::Budget;
use regex_syntax::hir::{Class, ClassUnicodeRange, Hir, HirKind, Look};

use super::text::MAX_LENGTH;

/// Maximum number of attempts to generate a string of a valid length. Each one repeats more than the one before.
const ATTEMPTS: u32 = 48;

/// Generates a matching string with `least` to `most` characters; `None` if it finds none within the budget.
pub(super) fn matching_text(
    pattern: &str,
    drawn: u64,
    (least, most): (usize, usize),
    budget: &mut Budget,
) -> Option<String> {
    budget.steps(pattern.len() as u64).ok()?;
    let hir = regex_syntax::parse(pattern).ok()?;
    // An expression without an anchor at its end permits any suffix.
    let is_open = !hir.properties().look_set_suffix().contains(Look::End);
    let mut best = None;
    for stretch in 0..ATTEMPTS {
        let mut made = String::new();
        if write(&hir, stretch, &mut Draw(drawn), &mut made, budget).is_none() {
            continue;
        }
        let length = made.chars().count();
        if (least..=most).contains(&length) {
            return Some(made);
        }
        if length < least && is_open && best.is_none() {
            made.extend(std::iter::repeat_n('a', least - length));
            best = Some(made);
        }
    }
    best
}

struct Draw(u64);

impl Draw {
    /// Draws an index of a list with this length; 0 for an empty one.
    fn index(&mut self, length: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % (length as u64).max(1)).unwrap_or(0)
    }
}

fn write(hir: &Hir, stretch: u32, draw: &mut Draw, to: &mut String, budget: &mut Budget) -> Option<()> {
    budget.steps(1).ok().filter(|()| to.len() <= MAX_LENGTH)?;
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => to.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(class) => to.push(one_of(class, draw)?),
        HirKind::Repetition(repetition) => {
            // An optional part appears once before other parts repeat.
            let extra = stretch.saturating_sub(u32::from(repetition.min > 0));
            let times = repetition.min.saturating_add(extra);
            for _ in 0..repetition.max.map_or(times, |most| times.min(most)) {
                write(&repetition.sub, stretch, draw, to, budget)?;
            }
        }
        HirKind::Capture(capture) => write(&capture.sub, stretch, draw, to, budget)?,
        HirKind::Concat(parts) => {
            for part in parts {
                write(part, stretch, draw, to, budget)?;
            }
        }
        HirKind::Alternation(parts) => {
            write(parts.get(draw.index(parts.len()))?, stretch, draw, to, budget)?;
        }
    }
    Some(())
}

/// Draws a character of a class: a letter or digit if possible, otherwise a printable one, otherwise any.
fn one_of(class: &Class, draw: &mut Draw) -> Option<char> {
    let class = match class {
        Class::Unicode(class) => class.clone(),
        Class::Bytes(class) => class.to_unicode_class()?,
    };
    let ranges = class.iter().take_while(|range| range.start() <= '~');
    let printable = ranges.flat_map(|range| range.start().max(' ')..=range.end().min('~'));
    let (plain, others): (Vec<char>, Vec<char>) = printable.partition(char::is_ascii_alphanumeric);
    let preferred = if plain.is_empty() { others } else { plain };
    let drawn = preferred.get(draw.index(preferred.len())).copied();
    drawn.or_else(|| class.iter().next().map(ClassUnicodeRange::start))
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
