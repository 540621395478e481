//! Generator of strings: by pattern, by format, or by length.

use argus_core::hex::random_uuid;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{Maker, bounds, pattern};

const WORDS: [&str; 16] = [
    "amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jade", "kelp", "larch",
    "maple", "nectar", "opal", "pine",
];
/// Maximum length. A larger `minLength` has no generated value, and short expressions such as `((a{1000}){1000}){1000}` match only huge
/// strings.
pub(super) const MAX_LENGTH: usize = 64 * 1024;

impl Maker<'_> {
    pub(super) fn text(&mut self, map: &Map<String, Value>) -> Option<String> {
        let made = self.make_text(map)?;
        self.budget.bytes(made.len() as u64).ok()?;
        Some(made)
    }

    fn make_text(&mut self, map: &Map<String, Value>) -> Option<String> {
        let (least, most) = bounds(map, "minLength", "maxLength");
        if least > most || least > MAX_LENGTH {
            return None;
        }
        let drawn = self.rng.of(&self.at, self.retries());
        if let Some(written) = map.get("pattern").and_then(Value::as_str)
            && let Some(made) = pattern::matching_text(written, drawn, (least, most), self.budget)
        {
            return Some(made);
        }
        if let Some(made) = map
            .get("format")
            .and_then(Value::as_str)
            .and_then(|format| format_example(format, drawn))
        {
            return Some(made);
        }
        let base64 = map.get("contentEncoding").and_then(Value::as_str) == Some("base64");
        let word = word(drawn);
        if base64 {
            return Some(STANDARD.encode(word));
        }
        // Words have a byte per character.
        let mut made = word.to_owned();
        while made.len() < least {
            made.push_str(if made.len() + 1 + word.len() <= most {
                "-"
            } else {
                ""
            });
            made.push_str(word);
        }
        Some(made.chars().take(most).collect())
    }
}

fn word(drawn: u64) -> &'static str {
    WORDS[usize::try_from(drawn % 16).unwrap_or(0)]
}

/// Returns a string of a known format; `None` for other formats.
fn format_example(format: &str, drawn: u64) -> Option<String> {
    let word = word(drawn);
    let (day, hour, minute) = (drawn % 28 + 1, (drawn >> 8) % 24, (drawn >> 16) % 60);
    let month = (drawn >> 24) % 12 + 1;
    let byte = drawn % 254 + 1;
    Some(match format {
        "date-time" => format!("2024-{month:02}-{day:02}T{hour:02}:{minute:02}:00Z"),
        "date" => format!("2024-{month:02}-{day:02}"),
        "time" => format!("{hour:02}:{minute:02}:00Z"),
        "duration" => format!("PT{}M", minute + 1),
        "email" | "idn-email" => format!("{word}{byte}@example.com"),
        "hostname" | "idn-hostname" => format!("{word}.example.com"),
        "ipv4" => format!("192.0.2.{byte}"),
        "ipv6" => format!("2001:db8::{byte:x}"),
        "uri" | "url" | "iri" => format!("https://example.com/{word}/{byte}"),
        "uri-reference" | "iri-reference" => format!("/{word}/{byte}"),
        "uri-template" => format!("/{word}/{{id}}"),
        "uuid" => random_uuid((u128::from(drawn) << 64) | u128::from(drawn.rotate_left(23))),
        "json-pointer" => format!("/{word}"),
        "relative-json-pointer" => format!("0/{word}"),
        "regex" => format!("^{word}$"),
        "byte" => STANDARD.encode(word),
        _ => return None,
    })
}
