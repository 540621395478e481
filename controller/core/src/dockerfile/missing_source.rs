//! Sources of the build context that a builder did not find.

use super::{Instruction, MAX_CHARS};

/// Path in the build context that a builder did not find, without a slash at its start. The builder reports a path of another stage or image
/// in the same form, so the instruction must read the context.
pub fn missing_source<'m>(instruction: &Instruction, message: &'m str) -> Option<&'m str> {
    let (before, _) = message
        .split_once("\" not found")
        .or_else(|| message.split_once("\": not found"))?;
    let (_, path) = before.rsplit_once("\"/")?;
    let reads_context = if instruction.copies() {
        !instruction.words().any(|word| word.starts_with("--from"))
    } else {
        instruction.is("RUN") && instruction.words().any(|word| is_mount_of(word, path))
    };
    let is_inside = !path.is_empty() && path.split('/').all(|part| part != "..");
    (reads_context && is_inside).then_some(path)
}

/// Returns whether an option of `RUN` mounts this path of the build context.
fn is_mount_of(word: &str, path: &str) -> bool {
    let Some(mount) = word.strip_prefix("--mount=") else {
        return false;
    };
    let value = |name: &str| {
        let mut options = mount.split(',').filter_map(|option| option.split_once('='));
        options.find_map(|(key, value)| (key == name).then_some(value))
    };
    let source = value("source").or_else(|| value("src"));
    value("from").is_none() && source.is_some_and(|source| bare(source) == path)
}

/// Path as a builder reports it, without its first slash.
fn bare(word: &str) -> &str {
    word.trim_start_matches("./").trim_matches('/')
}

/// Writes another path in the place of a source; `None` if the text of the instruction is not complete.
pub fn with_other_source(instruction: &Instruction, path: &str, other: &str) -> Option<String> {
    let words: Vec<&str> = instruction.words().collect();
    // The first word is the keyword, and the last one the destination.
    let sources = 1..words.len().checked_sub(1)?;
    let is_source = |(index, word): (usize, &&str)| sources.contains(&index) && bare(word) == path;
    let is_complete = instruction.text.chars().nth(MAX_CHARS - 1).is_none();
    if !instruction.copies() || !is_complete || !words.iter().enumerate().any(is_source) {
        return None;
    }
    let words = words.iter().enumerate().map(|(index, word)| {
        if is_source((index, word)) {
            word.replacen(path, other, 1)
        } else {
            (*word).to_owned()
        }
    });
    Some(words.collect::<Vec<_>>().join(" "))
}
