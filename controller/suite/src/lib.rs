//! YAML test suites: parsing, variables, requests and assertions.
//!
//! The crate is pure: no I/O, no clock, no randomness. A driver sends requests and runs commands. It passes the results to
//! this crate, which decides the verdicts.
//!
//! 1. [`parse`] reads a file into a [`SuiteFile`] and returns diagnostics about it.
//! 2. [`Run::next`] returns the next [`Work`] of the driver. For a step, it replaces the variables of the [`Scope`] and
//!    returns the [`Action`] of one attempt.
//! 3. [`Run::reply`] takes the result. It checks the conditions of the step, saves values, and decides about retries.
//! 4. [`Run::report`] returns the verdicts, with the [`Failure`]s of each case.
//!
//! The format is older than Argus. Files run unmodified and with the same verdicts, so many rules are those of JavaScript.
//! The module `value` contains them.
//!
//! Start with [`SuiteFile`], then read [`Run`].

mod assessment;
mod check;
mod comparison;
mod container;
mod duration;
mod evaluate;
mod exchange;
mod expression;
mod file;
mod lint;
mod pattern;
mod problem;
mod reach;
mod report;
mod request;
mod response;
mod retry;
mod run;
mod scope;
mod step;
mod value;

#[cfg(test)]
mod evaluate_tests;
#[cfg(test)]
mod file_tests;
#[cfg(test)]
mod number_tests;
#[cfg(test)]
mod reach_tests;
#[cfg(test)]
mod run_tests;
#[cfg(test)]
mod vector_tests;

pub use assessment::Assessment;
pub use check::Failure;
pub use container::{CommandOutput, Connect, ContainerCheck, ContainerCommand};
pub use exchange::Exchange;
pub use file::{ParsedSuite, SetupItem, SuiteFile, parse};
pub use reach::{AllowedHost, PublishedPort, Reach, parse_host};
pub use report::{CaseResult, Note, RunReport, Verdict, milliseconds, rfc3339};
pub use request::{Request, actual_address};
pub use response::{Reply, Response};
pub use retry::{Growth, Retry};
pub use run::{Run, Work};
pub use scope::{Moment, Scope};
pub use step::{Action, Step, StepKind};
pub use url::Host;
