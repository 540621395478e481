//! What a selftest came to: how often the environment was whole again, after how long, and why not.

use std::time::Duration;

use argus_crds::error::Code;
use serde::Serialize;

use super::fault::{Fault, LEFT_OUT};
use crate::cli::output::{self, Format};
use crate::cli::table;
use crate::exit::{Exit, Failure};

/// All of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    rounds: u32,
    recovered: usize,
    total: usize,
    faults: Vec<Row>,
    /// Troubles that a selftest on an engine in use does not make.
    left_out: [&'static str; 2],
    /// The environment never came back from this one, so that the rest was not tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    given_up_at: Option<String>,
}

/// One trouble.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    recovered: usize,
    total: usize,
    /// How long each healing took.
    seconds: Vec<f64>,
    /// Why the others do not count.
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

    /// Takes in one round.
    pub(super) fn add(&mut self, trouble: Fault, took: Result<Duration, String>) {
        let name = trouble.name();
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
            Err(why) => row.misses.push(why),
        }
    }

    /// The rest was not tried.
    pub(super) fn give_up(&mut self, trouble: Fault) {
        self.given_up_at = Some(trouble.name());
    }

    pub(super) fn show(&self, format: Option<Format>) -> Result<(), Failure> {
        match format.unwrap_or(Format::Table) {
            Format::Json => output::json(self),
            Format::Yaml => output::yaml(self),
            Format::Name => {
                let missed = self.faults.iter().filter(|row| row.recovered < row.total);
                output::data(&output::lines(missed.map(|row| &row.name)))
            }
            Format::Table | Format::Wide => {
                output::data(&self.text())?;
                let left_out = self.left_out.join(", ");
                output::note(&format!(
                    "left out, because all that runs on the engine would feel it: {left_out}"
                ));
                Ok(())
            }
        }
    }

    fn text(&self) -> String {
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
        table::text(
            &["TROUBLE", "RECOVERED", "MEDIAN", "LONGEST"],
            &rows,
            output::width(),
        )
    }

    /// Success only where everything was whole again.
    pub(super) fn verdict(&self) -> Result<Exit, Failure> {
        let missed = self.total - self.recovered;
        if missed == 0 && self.total > 0 && self.given_up_at.is_none() {
            return Ok(Exit::Done);
        }
        let message = format!("{missed} of {} troubles were not recovered from", self.total);
        let details = serde_json::json!({ "missed": missed, "total": self.total });
        Err(Failure::of(Code::Timeout, message).about(details).exit(Exit::Late).hint(
            "`argus preflight` tells what is wrong with the engine; -o json tells why each one was missed",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_miss_fails_the_whole_and_says_why() {
        let mut report = Report::new(2);
        report.add(Fault::Paused, Ok(Duration::from_millis(10_840)));
        report.add(Fault::Paused, Ok(Duration::from_millis(9_100)));
        assert_eq!(report.verdict().unwrap(), Exit::Done);
        report.add(Fault::StaleNetwork, Err("not whole".to_owned()));
        assert!(matches!(
            report.verdict(),
            Err(Failure::Error { exit: Exit::Late, .. })
        ));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!((&json["recovered"], &json["total"]), (&2.into(), &3.into()));
        assert_eq!(json["troubles"][0]["seconds"], serde_json::json!([10.8, 9.1]));
        assert_eq!(json["troubles"][1]["misses"][0], "not whole");
        let text = report.text();
        assert!(text.contains("paused") && text.contains("2/2"), "{text}");
        assert!(text.contains("stale-network") && text.contains("0/1"), "{text}");
    }

    #[test]
    fn nothing_tried_is_no_success() {
        assert!(Report::new(1).verdict().is_err());
    }
}
