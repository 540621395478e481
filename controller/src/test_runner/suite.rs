//! Cases of suites, and the schedule of their retries.

use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_crds::suite::{RetryBackoff, Runner, Suite, TestRetry, Tests};

use super::report::Attempt;
use super::yaml::YamlSuite;

/// A command or a YAML suite that runs with its own test lease.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Case {
    /// Name of the case, and of its lease.
    pub(super) name: String,
    pub(super) work: Work,
    pub(super) retry: TestRetry,
}

/// Work of one attempt.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Work {
    /// Command of this machine.
    Command(LocalCommand),
    /// Suite of the runner `yaml`, with its own retries of cases.
    Yaml(Box<YamlSuite>),
}

/// Command of this machine.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LocalCommand {
    /// Program and arguments.
    pub(super) words: Vec<String>,
    /// Working directory.
    pub(super) folder: PathBuf,
}

/// Id of a suite on the command line.
pub(super) fn suite_id(suite: &Suite) -> &str {
    suite.id.as_deref().unwrap_or(&suite.name)
}

/// Case of a suite with a command, to be run in the folder of its file. The error is the reason of a skip.
pub(super) fn create_case(suite: &Suite, tests: &Tests, folder: &Path) -> Result<Case, String> {
    let Suite {
        name: _,
        id: _,
        file,
        runner,
        command,
        config,
        retry,
        parallel: _,
        concurrency: _,
        service: _,
    } = suite;
    let tool = |start: &[&str], option: &str| -> Vec<String> {
        let config = config.iter().flat_map(|config| [option, config.as_str()]);
        let all = start.iter().copied().chain(config).chain(file.as_deref());
        all.map(str::to_owned).collect()
    };
    let words = match (runner, command) {
        (Runner::Yaml, _) => return Err("it has no `file`".to_owned()),
        (
            Runner::Shell | Runner::Exec | Runner::Vitest | Runner::Pytest | Runner::Playwright,
            Some(command),
        ) => {
            vec!["sh".to_owned(), "-c".to_owned(), command.clone()]
        }
        (Runner::Shell | Runner::Exec, None) => return Err("it has no `command`".to_owned()),
        (Runner::Vitest, None) => tool(&["npx", "vitest", "run"], "--config"),
        (Runner::Pytest, None) => tool(&["pytest"], "-c"),
        (Runner::Playwright, None) => tool(&["npx", "playwright", "test"], "--config"),
    };
    Ok(Case {
        name: suite_id(suite).to_owned(),
        work: Work::Command(LocalCommand {
            words,
            folder: folder.to_owned(),
        }),
        retry: retry.or(tests.retry).unwrap_or_default(),
    })
}

/// Delay before the next attempt. `None` after a pass, or after the last attempt.
///
/// The first attempt with a failure of infrastructure is repeated immediately and not counted.
pub(super) fn next_delay(attempts: &[Attempt], retry: &TestRetry) -> Option<Duration> {
    let last = attempts.last()?;
    let excused = attempts.iter().position(Attempt::was_disrupted);
    let counted = attempts.len() - usize::from(excused.is_some());
    if last.has_passed() {
        return None;
    }
    if excused == Some(attempts.len() - 1) {
        return Some(Duration::ZERO);
    }
    let most = usize::try_from(retry.max_attempts).unwrap_or(usize::MAX);
    if counted >= most {
        return None;
    }
    let delay = retry.delay.get();
    let steps = i32::try_from(counted).unwrap_or(i32::MAX);
    let factor = match retry.backoff {
        RetryBackoff::Linear => f64::from(steps),
        RetryBackoff::Exponential => retry.backoff_multiplier.powi(steps - 1),
    };
    let seconds = (delay.as_secs_f64() * factor).min(MAX_DELAY.as_secs_f64());
    Some(Duration::from_secs_f64(seconds))
}

