//! A measured figure: median, minimum and maximum, its goal, and whether it is reached.

use std::fmt::Write;

use serde_json::{Value, json};

/// One line of the table.
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) values: Vec<f64>,
    /// The goal in words, and the most that the median may be.
    pub(crate) goal: Option<(&'static str, f64)>,
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
            why: String::new(),
        }
    }

    pub(crate) fn goal(self, goal: (&'static str, f64)) -> Self {
        Self {
            goal: Some(goal),
            ..self
        }
    }

    pub(crate) fn why(self, why: String) -> Self {
        Self { why, ..self }
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    pub(crate) fn median(&self) -> f64 {
        let sorted = self.sorted();
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => f64::NAN,
            odd if odd % 2 == 1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        }
    }

    fn reached(&self) -> Option<bool> {
        self.goal.map(|(_, most)| self.median() <= most)
    }

    fn json(&self) -> Value {
        let sorted = self.sorted();
        json!({ "what": self.what, "unit": self.unit, "median": self.median(), "min": sorted.first(), "max": sorted.last(),
            "n": sorted.len(), "goal": self.goal.map(|(words, _)| words), "reached": self.reached(),
            "why": (self.reached() == Some(false) && !self.why.is_empty()).then_some(&self.why) })
    }
}

/// All figures as a Markdown table.
pub(crate) fn table(figures: &[Figure]) -> String {
    let mut out = String::from(
        "| measurement | unit | median | min | max | n | goal | reached |\n|---|---|---|---|---|---|---|---|\n",
    );
    for figure in figures {
        let sorted = figure.sorted();
        let (Some(least), Some(most)) = (sorted.first(), sorted.last()) else {
            continue;
        };
        let goal = figure.goal.map_or("–", |(words, _)| words);
        let reached = match figure.reached() {
            None => "–".to_owned(),
            Some(true) => "yes".to_owned(),
            Some(false) if figure.why.is_empty() => "no".to_owned(),
            Some(false) => format!("no: {}", figure.why),
        };
        writeln!(
            out,
            "| {} | {} | {:.3} | {least:.3} | {most:.3} | {} | {goal} | {reached} |",
            figure.what,
            figure.unit,
            figure.median(),
            sorted.len()
        )
        .expect("writing to a string succeeds");
    }
    out
}

/// All figures as JSON.
pub(crate) fn document(figures: &[Figure]) -> Value {
    figures.iter().map(Figure::json).collect()
}
