//! Workers of a run: each has its own fork of the environment, and takes suites from one queue.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::str::FromStr;
use std::time::Duration;

use argus_core::ident::EnvName;
use argus_core::quoting::escape_line;
use argus_crds::error::Reason;
use argus_reconciler::{Command, clock};
use clap::Args;
use futures::future::join_all;

use super::Course;
use super::job::Job;
use super::report::{Outcome, TestVerdict};
use super::runner::{Ended, Runner};
use crate::api::Context;
use crate::api::wait::removal::remove_environments;
use crate::process::exit::Failure;
use crate::render::output;

/// Maximum time until the forks are removed at the end of the run.
const REMOVAL_LIMIT: Duration = Duration::from_secs(120);
/// Time after which the controller removes a fork whose run was killed.
const FORK_LIMIT: Duration = Duration::from_secs(24 * 3_600);
/// Maximum number of workers.
const MAX_WORKERS: usize = 64;
/// Maximum length of the environment's name in the name of a fork.
const MAX_STEM: usize = 57;

/// Options of the workers.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WorkerOptions {
    /// Forks of the environment that share the suites [default: none]
    #[arg(long, value_name = "N", value_parser = parse_workers)]
    pub(crate) workers: Option<usize>,
    /// Treatment of the fork of a failed suite: `remove`, or `hold=TIME` [default: remove]
    #[arg(long, value_name = "ACTION", requires = "workers")]
    pub(crate) on_failure: Option<OnFailure>,
}

/// Treatment of the fork of a failed suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// It is removed at the end of the run.
    Remove,
    /// It is held for this time, and then removed.
    Hold(Duration),
}

impl FromStr for OnFailure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "remove" => Ok(Self::Remove),
            Some(("hold", span)) => crate::settings::parse_duration(span).map(Self::Hold),
            _ => Err(format!("`{text}` is not an action; write `remove` or `hold=30m`")),
        }
    }
}

/// Parses a number of workers.
pub(crate) fn parse_workers(text: &str) -> Result<usize, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number| (1..=MAX_WORKERS).contains(number));
    number.ok_or_else(|| format!("write a number from 1 to {MAX_WORKERS}"))
}

/// The forks of a run.
pub(super) struct Workers<'a> {
    /// Runner of the environment that is forked.
    origin: &'a Runner<'a>,
    on_failure: OnFailure,
    /// Forks to be removed at the end.
    forks: RefCell<BTreeSet<EnvName>>,
    /// Number in the name of the next fork.
    next: Cell<usize>,
}

