//! A measured figure: median, minimum and maximum, its goal, and whether it is reached.

use std::fmt::Write;

use serde_json::{Value, json};

/// One line of the table.
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) values: Vec<f64>,
    /// The goal in words, and the most that the median may be, or each value.
    pub(crate) goal: Option<(&'static str, f64)>,
    /// True if each value must reach the goal.
    is_for_each: bool,
    /// Cause of a missed goal, as far as the run itself can measure it.
    pub(crate) why: String,
}

impl Figure {
    pub(crate) fn new(what: impl Into<String>, unit: &'static str, values: Vec<f64>) -> Self {
        Self {
            what: what.into(),
            unit,
            values,
            goal: None,
            is_for_each: false,
            why: String::new(),
        }
    }

    pub(crate) fn goal(self, goal: (&'static str, f64)) -> Self {
        Self {
            goal: Some(goal),
            ..self
        }
    }

    /// A goal that each value must reach.
    pub(crate) fn goal_for_each(self, goal: (&'static str, f64)) -> Self {
        Self {
            is_for_each: true,
            ..self.goal(goal)
        }
    }

    pub(crate) fn why(self, why: String) -> Self {
        Self { why, ..self }
    }

    pub(crate) fn median(&self) -> f64 {
        median(&self.values)
    }

    /// True if the goal is reached; `None` without a goal.
    pub(crate) fn reached(&self) -> Option<bool> {
        self.goal.map(|(_, most)| {
            if self.is_for_each {
                self.values.iter().all(|value| *value <= most)
            } else {
                self.median() <= most
            }
        })
    }

    fn json(&self) -> Value {
        let sorted = sorted(&self.values);
        json!({ "what": self.what, "unit": self.unit, "median": self.median(), "min": sorted.first(), "max": sorted.last(),
            "n": sorted.len(), "goal": self.goal.map(|(words, _)| words), "reached": self.reached(),
            "why": (self.reached() == Some(false) && !self.why.is_empty()).then_some(&self.why) })
    }
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Figures as a Markdown table.
pub(crate) fn table(figures: &Value) -> String {
    let mut out = String::from(
        "| measurement | unit | median | min | max | n | goal | reached |\n|---|---|---|---|---|---|---|---|\n",
    );
    for figure in figures.as_array().into_iter().flatten() {
        let text = |key: &str| figure[key].as_str();
        let number = |key: &str| figure[key].as_f64().unwrap_or(f64::NAN);
        let reached = match (figure["reached"].as_bool(), text("why")) {
            (None, _) => "–".to_owned(),
            (Some(true), _) => "yes".to_owned(),
            (Some(false), None) => "no".to_owned(),
            (Some(false), Some(why)) => format!("no: {why}"),
        };
        writeln!(
            out,
            "| {} | {} | {:.3} | {:.3} | {:.3} | {} | {} | {reached} |",
            text("what").unwrap_or_default(),
            text("unit").unwrap_or_default(),
            number("median"),
            number("min"),
            number("max"),
            figure["n"],
            text("goal").unwrap_or("–"),
        )
        .expect("writing to a string succeeds");
    }
    out
}

/// All figures as JSON.
pub(crate) fn document(figures: &[Figure]) -> Value {
    figures.iter().map(Figure::json).collect()
}
