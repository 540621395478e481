//! Versions of images that the output names: of a runtime, of a client of a server, or of the image itself.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains};
use super::classes::UNFIT_VERSION;
use super::images::{repository, runtime_of};
use crate::desired::{Image, Service};

parts! {
    /// Parts of a message with the version of a framework that the program requires, in lower case. Another one does not fit, also not a later one.
    FRAMEWORK: "framework: 'microsoft." "the framework 'microsoft.";
    /// Parts of a message in front of a version of class files, in lower case.
    CLASS_VERSION: "class file version " "class file major version " "unsupported major.minor version ";
}

/// Version of the class files of Java 1.0, plus one for each further version.
const FIRST_CLASS_VERSION: u32 = 44;

/// Image whose version does not fit, in the version that the output names.
pub(super) fn image_version(case: &Case<'_>) -> Option<SpecEdit> {
    named_image(case)
        .or_else(|| class_version(case))
        .or_else(|| runtime(case))
}

/// Another tag of the image that the output contains.
fn named_image(case: &Case<'_>) -> Option<SpecEdit> {
    let own = case.context.service;
    let reference = named(own)?;
    let repository = repository(reference);
    let mut words = case.lines().flat_map(str::split_whitespace);
    let other = words.find_map(|word| {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let tag = word.strip_prefix(repository)?.strip_prefix(':')?;
        let is_tag = tag.len() >= 2
            && tag
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        (is_tag && word != reference).then_some(word)
    })?;
    let reason = "the output requires this version of the image".to_owned();
    Some(case.context.edit("image", reason).now(reference).suggest(other))
}

fn named(service: &Service) -> Option<&str> {
    match &service.image {
        Image::Named(reference) => Some(reference),
        Image::Built(_) => None,
    }
}

/// Version of Java for the version of class files in the output.
fn class_version(case: &Case<'_>) -> Option<SpecEdit> {
    let needed = case.lines().find_map(|line| {
        let lower = line.to_lowercase();
        let (_, rest) = CLASS_VERSION.iter().find_map(|part| lower.split_once(part))?;
        let number = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        number.parse::<u32>().ok()?.checked_sub(FIRST_CLASS_VERSION)
    })?;
    let reason = format!("the program needs Java {needed}");
    with_version(case, &needed.to_string(), reason)
}

/// Version of a runtime that the output requires.
fn runtime(case: &Case<'_>) -> Option<SpecEdit> {
    let own = case.context.service;
    let word = runtime_of(own)?;
    let current = version_of(named(own)?)?;
    let lines: Vec<&str> = case.lines().collect();
    let at = lines.iter().position(|line| {
        let is_unfit = contains(line, &UNFIT_VERSION) || contains(line, FRAMEWORK);
        contains(line, &[word]) && is_unfit && !all_versions(line).is_empty()
    })?;
    let is_exact = contains(lines[at], FRAMEWORK);
    let is_current = |version: &str| is_start(version, &current) || is_start(&current, version);
    // A list of versions begins with the earliest one.
    let needed = lines[at..]
        .iter()
        .take(if is_exact { 1 } else { 3 })
        .flat_map(|line| all_versions(line))
        .find(|version| !is_current(version) && (is_exact || is_later(version, &current)))?;
    let reason = format!("its program requires version {needed} of `{word}`");
    with_version(case, &needed, reason)
}

/// The image with another version, which has as many parts as the present one.
fn with_version(case: &Case<'_>, needed: &str, reason: String) -> Option<SpecEdit> {
    let reference = named(case.context.service)?;
    let current = version_of(reference)?;
    let parts = current.split('.').count();
    let mut kept: Vec<&str> = needed.split('.').take(parts).collect();
    // Tags of some images always have two parts.
    if kept.len() < parts {
        kept.push("0");
    }
    let repository = repository(reference);
    let tag = reference.get(repository.len() + 1..)?;
    let meant = tag.replacen(&current, &kept.join("."), 1);
    let edit = case.context.edit("image", reason).now(reference);
    (meant != tag).then(|| edit.suggest(format!("{repository}:{meant}")))
}

/// Version at the start of a tag, such as `17` of `17-jre` or `1.46.1` of `v1.46.1-jammy`.
fn version_of(reference: &str) -> Option<String> {
    let tag = reference.get(repository(reference).len() + 1..)?;
    let tag = tag.trim_start_matches('v');
    let end = tag
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(tag.len());
    let version = tag[..end].trim_end_matches('.');
    (!version.is_empty()).then(|| version.to_owned())
}

/// Versions in a line: numbers of one to three parts.
fn all_versions(line: &str) -> Vec<String> {
    let words = line.split(|c: char| c.is_whitespace() || "\"'`,;:()[]<>=^~|@/".contains(c));
    let words = words.map(|word| {
        word.trim_start_matches(['v', 'V', 'o', 'g'])
            .trim_end_matches(['.', 'x', 'X', '*', '+', '-'])
    });
    words
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| {
            let is_number = word.chars().all(|c| c.is_ascii_digit() || c == '.');
            is_number
                && word.starts_with(|c: char| c.is_ascii_digit())
                && word.matches('.').count() <= 2
                && word.len() <= 9
        })
        .map(str::to_owned)
        .collect()
}

/// Returns whether a version is the other one, or a part of it.
fn is_start(version: &str, other: &str) -> bool {
    let rest = other.strip_prefix(version);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn is_later(version: &str, other: &str) -> bool {
    let numbers = |text: &str| -> Vec<u32> { text.split('.').filter_map(|part| part.parse().ok()).collect() };
    let (one, two) = (numbers(version), numbers(other));
    one > two && one.first().is_some_and(|major| *major < 100)
}

#[cfg(test)]
mod tests {
    use crate::remedy::test_environment::TestEnvironment;

    #[test]
    fn images_have_the_version_that_the_output_requires() {
        for (image, line, meant) in [
            (
                "eclipse-temurin:17-jre",
                "Main has been compiled by a more recent version of the Java Runtime (class file version 65.0), this version \
                 of the Java Runtime only recognizes class file versions up to 61.0",
                "eclipse-temurin:21-jre",
            ),
            (
                "node:18-alpine",
                "error: The engine \"node\" is incompatible with this module. Expected version \">=20.9.0\". Got \"18.20.4\"",
                "node:20-alpine",
            ),
            (
                "golang:1.21",
                "go: go.mod requires go >= 1.22.3 (running go 1.21.13; GOTOOLCHAIN=local)",
                "golang:1.22",
            ),
            (
                "ruby:3.1.4-slim",
                "Your Ruby version is 3.1.4, but your Gemfile specified 3.3.0: ruby must be this version",
                "ruby:3.3.0-slim",
            ),
            (
                "mcr.microsoft.com/playwright:v1.46.1-jammy",
                "error: - required: mcr.microsoft.com/playwright:v1.47.0-jammy",
                "v1.47.0-jammy",
            ),
        ] {
            let services = format!("  web: {{ image: \"{image}\", container: {{ name: web }} }}\n");
            TestEnvironment::new(&services)
                .wrote(line)
                .assert_edit("web.image", meant);
        }
    }
}
