//! Jobs: the suites and commands of a run.

use std::path::{Path, PathBuf};

use argus_core::hex::hex;
use argus_crds::suite::{Runner, Suite, TestRetry, Tests};
use argus_suite::Step;
use sha2::{Digest as _, Sha256};

use super::yaml::YamlSuite;

/// A command or a YAML suite that runs with its own test lease.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Job {
    /// Id of the suite, and name of its lease.
    pub(super) name: String,
    pub(super) work: Work,
    pub(super) retry: TestRetry,
    /// True if it may run in parallel with others.
    pub(super) is_parallel: bool,
    /// Digest of the suite file or the command. Another digest explains another result.
    pub(super) digest: String,
    /// True if it is the command of the user, whose output is always written immediately.
    pub(super) is_wrapped: bool,
}

impl Job {
    /// Returns the path of the suite file for people.
    pub(super) fn file(&self) -> Option<&str> {
        match &self.work {
            Work::Command(_) => None,
            Work::Yaml(yaml) => Some(&yaml.file),
        }
    }

    /// Returns the job with the selected cases of a suite, and the cases that they build on. A command stays complete.
    pub(super) fn select(&self, is_selected: impl Fn(&Step) -> bool) -> Self {
        let mut job = self.clone();
        if let Work::Yaml(yaml) = &mut job.work
            && let Some(selected) = yaml.suite.select(is_selected)
        {
            yaml.suite = selected;
        }
        job
    }
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

/// Digest of a suite file or a command.
pub(super) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..8])
}

/// Id of a suite on the command line.
pub(super) fn suite_id(suite: &Suite) -> &str {
    suite.id.as_deref().unwrap_or(&suite.name)
}

/// Job of a suite with a command, to be run in the folder of its file. The error is the reason of a skip.
pub(super) fn create_job(suite: &Suite, tests: &Tests, folder: &Path) -> Result<Job, String> {
    let Suite {
        name: _,
        id: _,
        file,
        runner,
        command,
        config,
        retry,
        parallel,
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
    let digest = digest(words.join("\0").as_bytes());
    Ok(Job {
        name: suite_id(suite).to_owned(),
        work: Work::Command(LocalCommand {
            words,
            folder: folder.to_owned(),
        }),
        retry: retry.or(tests.retry).unwrap_or_default(),
        digest,
        is_parallel: parallel
            .or(tests.parallel)
            .is_some_and(|parallel| parallel.enabled),
        is_wrapped: false,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use argus_core::secrets::Secrets;
    use argus_suite::Retry;

    use super::*;
    use crate::test_runner::yaml::SuiteOwner;

    pub(in crate::test_runner) fn command(name: &str) -> Job {
        Job {
            name: name.to_owned(),
            work: Work::Command(LocalCommand {
                words: vec!["true".to_owned()],
                folder: PathBuf::from("."),
            }),
            retry: TestRetry::default(),
            is_parallel: false,
            digest: String::new(),
            is_wrapped: false,
        }
    }

    /// A suite with these cases.
    pub(in crate::test_runner) fn yaml(name: &str, cases: &[&str]) -> Job {
        let rows = cases
            .iter()
            .map(|case| format!("  - {{ name: {case}, request: {{ path: / }} }}\n"));
        let text = format!("name: {name}\ncases:\n{}", rows.collect::<String>());
        let spec = argus_crds::yaml::read("e2e.yaml", b"project: { name: shop }\n");
        Job {
            work: Work::Yaml(Box::new(YamlSuite {
                file: format!("{name}.yaml"),
                suite: argus_suite::parse("suite.yaml", text.as_bytes()).suite.unwrap(),
                retry: Retry::default(),
                service: None,
                env_names: BTreeSet::new(),
                owner: Arc::new(SuiteOwner {
                    spec: spec.spec.unwrap(),
                    file: PathBuf::from("e2e.yaml"),
                    secrets: Secrets::default(),
                    reads_own_folder_only: false,
                    allowed_hosts: None,
                    allowed_containers: None,
                }),
            })),
            ..command(name)
        }
    }

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
            .map(|suite| match create_job(suite, &tests, Path::new("/spec")) {
                Ok(Job {
                    name,
                    work: Work::Command(command),
                    retry,
                    ..
                }) => {
                    format!("{name} {:?} {}", command.words, retry.max_attempts)
                }
                Ok(job) => panic!("{job:?}"),
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
}
