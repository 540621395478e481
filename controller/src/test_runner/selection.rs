//! Choice of suites and cases on the command line.

use argus_core::test_results::TestVerdict;
use argus_crds::status::SuiteStatus;
use argus_crds::suggestion::nearest;
use argus_suite::AllowedHost;
use clap::Args;
use regex::Regex;

use super::job::{Job, Work};
use super::report::Outcome;
use super::shard::Shard;
use crate::process::exit::Failure;

/// Maximum number of names in a hint.
const MAX_NAMES: usize = 12;

/// Choice of suites and cases.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Selection {
    /// Only these suites of the spec file [default: all]
    #[arg(long = "suite", value_name = "ID", conflicts_with = "command")]
    pub(crate) suites: Vec<String>,
    /// Only these cases [default: all]; with COMMAND, its name in the report
    #[arg(long = "case", value_name = "NAME")]
    pub(crate) cases: Vec<String>,
    /// Only cases that match this regular expression [default: all]
    #[arg(long, value_name = "PATTERN", conflicts_with = "command")]
    pub(crate) grep: Option<Regex>,
    /// Only part I of N equal parts of the suites [default: all]
    #[arg(long, value_name = "I/N", conflicts_with = "command")]
    pub(crate) shard: Option<Shard>,
    /// Only suites and cases that failed in their last run [default: all]
    #[arg(long, conflicts_with = "command")]
    pub(crate) rerun_failed: bool,
    /// Skip all further cases and suites after the first failed case
    #[arg(long, conflicts_with = "command")]
    pub(crate) fail_fast: bool,
    /// Hosts outside of the environment that YAML suites may reach [default: none]
    #[arg(
        long,
        env = "ARGUS_ALLOW_TEST_HOSTS",
        value_name = "HOST[:PORT]",
        value_delimiter = ','
    )]
    pub(crate) allow_test_hosts: Vec<AllowedHost>,
    /// Containers outside of the environment that YAML suites may reach, by name [default: none]
    #[arg(
        long,
        env = "ARGUS_ALLOW_TEST_CONTAINERS",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub(crate) allow_test_containers: Vec<String>,
    /// Caller of the run.
    #[arg(skip)]
    pub(crate) caller: Caller,
    /// Command to run in the current folder instead of the suites
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Caller of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The person who runs the command line.
    #[default]
    Person,
    /// A client of HTTP or MCP, which can allow no hosts and no containers.
    Client {
        /// True if the operator lets clients run suites with commands.
        may_run_commands: bool,
    },
}

/// A suite to run, or the result of a suite that does not run.
pub(super) type Entry = Result<Job, Box<Outcome>>;

pub(super) fn name(entry: &Entry) -> &str {
    match entry {
        Ok(job) => &job.name,
        Err(outcome) => &outcome.name,
    }
}

/// Names of the cases of a suite. A command is one case.
fn case_names(job: &Job) -> Vec<&str> {
    match &job.work {
        Work::Command(_) => vec![&job.name],
        Work::Yaml(yaml) => yaml.suite.cases.iter().map(|case| case.name.as_str()).collect(),
    }
}

impl Selection {
    /// Returns the suites with selected cases, in the given order.
    ///
    /// # Errors
    /// The selection matches nothing, or the name of a case does not exist.
    pub(super) fn apply(
        &self,
        env: &str,
        last: &[SuiteStatus],
        mut chosen: Vec<Entry>,
    ) -> Result<Vec<Entry>, Failure> {
        if self.rerun_failed {
            select_failed(env, last, &mut chosen)?;
        }
        if !self.cases.is_empty() || self.grep.is_some() {
            self.select_cases(env, &mut chosen)?;
        }
        if let Some(shard) = self.shard {
            shard.apply(env, &mut chosen)?;
        }
        if self.fail_fast {
            for job in chosen.iter_mut().flatten() {
                if let Work::Yaml(yaml) = &mut job.work {
                    yaml.suite.sequential = true;
                }
            }
        }
        Ok(chosen)
    }

    /// Checks the ids of the selected suites.
    pub(super) fn check_suites(&self, env: &str, known: &[&str]) -> Result<(), Failure> {
        let mut unknown = self.suites.iter().filter(|id| !known.contains(&id.as_str()));
        unknown.next().map_or(Ok(()), |id| {
            let message = format!("`{env}` has no suite `{id}`");
            Err(unknown_name(&message, id, "suites", known.iter().copied()))
        })
    }

