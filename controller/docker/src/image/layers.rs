//! Progress of a pull, as the sum over its layers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use argus_core::action::{ActionProgress, Amount};
use bollard::models::CreateImageInfo;

#[derive(Debug, Default, Clone, Copy)]
struct Layer {
    done: bool,
    current: u64,
    total: u64,
}

/// Progress of a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PullProgress {
    /// A step, for the log.
    Step(ActionProgress),
    /// More bytes of the same step, only for a live display.
    Amount(ActionProgress),
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
    pub(super) fn update(&mut self, info: CreateImageInfo) -> Option<PullProgress> {
        let status = info.status.unwrap_or_default();
        let Some(id) = info.id.filter(|_| is_layer_status(&status)) else {
            return (!status.is_empty()).then_some(PullProgress::Step(status.into()));
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
        let progress = self.progress();
        if progress.line == self.last_line {
            return None;
        }
        self.last_line.clone_from(&progress.line);
        Some(if self.counted() == before {
            PullProgress::Amount(progress)
        } else {
            PullProgress::Step(progress)
        })
    }

    /// Complete layers and all layers.
    fn counted(&self) -> Amount {
        let done = self.layers.values().filter(|layer| layer.done).count();
        Amount {
            done: done as u64,
            total: self.layers.len() as u64,
        }
    }

    fn progress(&self) -> ActionProgress {
        let layers = self.counted();
        let sum = |part: fn(&Layer) -> u64| self.layers.values().map(part).sum::<u64>();
        let bytes = Amount {
            done: sum(|layer| layer.current),
            total: sum(|layer| layer.total),
        };
        let mut line = format!("layer {}/{}", layers.done, layers.total);
        if bytes.total > 0 {
            let (done, total) = (megabytes(bytes.done), megabytes(bytes.total));
            let _ = write!(line, " {done} of {total}");
        }
        ActionProgress {
            line,
            layers: Some(layers),
            bytes: Some(bytes).filter(|bytes| bytes.total > 0),
            steps: None,
        }
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
        let amount = |done, total| Some(Amount { done, total });
        let progress = |line: &str, layers, bytes| ActionProgress {
            line: line.to_owned(),
            layers,
            bytes,
            steps: None,
        };
        let step = |line: &str, layers, bytes| Some(PullProgress::Step(progress(line, layers, bytes)));
        let of = |current| Some((current, 40_000_000));
        assert_eq!(
            update(Some("1.0"), "Pulling from library/x", None),
            step("Pulling from library/x", None, None)
        );
        assert_eq!(
            update(Some("a"), "Pulling fs layer", None),
            step("layer 0/1", amount(0, 1), None)
        );
        assert_eq!(
            update(Some("b"), "Already exists", None),
            step("layer 1/2", amount(1, 2), None)
        );
        assert_eq!(
            update(Some("a"), "Downloading", of(12_100_000)),
            Some(PullProgress::Amount(progress(
                "layer 1/2 12.1 MB of 40.0 MB",
                amount(1, 2),
                amount(12_100_000, 40_000_000)
            )))
        );
        assert_eq!(
            update(Some("a"), "Downloading", of(12_100_001)),
            None,
            "no visible change"
        );
        assert_eq!(
            update(Some("a"), "Pull complete", None),
            step(
                "layer 2/2 40.0 MB of 40.0 MB",
                amount(2, 2),
                amount(40_000_000, 40_000_000)
            )
        );
        assert_eq!(
            update(None, "Status: done", None),
            step("Status: done", None, None)
        );
    }
}
