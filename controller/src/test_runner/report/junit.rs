//! Report in the format of `JUnit`, valid for the schema `junit-10` of Jenkins. GitLab reads the same format.
//!
//! Every text is plain: XML permits no control characters and no noncharacters, and the library removes only some of them, without a trace.

use argus_core::state::FailureOrigin;
use argus_suite::Verdict;
use quick_junit::{NonSuccessKind, Report as Document, TestCase, TestCaseStatus, TestRerun, TestSuite};

use super::final_case::{CaseFailure, FinalCase};
use super::text::describe_origin;
use super::{Outcome, Report};
use crate::process::exit::Failure;
use crate::render::foreign_text::to_plain;

impl Report {
    /// Returns the report as XML. The class of a case is its suite.
    pub(super) fn to_junit(&self) -> Result<String, Failure> {
        let mut document = Document::new(to_plain(&self.environment));
        document.set_time(self.duration);
        document.add_test_suites(self.suites.iter().map(suite));
        let text = document.to_string();
        let text = text.map_err(|error| Failure::operation_failed("cannot write XML", &error))?;
        // The schema has this attribute only for suites. The first one is that of the document.
        Ok(text.replacen(&format!(" skipped=\"{}\"", document.skipped), "", 1))
    }
}

fn suite(outcome: &Outcome) -> TestSuite {
    let mut suite = TestSuite::new(to_plain(&outcome.name));
    suite.set_time(outcome.duration());
    if let Some(file) = &outcome.file {
        suite.extra.insert("file".into(), to_plain(file).as_str().into());
    }
    if let Some(worker) = &outcome.worker {
        suite.add_property(("worker", to_plain(worker).as_str()));
    }
    suite.add_property(("restarts", outcome.count_restarts().to_string().as_str()));
    let cases = outcome.final_cases();
    suite.add_test_cases(cases.iter().map(|found| case(outcome, found)));
    suite
}

fn case(outcome: &Outcome, found: &FinalCase<'_>) -> TestCase {
    let (last, earlier) = match (found.result, found.failures.split_last()) {
        (Verdict::Failed, Some((last, earlier))) => (Some(last), earlier),
        _ => (None, &found.failures[..]),
    };
    let mut status = match found.result {
        Verdict::Passed => TestCaseStatus::success(),
        Verdict::Skipped | Verdict::Unsupported => TestCaseStatus::skipped(),
        Verdict::Failed => TestCaseStatus::non_success(kind(last)),
    };
    if let Some(reason) = found.reason {
        status.set_message(to_plain(reason));
    }
    if let Some(last) = last {
        let message = outcome.unconfirmed.as_ref().unwrap_or(&last.message);
        status.set_message(to_plain(message)).set_type(origin(last));
        status.set_description(describe(last));
    }
    status.add_reruns(earlier.iter().map(rerun));
    let mut case = TestCase::new(to_plain(found.name), status);
    case.set_classname(to_plain(&outcome.name))
        .set_time(found.duration);
    case
}

fn rerun(failure: &CaseFailure<'_>) -> TestRerun {
    let mut rerun = TestRerun::new(kind(Some(failure)));
    rerun
        .set_message(to_plain(&failure.message))
        .set_type(origin(failure));
    rerun.set_description(describe(failure));
    rerun
}

/// A failure of infrastructure is an error, because it is no verdict about the case. So is a suite that cannot run.
fn kind(failure: Option<&CaseFailure<'_>>) -> NonSuccessKind {
    let attribution = failure.and_then(|failure| failure.attribution);
    match (failure, attribution) {
        (Some(_), Some(found)) if found.is_excused() => NonSuccessKind::Error,
        (Some(_), _) => NonSuccessKind::Failure,
        (None, _) => NonSuccessKind::Error,
    }
}

