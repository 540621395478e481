//! Progress of image pulls and builds: bars on terminals, occasional lines elsewhere.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::time::Timestamp;
use argus_crds::status::{EnvironmentStatus, ServiceState, ServiceStatus};

/// Minimum time between two lines about one image.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// Columns of a bar, and maximum columns of an image name.
const BAR: usize = 20;
const NAME: usize = 32;

/// Progress of one image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageProgress {
    image: String,
    /// `pulled` or `built`.
    completed: String,
    /// Last reported progress.
    progress: String,
}

/// Images in progress, sorted by name. Services that wait for the same image share one entry.
pub(crate) fn list_progress<'a>(all: impl IntoIterator<Item = &'a EnvironmentStatus>) -> Vec<ImageProgress> {
    let rows = all.into_iter().flat_map(|status| &status.services);
    let by_image: BTreeMap<String, ImageProgress> = rows
        .filter_map(parse_progress)
        .map(|progress| (progress.image.clone(), progress))
        .collect();
    by_image.into_values().collect()
}

fn parse_progress(row: &ServiceStatus) -> Option<ImageProgress> {
    if !matches!(row.state, ServiceState::Pulling | ServiceState::Building) {
        return None;
    }
    let message = row.waiting_on.as_ref()?.message.strip_prefix("image `")?;
    let (image, rest) = message.split_once("` is being ")?;
    let (completed, progress) = rest.split_once(": ").unwrap_or((rest, ""));
    Some(ImageProgress {
        image: image.to_owned(),
        completed: completed.to_owned(),
        progress: progress.to_owned(),
    })
}

/// One line with a bar per image, truncated to `width`.
pub(crate) fn format_bars(images: &[ImageProgress], width: usize) -> Vec<String> {
    let names = images
        .iter()
        .map(|image| console::measure_text_width(&image.image));
    let name = names.max().unwrap_or(0).min(NAME);
    let format_line = |item: &ImageProgress| {
        let image = console::pad_str(&item.image, name, console::Alignment::Left, Some("…"));
        let line = format!(
            "{image}  {:<6}  [{}]  {}",
            item.completed,
            item.format_bar(),
            item.format_text()
        );
        console::truncate_str(line.trim_end(), width, "…").into_owned()
    };
    images.iter().map(format_line).collect()
}

impl ImageProgress {
    fn format_bar(&self) -> String {
        let full = self.amounts().map_or(0, |(done, all)| bar_width(done, all));
        let head = if full < BAR { ">" } else { "" };
        format!("{:<BAR$}", "=".repeat(full) + head)
    }

    /// Progress with the amount first, because narrow terminals truncate the end.
    fn format_text(&self) -> String {
        let words: Vec<&str> = self.progress.split(' ').collect();
        match words.as_slice() {
            ["layer", layers, done, "MB", "of", all, "MB"] => format!("{done} of {all} MB, layer {layers}"),
            _ => self.progress.clone(),
        }
    }

    /// Completed and total amount: bytes if known, else layers or steps.
    fn amounts(&self) -> Option<(u64, u64)> {
        let words: Vec<&str> = self.progress.split(' ').collect();
        match words.as_slice() {
            ["layer", _, done, "MB", "of", all, "MB"] => Some((parse_tenths(done)?, parse_tenths(all)?)),
            ["layer", layers, ..] => parse_amounts(layers),
            // The reported step is in progress, so it is not counted.
            ["Step", steps, ..] => parse_amounts(steps).map(|(step, all)| (step.saturating_sub(1), all)),
            _ => None,
        }
    }
}

fn bar_width(done: u64, all: u64) -> usize {
    let columns = u64::try_from(BAR).unwrap_or(0);
    let full = (done.min(all) * columns).checked_div(all).unwrap_or(0);
    usize::try_from(full).unwrap_or(0)
}

fn parse_amounts(text: &str) -> Option<(u64, u64)> {
    let (done, all) = text.split_once('/')?;
    Some((done.parse().ok()?, all.parse().ok()?))
}

/// Parses `12.1` as 121. Megabytes have one decimal.
fn parse_tenths(text: &str) -> Option<u64> {
    text.replace('.', "").parse().ok()
}

/// Last printed progress of each image, with the time of its line.
#[derive(Debug, Default)]
pub(crate) struct ProgressThrottle {
    printed: BTreeMap<String, (Timestamp, String)>,
}

impl ProgressThrottle {
    /// Lines about progress since the last line. The start of an image is reported by its service.
    pub(crate) fn select_lines(&mut self, images: &[ImageProgress], now: Timestamp) -> Vec<String> {
        self.printed
            .retain(|image, _| images.iter().any(|item| item.image == *image));
        let mut lines = Vec::new();
        for item in images {
            let current = || (now, item.progress.clone());
            let (at, progress) = self.printed.entry(item.image.clone()).or_insert_with(current);
            if *progress != item.progress && now.since(*at) >= LINE_INTERVAL {
                (*at, *progress) = current();
                lines.push(format!(
                    "image `{}` is being {}: {}",
                    item.image, item.completed, item.progress
                ));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use argus_crds::status::WaitingOn;

    use super::*;

    fn create_progress(messages: &[&str]) -> Vec<ImageProgress> {
        let row = |message: &&str| ServiceStatus {
            state: ServiceState::Building,
            waiting_on: Some(WaitingOn {
                message: (*message).to_owned(),
                ..WaitingOn::default()
            }),
            ..ServiceStatus::default()
        };
        let status = EnvironmentStatus {
            services: messages.iter().map(row).collect(),
            ..EnvironmentStatus::default()
        };
        list_progress([&status])
    }

    #[test]
    fn bar_shows_bytes_layers_or_steps() {
        let images = create_progress(&[
            "image `db:1` is being pulled: layer 1/2 12.1 MB of 40.0 MB",
            "image `api:test` is being built: Step 3/4 : RUN make",
            "image `api:test` is being built: Step 3/4 : RUN make",
            "image `web:1` is being pulled",
            "image `x:1` is being pulled: layer 2/2",
        ]);
        assert_eq!(
            format_bars(&images, 60),
            [
                "api:test  built   [==========>         ]  Step 3/4 : RUN make",
                "db:1      pulled  [======>             ]  12.1 of 40.0 MB, layer 1/2",
                "web:1     pulled  [>                   ]",
                "x:1       pulled  [====================]  layer 2/2",
            ]
            .map(|line| console::truncate_str(line, 60, "…").into_owned())
        );
    }

    #[test]
    fn lines_about_an_image_are_paced() {
        let mut paced = ProgressThrottle::default();
        let at = |seconds: i64| Timestamp(seconds * 1000);
        let step = |step: u8| create_progress(&[&format!("image `a` is being built: Step {step}/9 : RUN x")]);
        assert!(paced.select_lines(&step(1), at(0)).is_empty());
        assert!(paced.select_lines(&step(2), at(4)).is_empty());
        assert_eq!(
            paced.select_lines(&step(3), at(5)),
            ["image `a` is being built: Step 3/9 : RUN x"]
        );
        assert!(paced.select_lines(&step(3), at(60)).is_empty(), "no progress");
        assert!(paced.select_lines(&step(4), at(60)).len() == 1);
    }
}
