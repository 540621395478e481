//! Faults on a real engine: failing containers, a failing or absent engine, and a controller that dies.

mod attribution;
mod chaos;
mod crash_points;
mod failures;
mod journal;
mod outage;