    /// Returns true if suites with commands are refused.
    pub(super) fn refuses_commands(&self) -> bool {
        self.caller
            == Caller::Client {
                may_run_commands: false,
            }
    }

    /// Returns the hosts that the caller allows; `None` if it can allow none.
    pub(super) fn allowed_hosts(&self) -> Option<Vec<AllowedHost>> {
        match self.caller {
            Caller::Person => Some(self.allow_test_hosts.clone()),
            Caller::Client { .. } => None,
        }
    }

    /// Returns the names of the containers that the caller allows; `None` if it can allow none.
    pub(super) fn allowed_containers(&self) -> Option<Vec<String>> {
        match self.caller {
            Caller::Person => Some(self.allow_test_containers.clone()),
            Caller::Client { .. } => None,
        }
    }

    /// Returns true if the suite is selected.
    pub(super) fn has_suite(&self, id: &str) -> bool {
        self.suites.is_empty() || self.suites.iter().any(|suite| suite == id)
    }

    /// Keeps the cases that match, and the suites with such cases. A suite whose file is rejected stays.
    fn select_cases(&self, env: &str, chosen: &mut Vec<Entry>) -> Result<(), Failure> {
        let all: Vec<String> = chosen
            .iter()
            .flatten()
            .flat_map(case_names)
            .map(str::to_owned)
            .collect();
        let known = || all.iter().map(String::as_str);
        if let Some(case) = self.cases.iter().find(|case| !all.contains(case)) {
            let message = format!("`{env}` has no case `{case}` in the selected suites");
            return Err(unknown_name(&message, case, "cases", known()));
        }
        chosen.retain_mut(|entry| match entry {
            Ok(job) => self.select_in(job),
            Err(outcome) => outcome.is_rejected(),
        });
        if chosen.is_empty() {
            let pattern = self.grep.as_ref().map_or("", Regex::as_str);
            let message = format!("no selected case of `{env}` matches `{pattern}`");
            return Err(unknown_name(&message, pattern, "cases", known()));
        }
        Ok(())
    }

    /// Keeps the matching cases of a suite. Returns false without any.
    fn select_in(&self, job: &mut Job) -> bool {
        match &mut job.work {
            Work::Command(_) => self.matches(&job.name),
            Work::Yaml(yaml) => {
                let selected = yaml.suite.select(|case| self.matches(&case.name));
                let is_selected = selected.is_some();
                if let Some(selected) = selected {
                    yaml.suite = selected;
                }
                is_selected
            }
        }
    }

    fn matches(&self, case: &str) -> bool {
        let is_named = self.cases.is_empty() || self.cases.iter().any(|name| name == case);
        is_named && self.grep.as_ref().is_none_or(|pattern| pattern.is_match(case))
    }
}

/// Keeps the suites and cases that failed in their last run.
fn select_failed(env: &str, last: &[SuiteStatus], chosen: &mut Vec<Entry>) -> Result<(), Failure> {
    let find = |id: &str| {
        let mut last = last.iter();
        last.find(|suite| suite.suite == id && suite.result == TestVerdict::Failed.name())
    };
    chosen.retain(|entry| find(name(entry)).is_some());
    for job in chosen.iter_mut().flatten() {
        if let Some(failed) = find(&job.name) {
            // Without a known case, such as after an edit, the complete suite runs.
            *job = job.select(|case| failed.failed_cases.contains(&case.name));
        }
    }
    if chosen.is_empty() {
        let message = format!("no selected suite of `{env}` failed in its last run");
        let hint = format!("run all suites with `argus test run {env}`");
        return Err(Failure::usage(message).with_hint(hint));
    }
    Ok(())
}

/// Error for a name that does not exist, with the most similar name or all names.
fn unknown_name<'a>(
    message: &str,
    wanted: &str,
    kind: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Failure {
    let known: Vec<_> = known.into_iter().collect();
    let hint = match nearest(wanted, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => format!("the selected suites have no {kind}"),
        None => {
            let more = known.len().saturating_sub(MAX_NAMES);
            let shown = known[..known.len() - more].join(", ");
            match more {
                0 => format!("{kind}: {shown}"),
                more => format!("{kind}: {shown} and {more} more"),
            }
        }
    };
    Failure::usage(message).with_hint(hint)
}

#[cfg(test)]
#[path = "selection_tests.rs"]
mod tests;
