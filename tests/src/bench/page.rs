//! The page and its data: one section per engine with one table per part. A run replaces the parts that it measured.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{figure, option, raw};

/// `performance.md` and `performance.json` in a folder.
pub(crate) struct Page {
    folder: PathBuf,
}

impl Page {
    pub(crate) fn open() -> Self {
        Self {
            folder: option("--out")
                .unwrap_or_else(|| "docs/contributors".to_owned())
                .into(),
        }
    }

    /// Replaces a part of a section. The parts of an interrupted run stay.
    pub(crate) fn replace(&self, title: &str, part: &str, measured: &Value) {
        let file = self.folder.join("performance.json");
        let known = fs::read(&file).ok();
        let known = known.and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        let mut sections = take_list(known.unwrap_or_default(), "sections");
        let section = sections.iter_mut().find(|section| section["title"] == title);
        let mut parts = section.map_or_else(Vec::new, |section| take_list(section.take(), "parts"));
        sections.retain(|section| !section.is_null());
        parts.retain(|known| known["part"] != part);
        parts.push(measured.clone());
        sections.push(json!({ "title": title, "parts": parts }));
        sections.sort_by_key(|section| section["title"].as_str().map(str::to_owned));
        let text = serde_json::to_string_pretty(&json!({ "sections": sections })).expect("figures are JSON");
        fs::write(file, text + "\n").expect("the JSON can be written");
        fs::write(self.folder.join("performance.md"), format_page(&sections))
            .expect("the page can be written");
    }
}

fn take_list(mut object: Value, key: &str) -> Vec<Value> {
    match object.get_mut(key).map(Value::take) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

fn format_page(sections: &[Value]) -> String {
    let mut text = format!(
        "# Performance\n\nWritten by `./scripts/bench`; do not edit.\n\n\
         On a shared machine, times vary by half between runs: **compare only ratios from one table**. In each round, the \
         baseline, Argus and Compose took turns on one private engine.\n\n\
         The baseline is a small client on keep-alive connections that makes only the necessary calls, {} in flight. With \
         health checks, it probes each service from its start while it creates the others. Times of a start begin at the rename \
         of the spec file, or at the start of the command. They end when the last container runs, by the times of the engine; \
         with health checks, when the status file says Ready, or when `up --wait` returns.\n",
        raw::IN_FLIGHT
    );
    for section in sections {
        let title = section["title"].as_str().unwrap_or_default();
        writeln!(text, "\n## {title}").expect("writing to a string succeeds");
        for part in section["parts"].as_array().into_iter().flatten() {
            write!(
                text,
                "\n### {}\n\n{} rounds; load average at the start: {}.\n\n{}",
                part["part"].as_str().unwrap_or_default(),
                part["pairs"],
                part["load"],
                figure::table(&part["figures"])
            )
            .expect("writing to a string succeeds");
        }
    }
    text
}

/// The load average of the last minute.
pub(crate) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(f64::NAN)
}
