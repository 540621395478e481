//! Course of a suite: setup, cases with their attempts, teardown.
//!
//! A driver alternates between [`Run::next`], which returns the next [`Work`], and [`Run::reply`], which takes its result.
//! Setup and teardown never fail a suite. Their failures are [`Note`]s.

use std::time::Duration;

use argus_core::secrets::Secrets;
use argus_core::time::Timestamp;

use crate::check::Failure;
use crate::container::Connect;
use crate::exchange::Exchange;
use crate::file::{SetupItem, SuiteFile};
use crate::report::{CaseResult, Note, RunReport, Verdict};
use crate::response::Reply;
use crate::retry::Retry;
use crate::scope::{Moment, Scope};
use crate::step::{Action, Step};

/// Reason of the cases that a sequential suite skips.
const FAIL_FAST: &str = "an earlier case of the suite failed";

/// Run of one suite.
#[derive(Debug)]
pub struct Run {
    suite: SuiteFile,
    scope: Scope,
    base_url: String,
    /// Retries of cases without their own.
    retry: Retry,
    /// Secrets that no exchange contains.
    secrets: Secrets,
    at: At,
    has_declared: bool,
    /// Pause before the next work.
    pause: Option<Duration>,
    pending: Option<Action>,
    /// Attempt of the current case, from 1; 0 before it.
    attempt: u32,
    has_paused: bool,
    started: Timestamp,
    /// True after a failed case.
    has_failed: bool,
    /// Reason to skip all further cases.
    interrupted: Option<String>,
    report: RunReport,
}

/// Place of the run: index into setup, cases or teardown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Setup(usize),
    Case(usize),
    Teardown(usize),
    End,
}

/// Next work of the driver.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Pause. It has no reply.
    Pause(Duration),
    /// Wait until the service is healthy, for at most this time.
    WaitHealthy(Duration),
    /// Wait until a port accepts connections.
    WaitForPort(Connect),
    /// Perform an action.
    Act(Action),
    /// The suite has ended.
    End,
}

impl Run {
    /// Prepares a run. `base_url` completes requests with a `path`, and `retry` applies to cases without their own.
    pub fn new(suite: SuiteFile, scope: Scope, base_url: String, retry: Retry) -> Self {
        Self {
            suite,
            scope,
            base_url,
            retry,
            secrets: Secrets::default(),
            at: At::Setup(0),
            has_declared: false,
            pause: None,
            pending: None,
            attempt: 0,
            has_paused: false,
            started: Timestamp(0),
            has_failed: false,
            interrupted: None,
            report: RunReport::default(),
        }
    }

