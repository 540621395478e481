//! Progress of a pull, as the sum over its layers.

use std::collections::BTreeMap;

use bollard::models::CreateImageInfo;

#[derive(Debug, Default, Clone, Copy)]
struct Layer {
    done: bool,
    current: u64,
    total: u64,
}

/// A progress line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProgressLine {
    /// A step, for the log.
    Step(String),
    /// More bytes of the same step, only for a live display.
    Amount(String),
}

/// The layers of one pull.
#[derive(Debug, Default)]
pub(super) struct Layers {
    layers: BTreeMap<String, Layer>,
    /// Line that was reported last.
    last_line: String,
}

impl Layers {
    /// Applies one message of the engine; returns a line when it differs from the previous one.
    pub(super) fn update(&mut self, info: CreateImageInfo) -> Option<ProgressLine> {
        let status = info.status.unwrap_or_default();
        let Some(id) = info.id.filter(|_| is_layer_status(&status)) else {
            return (!status.is_empty()).then_some(ProgressLine::Step(status));
        };
        let before = self.counted();
        let layer = self.layers.entry(id).or_default();
        layer.done = matches!(status.as_str(), "Pull complete" | "Already exists");
        if status == "Downloading" {
            let amount = |value: Option<i64>| u64::try_from(value.unwrap_or(0)).unwrap_or(0);
            let detail = info.progress_detail.unwrap_or_default();
            layer.current = amount(detail.current);
            layer.total = amount(detail.total).max(layer.total);
        } else if matches!(status.as_str(), "Download complete" | "Pull complete") {
            layer.current = layer.total;
        }
        let line = self.line();
        if line == self.last_line {
            return None;
        }
        self.last_line.clone_from(&line);
        Some(if self.counted() == before {
            ProgressLine::Amount(line)
        } else {
            ProgressLine::Step(line)
        })
    }

    /// Number of complete layers and of all layers.
    fn counted(&self) -> (usize, usize) {
        let done = self.layers.values().filter(|layer| layer.done).count();
        (done, self.layers.len())
    }

    fn line(&self) -> String {
        let (done, all) = self.counted();
        let sum = |part: fn(&Layer) -> u64| self.layers.values().map(part).sum::<u64>();
        let (current, total) = (sum(|layer| layer.current), sum(|layer| layer.total));
        let layers = format!("layer {done}/{all}");
        if total == 0 {
            return layers;
        }
        format!("{layers} {} of {}", megabytes(current), megabytes(total))
    }
}

fn is_layer_status(status: &str) -> bool {
    matches!(
        status,
        "Pulling fs layer"
            | "Waiting"
            | "Downloading"
            | "Verifying Checksum"
            | "Download complete"
            | "Extracting"
            | "Pull complete"
            | "Already exists"
    )
}

fn megabytes(bytes: u64) -> String {
    format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_add_up_to_one_line() {
        let mut layers = Layers::default();
        let mut update = |id: Option<&str>, status: &str, detail: Option<(i64, i64)>| {
            let info = CreateImageInfo {
                id: id.map(str::to_owned),
                status: Some(status.to_owned()),
                progress_detail: detail.map(|(current, total)| bollard::models::ProgressDetail {
                    current: Some(current),
                    total: Some(total),
                }),
                error_detail: None,
            };
            layers.update(info)
        };
        let step = |line: &str| Some(ProgressLine::Step(line.to_owned()));
        let amount = |line: &str| Some(ProgressLine::Amount(line.to_owned()));
        let of = |current| Some((current, 40_000_000));
        assert_eq!(
            update(Some("1.0"), "Pulling from library/x", None),
            step("Pulling from library/x")
        );
        assert_eq!(update(Some("a"), "Pulling fs layer", None), step("layer 0/1"));
        assert_eq!(update(Some("b"), "Already exists", None), step("layer 1/2"));
        assert_eq!(
            update(Some("a"), "Downloading", of(12_100_000)),
            amount("layer 1/2 12.1 MB of 40.0 MB")
        );
        assert_eq!(
            update(Some("a"), "Downloading", of(12_100_001)),
            None,
            "no visible change"
        );
        assert_eq!(
            update(Some("a"), "Pull complete", None),
            step("layer 2/2 40.0 MB of 40.0 MB")
        );
        assert_eq!(update(None, "Status: done", None), step("Status: done"));
    }
}