impl<'a> Workers<'a> {
    /// Runs all jobs with up to `count` workers, and removes their forks. The outcomes have the order of the jobs.
    pub(super) async fn run(
        origin: &'a Runner<'a>,
        count: usize,
        jobs: &[Job],
        course: &Course<'_>,
    ) -> Vec<Outcome> {
        let workers = Self {
            origin,
            on_failure: origin.settings.workers.on_failure.unwrap_or(OnFailure::Remove),
            forks: RefCell::default(),
            next: Cell::new(1),
        };
        let queue = RefCell::new(jobs.iter().enumerate().collect::<VecDeque<_>>());
        let work = || workers.work(&queue, course);
        let outcomes = join_all((0..count.min(jobs.len())).map(|_| work())).await;
        let mut outcomes: Vec<_> = outcomes.into_iter().flatten().collect();
        outcomes.sort_by_key(|(index, _)| *index);
        workers.remove_forks(course).await;
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    /// Runs jobs of the queue one after another until it is empty.
    async fn work(
        &self,
        queue: &RefCell<VecDeque<(usize, &Job)>>,
        course: &Course<'_>,
    ) -> Vec<(usize, Outcome)> {
        let mut outcomes = Vec::new();
        let mut fork = None;
        loop {
            let next = queue.borrow_mut().pop_front();
            let Some((index, job)) = next else {
                return outcomes;
            };
            let outcome = match course.skip(job) {
                Some(skipped) => skipped,
                None => course.finish(self.run_job(&mut fork, job).await),
            };
            outcomes.push((index, outcome));
        }
    }

    /// Runs a job on a fork, which is created if necessary.
    async fn run_job(&self, fork: &mut Option<EnvName>, job: &Job) -> Ended {
        let env = match fork.take() {
            Some(env) => env,
            None => match self.create_fork().await {
                Ok(env) => env,
                Err(failure) => {
                    return Ended {
                        outcome: Outcome::rejected(&job.name, failure.message().to_owned()),
                        failure: Some(failure),
                    };
                }
            },
        };
        let runner = Runner {
            environment: env.clone(),
            is_worker: true,
            ..*self.origin
        };
        let ended = runner.run_job(job, false).await;
        let is_failed = ended.outcome.result == TestVerdict::Failed && !runner.stop.is_cancelled();
        match self.on_failure {
            OnFailure::Hold(span) if is_failed => self.hold(&env, span, job).await,
            OnFailure::Hold(_) | OnFailure::Remove => *fork = Some(env),
        }
        ended
    }

    /// Creates a fork with the next free name.
    async fn create_fork(&self) -> Result<EnvName, Failure> {
        let origin = &self.origin.environment;
        let stem: String = origin.as_str().chars().take(MAX_STEM).collect();
        loop {
            let number = self.next.replace(self.next.get() + 1);
            let to = EnvName::slug(&format!("{stem}-w{number}"));
            let to = to.map_err(|error| Failure::internal("cannot name a fork", &error))?;
            let fork = Command::Fork {
                environment: origin.clone(),
                to: to.clone(),
                ttl: Some(FORK_LIMIT),
            };
            match self.origin.client.send(fork).await {
                Ok(_) => {
                    self.forks.borrow_mut().insert(to.clone());
                    return Ok(to);
                }
                // Another run has a fork of this name.
                Err(failure)
                    if failure.has_reason(Reason::NotPossible) && number < MAX_WORKERS * MAX_WORKERS => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Holds the fork of a failed job. The controller removes it at the end of the hold.
    async fn hold(&self, env: &EnvName, span: Duration, job: &Job) {
        let hold = Command::Hold {
            environment: env.clone(),
            service: None,
            until: Some(clock::now() + span),
            stops: false,
            reason: format!("suite `{}` failed", job.name),
            holder: self.origin.settings.holder.clone(),
        };
        match self.origin.client.send(hold).await {
            Ok(_) => {
                self.forks.borrow_mut().remove(env);
                output::print_note(&format!(
                    "note: `{env}` is held for {}, because `{}` failed; remove it earlier with `argus down {env}`",
                    humantime::format_duration(span),
                    escape_line(&job.name)
                ));
            }
            Err(failure) => output::print_note(&format!("note: cannot hold `{env}`: {}", failure.message())),
        }
    }

    /// Removes the forks that are not held, even after a signal.
    async fn remove_forks(&self, course: &Course<'_>) {
        let mut names = Vec::new();
        let forks = self.forks.take();
        for fork in &forks {
            let found = self.origin.client.find_environment(fork.as_str()).await;
            // It can be removed during the run, for example by `argus down`.
            if !found.is_err_and(|failure| failure.has_reason(Reason::NotFound)) {
                names.push(fork.to_string());
            }
        }
        if names.is_empty() {
            return;
        }
        let context = Context::new(self.origin.client.clone());
        let removed = remove_environments(&context, &names, false, REMOVAL_LIMIT, output::print_note).await;
        if let Err(failure) = removed {
            course.end(failure);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_options_take_their_bounds() {
        assert_eq!(parse_workers("4"), Ok(4));
        for bad in ["0", "65", "-1", "x"] {
            assert!(parse_workers(bad).is_err(), "{bad}");
        }
        assert_eq!("remove".parse(), Ok(OnFailure::Remove));
        assert_eq!(
            "hold=30m".parse(),
            Ok(OnFailure::Hold(Duration::from_secs(1_800)))
        );
        for bad in ["", "hold", "hold=", "hold=x", "keep=1m"] {
            assert!(bad.parse::<OnFailure>().is_err(), "{bad}");
        }
    }
}
