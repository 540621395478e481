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
    becomes: String,
    /// Last reported progress.
    progress: String,
}

/// Images in progress, sorted by name. Services that wait for the same image share one entry.
pub(crate) fn of<'a>(all: impl IntoIterator<Item = &'a EnvironmentStatus>) -> Vec<ImageProgress> {
    let rows = all.into_iter().flat_map(|status| &status.services);
    let by_image: BTreeMap<String, ImageProgress> = rows
        .filter_map(work)
        .map(|work| (work.image.clone(), work))
        .collect();
    by_image.into_values().collect()
}

fn work(row: &ServiceStatus) -> Option<ImageProgress> {
    if !matches!(row.state, ServiceState::Pulling | ServiceState::Building) {
        return None;
    }
    let message = row.waiting_on.as_ref()?.message.strip_prefix("image `")?;
    let (image, rest) = message.split_once("` is being ")?;
    let (becomes, progress) = rest.split_once(": ").unwrap_or((rest, ""));
    Some(ImageProgress {
        image: image.to_owned(),
        becomes: becomes.to_owned(),
        progress: progress.to_owned(),
    })
}

/// One line with a bar per image, truncated to `width`.
pub(crate) fn bars(works: &[ImageProgress], width: usize) -> Vec<String> {
    let names = works.iter().map(|work| console::measure_text_width(&work.image));
    let name = names.max().unwrap_or(0).min(NAME);
    let one = |work: &ImageProgress| {
        let image = console::pad_str(&work.image, name, console::Alignment::Left, Some("…"));
        let line = format!("{image}  {:<6}  [{}]  {}", work.becomes, work.bar(), work.words());
        console::truncate_str(line.trim_end(), width, "…").into_owned()
    };
    works.iter().map(one).collect()
}

impl ImageProgress {
    fn bar(&self) -> String {
        let full = self.share().map_or(0, |(done, all)| share_of(done, all));
        let head = if full < BAR { ">" } else { "" };
        format!("{:<BAR$}", "=".repeat(full) + head)
    }

    /// Progress with the amount first, because narrow terminals truncate the end.
    fn words(&self) -> String {
        let words: Vec<&str> = self.progress.split(' ').collect();
        match words.as_slice() {
            ["layer", layers, done, "MB", "of", all, "MB"] => format!("{done} of {all} MB, layer {layers}"),
            _ => self.progress.clone(),
        }
    }

    /// Completed and total amount: bytes if known, else layers or steps.
    fn share(&self) -> Option<(u64, u64)> {
        let words: Vec<&str> = self.progress.split(' ').collect();
        match words.as_slice() {
            ["layer", _, done, "MB", "of", all, "MB"] => Some((tenths(done)?, tenths(all)?)),
            ["layer", layers, ..] => numbers(layers),
            // The reported step is in progress, so it is not counted.
            ["Step", steps, ..] => numbers(steps).map(|(step, all)| (step.saturating_sub(1), all)),
            _ => None,
        }
    }
}

fn share_of(done: u64, all: u64) -> usize {
    let columns = u64::try_from(BAR).unwrap_or(0);
    let full = (done.min(all) * columns).checked_div(all).unwrap_or(0);
    usize::try_from(full).unwrap_or(0)
}

fn numbers(text: &str) -> Option<(u64, u64)> {
    let (done, all) = text.split_once('/')?;
    Some((done.parse().ok()?, all.parse().ok()?))
}

/// Parses `12.1` as 121. Megabytes have one decimal.
fn tenths(text: &str) -> Option<u64> {
    text.replace('.', "").parse().ok()
}

/// Last printed progress of each image, with the time of its line.
#[derive(Debug, Default)]
pub(crate) struct ProgressThrottle {
    printed: BTreeMap<String, (Timestamp, String)>,
}

impl ProgressThrottle {
    /// Lines about progress since the last line. The start of an image is reported by its service.
    pub(crate) fn news(&mut self, works: &[ImageProgress], now: Timestamp) -> Vec<String> {
        self.printed
            .retain(|image, _| works.iter().any(|work| work.image == *image));
        let mut lines = Vec::new();
        for work in works {
            let current = || (now, work.progress.clone());
            let (at, progress) = self.printed.entry(work.image.clone()).or_insert_with(current);
            if *progress != work.progress && now.since(*at) >= LINE_INTERVAL {
                (*at, *progress) = current();
                lines.push(format!(
                    "image `{}` is being {}: {}",
                    work.image, work.becomes, work.progress
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

    fn works(messages: &[&str]) -> Vec<ImageProgress> {
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
        of([&status])
    }

    #[test]
    fn bar_shows_bytes_layers_or_steps() {
        let works = works(&[
            "image `db:1` is being pulled: layer 1/2 12.1 MB of 40.0 MB",
            "image `api:test` is being built: Step 3/4 : RUN make",
            "image `api:test` is being built: Step 3/4 : RUN make",
            "image `web:1` is being pulled",
            "image `x:1` is being pulled: layer 2/2",
        ]);
        assert_eq!(
            bars(&works, 60),
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
        let step = |step: u8| works(&[&format!("image `a` is being built: Step {step}/9 : RUN x")]);
        assert!(paced.news(&step(1), at(0)).is_empty());
        assert!(paced.news(&step(2), at(4)).is_empty());
        assert_eq!(
            paced.news(&step(3), at(5)),
            ["image `a` is being built: Step 3/9 : RUN x"]
        );
        assert!(paced.news(&step(3), at(60)).is_empty(), "no progress");
        assert!(paced.news(&step(4), at(60)).len() == 1);
    }
}