/// Maximum delay between attempts.
const MAX_DELAY: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use argus_crds::quantity::HumanDuration;

    use super::*;
    use crate::test_runner::report::tests::attempt;

    fn tests(text: &str) -> Tests {
        let text = format!(
            "version: \"1\"\nproject: {{ name: shop }}\nservice: {{ image: a, container: {{ name: a }} }}\n{text}"
        );
        let read = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
        read.spec
            .unwrap_or_else(|| panic!("{:?}", read.diagnostics))
            .tests
            .unwrap()
    }

    #[test]
    fn suite_runs_its_command_or_its_runner() {
        let tests = tests(
            "tests:
  retry: { maxAttempts: 2 }
  suites:
    - { name: Smoke, id: smoke, runner: shell, command: 'test -n \"$A\"' }
    - { name: unit, runner: pytest, file: tests/unit, config: pytest.ini, retry: { maxAttempts: 3 } }
    - { name: pages, runner: playwright, file: pages }
    - { name: web, runner: vitest }
    - { name: own, runner: vitest, command: make check }
    - { name: nothing, runner: exec }
    - { name: listed }
",
        );
        let cases: Vec<_> = tests
            .suites
            .iter()
            .map(|suite| match create_case(suite, &tests, Path::new("/spec")) {
                Ok(Case {
                    name,
                    work: Work::Command(command),
                    retry,
                }) => {
                    format!("{name} {:?} {}", command.words, retry.max_attempts)
                }
                Ok(case) => panic!("{case:?}"),
                Err(reason) => format!("{}: {reason}", suite_id(suite)),
            })
            .collect();
        assert_eq!(
            cases,
            [
                r#"smoke ["sh", "-c", "test -n \"$A\""] 2"#,
                r#"unit ["pytest", "-c", "pytest.ini", "tests/unit"] 3"#,
                r#"pages ["npx", "playwright", "test", "pages"] 2"#,
                r#"web ["npx", "vitest", "run"] 2"#,
                r#"own ["sh", "-c", "make check"] 2"#,
                "nothing: it has no `command`",
                "listed: it has no `file`",
            ]
        );
    }

    #[test]
    fn failure_is_retried_and_first_disruption_is_free() {
        let retry = |max_attempts, backoff| TestRetry {
            max_attempts,
            delay: HumanDuration::from_secs(2),
            backoff,
            backoff_multiplier: 3.0,
        };
        let (bad, good, disrupted) = (attempt(1, false), attempt(0, false), attempt(1, true));
        let seconds = |attempts: &[&Attempt], retry: TestRetry| {
            let attempts: Vec<_> = attempts.iter().map(|attempt| (*attempt).clone()).collect();
            next_delay(&attempts, &retry).map(|delay| delay.as_secs())
        };
        let linear = |most| retry(most, RetryBackoff::Linear);
        let exponential = |most| retry(most, RetryBackoff::Exponential);
        assert_eq!(seconds(&[], linear(3)), None);
        assert_eq!(seconds(&[&good], linear(3)), None);
        assert_eq!(seconds(&[&bad], linear(1)), None);
        assert_eq!(seconds(&[&bad], linear(3)), Some(2));
        assert_eq!(seconds(&[&bad, &bad], linear(3)), Some(4));
        assert_eq!(seconds(&[&bad, &bad, &bad], linear(3)), None);
        assert_eq!(seconds(&[&bad], exponential(3)), Some(2));
        assert_eq!(seconds(&[&bad, &bad], exponential(3)), Some(6));
        assert_eq!(seconds(&[&bad, &good], linear(3)), None);
        // Only the first disrupted attempt is not counted.
        assert_eq!(seconds(&[&disrupted], linear(1)), Some(0));
        assert_eq!(seconds(&[&disrupted, &bad], linear(1)), None);
        assert_eq!(seconds(&[&disrupted, &disrupted], linear(1)), None);
        assert_eq!(seconds(&[&disrupted, &bad], linear(2)), Some(2));
        let far = retry(10, RetryBackoff::Exponential);
        let far = TestRetry {
            backoff_multiplier: 100.0,
            ..far
        };
        assert_eq!(seconds(&[&bad; 9], far), Some(600));
    }
}
