//! Result of a selftest: recoveries per fault, their times, and the reasons of failures.

use std::time::Duration;

use argus_crds::error::Code;
use serde::Serialize;

use super::fault::{Fault, LEFT_OUT};
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::output::Format;
use crate::render::table;

/// Result of a selftest.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    rounds: u32,
    recovered: usize,
    total: usize,
    faults: Vec<Row>,
    /// Faults that affect all containers of the engine and were not injected.
    left_out: [&'static str; 2],
    /// Fault after which the environment did not recover. Later faults were not injected.
    #[serde(skip_serializing_if = "Option::is_none")]
    given_up_at: Option<String>,
}

/// Result of one fault.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    recovered: usize,
    total: usize,
    /// Recovery times in seconds.
    seconds: Vec<f64>,
    /// Reasons of failed recoveries.
    misses: Vec<String>,
}

impl Report {
    pub(super) fn new(rounds: u32) -> Self {
        Self {
            rounds,
            recovered: 0,
            total: 0,
            faults: Vec::new(),
            left_out: LEFT_OUT,
            given_up_at: None,
        }
    }

    /// Adds the result of one round.
    pub(super) fn add_round(&mut self, fault: Fault, took: Result<Duration, String>) {
        let name = fault.name();
        if self.faults.last().is_none_or(|row| row.name != name) {
            self.faults.push(Row {
                name,
                recovered: 0,
                total: 0,
                seconds: Vec::new(),
                misses: Vec::new(),
            });
        }
        let Some(row) = self.faults.last_mut() else {
            return;
        };
        self.total += 1;
        row.total += 1;
        match took {
            Ok(took) => {
                self.recovered += 1;
                row.recovered += 1;
                row.seconds.push((took.as_secs_f64() * 10.0).round() / 10.0);
            }
            Err(reason) => row.misses.push(reason),
        }
    }

    /// Records that later faults were not injected.
    pub(super) fn set_given_up(&mut self, fault: Fault) {
        self.given_up_at = Some(fault.name());
    }

    pub(super) fn print(&self, format: Option<Format>) -> Result<(), Failure> {
        match format.unwrap_or(Format::Table) {
            Format::Json => output::print_json(self),
            Format::Yaml => output::print_yaml(self),
            Format::Name => {
                let missed = self.faults.iter().filter(|row| row.recovered < row.total);
                output::print(&output::join_lines(missed.map(|row| &row.name)))
            }
            Format::Table | Format::Wide => {
                output::print(&self.format_text())?;
                let left_out = self.left_out.join(", ");
                output::print_note(&format!(
                    "not injected, because these faults affect all containers of the engine: {left_out}"
                ));
                Ok(())
            }
        }
    }

    fn format_text(&self) -> String {
        let seconds = |time: Option<&f64>| time.map_or_else(|| "-".to_owned(), |time| format!("{time:.1} s"));
        let mut rows: Vec<Vec<String>> = Vec::new();
        for row in &self.faults {
            let mut times = row.seconds.clone();
            times.sort_by(f64::total_cmp);
            rows.push(vec![
                row.name.clone(),
                format!("{}/{}", row.recovered, row.total),
                seconds(times.get(times.len() / 2)),
                seconds(times.last()),
            ]);
        }
        let all = format!("{}/{}", self.recovered, self.total);
        rows.push(vec!["all".to_owned(), all, String::new(), String::new()]);
        table::format_table(
            &["FAULT", "RECOVERED", "MEDIAN", "LONGEST"],
            &rows,
            output::terminal_width(),
        )
    }

    /// Exit code of the selftest. It succeeds only if the environment recovered from every fault.
    pub(super) fn exit(&self) -> Result<Exit, Failure> {
        let missed = self.total - self.recovered;
        if missed == 0 && self.total > 0 && self.given_up_at.is_none() {
            return Ok(Exit::Done);
        }
        let message = format!("no recovery after {missed} of {} faults", self.total);
        let details = serde_json::json!({ "missed": missed, "total": self.total });
        Err(Failure::with_code(Code::Timeout, message)
            .with_details(details)
            .with_exit(Exit::TimedOut)
            .with_hint(
                "check the engine with `argus preflight`, or see each reason with `argus selftest -o json`",
            ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_recovery_fails_the_selftest() {
        let mut report = Report::new(2);
        report.add_round(Fault::Paused, Ok(Duration::from_millis(10_840)));
        report.add_round(Fault::Paused, Ok(Duration::from_millis(9_100)));
        assert_eq!(report.exit().unwrap(), Exit::Done);
        report.add_round(Fault::StaleNetwork, Err("not whole".to_owned()));
        assert!(matches!(
            report.exit(),
            Err(Failure::Error {
                exit: Exit::TimedOut,
                ..
            })
        ));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!((&json["recovered"], &json["total"]), (&2.into(), &3.into()));
        assert_eq!(json["faults"][0]["seconds"], serde_json::json!([10.8, 9.1]));
        assert_eq!(json["faults"][1]["misses"][0], "not whole");
        let text = report.format_text();
        assert!(text.contains("paused") && text.contains("2/2"), "{text}");
        assert!(text.contains("stale-network") && text.contains("0/1"), "{text}");
    }

    #[test]
    fn selftest_without_rounds_fails() {
        assert!(Report::new(1).exit().is_err());
    }
}
