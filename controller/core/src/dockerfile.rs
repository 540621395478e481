//! Instructions of a Dockerfile with their lines, for errors that name their place in it.

use std::iter;

mod address;
mod copies;
mod missing_source;
mod sources;

pub use copies::Copies;
pub use missing_source::{missing_source, with_other_source};
pub use sources::{RefusedSource, find_refused_source};

use argus_crds::suggestion::nearest;
use serde::{Deserialize, Serialize};

/// Maximum size of the part of a Dockerfile that is read, in bytes.
pub const MAX_BYTES: u64 = 256 * 1024;
/// Maximum length of an instruction in an error, in characters.
const MAX_CHARS: usize = 300;
/// Flags of instructions that the frontend of Docker 20.10 does not know.
const NEWER_FLAGS: [&str; 4] = ["link", "checksum", "keep-git-dir", "start-interval"];

/// An instruction of a Dockerfile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instruction {
    /// First line, from 1.
    pub line: usize,
    /// Its words, without line ends and without the content of here-documents.
    pub text: String,
    /// The text without its mistake, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected: Option<String>,
    /// Rule that excludes its source, if the source exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded_by: Option<Exclusion>,
}

/// Line of an ignore file that excludes a path from the build context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusion {
    /// Path of the file in the build context.
    pub file: String,
    /// Number of the line, from 1.
    pub line: usize,
}

/// Stage that the Dockerfile does not define, although it defines a similar one.
#[derive(Debug, PartialEq, Eq)]
pub struct MisspelledStage {
    /// Instruction that names it, with its correction.
    pub instruction: Instruction,
    /// Its name.
    pub name: String,
    /// Name of the similar stage.
    pub similar: String,
}

impl Instruction {
    /// True for an instruction with this name, such as `RUN`.
    pub(crate) fn is(&self, keyword: &str) -> bool {
        self.words()
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case(keyword))
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        self.text.split(' ')
    }

    fn copies(&self) -> bool {
        self.is("COPY") || self.is("ADD")
    }

    /// Image or stage of a `FROM`.
    fn base(&self) -> Option<&str> {
        let mut words = self.words().skip(1).filter(|word| !word.starts_with("--"));
        words.next().filter(|_| self.is("FROM"))
    }

    /// Name that a `FROM` gives its stage.
    fn stage_name(&self) -> Option<&str> {
        let mut words = self.words().skip_while(|word| !word.eq_ignore_ascii_case("AS"));
        words.nth(1).filter(|_| self.is("FROM"))
    }

    /// Images and stages that it reads.
    fn sources(&self) -> impl Iterator<Item = &str> {
        let options = self.words().filter(|word| word.starts_with("--"));
        let in_options = options.filter_map(|word| {
            let value = word.strip_prefix("--from=").or_else(|| {
                let mut parts = word.strip_prefix("--mount=")?.split(',');
                parts.find_map(|part| part.strip_prefix("from="))
            });
            value.map(|value| value.trim_matches(['"', '\'']))
        });
        self.base().into_iter().chain(in_options)
    }

    /// Returns whether a step of a builder has this text.
    fn is_step(&self, step: &str) -> bool {
        split_keyword(&self.text) == split_keyword(step)
    }

    /// As [`Self::is_step`], for a step where the builder has replaced variables, or adds a here-document.
    fn can_be_step(&self, step: &str) -> bool {
        let ends = ["<<", "$"].iter().filter_map(|part| self.text.find(part));
        let Some(end) = ends.min() else {
            return false;
        };
        let (written, step) = (split_keyword(&self.text[..end]), split_keyword(step));
        written.0 == step.0 && step.1.starts_with(written.1)
    }

    /// The instruction with a bounded text. A correction that is longer is left out.
    #[must_use]
    pub fn shortened(self) -> Self {
        let is_short = |text: &String| text.chars().nth(MAX_CHARS).is_none();
        Self {
            line: self.line,
            text: self.text.chars().take(MAX_CHARS).collect(),
            corrected: self.corrected.filter(is_short),
            excluded_by: self.excluded_by,
        }
    }
}

/// Keyword of an instruction in upper case, and its other words.
fn split_keyword(text: &str) -> (String, &str) {
    let (keyword, rest) = text.split_once(' ').unwrap_or((text, ""));
    (keyword.to_ascii_uppercase(), rest)
}

