//! Progress of image pulls and builds: bars on terminals, occasional lines elsewhere.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::time::Timestamp;
use argus_crds::status::{EnvironmentStatus, ImageAction, ImageProgress, ServiceState};

/// Minimum time between two lines about one image.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// Columns of a bar, and maximum columns of an image name.
const BAR: usize = 20;
const NAME: usize = 32;

/// Images in progress, sorted by name. Services that wait for the same image share one entry.
pub(crate) fn list_progress<'a>(
    all: impl IntoIterator<Item = &'a EnvironmentStatus>,
) -> Vec<&'a ImageProgress> {
    let rows = all.into_iter().flat_map(|status| &status.services);
    let in_progress = rows.filter(|row| matches!(row.state, ServiceState::Pulling | ServiceState::Building));
    let by_image: BTreeMap<&str, &ImageProgress> = in_progress
        .filter_map(|row| row.waiting_on.as_ref()?.image.as_ref())
        .map(|image| (image.reference.as_str(), image))
        .collect();
    by_image.into_values().collect()
}

/// One line with a bar per image, truncated to `width`.
pub(crate) fn format_bars(images: &[&ImageProgress], width: usize) -> Vec<String> {
    let names = images
        .iter()
        .map(|image| console::measure_text_width(&image.reference));
    let name = names.max().unwrap_or(0).min(NAME);
    let format_line = |image: &&ImageProgress| {
        let reference = console::pad_str(&image.reference, name, console::Alignment::Left, Some("…"));
        let line = format!(
            "{reference}  {:<6}  [{}]  {}",
            participle(image.action),
            format_bar(image),
            format_text(image)
        );
        console::truncate_str(line.trim_end(), width, "…").into_owned()
    };
    images.iter().map(format_line).collect()
}

pub(crate) fn participle(action: ImageAction) -> &'static str {
    match action {
        ImageAction::Pull => "pulled",
        ImageAction::Build => "built",
    }
}

/// Bar of the most precise known amount.
fn format_bar(image: &ImageProgress) -> String {
    let amount = image.bytes.or(image.layers).or(image.steps);
    let full = amount.map_or(0, |amount| bar_width(amount.done, amount.total));
    let head = if full < BAR { ">" } else { "" };
    format!("{:<BAR$}", "=".repeat(full) + head)
}

/// Progress with the amount first, because narrow terminals truncate the end.
fn format_text(image: &ImageProgress) -> String {
    let (Some(bytes), Some(layers)) = (image.bytes, image.layers) else {
        return image.line.clone();
    };
    format!(
        "{} of {} MB, layer {}/{}",
        format_megabytes(bytes.done),
        format_megabytes(bytes.total),
        layers.done,
        layers.total
    )
}

fn format_megabytes(bytes: u64) -> String {
    format!("{}.{}", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}

fn bar_width(done: u64, all: u64) -> usize {
    let columns = u64::try_from(BAR).unwrap_or(0);
    let full = (done.min(all) * columns).checked_div(all).unwrap_or(0);
    usize::try_from(full).unwrap_or(0)
}

/// Last printed progress of each image, with the time of its line.
#[derive(Debug, Default)]
pub(crate) struct ProgressThrottle {
    printed: BTreeMap<String, (Timestamp, String)>,
}

impl ProgressThrottle {
    /// Lines about progress since the last line. The start of an image is reported by its service.
    pub(crate) fn select_lines(&mut self, images: &[&ImageProgress], now: Timestamp) -> Vec<String> {
        self.printed
            .retain(|printed, _| images.iter().any(|image| image.reference == *printed));
        let mut lines = Vec::new();
        for image in images {
            let current = || (now, image.line.clone());
            let (at, line) = self
                .printed
                .entry(image.reference.clone())
                .or_insert_with(current);
            if *line != image.line && now.since(*at) >= LINE_INTERVAL {
                (*at, *line) = current();
                lines.push(format!(
                    "image `{}` is being {}: {}",
                    image.reference,
                    participle(image.action),
                    image.line
                ));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use argus_crds::status::{Amount, ServiceStatus, WaitingOn};

    use super::*;

    fn environment(images: &[ImageProgress]) -> EnvironmentStatus {
        let row = |image: &ImageProgress| ServiceStatus {
            state: ServiceState::Building,
            waiting_on: Some(WaitingOn {
                image: Some(image.clone()),
                ..WaitingOn::default()
            }),
            ..ServiceStatus::default()
        };
        EnvironmentStatus {
            services: images.iter().map(row).collect(),
            ..EnvironmentStatus::default()
        }
    }

    fn amount(done: u64, total: u64) -> Amount {
        Amount { done, total }
    }

    fn pull(reference: &str, line: &str) -> ImageProgress {
        ImageProgress {
            reference: reference.to_owned(),
            line: line.to_owned(),
            ..ImageProgress::default()
        }
    }

    fn build(reference: &str, step: u64, total: u64) -> ImageProgress {
        ImageProgress {
            action: ImageAction::Build,
            steps: Some(amount(step - 1, total)),
            ..pull(reference, &format!("Step {step}/{total} : RUN make"))
        }
    }

    #[test]
    fn bar_shows_bytes_layers_or_steps() {
        let status = environment(&[
            ImageProgress {
                layers: Some(amount(1, 2)),
                bytes: Some(amount(12_100_000, 40_000_000)),
                ..pull("db:1", "layer 1/2 12.1 MB of 40.0 MB")
            },
            build("api:test", 3, 4),
            build("api:test", 3, 4),
            pull("web:1", ""),
            ImageProgress {
                layers: Some(amount(2, 2)),
                ..pull("x:1", "layer 2/2")
            },
        ]);
        assert_eq!(
            format_bars(&list_progress([&status]), 60),
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
        let mut select_lines =
            |step, now| paced.select_lines(&list_progress([&environment(&[build("a", step, 9)])]), now);
        assert!(select_lines(1, at(0)).is_empty());
        assert!(select_lines(2, at(4)).is_empty());
        assert_eq!(
            select_lines(3, at(5)),
            ["image `a` is being built: Step 3/9 : RUN make"]
        );
        assert!(select_lines(3, at(60)).is_empty(), "no progress");
        assert!(select_lines(4, at(60)).len() == 1);
    }
}
