//! Pure core of Argus: admission, planning, failure history and status.
//!
//! Invariant 14: dependencies point down. This crate has no I/O, no clock and no randomness. Every function receives the current time as a
//! [`Timestamp`](time::Timestamp). Equal inputs always have equal results, so the simulation tests can replay a run.
//!
//! The reconciler calls it in this order:
//!
//! 1. [`admit`](desired::admit::admit) checks a parsed `e2e.yaml` and returns the [`Desired`](desired::Desired) state.
//! 2. [`Store::apply`](observed::Store::apply) merges watch events into the observed state of one engine.
//! 3. [`Planner::reconcile`](reconcile::Planner::reconcile) compares both and returns the actions to start, as data.
//! 4. [`PlannerState`](state::PlannerState) records their results, failed runs and circuit breakers.
//! 5. [`status`] derives the status documents, and [`journal`] the events that are recorded.
//!
//! [`lease`] decides the ownership between several controllers, and [`user_requests`] holds the requests of people.
//! [`probe`] and [`failed_run`] describe health and failures. [`preflight`] and [`connectivity`] evaluate checks.
//! `remedy` derives the change of a file that fixes a failed run, and [`repair`] remembers the edits that ended failures.
//! [`published`] decides at which host clients reach a published port.
//! [`action`] and [`wait`] define the actions and wait reasons of a plan.
//! [`effect`] decides if the engine shows the effect of an action.
//! [`hex`] formats bytes. [`quoting`] escapes texts of others for a line, and for a shell.
//! [`socket_access`] recognizes a socket that refuses the user.
//! [`budget`] bounds evaluations of texts that are not trusted. [`dotenv`] reads files with variables, and [`dockerfile`] the places in a Dockerfile.
//! [`mode`] selects the operating mode, [`retry`] limits retries and restarts, [`delays`] holds the delays that tests shorten, [`secrets`] redacts outputs, and [`prune`] finds unused images.
//!
//! [`state::restart`] decides restart delays, and [`plan::port`] assigns and moves host ports. The Node tool in labels
//! and notes is the predecessor of Argus, whose labelled objects Argus recognizes.
//!
//! Start reading at [`desired`], then [`observed`], then [`reconcile`].

pub mod action;
pub mod backoff;
pub mod budget;
pub mod connectivity;
pub mod correlation;
pub mod delays;
pub mod desired;
pub mod dockerfile;
pub mod dotenv;
pub mod effect;
pub mod failed_run;
pub mod hex;
pub mod ident;
pub mod journal;
pub mod labels;
pub mod lease;
pub mod mode;
pub mod observed;
pub mod outcome;
pub mod plan;
pub mod preflight;
pub mod probe;
pub mod prune;
pub mod published;
pub mod quoting;
pub mod reconcile;
mod remedy;
pub mod repair;
pub mod retry;
pub mod secrets;
pub mod socket_access;
pub mod spec_diff;
pub mod state;
pub mod status;
pub mod test_results;
pub mod time;
pub mod user_requests;
pub mod wait;