/// Returns the instructions of a Dockerfile, in their order.
pub fn parse(text: &str) -> Vec<Instruction> {
    let mut instructions = Vec::new();
    let mut lines = iter::zip(1.., text.lines());
    while let Some((line, first)) = lines.next() {
        if is_comment(first) {
            continue;
        }
        let mut written = first.trim().to_owned();
        while let Some(part) = written.strip_suffix('\\') {
            written = part.to_owned();
            // Comments and empty lines do not end an instruction.
            let Some((_, next)) = lines.find(|(_, next)| !is_comment(next)) else {
                break;
            };
            written.push(' ');
            written.push_str(next.trim());
        }
        let words: Vec<&str> = written.split_whitespace().collect();
        for word in words.iter().filter_map(|word| here_document(word)) {
            lines.find(|(_, next)| next.trim() == word);
        }
        instructions.push(Instruction {
            line,
            text: words.join(" "),
            corrected: None,
            excluded_by: None,
        });
    }
    instructions
}

/// Adds an instruction at the end, if the image of the target, or of the last stage, then has it.
pub fn with_last_instruction(text: &str, added: &str, target: Option<&str>) -> Option<String> {
    // An escape character at the end would continue the last instruction.
    if text.trim_end().ends_with('\\') || !text.lines().all(is_common_directive) {
        return None;
    }
    let text = format!("{text}\n{added}\n");
    let all = parse(&text);
    let (last, stage) = instructions_by_stage(&all).last()?;
    let is_target = !stage.is_empty() && target.is_none_or(|target| target.to_lowercase() == stage);
    (is_target && last.text == added).then_some(text)
}

/// Returns false for a line that sets another escape character, or a syntax that may need the Dockerfile in the context.
fn is_common_directive(line: &str) -> bool {
    let Some((name, value)) = line
        .trim_start()
        .strip_prefix('#')
        .and_then(|line| line.split_once('='))
    else {
        return true;
    };
    match &*name.trim().to_ascii_lowercase() {
        "escape" => false,
        "syntax" => value.trim().trim_start_matches("docker.io/") == "docker/dockerfile:1",
        _ => true,
    }
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

/// Line that ends the here-document which a word begins.
fn here_document(word: &str) -> Option<&str> {
    let rest = word
        .trim_start_matches(|c: char| c.is_ascii_digit())
        .strip_prefix("<<")?;
    let name = rest.trim_start_matches('-').trim_matches(['"', '\'']);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

/// Returns the instruction of a step, such as `[build 2/3] RUN make` or `Step 2/3 : RUN make`; `None` if several ones are possible.
pub fn find_step<'i>(instructions: &'i [Instruction], step: &str) -> Option<&'i Instruction> {
    let (head, command) = match step.strip_prefix('[') {
        Some(step) => step.split_once("] ")?,
        None => step.strip_prefix("Step ")?.split_once(" : ")?,
    };
    let command = command.split_whitespace().collect::<Vec<_>>().join(" ");
    let stage = head.split_whitespace().rev().nth(1);
    let select = |is_step: fn(&Instruction, &str) -> bool| -> Vec<(&'i Instruction, String)> {
        let all = instructions_by_stage(instructions);
        all.filter(|(instruction, _)| is_step(instruction, &command))
            .collect()
    };
    let mut all = select(Instruction::is_step);
    if all.is_empty() {
        all = select(Instruction::can_be_step);
    }
    let in_stage = || all.iter().filter(|(_, name)| Some(name.as_str()) == stage);
    match (all.as_slice(), in_stage().count()) {
        ([(only, _)], _) => Some(*only),
        (_, 1) => in_stage().next().map(|(found, _)| *found),
        _ => None,
    }
}

/// Returns the instructions with the names that `BuildKit` gives their stages.
fn instructions_by_stage(instructions: &[Instruction]) -> impl Iterator<Item = (&Instruction, String)> {
    let (mut stages, mut name) = (0, String::new());
    instructions.iter().map(move |instruction| {
        if instruction.is("FROM") {
            let own = instruction.stage_name().map(str::to_lowercase);
            name = own.unwrap_or_else(|| format!("stage-{stages}"));
            stages += 1;
        }
        (instruction, name.clone())
    })
}