    /// Redacts these secrets in the exchanges of the report.
    #[must_use]
    pub fn without_secrets(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// Returns the results until now.
    pub fn report(&self) -> &RunReport {
        &self.report
    }

    /// Fails the current case and skips all further ones. Teardown still runs.
    pub fn interrupt(&mut self, reason: &str, now: Timestamp) {
        self.interrupted = Some(reason.to_owned());
        self.pause = None;
        let pending = self.pending.take();
        match self.at {
            At::Setup(_) => self.at = At::Case(0),
            At::Case(_) if self.attempt > 0 => {
                let exchange = pending.map(|action| Exchange::unanswered(&action, &self.secrets));
                self.finish_case(vec![Failure::new("", reason)], exchange, now);
            }
            At::Case(_) | At::Teardown(_) | At::End => {}
        }
    }

    /// Returns the next work. Call [`Run::reply`] with its result first, unless it was a pause.
    pub fn next(&mut self, moment: &mut Moment<'_>) -> Work {
        if !self.has_declared {
            self.has_declared = true;
            self.scope.declare(&self.suite.variables, moment);
        }
        loop {
            if let Some(pause) = self.pause.take() {
                return Work::Pause(pause);
            }
            let work = match self.at {
                At::Setup(index) => self.next_setup(index, moment),
                At::Case(index) => self.next_case(index, moment),
                At::Teardown(index) => self.next_teardown(index, moment),
                At::End => Some(Work::End),
            };
            if let Some(work) = work {
                return work;
            }
        }
    }

    /// Takes the result of the last work.
    pub fn reply(&mut self, reply: Reply, now: Timestamp) {
        let Some(action) = self.pending.take() else {
            // A wait that ends without success has no effect on the verdict.
            if let (Reply::Failed(failure), At::Setup(index)) = (reply, self.at) {
                self.note(format!("setup step {index}"), vec![failure]);
            }
            return;
        };
        if let (At::Case(_), Reply::Unsupported(reason)) = (self.at, &reply) {
            self.skip_case(reason.clone(), now);
            return;
        }
        let (failures, exchange) = self.assess(&action, &reply);
        match self.at {
            At::Setup(index) => {
                let name = match index.checked_sub(1).and_then(|index| self.suite.setup.get(index)) {
                    Some(SetupItem::Step(step)) => step.name.clone(),
                    _ => format!("setup step {index}"),
                };
                self.note(name, failures);
            }
            At::Teardown(index) => {
                let step = index
                    .checked_sub(1)
                    .and_then(|index| self.suite.teardown.get(index));
                let name = step.map_or_else(String::new, |step| step.name.clone());
                let is_ignored = step.is_some_and(|step| step.ignore_error);
                self.note(name, if is_ignored { Vec::new() } else { failures });
            }
            At::Case(_) => self.end_attempt(failures, exchange, now),
            At::End => {}
        }
    }

    /// Returns the conditions that do not hold, and then the exchange.
    fn assess(&mut self, action: &Action, reply: &Reply) -> (Vec<Failure>, Option<Exchange>) {
        let failures = match (action, reply) {
            (_, Reply::Failed(failure)) => vec![failure.clone()],
            (_, Reply::Unsupported(reason)) => vec![Failure::new("", reason.as_str())],
            (Action::Request(request), Reply::Response(response)) => {
                let assessment = request.assess(response);
                self.scope.save(assessment.saved);
                assessment.failures
            }
            (Action::Container(check), Reply::Outputs(outputs)) => check.assess(outputs),
            (Action::Container(check), Reply::Port(is_open)) => check.assess_port(*is_open),
            _ => vec![Failure::new("", "the step has no result")],
        };
        let exchange = (!failures.is_empty()).then(|| Exchange::new(action, reply, &self.secrets));
        (failures, exchange)
    }

    fn note(&mut self, step: String, failures: Vec<Failure>) {
        if !failures.is_empty() {
            self.report.notes.push(Note { step, failures });
        }
    }

    fn next_setup(&mut self, index: usize, moment: &mut Moment<'_>) -> Option<Work> {
        let Some(item) = self.suite.setup.get(index).cloned() else {
            self.at = At::Case(0);
            return None;
        };
        self.at = At::Setup(index + 1);
        match item {
            SetupItem::WaitHealthy(limit) => Some(Work::WaitHealthy(limit)),
            SetupItem::WaitForPort(connect) => Some(Work::WaitForPort(connect)),
            SetupItem::Delay(delay) => Some(Work::Pause(delay)),
            SetupItem::Step(step) => self.act(&step, moment),
        }
    }

    fn next_teardown(&mut self, index: usize, moment: &mut Moment<'_>) -> Option<Work> {
        let Some(step) = self.suite.teardown.get(index).cloned() else {
            self.at = At::End;
            return None;
        };
        self.at = At::Teardown(index + 1);
        self.act(&step, moment)
    }

    /// Resolves a step of setup or teardown.
    fn act(&mut self, step: &Step, moment: &mut Moment<'_>) -> Option<Work> {
        match self.begin(step, moment) {
            Ok(work) => Some(work),
            Err(failure) => {
                self.note(step.name.clone(), vec![failure]);
                None
            }
        }
    }

    fn begin(&mut self, step: &Step, moment: &mut Moment<'_>) -> Result<Work, Failure> {
        let action = step.resolve(&self.scope, moment, &self.base_url)?;
        self.pending = Some(action.clone());
        Ok(Work::Act(action))
    }

    fn next_case(&mut self, index: usize, moment: &mut Moment<'_>) -> Option<Work> {
        let Some(step) = self.suite.cases.get(index).cloned() else {
            self.at = At::Teardown(0);
            return None;
        };
        if self.attempt == 0 {
            let skip = if let Some(reason) = step.unsupported() {
                Some((Verdict::Unsupported, reason))
            } else if let Some(reason) = &self.interrupted {
                Some((Verdict::Skipped, reason.clone()))
            } else {
                let is_over = self.suite.sequential && self.has_failed;
                is_over.then(|| (Verdict::Skipped, FAIL_FAST.to_owned()))
            };
            if let Some((result, reason)) = skip {
                self.push(&step, result, Some(reason), Vec::new(), None, moment.now);
                return None;
            }
            self.attempt = 1;
            self.started = moment.now;
        }
        match step.delay() {
            Err(failure) => {
                self.end_attempt(vec![failure], None, moment.now);
                return None;
            }
            Ok(Some(delay)) if !self.has_paused => {
                self.has_paused = true;
                return Some(Work::Pause(delay));
            }
            Ok(_) => {}
        }
        match self.begin(&step, moment) {
            Ok(work) => Some(work),
            Err(failure) => {
                self.end_attempt(vec![failure], None, moment.now);
                None
            }
        }
    }

    fn end_attempt(&mut self, failures: Vec<Failure>, exchange: Option<Exchange>, now: Timestamp) {
        let At::Case(index) = self.at else { return };
        let own = self.suite.cases.get(index).and_then(|step| step.retry);
        let pause = own.unwrap_or(self.retry).pause_after(self.attempt);
        match pause.filter(|_| !failures.is_empty()) {
            Some(pause) => {
                self.attempt += 1;
                self.has_paused = false;
                self.pause = Some(pause).filter(|pause| !pause.is_zero());
            }
            None => self.finish_case(failures, exchange, now),
        }
    }

    /// Ends the current case without a verdict.
    fn skip_case(&mut self, reason: String, now: Timestamp) {
        let At::Case(index) = self.at else { return };
        if let Some(step) = self.suite.cases.get(index).cloned() {
            self.push(&step, Verdict::Unsupported, Some(reason), Vec::new(), None, now);
        }
    }

    fn finish_case(&mut self, failures: Vec<Failure>, exchange: Option<Exchange>, now: Timestamp) {
        let At::Case(index) = self.at else { return };
        let Some(mut step) = self.suite.cases.get(index).cloned() else {
            return;
        };
        let is_failed = !failures.is_empty() && !step.ignore_error;
        if !failures.is_empty() && step.ignore_error {
            step.name = format!("{} (error ignored)", step.name);
        }
        self.has_failed |= is_failed;
        let result = if is_failed {
            Verdict::Failed
        } else {
            Verdict::Passed
        };
        let exchange = exchange.filter(|_| is_failed);
        self.push(&step, result, None, failures, exchange, now);
    }

    fn push(
        &mut self,
        step: &Step,
        result: Verdict,
        reason: Option<String>,
        failures: Vec<Failure>,
        exchange: Option<Exchange>,
        now: Timestamp,
    ) {
        let started = if self.attempt == 0 { now } else { self.started };
        self.report.cases.push(CaseResult {
            name: step.name.clone(),
            line: step.line,
            result,
            reason,
            attempts: self.attempt,
            started,
            duration: now.since(started),
            failures,
            exchange,
        });
        self.attempt = 0;
        self.has_paused = false;
        if let At::Case(index) = self.at {
            self.at = At::Case(index + 1);
        }
    }
}