fn origin(failure: &CaseFailure<'_>) -> &'static str {
    let origin = failure.attribution.map(|found| found.origin);
    origin.unwrap_or(FailureOrigin::Test).name()
}

fn describe(failure: &CaseFailure<'_>) -> String {
    let text = to_plain(&failure.text);
    match failure.attribution {
        Some(found) if found.origin != FailureOrigin::Test => {
            let text = text.trim_end();
            format!("{text}\nattribution: {}\n", describe_origin(found))
        }
        _ => text,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    type Names = &'static [&'static str];

    /// Elements of the schema: their parents, required attributes and optional attributes.
    const SCHEMA: [(&str, Names, Names, Names); 13] = [
        (
            "testsuites",
            &[""],
            &[],
            &["name", "time", "tests", "failures", "errors"],
        ),
        (
            "testsuite",
            &["testsuites"],
            &["name", "tests", "failures", "errors"],
            &[
                "time",
                "skipped",
                "timestamp",
                "hostname",
                "id",
                "package",
                "file",
                "log",
                "url",
                "group",
            ],
        ),
        ("properties", &["testsuite"], &[], &[]),
        ("property", &["properties"], &["name", "value"], &[]),
        (
            "testcase",
            &["testsuite"],
            &["name"],
            &["time", "classname", "group"],
        ),
        ("skipped", &["testcase"], &[], &["type", "message"]),
        ("failure", &["testcase"], &[], &["type", "message"]),
        ("error", &["testcase"], &[], &["type", "message"]),
        ("rerunFailure", &["testcase"], &["type"], &["message"]),
        ("rerunError", &["testcase"], &["type"], &["message"]),
        ("flakyFailure", &["testcase"], &["type"], &["message"]),
        ("flakyError", &["testcase"], &["type"], &["message"]),
        ("system-out", &["testcase", "testsuite"], &[], &[]),
    ];

    /// Start of an element: its name, its parents, and its attributes.
    type Start<'a> = (&'a str, Vec<&'a str>, BTreeMap<&'a str, &'a str>);

    /// Returns all elements of a document, whose texts and values contain no `<` and `>`.
    fn parse(xml: &str) -> Vec<Start<'_>> {
        let (mut found, mut open) = (Vec::new(), Vec::new());
        for tag in xml.split('<').skip(2).map(|part| part.split_once('>').unwrap().0) {
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "{xml}");
                continue;
            }
            let body = tag.trim_end_matches('/');
            let (name, rest) = body.split_once(' ').unwrap_or((body, ""));
            let mut words = rest.split('"');
            let mut attributes = BTreeMap::new();
            while let (Some(key), Some(value)) = (words.next(), words.next()) {
                attributes.insert(key.trim().trim_end_matches('='), value);
            }
            found.push((name, open.clone(), attributes));
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{xml}");
        found
    }

    /// Asserts that a document has only the characters of XML 1.0, and that each `&` begins an entity.
    pub(in crate::test_runner::report) fn check_characters(xml: &str) {
        let is_permitted = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
        let wrong = xml.chars().find(|c| !is_permitted(*c));
        assert_eq!(wrong, None, "{xml:?}");
        for text in xml.split('&').skip(1) {
            let (entity, _) = text.split_once(';').unwrap();
            let is_number = entity.strip_prefix('#').is_some_and(|number| {
                let digits = number.trim_start_matches('x');
                !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit())
            });
            let is_named = ["lt", "gt", "amp", "quot", "apos"].contains(&entity);
            assert!(is_named || is_number, "{entity}: {xml}");
        }
    }

    /// Asserts that a document is valid for the schema, and that its numbers are those of its elements.
    pub(in crate::test_runner::report) fn check(xml: &str) {
        let all = parse(xml);
        for (name, parents, attributes) in &all {
            let rule = SCHEMA.iter().find(|rule| rule.0 == *name);
            let (_, above, required, optional) =
                rule.unwrap_or_else(|| panic!("`{name}` is not known: {xml}"));
            assert!(
                above.contains(parents.last().unwrap_or(&"")),
                "{name} in {parents:?}"
            );
            assert!(
                required.iter().all(|key| attributes.contains_key(key)),
                "{name}: {attributes:?}"
            );
            let is_known = |key: &&&str| required.contains(key) || optional.contains(key);
            assert!(
                attributes.keys().all(|key| is_known(&key)),
                "{name}: {attributes:?}"
            );
            if let Some(time) = attributes.get("time") {
                let is_decimal = |c: char| c.is_ascii_digit() || c == '.';
                assert!(time.chars().all(is_decimal), "{time}");
            }
        }
        let count = |name: &str| all.iter().filter(|(element, ..)| *element == name).count();
        let sum = |element: &str, key: &str| {
            let of = all.iter().filter(|(name, ..)| *name == element);
            let number = |(_, _, attributes): &Start<'_>| attributes[key].parse::<usize>().unwrap();
            of.map(number).sum::<usize>()
        };
        for (key, element) in [
            ("tests", "testcase"),
            ("failures", "failure"),
            ("errors", "error"),
        ] {
            let expected = count(element);
            assert_eq!(sum("testsuites", key), expected, "{key}: {xml}");
            assert_eq!(sum("testsuite", key), expected, "{key}: {xml}");
        }
        assert_eq!(sum("testsuite", "skipped"), count("skipped"), "{xml}");
    }
}