/// Returns the instruction at the line that a message about the syntax names.
pub fn find_syntax_error<'i>(instructions: &'i [Instruction], message: &str) -> Option<&'i Instruction> {
    let (_, rest) = message.split_once("parse error")?;
    let (_, rest) = rest.split_once("line ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    let line: usize = digits.parse().ok()?;
    instructions.iter().rfind(|instruction| instruction.line <= line)
}

/// Returns the syntax of an instruction that is newer than the frontend which refused it with this message.
pub fn find_newer_syntax(instruction: &Instruction, message: &str) -> Option<&'static str> {
    let message = message.to_ascii_lowercase();
    // An old frontend reads the lines of the heredoc as instructions.
    if message.contains("unknown instruction")
        && instruction.words().any(|word| here_document(word).is_some())
    {
        return Some("<<");
    }
    let (_, flag) = message.split_once("unknown flag: ")?;
    let flag = flag.split_whitespace().next()?;
    NEWER_FLAGS.into_iter().find(|newer| *newer == flag)
}

/// Returns the misspelled stage behind the message of a builder, which reads an unknown stage as the name of an image.
pub fn find_misspelled_stage(instructions: &[Instruction], message: &str) -> Option<MisspelledStage> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let is_in_message = |name: &str| message.split(|c: char| !is_name(c)).any(|word| word == name);
    let mut stages: Vec<&str> = Vec::new();
    for instruction in instructions {
        for name in instruction.sources() {
            let is_number = name.chars().all(|c| c.is_ascii_digit());
            let is_stage = stages.iter().any(|stage| stage.eq_ignore_ascii_case(name));
            if is_number || is_stage || !name.chars().all(is_name) || !is_in_message(name) {
                continue;
            }
            if let Some(similar) = nearest(name, stages.iter().copied()) {
                let corrected = correct(&instruction.text, name, similar);
                return Some(MisspelledStage {
                    instruction: Instruction {
                        corrected: Some(corrected),
                        ..instruction.clone()
                    },
                    name: name.to_owned(),
                    similar: similar.to_owned(),
                });
            }
        }
        stages.extend(instruction.stage_name());
    }
    None
}

/// Replaces the name of a stage where the instruction reads from it.
fn correct(text: &str, name: &str, similar: &str) -> String {
    let from = format!("from={name}");
    match text.split_once(&from) {
        Some((before, after)) => format!("{before}from={similar}{after}"),
        None => text.replacen(&format!(" {name}"), &format!(" {similar}"), 1),
    }
}

/// Returns the `ENTRYPOINT` and the `CMD` of the image that a target, or the last stage, becomes.
pub fn commands(text: &str, target: Option<&str>) -> Vec<Instruction> {
    let mut found: Vec<Instruction> = Vec::new();
    for of_stage in stages_of(&parse(text), target) {
        for keyword in ["ENTRYPOINT", "CMD"] {
            let is_known = found.iter().any(|instruction| instruction.is(keyword));
            let own = of_stage.iter().rfind(|instruction| instruction.is(keyword));
            found.extend(own.filter(|_| !is_known).map(|own| (*own).clone().shortened()));
        }
    }
    found
}

/// Instructions of the stage that a target, or the last stage, becomes, and of each earlier stage that it is based on.
fn stages_of<'i>(instructions: &'i [Instruction], target: Option<&str>) -> Vec<Vec<&'i Instruction>> {
    let all: Vec<(&Instruction, String)> = instructions_by_stage(instructions).collect();
    let last = all.last().map(|(_, name)| name.clone());
    let mut stage = target.map(str::to_lowercase).or(last);
    let mut found = Vec::new();
    // A stage can only read an earlier one, so the loop ends.
    while let Some(name) = stage.take() {
        let of_stage: Vec<&Instruction> = all
            .iter()
            .filter(|(_, of)| *of == name)
            .map(|(instruction, _)| *instruction)
            .collect();
        let base = of_stage
            .first()
            .and_then(|from| from.base())
            .map(str::to_lowercase);
        let is_earlier = |base: &String| {
            let mut names = all.iter().map(|(_, name)| name).take_while(|of| **of != name);
            names.any(|earlier| earlier == base)
        };
        stage = base.filter(is_earlier);
        found.push(of_stage);
    }
    found
}

#[cfg(test)]
#[path = "dockerfile_tests.rs"]
mod tests;
